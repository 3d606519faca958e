import asyncio
import json
from dataclasses import replace

import pytest

from gemlab import backends, guards, loop, models, presets, rules, trials
from gemlab.emulator.scripted import Parameters
from gemlab.fingerprints import Identity
from gemlab.guards import (
    CostBudget,
    Cycle,
    EmptyAnswer,
    Guards,
    RepeatedCall,
    RepeatedError,
    ResultStall,
    TokenBudget,
    TurnBudget,
    UnknownTool,
)
from gemlab.ladder import STOP, Ladder
from gemlab.rounds import Round, Verdict


def play(guard, rounds, identities=None, **facts):
    """Run rounds of (name, args, result) past a guard; return the first letters of what it says of each."""
    history, said = [], []
    for calls in rounds:
        now = Round(tuple((name, args) for name, args, _ in calls), identities=identities or {}, **facts)
        before = tuple(guard.before([*history, now]))
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
    assert play(ResultStall(3), [alone("set", something, n=n) for n in range(3)]) == ". . n"


def test_trivial_rounds_between_do_not_hide_a_stall():
    rounds = [alone("search", {"hits": ["x"]}), alone("wait", {})] * 3
    assert play(ResultStall(3), rounds) == ". . . . n ."


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
        (lambda: Ladder(place="beside"), "response or user_text"),
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
        (lambda: guards.get("strict"), "known: off, budget, article, default"),
    ],
)
def test_settings_without_an_effect_are_refused(make, why):
    with pytest.raises(ValueError, match=why):
        make()


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


# --- in a run -----------------------------------------------------------------------------------------------


def call(ident, query, name="web_search"):
    return {"functionCall": {"name": name, "args": {"query": query}, "id": ident}}


def responses(raw):
    return [p["functionResponse"] for p in json.loads(raw)["contents"][-1]["parts"]]


def go(transport, guard, task="search"):
    spec = trials.plan([{"name": "x", "guard": guard}], task, "gemini-2.5-flash", 1)[0]
    return asyncio.run(loop.run(backends.simulated(transport=transport), spec))


def test_every_id_of_a_batch_is_answered_when_one_call_is_blocked(scripted):
    batches = [scripted.reply(call(f"s{n}", "same"), call(f"o{n}", f"other {n}")) for n in range(5)]
    transport = scripted(*batches, scripted.reply({"text": "done"}))
    trial = go(transport, "default")
    for n, raw in enumerate(transport.sent[1:]):
        parts = json.loads(raw)["contents"][-1]["parts"]
        assert [p["functionResponse"]["id"] for p in parts] == [f"s{n}", f"o{n}"]
        assert all(set(p) == {"functionResponse"} for p in parts)
    bodies = [responses(raw)[0]["response"] for raw in transport.sent[1:]]
    assert ["notice" in b for b in bodies] == [False, False, True, True, True]
    assert [b.get("error") for b in bodies] == [None, None, None, "blocked", "blocked"]
    assert [c.args["query"] for c in trial.called].count("same") == 3
    # Two rounds with blocked calls: the next request forces an answer, tools still declared.
    modes = [json.loads(raw).get("toolConfig", {}).get("functionCallingConfig") for raw in transport.sent]
    assert modes == [None] * 5 + [{"mode": "NONE"}]
    assert all(json.loads(raw)["tools"] for raw in transport.sent)


def test_thoughts_and_texts_between_calls_do_not_hide_a_loop(scripted):
    answers = [
        scripted.reply({"text": f"hm {n}", "thought": True}, {"text": f"let me see {n}"}, call(f"i{n}", "same"))
        for n in range(5)
    ]
    trial = go(scripted(*answers, scripted.reply({"text": "done"})), "default")
    assert [[v.kind for v in r.verdicts if v.reason == "repeated_call"] for r in trial.rounds] == [
        [],
        [],
        ["nudge"],
        ["block"],
        ["block", "finish"],
    ]
    assert trial.forced


def test_two_guards_speak_in_one_notice(scripted):
    transport = scripted(*[scripted.reply(call(f"i{n}", "same")) for n in range(3)], scripted.reply({"text": "x"}))
    go(transport, "default")
    notice = responses(transport.sent[3])[0]["response"]["notice"]
    assert "made before with the same arguments" in notice and "results are all the same" in notice


@pytest.mark.parametrize("preset", presets.PRESETS)
@pytest.mark.parametrize("task", ["ecpm", "search"])
def test_no_preset_makes_a_request_that_is_refused(preset, task):
    stubborn = Parameters(repeat=0.97, quit=0.0, heed=0.0)
    backend = backends.simulated(backends.emulator(parameters=stubborn))
    profile = models.profile("gemini-3.8-flash")
    verdicts = set()
    for spec in trials.plan([{"name": "x", "guard": preset}], task, profile.model, 4):
        trial = asyncio.run(loop.run(backend, spec))
        assert trial.outcome not in ("refused", "failed")
        for step in trial.steps:
            found = rules.check(step["request"]["contents"], profile)
            assert [f for f in found if f.verdict == "refused"] == []
        verdicts |= {v.kind for r in trial.rounds for v in r.verdicts}
    assert verdicts == {"off": set(), "budget": {"finish"}}.get(preset, {"nudge", "block", "finish"})
