"""Guards in whole runs: what goes over the wire, and how runs end."""

import asyncio
import json

import pytest

from gemlab import backends
from gemlab.agent import loop
from gemlab.emulator.minds.scripted import Parameters
from gemlab.guards import Cycle, RepeatedCall, TurnBudget, presets
from gemlab.measure import metrics
from gemlab.runs import trace, trials
from gemlab.wire import contents as wire
from gemlab.wire import families, rules


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


def kinds_of(preset):
    """What a stubborn loop has to hear from a preset's guards."""
    ladders = [g.ladder for g in presets.get(preset).members if isinstance(g, RepeatedCall | Cycle | TurnBudget)]
    if any(ladder.nudge for ladder in ladders):
        return {"nudge", "block", "finish"}
    return {ladder.last for ladder in ladders}


# It is there to be refused.
LETTER = "article"


@pytest.mark.parametrize("preset", [name for name in presets.PRESETS if name != LETTER])
@pytest.mark.parametrize("task", ["ecpm", "search"])
def test_no_preset_makes_a_request_that_is_refused(preset, task):
    stubborn = Parameters(repeat=0.97, quit=0.0, heed=0.0)
    backend = backends.simulated(backends.emulator(parameters=stubborn))
    profile = families.profile("gemini-3.8-flash")
    verdicts = set()
    for spec in trials.plan([{"name": "x", "guard": preset}], task, profile.model, 1 if preset == "off" else 3):
        trial = asyncio.run(loop.run(backend, spec))
        assert trial.outcome not in ("refused", "failed")
        for step in trial.steps:
            found = rules.check(step.request["contents"], profile)
            assert [f for f in found if f.verdict == "refused"] == []
        # The last word, which no request carried any more, can be gone on from.
        going_on = [*trial.received, {"role": "user", "parts": [{"text": "and now?"}]}]
        assert [f for f in rules.check(going_on, profile) if f.verdict == "refused"] == []
        verdicts |= {v.kind for r in trial.rounds for v in r.verdicts}
    assert verdicts == kinds_of(preset)


def test_a_nudge_as_user_text_follows_the_responses(scripted):
    answers = [scripted.reply(call(f"i{n}", "same")) for n in range(3)]
    transport = scripted(*answers, scripted.reply({"text": "done"}))
    trial = go(transport, "article_text")
    *_, responded, said = json.loads(transport.sent[3])["contents"]
    assert [p["functionResponse"]["id"] for p in responded["parts"]] == ["i2"]
    assert "notice" not in responded["parts"][0]["functionResponse"]["response"]
    assert said["role"] == "user" and "by arguments alone" in said["parts"][0]["text"]
    assert [v.place for v in trial.rounds[2].verdicts] == ["user_text", "user_text"]


@pytest.mark.parametrize("history", ["preserve", "server_state", "server_state_stateless"])
@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3.8-flash"])
def test_the_api_refuses_a_nudge_that_leaves_a_call_unanswered(model, history):
    stubborn = Parameters(repeat=0.97, quit=0.0, heed=0.0)
    arms = [{"name": name, "guard": name, "history": history} for name in (LETTER, "article_text")]
    specs = trials.plan(arms, "search", model, 1)
    letter, lenient = (
        asyncio.run(loop.run(backends.simulated(backends.emulator(parameters=stubborn)), s)) for s in specs
    )
    assert letter.outcome == "refused" and "function" in letter.detail
    assert lenient.outcome == "unfinished" or lenient.answer
    # Up to the nudge both are the same; then the one goes out without the response.
    assert [s.results for s in letter.steps[:-1]] == [s.results for s in lenient.steps[: len(letter.steps) - 1]]
    *_, called, said = letter.received
    assert wire.calls(called) and said["role"] == "user" and "arguments" in said["parts"][0]["text"]
    assert metrics.row(trace.of(letter, "sim", backends.SCRIPTED))["calls"] == len(letter.called) == 3
    packed = trace.of(letter, "sim", backends.SCRIPTED)
    assert trace.load(json.loads(trace.dumps(packed))) == packed


def test_of_a_batch_only_the_call_that_repeats_is_left_unanswered(scripted):
    batches = [scripted.reply(call(f"s{n}", "same"), call(f"o{n}", f"other {n}")) for n in range(3)]
    transport = scripted(*batches, scripted.reply({"text": "done"}))
    trial = go(transport, LETTER)
    *_, responded, said = json.loads(transport.sent[3])["contents"]
    assert [p["functionResponse"]["id"] for p in responded["parts"]] == ["o2"]
    assert said["parts"] == [{"text": trial.steps[2].nudge}] and len(trial.called) == 6
    assert trial.steps[2].unanswered == {0} and trial.steps[1].unanswered == frozenset()


def test_the_forced_answer_is_asked_with_the_question(scripted):
    transport = scripted(*[scripted.reply(call(f"i{n}", "same")) for n in range(5)], scripted.reply({"text": "x"}))
    trial = go(transport, "default")
    question = trial.received[0]["parts"][0]["text"]
    assert responses(transport.sent[5])[0]["response"]["notice"].endswith(f"The question: {question}")


@pytest.mark.parametrize("forced", [[], [{"text": ""}], [{"text": "hm", "thought": True}], [call("z", "same")]])
def test_a_forced_answer_that_is_none_is_the_guards_end(scripted, forced):
    last = scripted.reply(*forced)
    trial = go(scripted(*[scripted.reply(call(f"i{n}", "same")) for n in range(5)], last), "default")
    assert (trial.outcome, trial.reason, trial.forced) == ("unfinished", "guard", True)
    assert len(trial.steps) == 6


def test_a_guard_that_stops_ends_the_run_with_its_reason(scripted):
    trial = go(scripted(*[scripted.reply(call(f"i{n}", "same")) for n in range(9)]), "args_4")
    assert (trial.outcome, trial.reason, trial.detail) == ("unfinished", "guard", "repeated_call")
    assert len(trial.steps) == 4 and wire.responses(trial.received[-1])[0]["id"] == "i3"


EMPTIES = {
    "no parts": ({}, [], "empty"),
    "thoughts only": ({}, [{"text": "hm", "thought": True}], "empty"),
    "malformed": ({"finish": "MALFORMED_FUNCTION_CALL"}, [], "malformed"),
    "malformed after a call": ({"finish": "MALFORMED_FUNCTION_CALL"}, [call("a", "x")], "malformed"),
}


@pytest.mark.parametrize(("finish", "parts", "reason"), EMPTIES.values(), ids=EMPTIES)
def test_an_empty_answer_is_asked_for_again_as_often_as_its_guard_says(scripted, finish, parts, reason):
    empty, good = scripted.reply(*parts, **finish), scripted.reply({"text": "done"})
    once = scripted(empty, good)
    trial = go(once, "default")
    assert trial.outcome == "wrong" and len(trial.steps) == 2 and trial.called == []
    # The same history is sent again: nothing of the empty answer went into it.
    first, second = (json.loads(raw)["contents"] for raw in once.sent)
    assert first == second
    for guard, requests in (("default", 2), ("budget", 1)):
        trial = go(scripted(empty), guard)
        assert (trial.outcome, trial.reason, len(trial.steps)) == ("unfinished", reason, requests)


def test_a_tool_that_raises_is_seen_and_the_run_goes_on(scripted):
    wrong = {"functionCall": {"name": "web_search", "args": {"words": 1}, "id": "a"}}
    transport = scripted(scripted.reply(wrong), scripted.reply({"text": "done"}))
    trial = go(transport, "default")
    assert "TypeError" in responses(transport.sent[1])[0]["response"]["error"] and trial.outcome == "wrong"


def test_tokens_and_undeclared_functions_reach_the_guards(scripted):
    usage = {"promptTokenCount": 7, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}
    status, body = scripted.reply(call("a", "x", name="web_serch"), call("b", "y"))
    transport = scripted((status, {**body, "usageMetadata": usage}), scripted.reply({"text": "done"}))
    (known,) = go(transport, "default").rounds
    assert (known.prompt_tokens, known.output_tokens, known.unknown) == (7, 5, (0,))
