"""What the API refuses: every rule with its exact text, asked of the rules and of the emulator over HTTP.

The texts stand here as the API writes them. Both services are asked; where they differ, both texts stand here.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import httpx2
import pytest

from gemlab import backends
from gemlab.emulator import signatures
from gemlab.wire import families, rules

DEVELOPER, VERTEX = "developer", "vertex"
VERTEX_PATH = "/v1/projects/p/locations/l/publishers/google/models/"
OLD, G35, G36, G37, G38 = (
    "gemini-3-flash-preview", "gemini-3.5-flash", "gemini-3.6-flash", "gemini-3.7-flash", "gemini-3.8-flash",
)  # fmt: skip
LITE, G25, G20 = "gemini-3.5-flash-lite", "gemini-2.5-flash", "gemini-2.0-flash"


def U(*parts, role="user"):
    return {"role": role, "parts": [{"text": p} if isinstance(p, str) else p for p in parts]}


def M(*parts):
    return U(*parts, role="model")


def fc(name, signature=None, ident=None):
    call = {"name": name, "args": {}} | ({"id": ident} if ident else {})
    return {"functionCall": call} | ({} if signature is None else {"thoughtSignature": signature})


def fr(name, ident=None):
    return {"functionResponse": {"name": name, "response": {"ok": 1}} | ({"id": ident} if ident else {})}


def b64(raw):
    return base64.b64encode(raw).decode()


@dataclass(frozen=True)
class Sign:
    """Signatures as the served model's own emulator makes them, and some that it did not make."""

    profile: families.Profile

    def __call__(self, thought="thought"):
        return b64(signatures.seal(thought, self.profile))

    def altered(self):
        raw = bytearray(signatures.seal("thought", self.profile))
        raw[len(raw) // 2] ^= 1
        return b64(raw)

    def of(self, model, service=None):
        profile = families.profile(model, service or self.profile.service)
        return b64(signatures.seal("thought", profile))

    def elsewhere(self):
        return self.of(self.profile.model, VERTEX if self.profile.service == DEVELOPER else DEVELOPER)


def missing(name, position):
    """The two services' texts for an unsigned call; the space before the comma is the API's."""
    return {
        DEVELOPER: "Function call is missing a thought_signature in functionCall parts. This is required for "
        "tools to work correctly, and missing thought_signature may lead to degraded model performance. "
        f"Additional data, function call `default_api:{name}` , position {position}. Please refer to "
        "https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
        VERTEX: f"Unable to submit request because function call `default_api:{name}` in the {position}. "
        "content block is missing a `thought_signature`. Learn more: "
        "https://docs.cloud.google.com/vertex-ai/generative-ai/docs/thought-signatures",
    }


ALTERED = {DEVELOPER: "Corrupted thought signature.", VERTEX: "Invalid thought signature."}
COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of "
    "the function call turn."
)
CALL_ORDER = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)
RESPONSE_ORDER = "Please ensure that function response turn comes immediately after a function call turn."
OLD_ROLE = "Please use a valid role: user, model."
NEW_ROLE = (
    "Role '{}' is not supported. Please use a valid role: SYSTEM, SYSTEM_1, USER, ASSISTANT, DEVELOPER, CONTEXT, "
    "USER_CONTEXT, MODEL, USER."
)
LAST = "Requests ending with a model turn are not supported."
LAST_UNLESS = "Requests ending with a model turn are not supported unless the last part is a function response."
STEP = (M(fc("a")), U(fr("a")))


def refused(name, model, history, message):
    return pytest.param(model, history, message, id=f"{name}, {model.removeprefix('gemini-')}")


REFUSED = [
    *(
        refused("unsigned call", m, lambda s: [U("q"), M(fc("a")), U(fr("a"))], missing("a", 2))
        for m in (OLD, G35, G36, G38, "gemini-3.1-pro-preview", "gemini-4-argon")
    ),
    refused(
        "unsigned call of the second step",
        OLD,
        lambda s: [U("q"), M(fc("a", s())), U(fr("a")), M(fc("b")), U(fr("b"))],
        missing("b", 4),
    ),
    refused(
        "parallel calls split over two contents",
        OLD,
        lambda s: [U("q"), M(fc("a", s())), M(fc("b")), U(fr("a"), fr("b"))],
        missing("b", 3),
    ),
    refused(
        "first call unsigned, its sibling signed",
        OLD,
        lambda s: [U("q"), M(fc("a"), fc("b", s())), U(fr("a"), fr("b"))],
        missing("a", 2),
    ),
    refused("empty signature", OLD, lambda s: [U("q"), M(fc("a", "")), U(fr("a"))], missing("a", 2)),
    refused(
        "text beside a response starts no turn",
        OLD,
        lambda s: [U("q"), M(fc("a")), U(fr("a"), "text")],
        missing("a", 2),
    ),
    refused("altered", OLD, lambda s: [U("q"), M(fc("a", s.altered())), U(fr("a"))], ALTERED),
    refused("altered, on 2.5", G25, lambda s: [U("q"), M(fc("a", s.altered())), U(fr("a"))], ALTERED),
    refused("foreign bytes", OLD, lambda s: [U("q"), M(fc("a", "Zm9yZWlnbg==")), U(fr("a"))], ALTERED),
    refused("of another service", OLD, lambda s: [U("q"), M(fc("a", s.elsewhere())), U(fr("a"))], ALTERED),
    refused("of another family", OLD, lambda s: [U("q"), M(fc("a", s.of(G25))), U(fr("a"))], ALTERED),
    refused("encoded twice", OLD, lambda s: [U("q"), M(fc("a", b64(s().encode()))), U(fr("a"))], ALTERED),
    refused("cut", OLD, lambda s: [U("q"), M(fc("a", s()[:-8])), U(fr("a"))], ALTERED),
    refused(
        "not base64",
        G25,
        lambda s: [U("q"), U("and"), M(fc("a", "n*t")), U(fr("a"))],
        "Invalid value at 'contents[2].parts[0].thought_signature' (TYPE_BYTES), "
        'Base64 decoding failed for "n*t"',
    ),
    refused(
        "signature inside the call",
        OLD,
        lambda s: [U("q"), M({"functionCall": {"name": "a", "thoughtSignature": "Uw=="}}), U(fr("a"))],
        'Invalid JSON payload received. Unknown name "thoughtSignature" at '
        "'contents[1].parts[0].function_call': Cannot find field.",
    ),
    *(
        refused(name, OLD, lambda s, given=given: [U("q"), M(fc("get", s()), fc("get")), *given], COUNT)
        for name, given in {
            "too few responses": [U(fr("get"))],
            "too many responses": [U(fr("get"), fr("get"), fr("get"))],
            "responses in two contents": [U(fr("get")), U(fr("get"))],
            "no response": [U("never mind")],
            "no response at the end": [],
        }.items()
    ),
    refused("call first in the contents", OLD, lambda s: [M(fc("a", s())), U(fr("a"))], CALL_ORDER),
    refused("response without a call", OLD, lambda s: [U("q"), U(fr("a"))], RESPONSE_ORDER),
    refused("response first in the contents", OLD, lambda s: [U(fr("a")), U("q")], RESPONSE_ORDER),
    refused("response after a text", OLD, lambda s: [U("q"), M("x"), U(fr("a"))], RESPONSE_ORDER),
    refused(
        "response a turn late",
        OLD,
        lambda s: [U("q"), M(fc("a", s())), U(fr("a")), U("well?"), U(fr("a"))],
        RESPONSE_ORDER,
    ),
    *(refused("model turn last", m, lambda s: [U("q"), M("x")], LAST_UNLESS) for m in (G36, LITE)),
    *(refused("model turn last", m, lambda s: [U("q"), M("x")], LAST) for m in (G37, G38)),
    *(refused("role tool", m, lambda s: [U("q", role="tool")], OLD_ROLE) for m in (OLD, G35, G25)),
    *(refused("role tool", m, lambda s: [U("q", role="tool")], NEW_ROLE.format("tool")) for m in (G36, LITE, G38)),
    refused("role function", G36, lambda s: [U("q", role="function")], NEW_ROLE.format("function")),
    *(
        refused(
            name,
            OLD,
            lambda s, content=content: [U("q"), content],
            "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty.\n",
        )
        for name, content in {"no parts": {"role": "user", "parts": []}, "parts left out": {"role": "user"}}.items()
    ),
    *(
        refused(
            name,
            OLD,
            lambda s, part=part: [U("q"), U("x", part)],
            "* GenerateContentRequest.contents[1].parts[1].data: required oneof field 'data' must have one "
            "initialized field\n",
        )
        for name, part in {"empty part": {}, "blank thought": {"text": "", "thought": True}}.items()
    ),
    refused(
        "empty response name",
        OLD,
        lambda s: [U("q"), M(fc("a", s())), U(fr(""))],
        "* GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty.\n",
    ),
]  # fmt: skip

MEDIA = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
ACCEPTED = {
    "two model contents, each first call signed": (
        OLD, lambda s: [U("q"), M(fc("a", s("1"))), M(fc("b", s("2"))), U(fr("a"), fr("b"))]
    ),
    "parallel calls, the first signed": (
        OLD, lambda s: [U("q"), M(fc("a", s()), fc("b")), U(fr("a"), fr("b"))]
    ),
    "consecutive user contents": (OLD, lambda s: [U("q"), U("and"), U("so")]),
    "role function": (OLD, lambda s: [U("q"), M(fc("a", s())), U(fr("a"), role="function")]),
    "role left out": (G36, lambda s: [{"parts": [{"text": "q"}]}]),
    "text beside a response": (OLD, lambda s: [U("q"), M(fc("a", s())), U(fr("a"), "see")]),
    "media beside a response": (OLD, lambda s: [U("q"), M(fc("a", s())), U(fr("a"), MEDIA)]),
    "ids on both sides": (OLD, lambda s: [U("q"), M(fc("a", s(), "x")), U(fr("a", "x"))]),
    "ids left out on both sides": (G38, lambda s: [U("q"), M(fc("a", s())), U(fr("a"))]),
    "permuted responses with ids": (
        G38, lambda s: [U("q"), M(fc("g", s(), "x"), fc("g", None, "y")), U(fr("g", "y"), fr("g", "x"))]
    ),
    "a part of a signature alone": (OLD, lambda s: [U("q"), M("x", {"thoughtSignature": s()}), U("q")]),
    "a text without its signature": (OLD, lambda s: [U("q"), M("x"), U("q")]),
    "a text with a foreign signature": (
        OLD, lambda s: [U("q"), M({"text": "x", "thoughtSignature": s.altered()}, fc("a", s())), U(fr("a"))]
    ),
    "unsigned call in an older turn": (OLD, lambda s: [U("q"), *STEP, M("x"), U("q")]),
    "a user text moves the border of the turn": (
        G36, lambda s: [U("q"), *STEP, U("go on"), M(fc("b", s())), U(fr("b"))]
    ),
    "unsigned calls on 2.5": (G25, lambda s: [U("q"), *STEP, *STEP]),
    "altered signature on 2.0": (G20, lambda s: [U("q"), M(fc("a", s.altered())), U(fr("a"))]),
    "the signature copied to siblings on 2.5": (
        G25, lambda s: [U("q"), M(fc("a", s()), fc("b", s())), U(fr("a"), fr("b"))]
    ),
    "response names that differ on 2.5": (G25, lambda s: [U("q"), M(fc("a", s())), U(fr("b"))]),
    "model turn last on 3.5": (G35, lambda s: [U("q"), M("x")]),
    "model turn last on 2.5": (G25, lambda s: [U("q"), M("x")]),
}  # fmt: skip


def judge(history, profile):
    """What the rules say, with the emulator's key to the signatures."""
    return rules.check(history, profile, lambda raw: signatures.open_(raw, profile) is not None)


async def post(history, model, service=DEVELOPER, **switches):
    app = backends.emulator(routes={}, switches=switches)
    path = ("/v1/models/" if service == DEVELOPER else VERTEX_PATH) + f"{model}:generateContent"
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://emulator") as client:
        return await client.post(path, json={"contents": history})


@pytest.mark.parametrize("service", [DEVELOPER, VERTEX])
@pytest.mark.parametrize(("model", "history", "message"), REFUSED)
async def test_what_the_api_refuses_and_with_what_text(model, history, message, service):
    message = message if isinstance(message, str) else message[service]
    profile = families.profile(model, service)
    contents = history(Sign(profile))
    (found,) = rules.refusal(judge(contents, profile))
    assert found.message == message
    response = await post(contents, model, service)
    assert response.status_code == 400
    error = response.json()["error"]
    assert list(error)[:3] == ["code", "message", "status"]
    assert (error["code"], error["message"], error["status"]) == (400, message, "INVALID_ARGUMENT")
    assert rules.refuses_history(response.json())


@pytest.mark.parametrize("service", [DEVELOPER, VERTEX])
@pytest.mark.parametrize(("model", "history"), ACCEPTED.values(), ids=ACCEPTED)
async def test_what_the_api_accepts(model, history, service):
    profile = families.profile(model, service)
    contents = history(Sign(profile))
    assert rules.refusal(judge(contents, profile)) == []
    response = await post(contents, model, service)
    assert response.status_code == 200, response.text


async def test_the_parser_lists_every_field_that_is_wrong():
    history = [U("q"), M(fc("a", "n*t"), fc("b", "n?t")), U(fr("a"), fr("b"))]
    error = (await post(history, OLD)).json()["error"]
    fields = [f"contents[1].parts[{j}].thought_signature" for j in (0, 1)]
    texts = [
        f"Invalid value at '{field}' (TYPE_BYTES), Base64 decoding failed for \"{value}\""
        for field, value in zip(fields, ("n*t", "n?t"), strict=True)
    ]
    assert error["message"] == "\n".join(texts)
    assert error["details"] == [
        {
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [
                {"field": f, "description": t} for f, t in zip(fields, texts, strict=True)
            ],
        }
    ]  # fmt: skip


@pytest.mark.parametrize("encoded", [False, True], ids=["raw", "base64"])
@pytest.mark.parametrize("service", [DEVELOPER, VERTEX])
@pytest.mark.parametrize("dummy", ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"])
async def test_dummies_pass_on_the_developer_api_and_on_vertex_only_the_first(dummy, service, encoded):
    value = b64(dummy.encode()) if encoded else dummy
    response = await post([U("q"), M(fc("a", value)), U(fr("a"))], OLD, service)
    if service == DEVELOPER or dummy.startswith("skip"):
        assert response.status_code == 200, response.text
    else:
        assert response.status_code == 400
        assert response.json()["error"]["message"] == "Invalid thought signature."
