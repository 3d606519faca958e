from dataclasses import replace

import pytest

from gemlab import guards
from gemlab.guards import (
    CostBudget,
    Cycle,
    EmptyAnswer,
    FailuresInARow,
    Guards,
    RepeatedCall,
    RepeatedError,
    ResultStall,
    TokenBudget,
    TurnBudget,
    UnknownTool,
)
from gemlab.guards.fingerprints import Identity
from gemlab.guards.ladder import STOP, Ladder
from gemlab.guards.rounds import Round, Verdict


def play(guard, rounds, identities=None, **facts):
    """Run rounds of (name, args, result) past a guard; return the first letters of what it says of each."""
    history, said = [], []
    for calls in rounds:
        now = Round(tuple((name, args) for name, args, _ in calls), identities=identities or {}, **facts)
        judged = guard.before([*history, now])
        before = tuple(judged.values() if isinstance(judged, dict) else judged)
        blocked = {v.call for v in before if v.kind == "block"}
        results = tuple({"error": "blocked"} if i in blocked else c[2] for i, c in enumerate(calls))
        now = replace(now, results=results, verdicts=before)
        after = tuple(guard.after([*history, now]))
        history.append(replace(now, verdicts=before + after))
        said.append("".join(v.kind[0] for v in before + after) or ".")
    return " ".join(said)


def alone(name, result, **args):
    return [(name, args, result)]


def same(times, result=None, name="get", **args):
    return [alone(name, {"value": 1.5} if result is None else result, **args)] * times


# --- the same call ------------------------------------------------------------------------------------------


def test_polling_with_a_changing_result_is_healthy():
    poll = [alone("status", {"done": f"{n}%"}) for n in range(10, 100, 10)]
    assert play(RepeatedCall(3), poll) == ". . . . . . . . ."
    assert play(RepeatedCall(3, by="args"), poll).startswith(". . n b bf")


def test_the_same_result_is_a_loop():
    assert play(RepeatedCall(3), same(6)) == ". . n b bf bf"


def test_without_results_arguments_alone_count():
    assert play(RepeatedCall(3), [alone("get", None)] * 4) == ". . n b"


def test_waiting_between_polls_is_healthy():
    rounds = []
    for n in range(6):
        rounds += [alone("poll", {"at": n}), alone("sleep", {"slept": 5 + n / 100}, seconds=5)]
    assert play(RepeatedCall(3), rounds) == " ".join(["."] * 12)


@pytest.mark.parametrize(
    ("cycle", "said"),
    [("ab", ". . . . n n b bf"), ("abc", ". . . . . . n n n b bf")],
)
def test_cycles_with_equal_results_end(cycle, said):
    rounds = [alone(name, {"of": name}) for name in cycle * 4]
    assert play(RepeatedCall(3), rounds).startswith(said)


def test_a_blocked_call_is_no_new_result():
    assert play(RepeatedCall(3, Ladder(patience=4)), same(8)) == ". . n b b b bf bf"


def test_a_new_streak_is_nudged_again():
    other = alone("other", {"n": 1})
    assert play(RepeatedCall(3), [*same(3), other, *same(3)]) == ". . n . n b bf"


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": [{"b": [1]}]}, {"a": [{"b": [1]}]}, True),
        ({"a": {1, 2}}, {"a": {1, 2}}, True),
        ({"a": "1"}, {"a": 1}, False),
        (None, {}, True),
    ],
)
def test_which_arguments_are_the_same(first, second, equal):
    rounds = [[("get", args, {"value": 1.5})] for args in (first, second, first, second)]
    assert ("n" in play(RepeatedCall(4), rounds)) == equal


def test_rounds_are_counted_not_calls():
    three = [("get", {"q": 1}, {"value": 1.5})] * 3
    assert play(RepeatedCall(3), [three]) == "."
    assert play(ResultStall(3), [three]) == "."
    # In the third round the first of the equal calls carries the notice for all; then none is run.
    assert play(RepeatedCall(3, Ladder(patience=9)), [three] * 4) == ". . n bbb"


# --- the same result ----------------------------------------------------------------------------------------


def test_a_stall_is_nudged_once_and_then_ended():
    rounds = [alone("search", {"hits": ["x"]}, q=n) for n in range(7)]
    assert play(ResultStall(3), rounds) == ". . n . f f f"
    assert play(ResultStall(2), rounds) == ". n . f f f f"


def test_a_new_stall_is_nudged_again():
    rounds = [alone("search", {"hits": [hit]}, q=n) for n, hit in enumerate("xxxyyyzxx")]
    assert play(ResultStall(3), rounds) == ". . n . . n . . ."


@pytest.mark.parametrize("nothing", [None, {}, [], "", "ok", "OK", True, {"result": {}}, {"status": "ok"}])
def test_trivial_results_are_no_stall(nothing):
    assert play(ResultStall(3), [alone("set", nothing, n=n) for n in range(8)]) == " ".join(["."] * 8)


@pytest.mark.parametrize("something", [0, 1, 1.0, False, "no", [0], {"count": 1}, {"a": "ok", "b": "ok"}])
def test_other_results_can_stall(something):
    rounds = [alone("set", something, n=n) for n in range(3)]
    assert play(ResultStall(3, brief=True), rounds) == ". . n"
    assert play(ResultStall(3), rounds) == (". . n" if something == [0] else ". . .")
    assert play(ResultStall(3), [alone("set", something)] * 3) == ". . n"


@pytest.mark.parametrize(
    "said",
    [
        {"output": "Edited."},
        {"result": "File saved"},
        {"status": "success", "rows": 1},
        {"stdout": "", "stderr": "", "exit_code": 0},
        "The file has been updated successfully.",
        {"result": "x" * 40},
    ],
)
def test_different_calls_that_are_all_acknowledged_are_progress(said):
    edits = [alone("edit", said, file=f"f{n}.py", new=f"b{n}") for n in range(12)]
    assert play(ResultStall(2), edits) == " ".join(["."] * 12)
    # Not so where an edit comes back: then it is no step forward.
    assert play(ResultStall(2), [*edits[:3], edits[1], edits[1]]) == ". . . n ."
    assert play(ResultStall(2), [*edits[:3], edits[3] + edits[0]]) == ". . . n"


@pytest.mark.parametrize("said", ["y" * 41, {"a": "y" * 30, "b": "y" * 11}, ["x"], {"hits": [{"id": 1}]}])
def test_different_calls_with_one_content_are_a_stall(said):
    assert play(ResultStall(3), [alone("search", said, q=n) for n in range(3)]) == ". . n"


def test_an_error_is_no_acknowledgement():
    assert play(ResultStall(3), [alone("set", {"error": "no"}, n=n) for n in range(3)]) == ". . n"
    assert play(ResultStall(3), [alone("set", "no", n=n) for n in range(3)], failed=(True,)) == ". . n"


def test_a_tool_may_declare_that_it_acknowledges():
    edits = [alone("edit", {"output": "done " * 99}, n=n) for n in range(4)]
    declared = {"edit": Identity(acknowledges=True)}
    assert play(ResultStall(3), edits) == ". . n ." and play(ResultStall(3), edits, declared) == ". . . ."
    # One that does not, beside it, is what the round goes by.
    both = [[*edit, ("search", {"n": n}, {"hits": ["x"]})] for n, edit in enumerate(edits)]
    assert play(ResultStall(3), both, declared) == ". . n ."


def test_trivial_rounds_between_do_not_hide_a_stall():
    rounds = [alone("search", {"hits": ["x"]}), alone("wait", {})] * 3
    assert play(ResultStall(3), rounds) == ". . . . n ."


# --- other rules --------------------------------------------------------------------------------------------


def test_consecutive_and_windowed_repetition():
    spread = [r for n in range(4) for r in (*same(1), alone("other", {"n": n}, n=n))]
    assert play(RepeatedCall(3), spread) == ". . . . n . n ."
    assert play(RepeatedCall(3, scope="consecutive"), spread) == " ".join(["."] * 8)
    assert play(RepeatedCall(3, scope="consecutive"), [*same(2), *spread[1:2], *same(3)]) == ". . . . . n"
    # Of five rounds each holds at most three of every second one.
    assert play(RepeatedCall(3, window=5), spread) == ". . . . n . n ."
    assert play(RepeatedCall(3, window=4), spread) == " ".join(["."] * 8)


@pytest.mark.parametrize(
    ("cycle", "times", "fires_at"),
    [("a", 3, 3), ("ab", 3, 6), ("abc", 3, 9), ("abcde", 3, 15), ("abcdef", 4, None), ("aab", 3, 9)],
)
def test_cycles_fire_when_their_last_round_is_through(cycle, times, fires_at):
    rounds = [alone(name, {"of": name}) for name in cycle * times]
    said = play(Cycle(3), rounds).split()
    assert (said.index("n") + 1 if "n" in said else None) == fires_at
    changing = [alone(name, {"n": n}) for n, name in enumerate(cycle * times)]
    assert "n" not in play(Cycle(3), changing)
    assert (play(Cycle(3, by="args"), changing).split() == said) == (fires_at is not None) or fires_at is None


def test_the_same_error_of_a_tool_again():
    def bad(n, text="no such file"):
        return alone("open", {"error": text}, path=n)

    assert play(RepeatedError(3), [bad(n) for n in range(5)]) == ". . n . f"
    assert play(RepeatedError(3), [bad(1), alone("ls", {"n": 1}), bad(2), alone("ls", {"n": 1}), bad(3)]) == ". . . . n"
    assert play(RepeatedError(3), [bad(1), bad(2), alone("open", {"text": "x"}, path=3), bad(4), bad(5)]) == ". . . . ."
    assert play(RepeatedError(3), [bad(1), bad(2), bad(3, "denied"), bad(4)]) == ". . . ."
    flagged = [alone("run", "bash: foo: command not found", n=n) for n in range(3)]
    assert play(RepeatedError(3), flagged) == ". . ."
    assert play(RepeatedError(3), flagged, failed=(True,)) == ". . n"


def test_failures_in_a_row_are_one_class_whatever_their_words():
    bad = [alone(f"tool_{n % 2}", {"error": f"no such place {n}"}, n=n) for n in range(9)]
    good = alone("ls", {"n": 1})
    assert play(FailuresInARow(3), bad) == ". . n . . f f f f"
    assert play(FailuresInARow(3), [*bad[:2], good, *bad[2:4], good]) == ". . . . . ."
    assert play(FailuresInARow(3, Ladder(patience=1)), bad[:4]) == ". . n f"
    assert play(FailuresInARow(3), [bad[0] + good] * 5) == ". . . . ."
    # A round whose results are not known says nothing.
    assert play(FailuresInARow(3), [*bad[:2], alone("ls", None), bad[2]]) == ". . . n"
    flagged = [alone("run", f"bash: line {n}: command not found", n=n) for n in range(3)]
    assert play(FailuresInARow(3), flagged) == ". . ." and play(FailuresInARow(3), flagged, failed=(True,)) == ". . n"


def test_a_tool_that_keeps_failing_beside_another_is_a_repeated_error():
    rounds = [[("get", {"n": n}, {"error": "down"}), ("ls", {"n": n}, {"n": n})] for n in range(4)]
    made = [Round(tuple(c[:2] for c in calls), tuple(c[2] for c in calls)) for calls in rounds]
    assert list(RepeatedError().rule.levels(r.seen for r in made)) == [1, 2, 3, 4]


def test_two_equal_calls_in_an_answer_with_changing_results_are_no_repetition():
    made = [Round((("get", {}), ("get", {})), ({"n": 2 * n}, {"n": 2 * n + 1})) for n in range(3)]
    assert list(RepeatedCall().rule.levels(r.seen for r in made)) == [1, 1, 1]


def test_undeclared_functions_count_as_a_class():
    rounds = [alone(name, {"error": "unknown"}) for name in "abcd"]
    assert play(UnknownTool(2), rounds, unknown=(0,)) == ". n . f"
    assert play(UnknownTool(1), rounds[:1], unknown=(0,)) == "n"
    assert play(UnknownTool(2), rounds) == ". . . ."


def test_budgets_of_tokens_and_dollars():
    spent = {"prompt_tokens": 1000, "output_tokens": 100}
    assert play(TokenBudget(3300), same(3), **spent) == ". . f"
    assert play(TokenBudget(3301), same(3), **spent) == ". . ."
    # 1000 tokens at $0.30 and 100 at $2.50 a million: 0.00055 dollars a round.
    assert play(CostBudget(0.00109, prompt=0.3, output=2.5), same(2), **spent) == ". f"
    assert play(CostBudget(0.00111, prompt=0.3, output=2.5), same(2), **spent) == ". ."


# --- what tools declare -------------------------------------------------------------------------------------

NOISY = [alone("run", {"out": "x", "meta": [{"ms": n, "pid": 9}]}, cmd="ls", id=n) for n in range(3)]


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        (Identity(), ". . ."),
        (Identity(volatile_args=("id",)), ". . ."),
        (Identity(volatile_results=("meta.ms",)), ". . ."),
        (Identity(volatile_args=("id",), volatile_results=("meta.ms",)), ". . n"),
        (Identity(of_args=lambda a: a["cmd"], of_result=lambda r: r["out"]), ". . n"),
        (Identity(polling=True, volatile_args=("id",), volatile_results=("meta.ms",)), ". . ."),
    ],
)
def test_tools_declare_what_makes_their_calls_the_same(identity, said):
    assert play(RepeatedCall(3), NOISY, {"run": identity}) == said
    assert play(RepeatedCall(3), NOISY, {"other": identity}) == ". . ."


def test_volatile_fields_do_not_hide_a_stall_or_an_error():
    stall = [alone("s", {"hits": ["x"], "ms": n}, q=n) for n in range(3)]
    errors = [alone("s", {"error": "down", "ms": n}, q=n) for n in range(3)]
    declared = {"s": Identity(volatile_results=("ms",))}
    assert play(ResultStall(3), stall) == ". . ." and play(ResultStall(3), stall, declared) == ". . n"
    assert play(RepeatedError(3), errors) == ". . ." and play(RepeatedError(3), errors, declared) == ". . n"


def test_polling_tools_neither_stall_nor_cycle():
    declared = {"get": Identity(polling=True)}
    assert play(ResultStall(3), same(4), declared) == play(Cycle(3), same(4), declared) == ". . . ."
    assert play(TurnBudget(3), same(3), declared) == ". . f"


def test_a_count_by_arguments_alone_says_so():
    blind = Round((("get", {}),))
    assert "arguments alone" in RepeatedCall(2).after([blind, blind])[0].text
    known = Round((("get", {}),), ({"n": 1},))
    assert "same result" in RepeatedCall(2).after([known, known])[0].text


# --- settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guard", "said"),
    [
        (TurnBudget(2), ". f"),
        (TurnBudget(3), ". . f"),
        (RepeatedCall(2), ". n b bf"),
        (RepeatedCall(4), ". . . n b bf"),
        (RepeatedCall(2, Ladder(patience=1)), ". n bf"),
        (RepeatedCall(2, Ladder(patience=3)), ". n b b bf"),
        (RepeatedCall(2, Ladder(last="stop")), ". n b bs"),
        (RepeatedCall(3, STOP), ". . s"),
        (RepeatedCall(3, Ladder(nudge=False)), ". . . bf"),
        (RepeatedCall(2, window=2), ". n b bf"),
        (ResultStall(2), ". n . f"),
        (ResultStall(4), ". . . n . f"),
        (ResultStall(2, Ladder(patience=3)), ". n . . f"),
        (ResultStall(2, Ladder(nudge=False)), ". . f"),
        (Cycle(3), ". . n . f"),
        (Cycle(4, STOP), ". . . s"),
        (RepeatedError(2), ". . . ."),
        (EmptyAnswer(1), ". . ."),
    ],
)
def test_each_setting_has_an_effect(guard, said):
    assert play(guard, same(len(said.split()))) == said


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: TurnBudget(0), "at least 1"),
        (lambda: TurnBudget(201), "can never fire: every turn ends after 200 rounds"),
        (lambda: RepeatedCall(1), "at least 2"),
        (lambda: RepeatedCall(3, Ladder(patience=0)), "at least 1"),
        (lambda: Ladder(place="beside"), "response, user_text or unanswered"),
        (lambda: Ladder(last="nudge"), "finish or stop"),
        (lambda: RepeatedCall(3, by="name"), "not args or result"),
        (lambda: RepeatedCall(3, scope="run"), "not turn or consecutive"),
        (lambda: RepeatedCall(11, window=10), "can never fire: the window holds 10 rounds"),
        (lambda: ResultStall(1), "at least 2"),
        (lambda: Cycle(1), "at least 2"),
        (lambda: Cycle(2, max_period=0), "max_period at least 1"),
        (lambda: TokenBudget(0), "at least 1"),
        (lambda: CostBudget(0, prompt=1, output=1), "above 0 dollars"),
        (lambda: CostBudget(1), "can never fire: it needs prices"),
        (lambda: Guards((TurnBudget(4), RepeatedCall(5))), "can never fire: the turn ends after 4 rounds"),
        (lambda: Guards((ResultStall(11), TurnBudget(10))), "can never fire"),
        (lambda: Guards((RepeatedCall(3), TurnBudget(4))), "can never get to its end"),
        (lambda: Guards((TurnBudget(50), RepeatedCall(5), TurnBudget(4))), "can never fire: the turn ends after 4"),
        (lambda: Guards((TurnBudget(4), RepeatedCall(5), TurnBudget(50))), "can never fire: the turn ends after 4"),
        (lambda: FailuresInARow(1), "at least 2"),
        (lambda: guards.get("strict"), "known: off, budget, article, default"),
    ],
)
def test_settings_without_an_effect_are_refused(make, why):
    with pytest.raises(ValueError, match=why):
        make()


def said_by(preset, rounds, **facts):
    return play(guards.get(preset), rounds, **facts).split()


def test_what_the_default_says_of_healthy_and_of_sick_runs():
    edits = [alone("edit", {"output": "Edited."}, file=f"f{n}.py", old=f"a{n}", new=f"b{n}") for n in range(20)]
    assert said_by("default", edits) == ["."] * 20
    names = [alone(f"tool_{n}", {"error": f"unknown function 'tool_{n}'"}) for n in range(6)]
    assert said_by("default", names, unknown=(0,))[:5] == [".", ".", "n", ".", "nf"]
    fails = [alone("shell", {"error": f"no such directory d{n}"}, at=f"d{n}") for n in range(9)]
    assert said_by("default", fails) == [".", ".", ".", ".", "n", ".", ".", "f", "f"]
    searches = [alone("search", {"hits": ["x"]}, q=n) for n in range(5)]
    assert said_by("default", searches) == [".", ".", "n", ".", "f"]


def test_two_turn_budgets_end_at_the_smaller():
    assert play(Guards((TurnBudget(4), TurnBudget(2))), same(3)) == play(Guards((TurnBudget(2),)), same(3)) == ". f f"


def test_of_several_verdicts_the_strongest_counts():
    said = {"nudge": [Verdict("nudge", "n", "", 0)], "block": [Verdict("block", "b", "", 0)]}

    class Fixed:
        def __init__(self, *kinds, whole=None):
            self.kinds, self.whole = kinds, whole

        def before(self, rounds):
            return [v for kind in self.kinds for v in said[kind]]

        def after(self, rounds):
            return [Verdict(self.whole, self.whole, "")] if self.whole else []

    several = Guards((Fixed("nudge", whole="nudge"), Fixed("block", whole="finish"), Fixed("nudge")))
    assert several.before([Round((("a", {}),))])[0].kind == "block"
    assert [v.kind for v in several.after([])] == ["nudge", "finish"]
    assert Guards(()).before([Round((("a", {}),))]) == {} and Guards(()).after([]) == []
