import asyncio
import json
from dataclasses import replace

import httpx2
import pytest

from gemlab import backends, tasks
from gemlab.agent import loop
from gemlab.emulator.minds.scripted import Parameters
from gemlab.measure import metrics
from gemlab.runs import trace, trials
from gemlab.tasks import search
from gemlab.wire import answers, contents

LOOPING = Parameters(repeat=0.5, quit=0.05, doubt=0.1, heed=0.3)
S1, S2, S3 = (contents.encode_signature(bytes([n]) * 60) for n in (251, 252, 253))


class Tap(httpx2.AsyncBaseTransport):
    """Passes on to the emulator; keeps the responses' bodies."""

    def __init__(self):
        self.inner, self.got = httpx2.ASGITransport(backends.emulator(parameters=LOOPING)), []

    async def handle_async_request(self, request):
        answer = await self.inner.handle_async_request(request)
        self.got.append(json.loads(await answer.aread()))
        return answer


def go(transport, task="search", model="gemini-2.5-flash", seed=1, **arm):
    spec = trials.plan([{"name": "x", **arm}], task, model, 1, seed=seed)[0]
    trial = asyncio.run(loop.run(backends.simulated(transport=transport), spec))
    return trial, metrics.row(trace.of(trial, "sim", backends.SCRIPTED))


def repeated(called):
    """The names of redundant calls: an earlier successful call had this name, these arguments, this result."""
    found = []
    for i, call in enumerate(called):
        if "error" not in call.response and any(
            (c.name, c.args, c.response) == (call.name, call.args, call.response) for c in called[:i]
        ):
            found.append(call.name)
    return found


@pytest.mark.parametrize("task", ["ecpm", "ecpm-two-turns", "search"])
@pytest.mark.parametrize(
    "arm",
    [{}, {"history": "strip"}, {"guard": "default"}, {"pruning": "steps(1)", "history": "rebuild"}],
    ids=str,
)
def test_a_row_equals_a_recount_of_the_run(task, arm):
    total = 0
    for seed in range(4):
        tap = Tap()
        trial, row = go(tap, task, seed=seed, **arm)
        again = repeated(trial.called)
        total += len(again)
        assert (row["calls"], row["redundant"]) == (len(trial.called), len(again))
        assert row["refetch"] == again.count(tasks.get(task).first_tool)
        assert row["failed_calls"] == sum("error" in c.response for c in trial.called)
        assert row["requests"] == row["answered"] == len(tap.got)
        usage = [body["usageMetadata"] for body in tap.got]
        thoughts = sum(u.get("thoughtsTokenCount", 0) for u in usage)
        assert row["prompt_tokens"] == sum(u["promptTokenCount"] for u in usage)
        assert row["thought_tokens"] == thoughts > 0
        assert row["output_tokens"] == thoughts + sum(u.get("candidatesTokenCount", 0) for u in usage)
        assert row["total_tokens"] == row["prompt_tokens"] + row["output_tokens"]
        said = [v.kind for step in trial.steps for v in step.verdicts]
        assert (row["blocks"], row["nudges"]) == (said.count("block"), said.count("nudge"))
    assert total > 0


# --- redundant calls by hand --------------------------------------------------------------------------------


def call(query, name="web_search", ident=None, signed=None):
    part = {"functionCall": {"name": name, "args": {"query": query}, **({"id": ident} if ident else {})}}
    return {**part, **({"thoughtSignature": signed} if signed else {})}


def test_what_counts_as_redundant(scripted):
    first, second = "observatory", "telescope"
    answers = [
        [call(first)],
        [call(second), call(first, ident="other id")],  # the second is redundant
        [call(5)],  # an error
        [call(5)],  # the same error again: failed, not redundant
        [call(first, name="fetch")],  # no such tool
        [call(first), call(first)],  # both are
        [{"text": "done"}],
    ]
    trial, row = go(scripted(*[scripted.reply(*parts) for parts in answers]))
    assert (row["calls"], row["failed_calls"], row["redundant"], row["refetch"]) == (8, 3, 3, 3)
    assert row["requests"] == 7 and len(trial.called) == 8


def test_an_equal_call_with_another_result_is_not_redundant(scripted, monkeypatch):
    results = iter([{"at": 10}, {"at": 20}, {"at": 20}, {"at": 10}])
    monkeypatch.setattr(search, "web_search", lambda query: next(results))
    _, row = go(scripted(*[scripted.reply(call("poll")) for _ in range(4)], scripted.reply({"text": "done"})))
    # 20 again, and 10 as at first.
    assert (row["calls"], row["redundant"]) == (4, 2)


def test_what_a_tool_declares_as_polling_is_not_redundant(scripted):
    def start(n):
        return scripted.reply({"functionCall": {"name": "start_export", "args": {"table": "t"}, "id": f"s{n}"}})

    def poll(n):
        return scripted.reply({"functionCall": {"name": "get_export_state", "args": {"job": "t-1"}, "id": f"i{n}"}})

    answers = [start(0), *[poll(n) for n in range(16)], scripted.reply({"text": "x"})]
    trial, row = go(scripted(*answers), "polling", guard="off")
    assert len(repeated(trial.called)) > 0 and (row["calls"], row["redundant"], row["refetch"]) == (17, 0, 0)


def test_blocked_calls_and_notices_do_not_count(scripted):
    answers = [*[scripted.reply(call("same")) for _ in range(5)], scripted.reply({"text": "done"})]
    _, row = go(scripted(*answers), guard="default")
    # Run three times, the third with a notice in its response; blocked twice; then the forced answer.
    assert (row["calls"], row["redundant"], row["failed_calls"]) == (3, 2, 0)
    assert (row["blocks"], row["forced"], row["requests"]) == (2, True, 6)
    # One nudge for the repeated call, one for the result that stays the same.
    assert row["nudges"] == 2


# --- signatures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arm", "share", "lost"),
    [
        ({}, 1.0, 0),
        ({"history": "strip"}, 0.0, 2),
        ({"history": "rebuild"}, 0.0, 2),
        ({"history": "first_only"}, 1 / 3, 1),
        ({"history": "dummy"}, 0.0, 2),
        # Of the two steps with S1 and S2 + S3 the newer one is left.
        ({"pruning": "steps(1)"}, 2 / 3, 0),
    ],
    ids=str,
)
def test_share_of_signatures_returned(scripted, arm, share, lost):
    answers = [
        scripted.reply(call("a", signed=S1)),
        scripted.reply(call("b", signed=S2), call("c", signed=S3)),
        scripted.reply({"text": "done", "thoughtSignature": S1}),  # not asked back any more
    ]
    _, row = go(scripted(*answers), **arm)
    assert row["signatures_returned"] == pytest.approx(share)
    assert row["lost"] == lost


def test_the_other_alphabet_is_the_same_signature(scripted):
    same = S1.replace("+", "-").replace("/", "_")
    assert same != S1
    transport = scripted(scripted.reply(call("a", signed=S1)), scripted.reply({"text": "done"}))
    spec = trials.plan(["preserve"], "search", "gemini-2.5-flash", 1)[0]
    packed = trace.of(asyncio.run(loop.run(backends.simulated(transport=transport), spec)), "sim", backends.SCRIPTED)
    first, last = packed.steps
    respelled = replace(last, contents=json.loads(json.dumps(last.contents).replace(S1, same)))
    assert respelled != last
    assert metrics.row(replace(packed, steps=[first, respelled]))["signatures_returned"] == 1.0


def test_without_signatures_there_is_no_share(scripted):
    _, row = go(scripted(scripted.reply(call("a")), scripted.reply({"text": "done"})))
    assert row["signatures_returned"] is None


# --- tokens, pin, resends -----------------------------------------------------------------------------------


def test_tokens_add_up_with_absent_keys_as_zero():
    def body(**usage):
        return {"candidates": [], "usageMetadata": usage}

    first = body(
        promptTokenCount=100,
        cachedContentTokenCount=40,
        candidatesTokenCount=7,
        thoughtsTokenCount=5,
        toolUsePromptTokenCount=3,
        totalTokenCount=115,
    )
    assert metrics.tokens(answers.of(b) for b in [first, body(promptTokenCount=9, totalTokenCount=9), {}]) == {
        "prompt_tokens": 109,
        "cached_tokens": 40,
        "output_tokens": 12,
        "thought_tokens": 5,
        "total_tokens": 124,
    }


@pytest.mark.parametrize(
    ("served", "pin", "named"),
    [
        (["gemini-2.5-flash"] * 2, True, "gemini-2.5-flash"),
        (["gemini-3.8-flash"] * 2, False, "gemini-3.8-flash"),
        (["gemini-2.5-flash", "gemini-3.8-flash"], False, "gemini-2.5-flash, gemini-3.8-flash"),
        (["gemini-2.5-flash", None], None, "gemini-2.5-flash"),
        (["gemini-3.8-flash", None], False, "gemini-3.8-flash"),
        ([None, None], None, None),
    ],
)
def test_the_pin_tells_match_difference_and_unknown(scripted, served, pin, named):
    answers = [scripted.reply(call("a"), served=served[0]), scripted.reply({"text": "done"}, served=served[1])]
    _, row = go(scripted(*answers))
    assert row["pin"] is pin and row["served"] == named


def test_the_pin_of_a_trial_that_nobody_answered_is_unknown(scripted, slept):
    _, row = go(scripted((503, {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}})))
    assert (row["outcome"], row["answered"], row["served"]) == ("failed", 0, None) and row["pin"] is None


def test_resends_are_counted_apart_from_requests(scripted, monkeypatch):
    monkeypatch.setattr("gemlab.agent.retry._wait", lambda state: 0)
    busy = (503, {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}})
    bad = (400, {"error": {"code": 400, "message": "Corrupted thought signature.", "status": "INVALID_ARGUMENT"}})
    good = [scripted.reply(call("a")), scripted.reply({"text": "done"})]
    counted = {
        "answered": go(scripted(busy, busy, good[0], busy, good[1]))[1],
        "refused": go(scripted(good[0], busy, bad))[1],
        "failed": go(scripted(busy))[1],
        "at once": go(scripted(*good))[1],
    }
    keys = ("outcome", "requests", "answered", "resent")
    assert [tuple(row[k] for k in keys) for row in counted.values()] == [
        ("wrong", 2, 2, 3),
        ("refused", 2, 1, 1),
        ("failed", 1, 0, 4),
        ("wrong", 2, 2, 0),
    ]


def test_a_frame_has_a_row_a_trial(tmp_path):
    specs = trials.plan(["preserve", "strip"], "search", "gemini-2.5-flash", 3)
    traces = trials.run(specs, backends.simulated(), tmp_path / "t.jsonl", progress=None)
    frame = metrics.frame(traces)
    assert list(frame.trial) == [s.id for s in specs]
    assert frame.to_dict("records") == [metrics.row(t) for t in traces]
