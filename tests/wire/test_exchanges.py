"""Recorded exchanges with the real API: no accepted request is called refused, no answer is read differently.

The data is not part of the repository; without it these tests are skipped, in CI they fail. What is left out of
a test is named with its reason, and what was checked is counted.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import httpx2
import pydantic
import pytest
from google import genai
from google.genai import errors, types

from gemlab.emulator.parse import shape
from gemlab.wire import answers, families, rules
from gemlab.wire import contents as wire

# Signatures over 16,000 characters were shortened in the data: what is left of them is not base64.
SHORTENED_IN_REQUEST = {("pydantic__pydantic-ai/test_function_tools_with_builtin_tools.json", 1)}
SHORTENED_IN_RESPONSE = {
    ("pydantic__pydantic-ai/test_auto_mode_with_function_and_builtin_tools.json", 1),
    ("pydantic__pydantic-ai/test_function_tools_with_builtin_tools.json", 0),
    ("pydantic__pydantic-ai/test_google_image_generation_with_text.json", 0),
    ("pydantic__pydantic-ai/test_native_output_with_builtin_tools.json", 0),
    ("pydantic__pydantic-ai/test_native_output_with_builtin_tools_stream.json", 0),
    ("pydantic__pydantic-ai/test_native_output_with_function_and_builtin_tools.json", 1),
    ("pydantic__pydantic-ai/test_thinking_with_native_tool_wire_contract_google_.json", 0),
    ("pydantic__pydantic-ai/test_tool_output_with_builtin_tools.json", 0),
}
# Exchanges of other methods: neither a history nor an answer of a model is in them.
OTHER_METHODS = {
    ("pydantic__pydantic-ai/TestGoogle.test_count_tokens_error.json", 0): "countTokens",
    ("pydantic__pydantic-ai/TestGoogle.test_embed_error.json", 0): "batchEmbedContents",
    ("pydantic__pydantic-ai/test_google_model_file_search_tool.json", 0): "fileSearchStores, create",
    ("pydantic__pydantic-ai/test_google_model_file_search_tool.json", 1): "fileSearchStores, upload begun",
    ("pydantic__pydantic-ai/test_google_model_file_search_tool.json", 2): "fileSearchStores, upload",
    ("pydantic__pydantic-ai/test_google_model_file_search_tool.json", 4): "fileSearchStores, delete",
}
COUNTS = ("prompt_token_count", "candidates_token_count", "thoughts_token_count", "total_token_count")


@dataclass(frozen=True)
class Exchange:
    key: tuple[str, int]
    trust: str
    request: dict[str, Any]
    response: dict[str, Any]

    @property
    def bodies(self):
        return self.response["chunks"] if "chunks" in self.response else [self.response["body"]]

    @property
    def profile(self):
        served = next((b["modelVersion"] for b in self.bodies if b.get("modelVersion")), None)
        service = {"gemini": "developer", "vertex": "vertex"}[self.request["api"]]
        return families.profile(served or families.serve(self.request["model"]), service)


@pytest.fixture(scope="module")
def recorded(shared):
    folder = shared / "data" / "exchanges"
    found = []
    for entry in json.loads((folder / "index.json").read_text("utf-8"))["files"]:
        exchanges = json.loads((folder / entry["file"]).read_text("utf-8"))["exchanges"]
        for number, e in enumerate(exchanges):
            key = (entry["file"], number)
            found.append(Exchange(key, entry["trust"].split(" (")[0], e["request"], e["response"]))
    assert len(found) == 559
    return found


@pytest.fixture(scope="module")
def accepted(recorded):
    """Requests to a model that the API answered with 200. Responses without a recorded request are not here."""
    methods = ("generateContent", "streamGenerateContent")
    found = [e for e in recorded if e.request["rpc"] in methods and e.response["status"] == 200]
    assert Counter(e.request["api"] for e in found) == {"gemini": 351, "vertex": 59}
    return found


@pytest.fixture(scope="module")
def answered(recorded):
    """Answers of a model, whoever recorded them; errors and other methods are not here."""
    found = [e for e in recorded if e.response["status"] == 200 and e.key not in OTHER_METHODS]
    assert Counter(e.trust for e in found) == {
        "recorded HTTP traffic": 410,
        "recorded through the JS SDK": 79,
        "recorded response only": 14,
        "vendor-mock": 12,
    }
    return found


def test_exchanges_of_other_methods_are_what_they_are_named(recorded):
    rpcs = {"generateContent", "streamGenerateContent"}
    others = {e.key for e in recorded if e.request["api"] != "other" and e.request["rpc"] not in rpcs}
    assert others == set(OTHER_METHODS)


# --- requests -----------------------------------------------------------------------------------------------


def test_no_request_that_the_api_accepted_is_called_refused(accepted):
    refused = {}
    for e in accepted:
        found = rules.refusal(rules.check(e.request["body"]["contents"], e.profile))
        if found:
            refused[e.key] = [(f.rule, f.where) for f in found]
    assert refused == {key: [("base64", "contents[1].parts[2]")] for key in SHORTENED_IN_REQUEST}


def test_the_requests_checked_hold_what_the_rules_are_about(accepted):
    """No proof is drawn from data that could not have failed."""
    seen = Counter()
    for e in accepted:
        contents = wire.normalise(e.request["body"]["contents"])
        parts = [p for c in contents for p in c.get("parts", [])]
        calls = [p for p in parts if "functionCall" in p]
        seen["with calls"] += bool(calls)
        seen["3.x with calls"] += bool(calls) and e.profile.strict
        seen["signed calls"] += sum("thoughtSignature" in p for p in calls)
        seen["responses"] += sum("functionResponse" in p for p in parts)
    assert seen == {"with calls": 190, "3.x with calls": 96, "signed calls": 235, "responses": 301}


def test_the_emulators_parser_takes_every_request_that_the_api_took(accepted):
    for e in accepted:
        body = shape.parse(json.dumps(e.request["body"]).encode())
        shape.thinking(body, e.profile)


# --- answers ------------------------------------------------------------------------------------------------


def raw_parts(body):
    candidate = (body.get("candidates") or [{}])[0]
    return (candidate.get("content") or {}).get("parts") or []


def raw_facts(bodies):
    """What an answer says, taken from its JSON alone."""
    parts = [p for b in bodies for p in raw_parts(b)]
    candidates = [c for b in bodies for c in b.get("candidates", [])]
    return {
        "signatures": [p["thoughtSignature"] for p in parts if p.get("thoughtSignature")],
        "calls": [p["functionCall"] for p in parts if "functionCall" in p],
        "text": "".join(p["text"] for p in parts if "text" in p and not p.get("thought")),
        "finish": [c["finishReason"] for c in candidates if "finishReason" in c][-1:],
        "usage": [b["usageMetadata"] for b in bodies if b.get("usageMetadata")][-1:],
        "served": {b["modelVersion"] for b in bodies if "modelVersion" in b},
    }


def leaves(value, path="$"):
    """The values in arguments by their JSON paths, as `partialArgs` name them."""
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in leaves(item, f"{path}.{key}").items()}
    if isinstance(value, list):
        return {k: v for i, item in enumerate(value) for k, v in leaves(item, f"{path}[{i}]").items()}
    return {path: value}


def joined(pieces):
    """The calls of a stream whose arguments come in pieces: (name, arguments by path), strings joined."""
    found = []
    for piece in pieces:
        if "name" in piece:
            found.append((piece["name"], leaves(piece.get("args", {}))))
        for value in piece.get("partialArgs", []):
            path, values = value["jsonPath"], found[-1][1]
            said = next(v for k, v in value.items() if k.endswith("Value"))
            values[path] = values[path] + said if path in values else said
    return found


def test_calls_in_pieces_are_whole_once_read(answered):
    calls = 0
    for e in answered:
        pieces = raw_facts(e.bodies)["calls"]
        if any("willContinue" in piece for piece in pieces):
            answer = answers.fold(e.bodies)
            read = wire.calls(answer.content)
            assert [(c["name"], leaves(c.get("args", {}))) for c in read] == joined(pieces), e.key
            assert answer.fault is None and all(set(c) <= {"name", "args", "id"} for c in read)
            calls += len(read)
            # Cut anywhere before its end it is an answer that has none, and neither is any of its calls run.
            for end in range(1, len(e.bodies)):
                assert answers.fold(e.bodies[:end]).fault == "cut", (e.key, end)
    assert calls == 8


def test_our_reader_says_what_the_json_says(answered):
    chunks, empty = 0, Counter()
    for e in answered:
        chunks += len(e.bodies)
        answer = answers.fold(e.bodies) if "chunks" in e.response else answers.read(e.bodies[0])
        content = answer.content or {"parts": []}
        empty[answer.finish_reason] += answer.content is None
        raw, read = raw_facts(e.bodies), wire.calls(content)
        if any("willContinue" in piece for piece in raw["calls"]):
            raw["calls"], read = len(joined(raw["calls"])), len(read)  # their arguments: above
        assert raw == {
            "signatures": [p["thoughtSignature"] for p in content["parts"] if "thoughtSignature" in p],
            "calls": read,
            "text": wire.answer_text(content),
            "finish": [answer.finish_reason] if answer.finish_reason else [],
            "usage": [answer.usage] if answer.usage else [],
            "served": {answer.served} if answer.served else set(),
        }, e.key
        if e.key not in SHORTENED_IN_RESPONSE:
            texts = [p["thoughtSignature"] for b in e.bodies for p in raw_parts(b) if p.get("thoughtSignature")]
            assert wire.signatures(content) == [base64.b64decode(t, validate=True) for t in texts], e.key
    assert chunks == 952
    assert +empty == {"MALFORMED_FUNCTION_CALL": 1, "UNEXPECTED_TOOL_CALL": 3, "STOP": 2}


def test_usage_adds_up_as_documented(answered):
    checked = 0
    for e in answered:
        if e.trust == "vendor-mock":  # partly made by hand
            continue
        for body in e.bodies:
            usage = body.get("usageMetadata", {})
            kinds = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount")
            checked += "totalTokenCount" in usage
            assert usage.get("totalTokenCount", 0) == sum(usage.get(k, 0) for k in kinds), e.key
    assert checked == 792


class Replay:
    """The SDK's client on a transport that answers every request with the recorded bodies of one exchange."""

    def __init__(self):
        options = types.HttpOptions(client_args={"transport": httpx2.MockTransport(self.respond)})
        self.client = genai.Client(api_key="x", http_options=options)
        self.exchange = None

    def respond(self, request):
        if "chunks" not in self.exchange.response:
            return httpx2.Response(self.exchange.response["status"], json=self.exchange.bodies[0])
        events = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in self.exchange.bodies)
        return httpx2.Response(200, text=events, headers={"content-type": "text/event-stream"})

    def __call__(self, exchange):
        self.exchange = exchange
        if "chunks" in exchange.response:
            return list(self.client.models.generate_content_stream(model="m", contents="q"))
        return [self.client.models.generate_content(model="m", contents="q")]


@pytest.fixture(scope="module")
def replay():
    replayed = Replay()
    yield replayed
    replayed.client.close()


def sdk_facts(answers):
    candidates = [c for a in answers for c in a.candidates or []]
    parts = [p for c in candidates if c.content for p in c.content.parts or []]
    usage = [a.usage_metadata for a in answers if a.usage_metadata]
    return {
        "signatures": [p.thought_signature for p in parts if p.thought_signature],
        "calls": [(p.function_call.name, p.function_call.args, p.function_call.id) for p in parts if p.function_call],
        "text": "".join(p.text for p in parts if p.text and not p.thought),
        "finish": [c.finish_reason.value for c in candidates if c.finish_reason][-1:],
        "usage": {name: getattr(u, name) or 0 for u in usage[-1:] for name in COUNTS},
        "served": {a.model_version for a in answers if a.model_version},
    }


def test_the_sdk_says_what_the_json_says(answered, replay):
    unread = set()
    for e in answered:
        try:
            found = sdk_facts(replay(e))
        except pydantic.ValidationError:
            unread.add(e.key)
            continue
        raw = raw_facts(e.bodies)
        camel = {n: "".join(w.title() if i else w for i, w in enumerate(n.split("_"))) for n in COUNTS}
        assert found == {
            **raw,
            "signatures": [base64.b64decode(text) for text in raw["signatures"]],
            "calls": [(c.get("name"), c.get("args"), c.get("id")) for c in raw["calls"]],
            "usage": {n: u.get(camel[n], 0) for u in raw["usage"] for n in COUNTS},
        }, e.key
    assert unread == SHORTENED_IN_RESPONSE


def test_recorded_errors_reach_the_caller_with_code_and_message(recorded, replay):
    failed = [e for e in recorded if e.response["status"] != 200 and e.key not in OTHER_METHODS]
    assert Counter(e.response["status"] for e in failed) == {
        400: 20, 401: 1, 403: 4, 404: 7, 429: 4, 500: 1, 503: 1
    }  # fmt: skip
    for e in failed:
        with pytest.raises(errors.APIError) as raised:
            replay(e)
        error = e.response["body"]["error"]
        assert (raised.value.code, raised.value.message) == (error["code"], error["message"]), e.key
