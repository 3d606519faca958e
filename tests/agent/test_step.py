"""The views of a trial's steps against what was on the wire, taken apart here by other means."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gemlab import backends
from gemlab.agent import loop, step
from gemlab.guards.rounds import Verdict
from gemlab.measure import metrics
from gemlab.runs import trace, trials

MODEL = "gemini-2.5-flash"
BUSY = (503, {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}})
SIGNATURES = st.sampled_from([None, "QUJD", "REVG", "-_-_"])


@st.composite
def call(draw):
    name, query = draw(st.sampled_from(["web_search"] * 4 + ["fetch"])), draw(st.sampled_from(["a", "b", 5]))
    part = {"functionCall": {"name": name, "args": {"query": query}, "id": draw(st.sampled_from(["i", "j"]))}}
    signature = draw(SIGNATURES)
    return {**part, **({"thoughtSignature": signature} if signature else {})}


LOOP = {"functionCall": {"name": "web_search", "args": {"query": "a"}, "id": "i"}}
THOUGHT = {"text": "hm", "thought": True}
ANSWERS = st.one_of(
    st.lists(call(), min_size=1, max_size=3).map(lambda parts: (parts, "STOP")),
    st.lists(call(), min_size=1, max_size=1).map(lambda parts: ([THOUGHT, {"text": "let me see"}, *parts], "STOP")),
    st.sampled_from([([], "STOP"), ([THOUGHT], "STOP"), ([], "MALFORMED_FUNCTION_CALL"), (None, "")]),
    st.tuples(call().map(lambda part: [part]), st.sampled_from(["MALFORMED_FUNCTION_CALL", "MAX_TOKENS"])),
)
# Rarely drawn: what guards nudge and block.
ARMS = [
    {"guard": "default"},
    {"guard": "article_text"},
    {"guard": "nudge_text"},
    {"guard": "budget"},
    {"guard": "args_4"},
]


def played(scripted, answers, arm):
    """Run a trial on answers by hand; return it with (request body, status, response body) as on the wire."""
    last = scripted.reply({"text": "done"})
    made = [BUSY if parts is None else scripted.reply(*parts, finish=finish) for parts, finish in answers]
    for number, (status, body) in enumerate(made):
        if status == 200:
            counts = {"promptTokenCount": 10 + number, "candidatesTokenCount": number, "thoughtsTokenCount": 1}
            made[number] = status, {**body, "usageMetadata": counts}
    transport = scripted(*made, last)
    (spec,) = trials.plan([{"name": "x", **arm}], "search", MODEL, 1)
    trial = asyncio.run(loop.run(backends.simulated(transport=transport), spec))
    answered = [*made, *[last] * len(transport.sent)][: len(transport.sent)]
    return trial, [(json.loads(raw), *answer) for raw, answer in zip(transport.sent, answered, strict=True)]


def content_of(body):
    content = body["candidates"][0].get("content")
    return content if content and content["parts"] else None


def calls_of(content):
    return [p["functionCall"] for p in content["parts"] if "functionCall" in p]


@pytest.mark.usefixtures("slept")
def test_the_views_agree_with_the_wire(scripted, slept):
    seen = {"blocked": 0, "empty": 0, "nudge": 0, "resent": 0, "ran": 0}

    # Drawn the same way every time, with a blocked loop and a resend among them: all kinds have to be seen.
    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(st.lists(ANSWERS, max_size=9), st.sampled_from(ARMS))
    @example([([LOOP], "STOP")] * 6, {"guard": "default"})
    @example([([LOOP], "STOP"), (None, ""), ([LOOP], "STOP")], {"guard": "nudge_text"})
    def check(answers, arm):
        trial, wire = played(scripted, answers, arm)
        answered = [(request, body) for request, status, body in wire if status == 200]

        # Requests and resends: the same body again after a 503 is one step.
        assert len(trial.steps) == len(answered) + (wire[-1][1] != 200)
        assert [s.request for s in trial.steps if s.response] == [request for request, _ in answered]
        assert [s.response for s in trial.steps if s.response] == [body for _, body in answered]
        assert sum(len(s.failures) for s in trial.steps) == len(wire) - len(answered)
        assert sum(s.resent for s in trial.steps) == len(wire) - len(trial.steps)

        # Received: what the last request carried, and what came after it.
        carried = wire[-1][0]["contents"]
        received = trial.received
        assert received[: len(carried)] == carried
        assert received[len(carried) : len(carried) + 1] in ([], [content_of(answered[-1][1])] if answered else [])

        # Calls: what an answer asked for, and the responses in the next request that holds it.
        asked, ran, blocked = [], [], 0
        later = [request for request, _ in answered[1:]] + ([] if wire[-1][1] == 200 else [wire[-1][0]])
        for (request, body), following in zip(answered, later, strict=False):
            at, content = len(request["contents"]), content_of(body)
            if following["contents"][at : at + 1] != [content]:
                seen["empty"] += 1
                continue
            responses = [p["functionResponse"]["response"] for p in following["contents"][at + 1]["parts"]]
            asked += calls_of(content)
            for made, response in zip(calls_of(content), responses, strict=True):
                said = {k: v for k, v in response.items() if k != "notice"}
                if said == {"error": "blocked"}:
                    blocked += 1
                else:
                    ran.append((made["name"], made["args"], said))
            nudged = following["contents"][at + 2 :]
            seen["nudge"] += len(nudged)
        whole = [(c.name, c.args, c.response) for c in trial.called]
        assert whole[: len(ran)] == ran
        kept = [s for s in trial.steps if s.kept and s.calls]
        assert [(c.name, c.args) for s in kept for c in s.calls][: len(asked)] == [
            (c["name"], c["args"]) for c in asked
        ]
        unsent = trial.steps[-1].calls if trial.steps[-1].kept else ()
        assert sum(c.blocked for s in trial.steps for c in s.calls) == blocked + sum(c.blocked for c in unsent)
        assert len(whole) == len(ran) + sum(c.is_executed for c in unsent)

        # What guards see of it: one round for each answer with calls that ran, one for each empty one.
        rounds = trial.rounds
        assert [list(r.calls) for r in rounds if r.calls] == [[(c.name, c.args) for c in s.calls] for s in kept]
        assert [r.prompt_tokens for r in rounds] == [
            s.response["usageMetadata"]["promptTokenCount"] for s in trial.steps if s.results or s.empty
        ]
        assert all(r.unknown == tuple(i for i, (n, _) in enumerate(r.calls) if n != "web_search") for r in rounds)

        # Counts, and the way to the disk and back.
        packed = trace.of(trial, "sim", backends.SCRIPTED)
        row = metrics.row(packed)
        usage = [body.get("usageMetadata", {}) for _, body in answered]
        assert row["prompt_tokens"] == sum(u.get("promptTokenCount", 0) for u in usage)
        assert row["output_tokens"] == sum(
            u.get("candidatesTokenCount", 0) + u.get("thoughtsTokenCount", 0) for u in usage
        )
        assert (row["calls"], row["requests"], row["answered"]) == (len(whole), len(trial.steps), len(answered))
        assert trace.load(json.loads(trace.dumps(packed))) == packed
        seen["blocked"] += blocked
        seen["resent"] += row["resent"]
        seen["ran"] += len(ran)

    check()
    assert all(seen.values()), f"nothing of a kind was compared: {seen}"


def test_a_tool_may_speak_under_the_key_of_the_guards():
    """What guards add to a tool's own notice is taken off again, the tool's own words are not."""
    own, words = {"notice": "low on stock", "n": 1}, Verdict("nudge", "repeated_call", "Again.", 0)
    (body,) = step.noticed([own], [words])
    assert body == {"notice": "low on stock Again.", "n": 1}
    part = {"functionCall": {"name": "f", "args": {}}}
    answer = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}
    spoken = step.Step("m", response=answer, kept=True, results=(body,), verdicts=(words,))
    assert spoken.calls[0].result == own
    silent = dataclasses.replace(spoken, results=(own,), verdicts=())
    assert silent.calls[0].result == own
    (bare,) = step.noticed([{"n": 1}], [words])
    assert dataclasses.replace(spoken, results=(bare,)).calls[0].result == {"n": 1}


def test_nothing_that_a_view_gives_is_changed_by_a_step_that_goes_on():
    answer = {"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}}]}
    asked = step.Step("m", (step.user("go"),), response=answer)
    assert asked.received == (step.user("go"),) and not asked.calls[0].is_executed
    ran = dataclasses.replace(asked, kept=True, results=({"ok": 1},))
    assert len(ran.received) == 3 and ran.calls[0].is_executed
    assert asked.received == (step.user("go"),) and not asked.calls[0].is_executed


def test_turns_and_conversations_are_told_apart():
    """A fallback out of the family begins a conversation, yet the user still waits for the same turn's answer."""
    first, again, second = (step.Step("m", (step.user(text),), anew=text == "b") for text in ("a", "b", "c"))
    other = step.Step("m")
    steps = [first, other, again, other, second]
    assert step.turns(steps) == [[first, other, again, other], [second]]
    assert step.conversation(steps) == [again, other, second]
    assert step.conversation(steps[:2]) == steps[:2] and step.question(steps[:4]) == "b"
