"""Answers that do not end by themselves: cut, blocked, malformed. No call of theirs runs, no text of theirs counts."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import httpx2
import pytest
from google.genai import types
from google.genai.interactions import Interaction

from gemlab import backends
from gemlab.agent import loop
from gemlab.agent.trial import INTERRUPTED, OUTCOMES, REASONS, End
from gemlab.measure import metrics, timeline
from gemlab.replay import importers
from gemlab.runs import trace, trials
from gemlab.wire import answers

# The SDK does not know what is of next year, and says so.
pytestmark = pytest.mark.filterwarnings("ignore:.* is not a valid FinishReason")

# All finish reasons that the API documents, written down here from its documentation; None: no finish reason.
EXPECTED = {
    "STOP": None,
    "MAX_TOKENS": "truncated",
    "CONTINUATION": "truncated",
    "TOO_MANY_TOOL_CALLS": "truncated",
    **dict.fromkeys(
        ["SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
         "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR", "ESCALATION", "PUP_LIMITED_DISABLED"],
        "blocked",
    ),
    **dict.fromkeys(["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"], "malformed"),
    **dict.fromkeys(["OTHER", "NO_IMAGE", "IMAGE_OTHER"], "other"),
    "MISSING_THOUGHT_SIGNATURE": "missing_signature",
    "FINISH_REASON_UNSPECIFIED": "cut",
    None: "cut",
    "A_REASON_OF_NEXT_YEAR": "other",
    2: "truncated",
    3: "blocked",
    99: "other",
}  # fmt: skip
FAULTS = {finish: reason for finish, reason in EXPECTED.items() if reason}
TEXT = {"text": "The diameter is 3"}
CALL = {"functionCall": {"name": "web_search", "args": {"query": "half a que"}, "id": "i"}}


def test_every_reason_of_the_sdk_is_expected_here():
    assert {reason.value for reason in types.FinishReason} <= set(EXPECTED)


def outcome(reason):
    return "refused" if reason == "missing_signature" else "unfinished"


class Answers(httpx2.AsyncBaseTransport):
    """Answers in turn with bodies, unary or as a stream in which each part comes in a chunk of its own."""

    def __init__(self, *bodies):
        self.bodies, self.sent = list(bodies), []

    async def handle_async_request(self, request):
        self.sent.append(json.loads(request.content))
        body = self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]
        if "stream" not in request.url.path:
            return httpx2.Response(200, json=body)
        text = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks(body))
        return httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})


def body(*parts, finish="STOP", **more):
    ending = {} if finish is None else {"finishReason": finish}
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {"content": {}}
    return {"candidates": [{**content, **ending, "index": 0}], "modelVersion": "gemini-2.5-flash", **more}


def chunks(whole):
    """Return the chunks of a stream: all parts, one a chunk, then what is left, as the last chunk or with none."""
    candidate = (whole.get("candidates") or [{}])[0]
    parts = candidate.get("content", {}).get("parts", [])
    found = [body(part, finish=None) for part in parts[:-1]]
    return [*found, {**whole, "candidates": [{**candidate, "content": {"role": "model", "parts": parts[-1:]}}]}]


def go(*bodies, task="search", **arm):
    transport = Answers(*bodies)
    (spec,) = trials.plan([{"name": "x", **arm}], task, "gemini-2.5-flash", 1)
    return asyncio.run(loop.run(backends.simulated(transport=transport), spec)), transport.sent


# --- in a turn ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["unary", "stream"])
@pytest.mark.parametrize("parts", [[CALL], [TEXT], [TEXT, CALL], [CALL, CALL]], ids=["call", "text", "both", "calls"])
@pytest.mark.parametrize("finish", FAULTS)
def test_nothing_of_an_answer_that_did_not_end_by_itself_is_used(finish, parts, transport):
    trial, sent = go(body(*parts, finish=finish), body(TEXT), transport=transport)
    assert (trial.outcome, trial.reason) == (outcome(FAULTS[finish]), FAULTS[finish])
    assert trial.called == [] and trial.answer is None and len(sent) == 1
    assert not trial.steps[0].kept and trial.steps[0].results == ()
    if isinstance(finish, str) and finish != "FINISH_REASON_UNSPECIFIED":
        assert finish in trial.detail


@pytest.mark.parametrize("transport", ["unary", "stream"])
@pytest.mark.parametrize("finish", [f for f, r in FAULTS.items() if r not in ("cut", "malformed")])
def test_guards_do_not_ask_again_for_what_was_ended_from_outside(finish, transport):
    """They do for what is empty or malformed, once, whatever the parts."""
    for parts in ([], [{"text": "hm", "thought": True}]):
        trial, sent = go(body(*parts, finish=finish), body(TEXT), transport=transport, guard="default")
        assert (trial.reason, len(sent)) == (FAULTS[finish], 1)


@pytest.mark.parametrize("transport", ["unary", "stream"])
@pytest.mark.parametrize(
    ("first", "reason"),
    [(body(), "empty"), *((body(CALL, finish=f), "malformed") for f, r in FAULTS.items() if r == "malformed")],
)
def test_guards_ask_again_for_what_is_empty_or_malformed(first, reason, transport):
    trial, sent = go(first, first, body(TEXT), transport=transport, guard="default")
    assert (trial.outcome, trial.reason, len(sent), trial.called) == ("unfinished", reason, 2, [])
    trial, sent = go(first, body(TEXT), transport=transport, guard="default")
    assert (trial.outcome, len(sent)) == ("wrong", 2)


@pytest.mark.parametrize("guard", ["off", "default"])
@pytest.mark.parametrize("transport", ["unary", "stream"])
@pytest.mark.parametrize("why", [reason.value for reason in types.BlockedReason])
def test_a_blocked_prompt_says_so_and_is_not_sent_again(why, transport, guard):
    blocked = {"promptFeedback": {"blockReason": why, "blockReasonMessage": "Not this."}, "modelVersion": "x"}
    trial, sent = go(
        blocked if transport == "unary" else {**blocked, "candidates": []}, transport=transport, guard=guard
    )
    assert (trial.outcome, trial.reason, len(sent)) == ("unfinished", "blocked", 1)
    assert trial.detail == f"the prompt was blocked: {why}: Not this."


def test_ratings_of_a_prompt_block_nothing():
    rated = body(
        TEXT, promptFeedback={"safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"}]}
    )
    assert go(rated)[0].outcome == "wrong"


# --- streams --------------------------------------------------------------------------------------------------


def events(*bodies):
    """A transport whose every stream is these chunks."""
    text = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in bodies)
    sent = []

    def respond(request):
        sent.append(request)
        return httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})

    return httpx2.MockTransport(respond), sent


def streamed(*bodies):
    transport, sent = events(*bodies)
    (spec,) = trials.plan([{"name": "x", "transport": "stream"}], "search", "gemini-2.5-flash", 1)
    return asyncio.run(loop.run(backends.simulated(transport=transport), spec)), sent


@pytest.mark.parametrize(
    "nothing", [[], [{"usageMetadata": {"promptTokenCount": 3}}], [body({"text": ""}, finish=None)]]
)
def test_a_stream_of_which_nothing_can_be_said_is_infrastructure(nothing, slept):
    trial, sent = streamed(*nothing)
    assert (trial.outcome, trial.reason, trial.detail, len(sent)) == ("failed", None, "empty stream", 5)


class Pieces(httpx2.AsyncByteStream):
    """A response that comes chunk by chunk, and may be lost on the way."""

    def __init__(self, pieces):
        self.pieces = pieces

    async def __aiter__(self):
        for given in self.pieces:
            if isinstance(given, Exception):
                raise given
            yield f"data: {json.dumps(given)}\r\n\r\n".encode()


class Slow(httpx2.AsyncBaseTransport):
    """Answers with a stream of its own for every request."""

    def __init__(self, *pieces):
        self.pieces = pieces

    async def handle_async_request(self, request):
        return httpx2.Response(200, stream=Pieces(self.pieces), headers={"content-type": "text/event-stream"})


@pytest.mark.parametrize("odd", [{"text": 5}, {"text": "T", "thoughtSignature": "?"}], ids=["type", "base64"])
def test_a_chunk_that_the_client_cannot_read_hides_none_that_follow(odd):
    (spec,) = trials.plan([{"name": "x", "transport": "stream"}], "search", "gemini-2.5-flash", 1)
    rest = [body({"text": "e e"}, finish=None), body({"text": "nd"})]
    whole = backends.simulated(transport=Slow(body(odd, finish=None), *rest))
    trial = asyncio.run(loop.run(whole, spec))
    assert trial.steps[0].answer.finish_reason == "STOP" and trial.answer.endswith("e end")
    lost = backends.simulated(transport=Slow(body(odd, finish=None), rest[0], httpx2.ReadError("gone")))
    trial = asyncio.run(loop.run(lost, spec))
    assert (trial.outcome, trial.detail) == ("failed", "ReadError")
    assert [len(f["got"]) for f in trial.steps[0].failures] == [2]


def piece(**call):
    return body({"functionCall": call}, finish=None)


OPEN = piece(name="web_search", id="k", willContinue=True)
HALF = piece(partialArgs=[{"jsonPath": "$.query", "stringValue": "high ", "willContinue": True}], willContinue=True)
REST = piece(partialArgs=[{"jsonPath": "$.query", "stringValue": "tide"}], willContinue=True)
LAST = piece(partialArgs=[{"jsonPath": "$.query", "stringValue": "tide"}])
STOP = body({"text": ""})
NEXT = piece(name="web_search", args={"query": "next"})


@pytest.mark.parametrize("whole", [[OPEN, HALF, REST, piece()], [OPEN, HALF, LAST]], ids=["ended", "last piece"])
def test_a_call_in_pieces_is_run_once_it_is_whole(whole):
    trial, _ = streamed(*whole, STOP)
    assert trial.called and all((c.name, c.args) == ("web_search", {"query": "high tide"}) for c in trial.called)
    (part,) = trial.steps[0].content["parts"]
    assert part == {"functionCall": {"name": "web_search", "id": "k", "args": {"query": "high tide"}}}
    sent = trial.steps[1].contents[1]["parts"]
    assert sent == [part]


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        ([OPEN, STOP], "cut"),
        ([OPEN, HALF, STOP], "cut"),
        ([OPEN, HALF, REST, STOP], "cut"),
        ([OPEN, HALF, piece(), STOP], "cut"),  # over, with an argument that is not
        ([OPEN, HALF, REST, NEXT, STOP], "cut"),
        ([NEXT, OPEN, HALF, STOP], "cut"),
        ([OPEN, HALF, LAST], "cut"),  # the call is whole, the answer is not
        ([OPEN, HALF, body({"text": ""}, finish="MAX_TOKENS")], "truncated"),
        ([OPEN, piece(partialArgs=[{"jsonPath": "query", "stringValue": "x"}]), STOP], "cut"),
        ([OPEN, piece(partialArgs=[{"jsonPath": "$.a[3]", "stringValue": "x"}]), STOP], "cut"),
        ([OPEN, LAST.copy(), piece(name="f", partialArgs=[{"stringValue": "x"}]), STOP], "cut"),
    ],
)
def test_a_call_whose_pieces_did_not_all_come_is_not_run(cut, reason):
    trial, sent = streamed(*cut)
    assert (trial.outcome, trial.reason, trial.called, len(sent)) == ("unfinished", reason, [], 1)


@pytest.mark.parametrize(
    ("pieces", "args"),
    [
        ([], {}),
        ([("$.n", {"numberValue": 2}), ("$.b", {"boolValue": False}), ("$.z", {"nullValue": "NULL_VALUE"})],
         {"n": 2, "b": False, "z": None}),
        ([("$.a[0].b", {"stringValue": "x"}), ("$.a[0].c[0]", {"numberValue": 1}), ("$.a[1].b", {"stringValue": "y"})],
         {"a": [{"b": "x", "c": [1]}, {"b": "y"}]}),
        ([("$['a.b']", {"stringValue": "x"}), ('$.c["d\\"e"]', {"stringValue": ""})], {"a.b": "x", "c": {'d"e': ""}}),
    ],
)  # fmt: skip
def test_the_places_of_arguments(pieces, args):
    values = [piece(partialArgs=[{"jsonPath": path, **value}], willContinue=True) for path, value in pieces]
    answer = answers.fold([OPEN, *values, piece(), STOP])
    assert answer.content["parts"][0]["functionCall"]["args"] == args and answer.fault is None


def test_a_signature_stays_with_its_call_wherever_it_comes():
    for at in range(3):
        stream = json.loads(json.dumps([OPEN, HALF, LAST]))
        stream[at]["candidates"][0]["content"]["parts"][0]["thoughtSignature"] = "Uw=="
        (part,) = answers.fold([*stream, STOP]).content["parts"]
        assert part["thoughtSignature"] == "Uw==" and part["functionCall"]["args"] == {"query": "high tide"}


# --- forced answers and summaries -----------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["unary", "stream"])
@pytest.mark.parametrize("finish", [f for f, r in FAULTS.items() if r != "malformed"])
def test_a_forced_answer_that_did_not_end_by_itself_has_that_reason(finish, transport):
    again = body({"functionCall": {"name": "web_search", "args": {"query": "same"}}})
    trial, sent = go(*[again] * 5, body(TEXT, finish=finish), guard="default", transport=transport)
    assert trial.forced and len(sent) == 6
    assert (trial.outcome, trial.reason, trial.answer) == (outcome(FAULTS[finish]), FAULTS[finish], None)


@pytest.mark.parametrize("transport", ["unary", "stream"])
@pytest.mark.parametrize("finish", FAULTS)
def test_a_summary_that_did_not_end_by_itself_is_none(finish, transport):
    def search(n):
        return body({"functionCall": {"name": "web_search", "args": {"query": f"q{n}"}}})

    first = [search(n) for n in range(3)]
    trial, sent = go(*first, body(TEXT, finish=finish), body(TEXT), pruning="summarise(1)", transport=transport)
    assert trial.steps[3].purpose == "summary" and len(sent) == 4
    assert (trial.outcome, trial.reason) == (outcome(FAULTS[finish]), FAULTS[finish])


# --- interactions ---------------------------------------------------------------------------------------------

SAID = {"type": "model_output", "content": [{"type": "text", "text": "The diameter is 3"}]}
ASKED = {"type": "function_call", "id": "i", "name": "web_search", "arguments": {"query": "half a que"}}


def interaction(status, *steps, **more):
    return {"object": "interaction", "id": "v1_x", "status": status, "steps": list(steps), **more}


STATUSES = {
    "completed": "wrong",
    "requires_action": "wrong",
    "incomplete": "truncated",
    "budget_exceeded": "truncated",
    "requires_continuation": "truncated",
    "cancelled": "cut",
    "in_progress": "cut",
    "queued": "cut",
    "idle": "cut",
    "failed": "other",
    "a_status_of_next_year": "other",
}


def test_every_status_of_the_sdk_is_expected_here():
    (known,) = (s for s in Interaction.model_json_schema()["properties"]["status"]["anyOf"] if "enum" in s)
    assert set(known["enum"]) <= set(STATUSES)


def ended(body, **arm):
    return go(body, history="server_state", **arm)


@pytest.mark.parametrize("said", [SAID, ASKED], ids=["text", "call"])
@pytest.mark.parametrize("status", [s for s, reason in STATUSES.items() if reason != "wrong"])
def test_an_interaction_that_is_not_complete_is_no_answer(status, said):
    trial, sent = ended(interaction(status, said))
    assert (trial.outcome, trial.reason, trial.called) == ("unfinished", STATUSES[status], [])
    assert trial.answer is None and len(sent) == 1


def test_an_interaction_that_is_complete_is_an_answer_whatever_it_got_over():
    trial, _ = ended(interaction("completed", SAID, errors=[{"code": "internal_error", "message": "Search failed."}]))
    assert (trial.outcome, trial.answer) == ("wrong", "The diameter is 3")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"code": "safety", "message": "No."}, "blocked"),
        ({"code": "malformed_function_call", "message": "No."}, "malformed"),
        ({"code": "missing_thought_signature", "message": "No."}, "missing_signature"),
        ({"code": "invalid_request", "message": "No."}, "other"),
        ({"message": "No."}, "other"),
    ],
)
def test_the_errors_of_an_interaction_that_failed_say_why(error, reason):
    trial, _ = ended(interaction("failed", ASKED, errors=[error]))
    assert (trial.outcome, trial.reason, trial.called) == (outcome(reason), reason, [])
    assert trial.detail.endswith("No.")


def test_a_step_that_failed_is_no_answer_of_an_interaction_that_did_not():
    trial, _ = ended(interaction("completed", {**SAID, "error": {"code": 13, "message": "Broken off."}}))
    assert (trial.outcome, trial.reason, trial.detail) == ("unfinished", "other", "13: Broken off.")


@pytest.mark.parametrize("code", ["internal_error", "service_unavailable", "rate_limit_exceeded"])
def test_an_interaction_that_failed_as_a_request_does_is_asked_again(code, slept):
    busy = interaction("failed", errors=[{"code": code, "message": "Later."}])
    trial, sent = go(busy, busy, interaction("completed", SAID), history="server_state")
    assert (trial.outcome, len(sent), len(trial.steps)) == ("wrong", 3, 1)
    trial, sent = ended(busy)
    assert (trial.outcome, trial.reason, len(sent)) == ("failed", None, 5)
    assert trial.detail == f"interaction failed: {code}: Later."


# --- what is left of it -----------------------------------------------------------------------------------------


def test_outcomes_and_reasons_are_listed_and_nothing_else_ends_a_trial():
    assert set(FAULTS.values()) <= set(REASONS) and set(REASONS) >= INTERRUPTED
    for setting in (("gone", None), ("unfinished", "tired")):
        with pytest.raises(AssertionError):
            End(*setting)
    assert OUTCOMES == ("completed", "wrong", "unfinished", "refused", "failed")


@pytest.mark.parametrize("part", [CALL, {"text": "hm", "thought": True}], ids=["call", "thought"])
@pytest.mark.parametrize("finish", ["MAX_TOKENS", "SAFETY", None, "OTHER", "MALFORMED_FUNCTION_CALL"])
def test_a_trace_keeps_the_reason_and_says_nothing_of_a_run_that_was_ended_from_outside(finish, part, tmp_path):
    again = body({"functionCall": {"name": "web_search", "args": {"query": "same"}}})
    trial, _ = go(again, body(part, finish=finish, usageMetadata={"promptTokenCount": 3, "totalTokenCount": 3}))
    packed = trace.of(trial, "sim", backends.SCRIPTED)
    assert trace.load(json.loads(trace.dumps(packed))) == packed
    row = metrics.row(packed)
    assert (row["outcome"], row["reason"], row["calls"]) == ("unfinished", EXPECTED[finish], 1)
    assert EXPECTED[finish] in timeline.text(packed)
    path = tmp_path / "trials.jsonl"
    path.write_text(trace.dumps(packed) + trace.dumps(replace(packed, reason="guard")))
    success, stopped = [run.success for run in importers.read([path]).runs]
    assert success is (False if finish == "MALFORMED_FUNCTION_CALL" else None) and stopped is False
    assert [len(t) for run in importers.read([path]).runs for t in run.turns] == (
        [2, 2] if finish == "MALFORMED_FUNCTION_CALL" else [1, 1]
    )
