"""Findings that are no refusal, histories that move or were cut, the profile's switches, and the SDK's ways."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import httpx2
import pytest
from google import genai
from google.genai import types

from gemlab import backends
from gemlab.agent import history
from gemlab.emulator import signatures
from gemlab.emulator.app import create_app
from gemlab.emulator.minds.view import Reply
from gemlab.wire import contents as wire
from gemlab.wire import families, rules

OLD, G25, G35, G36, G38 = (
    "gemini-3-flash-preview", "gemini-2.5-flash", "gemini-3.5-flash", "gemini-3.6-flash", "gemini-3.8-flash",
)  # fmt: skip
MISSING = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
    "correctly, and missing thought_signature may lead to degraded model performance. Additional data, function "
    "call `default_api:{}` , position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures "
    "for more details."
)
CALL_ORDER = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)


def U(*parts, role="user"):
    return {"role": role, "parts": [{"text": p} if isinstance(p, str) else p for p in parts]}


def M(*parts):
    return U(*parts, role="model")


def fc(name, signature=None, ident=None):
    call = {"name": name, "args": {}} | ({"id": ident} if ident else {})
    return {"functionCall": call} | ({} if signature is None else {"thoughtSignature": signature})


def fr(name, ident=None):
    return {"functionResponse": {"name": name, "response": {"ok": 1}} | ({"id": ident} if ident else {})}


def sealed(thought="thought", model=OLD, service="developer"):
    return base64.b64encode(signatures.seal(thought, families.profile(model, service))).decode()


def altered(text):
    raw = bytearray(base64.b64decode(text))
    raw[-1] ^= 1
    return base64.b64encode(raw).decode()


def judge(contents, profile):
    found = rules.check(contents, profile, lambda raw: signatures.open_(raw, profile) is not None)
    return [(f.rule, f.verdict, f.where) for f in found]


async def post(app, model, contents, path="/v1/models/"):
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://emulator") as client:
        return await client.post(f"{path}{model}:generateContent", json={"contents": contents})


# --- lost and suspect ---------------------------------------------------------------------------------------

S = sealed()
STEP = (M(fc("a", S)), U(fr("a")))


@pytest.mark.parametrize(
    ("contents", "found"),
    [
        ([U("q"), *STEP], []),
        ([U("q"), M(fc("a", sealed("1")), fc("b", sealed("2"))), U(fr("a"), fr("b"))], []),
        ([U("q"), M(fc("a")), U(fr("a")), M("x"), U("q"), *STEP], [("unsigned", "lost", "contents[1].parts[0]")]),
        ([U("q"), M(fc("a")), U(fr("a")), U("so?"), *STEP], [("unsigned", "lost", "contents[1].parts[0]")]),
        (
            [U("q"), M(fc("a", S), fc("b", S)), U(fr("a"), fr("b"))],
            [("duplicated", "suspect", "contents[1].parts[1]")],
        ),
        (
            [U("q"), M(fc("a", "skip_thought_signature_validator")), U(fr("a"))],
            [("dummy", "lost", "contents[1].parts[0]")],
        ),
        (
            [U("q"), M({"text": "hm", "thought": True, "thoughtSignature": S}, fc("a")), U(fr("a"))],
            [("thought_signed", "suspect", "contents[1].parts[1]")],
        ),
        (
            [U("q"), M(fc("a", altered(S))), U(fr("a")), M("x"), U("q")],
            [("altered", "lost", "contents[1].parts[0]")],
        ),
        ([U("q"), *STEP[:1], U(fr("a"), "see")], [("text_beside_response", "suspect", "contents[2]")]),
        ([U("q"), *STEP[:1], U(fr("b"))], [("names_differ", "suspect", "contents[2]")]),
        (
            [U("q"), M(fc("a", S, "x")), U(fr("a", "y"))],
            [("id_mismatch", "suspect", "contents[2].parts[0]")],
        ),
        ([U("q"), *STEP[:1], U(fr("a", "y"))], []),
    ],
    ids=[
        "clean", "each call signed by its own", "stripped in an older turn", "a user text moved the border",
        "copied to a sibling", "dummy", "thought signed instead of the call", "altered in an older turn",
        "text beside a response", "another name", "another id", "an id where the call had none",
    ],
)  # fmt: skip
def test_what_is_not_refused_is_still_found(contents, found):
    assert judge(contents, families.profile(OLD)) == found


def test_an_auditor_without_a_key_tells_altered_signatures_by_their_form_alone():
    twice = base64.b64encode(S.encode()).decode()
    contents = [U("q"), M(fc("a", twice)), U(fr("a")), M(fc("a", altered(S))), U(fr("a"))]
    found = rules.check(contents, families.profile(OLD))
    assert [(f.rule, f.where) for f in found] == [("altered", "contents[1].parts[0]")]


def test_sending_back_everything_sends_the_same_signatures_in_the_same_places():
    received = [
        U("q"),
        M(fc("a", sealed("1")), {"text": "hm", "thought": True, "thoughtSignature": sealed("2")}, fc("b")),
        U(fr("a"), fr("b")),
        M({"text": "Let me see."}, fc("c", sealed("3"))),
        U(fr("c")),
        M("done", {"text": "", "thoughtSignature": sealed("4")}),
    ]
    assert json.dumps(history.preserve(received)) == json.dumps(received)


@pytest.mark.parametrize(
    ("part_of_it", "expected"),
    [
        (slice(0, 3), [("unsigned", "refused", "contents[1].parts[0]")]),
        (slice(3, 5), [("call_order", "refused", "contents[0]")]),
        (slice(2, 3), [("response_order", "refused", "contents[0]")]),
    ],
    ids=["a retry from the start", "a summary of the end", "a lone response"],
)
def test_a_request_made_of_part_of_the_history_is_judged_like_any_other(part_of_it, expected):
    whole = [U("q"), M(fc("a")), U(fr("a")), M(fc("b", S)), U(fr("b"))]
    assert judge(whole[part_of_it], families.profile(OLD)) == expected


# --- a history that moves -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made_on", "made_by", "sent_to", "sent_as", "refused_by"),
    [
        ("developer", G36, "vertex", G36, "Invalid thought signature."),
        ("vertex", G36, "developer", G36, "Corrupted thought signature."),
        ("developer", G36, "developer", G35, None),
        ("developer", OLD, "developer", "gemini-4-argon", "Corrupted thought signature."),
    ],
    ids=["to Vertex", "from Vertex", "to an older model of the family", "to another family"],
)
async def test_signatures_hold_within_one_family_and_service(made_on, made_by, sent_to, sent_as, refused_by):
    path = {"developer": "/v1/models/", "vertex": "/v1/projects/p/locations/l/publishers/google/models/"}[sent_to]
    contents = [U("q"), M(fc("a", sealed("t", made_by, made_on))), U(fr("a"))]
    response = await post(backends.emulator(routes={}), sent_as, contents, path)
    assert response.status_code == (400 if refused_by else 200)
    assert refused_by is None or response.json()["error"]["message"] == refused_by


async def test_a_fallback_within_the_family_with_the_signature_dropped_is_refused():
    contents = history.strip([U("q"), M(fc("a", sealed("t", G36))), U(fr("a"))])
    response = await post(backends.emulator(routes={}), G35, contents)
    assert response.json()["error"]["message"] == MISSING.format("a", 2)


# --- switches -----------------------------------------------------------------------------------------------

CALLED = [U("q"), M(fc("a", altered(S))), U(fr("a"))]
PLAIN = [U("q"), M(fc("a")), U(fr("a"))]
THOUGHT = [U("q"), M({"text": "hm", "thought": True, "thoughtSignature": S}, fc("a")), U(fr("a"))]
TWO = [U("q"), M(fc("a", sealed("1"))), M(fc("b", sealed("2"))), U(fr("a"), fr("b"))]
BESIDE = [U("q"), M(fc("a", S)), U(fr("a"), "see")]
OTHER_ID = [U("q"), M(fc("a", S, "x")), U(fr("a", "y"))]
OLDER_TURN = [*CALLED, M("x"), U("q")]
MODEL_LAST = [U("q"), M("x")]
FUNCTION = [U("q", role="function")]
ID_TEXT = "The id of a function response does not match the id of its function call."
LAST = "Requests ending with a model turn are not supported."
LAST_UNLESS = "Requests ending with a model turn are not supported unless the last part is a function response."
CORRUPTED = "Corrupted thought signature."


SWITCHES = [
    (CALLED, "altered", "ignore", CORRUPTED, None),
    (OLDER_TURN, "thoughts", "all", None, CORRUPTED),
    (PLAIN, "strict", False, MISSING.format("a", 2), None),
    (THOUGHT, "thought_before_call", "refuse", None, MISSING.format("a", 2)),
    (TWO, "consecutive_model", "refuse", None, CALL_ORDER),
    (BESIDE, "text_beside_response", "refuse", None, LAST),
    (OTHER_ID, "id_mismatch", "refuse", None, ID_TEXT),
    (MODEL_LAST, "last_model_turn", "refuse", None, LAST),
    (MODEL_LAST, "last_model_turn", "unless_response", None, LAST_UNLESS),
    (FUNCTION, "role_names", "new", None, "Role 'function' is not supported."),
]


@pytest.mark.parametrize(
    ("switch", "value", "message"),
    [
        ("altered", "nope", "altered is one of refuse, ignore, not 'nope'"),
        ("id_mismatch", "accept", "id_mismatch is one of ignore, empty, refuse, not 'accept'"),
        ("strict", "false", "strict is one of True, False, not 'false'"),
        ("nope", "refuse", "unknown switch 'nope'; known: .*altered"),
        ("levels", "LOW", "unknown switch 'levels'"),
    ],
)
def test_a_switch_or_a_value_that_no_profile_has_is_refused(switch, value, message):
    with pytest.raises(ValueError, match=message):
        families.profile(G25, **{switch: value})
    with pytest.raises(ValueError, match=message):  # at once, not with the first request
        backends.emulator(switches={switch: value})


@pytest.mark.parametrize(
    ("contents", "switch", "value", "unswitched", "switched"), SWITCHES, ids=[f"{s[1]}={s[2]}" for s in SWITCHES]
)
async def test_every_switch_of_the_profile_has_an_effect(contents, switch, value, unswitched, switched):
    for switches, expected in (({}, unswitched), ({switch: value}, switched)):
        response = await post(backends.emulator(routes={}, switches=switches), OLD, contents)
        assert response.status_code == (400 if expected else 200)
        assert not expected or response.json()["error"]["message"].startswith(expected)


@pytest.mark.parametrize(("value", "answered"), [("ignore", True), ("empty", False)])
async def test_a_mismatched_id_that_is_not_refused_is_ignored_or_answered_with_nothing(value, answered):
    response = await post(backends.emulator(routes={}, switches={"id_mismatch": value}), OLD, OTHER_ID)
    (candidate,) = response.json()["candidates"]
    assert candidate["finishReason"] == "STOP"
    assert bool(wire.answer_text(candidate["content"])) is answered


def test_ids_are_enforced_from_3_8_on():
    assert judge(OTHER_ID, families.profile(G38)) == [("id_mismatch", "refused", "contents[2].parts[0]")]
    assert judge([U("q"), M(fc("a", sealed("t", G25), "x")), U(fr("a", "y"))], families.profile(G25)) == []


def test_a_model_that_does_not_think_loses_nothing():
    profile = replace(families.profile(G25), thinks=False)
    assert judge(PLAIN, families.profile(G25)) == [("unsigned", "lost", "contents[1].parts[0]")]
    assert judge(PLAIN, profile) == []


# --- through the SDK ----------------------------------------------------------------------------------------


class TwoCalls:
    """Calls two functions in parallel, and answers when both responses are there."""

    def respond(self, view):
        if view.steps and not all(c.response for c in view.steps[-1].calls):
            return Reply(thought="wait", text="?")
        return Reply(thought="done", text="ok") if view.steps else Reply("both", (("a", {}), ("b", {})))


def sdk(app, seen=None):
    class Transport(httpx2.ASGITransport):
        async def handle_async_request(self, request):
            if seen is not None:
                seen.append(json.loads(request.content))
            return await super().handle_async_request(request)

    options = types.HttpOptions(base_url="http://emulator", async_client_args={"transport": Transport(app)})
    return genai.Client(api_key="x", http_options=options)


@pytest.mark.parametrize(
    ("given", "on_the_wire"),
    [
        (b"skip_thought_signature_validator", "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="),
        ("skip_thought_signature_validator", "skip_thought_signature_validator"),
    ],
    ids=["bytes go out as base64", "text goes out raw"],
)
async def test_a_dummy_through_the_sdk(given, on_the_wire):
    call = types.Part(function_call=types.FunctionCall(name="a", args={}), thought_signature=given)
    contents = [
        types.Content(role="user", parts=[types.Part(text="q")]),
        types.Content(role="model", parts=[call]),
        types.Content(role="user", parts=[types.Part.from_function_response(name="a", response={"ok": 1})]),
    ]
    seen = []
    client = sdk(create_app(TwoCalls()), seen)
    await client.aio.models.generate_content(model=OLD, contents=contents)
    sent = wire.normalise(seen[0])["contents"]
    assert sent[1]["parts"][0]["thoughtSignature"] == on_the_wire
    assert judge(sent, families.profile(OLD)) == [("dummy", "lost", "contents[1].parts[0]")]


@pytest.mark.parametrize(
    ("streamed", "expected"), [(True, MISSING.format("b", 3)), (False, None)], ids=["streaming", "unary"]
)
async def test_the_sdks_streaming_chat_splits_parallel_calls_and_is_refused(streamed, expected):
    """It stores each chunk as a content of its own, so the second call stands first in its content."""
    client = sdk(create_app(TwoCalls()))
    chat = client.aio.chats.create(model=OLD)
    if streamed:
        async for _ in await chat.send_message_stream("q"):
            pass
    else:
        await chat.send_message("q")
    answers = [types.Part.from_function_response(name=n, response={"ok": 1}) for n in "ab"]
    if expected is None:
        assert (await chat.send_message(answers)).text == "ok"
        return
    with pytest.raises(genai.errors.ClientError) as refused:
        await chat.send_message(answers)
    assert refused.value.message == expected


async def test_the_sdks_curated_history_drops_a_response_that_was_answered_with_nothing():
    seen = []
    client = sdk(create_app(TwoCalls()), seen)
    past = [U("q"), M(fc("a", S)), U(fr("a")), {"role": "model", "parts": []}]
    chat = client.aio.chats.create(model=OLD, history=past)
    with pytest.raises(genai.errors.ClientError, match="number of function response parts is equal"):
        await chat.send_message("so?")
    sent = wire.normalise(seen[0])["contents"]
    assert [c["role"] for c in sent] == ["user", "model", "user"]
    assert [wire.answer_text(c) for c in sent] == ["q", "", "so?"]
