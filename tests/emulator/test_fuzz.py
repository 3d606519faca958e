"""Whatever bytes come in, the emulator answers as Google does: 200, or its 400 form, never an exception.

In-process: an exception in the app reaches the test. What is valid and what is not is decided here by other
means than the emulator's: Python's own JSON reader, the text of the request, a twin request that says the same.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
import re

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gemlab import backends, tasks
from gemlab.agent.loop import call_tool
from gemlab.emulator.app import create_app
from gemlab.emulator.minds.tour import TourModel
from gemlab.emulator.parse import fields

STRICT, OLD = "gemini-3.6-flash", "gemini-2.5-flash"
METHODS = ("generateContent", "streamGenerateContent?alt=sse", "streamGenerateContent", "countTokens")
relaxed = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def loop():
    with asyncio.Runner() as runner:
        yield runner


class Emulator:
    """Sends bytes to one app; every answer's form is checked before it is handed on."""

    def __init__(self, runner, app):
        self.runner = runner
        self.client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://emulator")

    def __call__(self, raw, model=STRICT, method="generateContent", path="/v1beta/models"):
        raw = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
        response = self.runner.run(self.client.post(f"{path}/{model}:{method}", content=raw))
        check(response, method)
        return response


def check(response, method):
    """Fail unless the answer is one of Google's: an answer with candidates (or a count), or its 400 form."""
    assert response.status_code in (200, 400), response.text
    if response.status_code == 400:
        body = strict_json(response.text)
        body = body[0] if method == "streamGenerateContent" else body
        assert list(body) == ["error"]
        error = body["error"]
        assert list(error) in (["code", "message", "status"], ["code", "message", "status", "details"])
        assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
        assert error["message"]
        for detail in error.get("details", []):
            assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
            told = [violation["description"] for violation in detail["fieldViolations"]]
            assert error["message"] == "\n".join(told)
        return
    bodies = answers(response, method)
    assert bodies
    assert all("totalTokens" in b if method == "countTokens" else b["candidates"] for b in bodies)


def answers(response, method):
    if "sse" in method:
        *events, end = response.text.split("\r\n\r\n")
        assert end == ""
        return [strict_json(event.removeprefix("data: ")) for event in events]
    body = strict_json(response.text)
    return body if method == "streamGenerateContent" else [body]


def strict_json(text):
    def refuse(literal):
        raise AssertionError(f"{literal} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def emulator(loop):
    return Emulator(loop, backends.emulator(routes={}))


@pytest.fixture(scope="module")
def tour(loop):
    return Emulator(loop, create_app(TourModel(), routes={}))


def valid(emulator, model):
    """A request of each step of a trial: contents with the served model's own signatures, every kind of field."""
    task = tasks.get("ecpm")
    instance = task.instance(3)
    contents = [{"role": "user", "parts": [{"text": instance.messages[0]}]}]
    schema = {
        "type": "OBJECT",
        "properties": {"a": {"type": "array", "items": {"type": "STRING", "nullable": True}, "minItems": "1"}},
        "required": ["a"],
        "propertyOrdering": ["a"],
    }
    thinking = {"thinkingLevel": "low"} if model == STRICT else {"thinkingBudget": 512}
    for _ in range(12):
        request = {
            "contents": copy.deepcopy(contents),
            "systemInstruction": {"parts": [{"text": task.system}]},
            "tools": [{"functionDeclarations": [*task.declarations, {"name": "other", "parameters": schema}]}],
            "toolConfig": {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["other"]}},
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
            "generationConfig": {
                "seed": 7, "temperature": 0.5, "topK": 20, "maxOutputTokens": 1000, "stopSequences": ["END"],
                "thinkingConfig": {"includeThoughts": True, **thinking},
            },
        }  # fmt: skip
        yield request
        answer = emulator(request, model).json()["candidates"][0]["content"]
        calls = [p["functionCall"] for p in answer["parts"] if "functionCall" in p]
        if not calls:
            return
        parts = [
            {"functionResponse": {**{k: c[k] for k in ("id", "name") if k in c}, "response": response}}
            for c in calls
            for response in [call_tool(instance.functions, c["name"], c["args"])]
        ]
        contents += [answer, {"role": "user", "parts": parts}]
    raise AssertionError("the trial has no end")


@pytest.fixture(scope="module")
def requests(emulator):
    found = {model: list(valid(emulator, model)) for model in (STRICT, OLD)}
    assert all(len(r) >= 5 for r in found.values())
    return found


# --- bytes and values of any kind ---------------------------------------------------------------------------

NAMES = sorted({name for message in fields._MESSAGES for name in fields.of(message)})
ODD_NUMBERS = st.sampled_from([0, -1, 2**31, 2**63, -(2**63) - 1, 2**64, 10**30, 1e300, -0.0, 5e-324, 0.5, True])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), ODD_NUMBERS,
    st.text(max_size=8),
    st.sampled_from(["user", "model", "function", "AUTO", "NONE", "OBJECT", "c2lnbmF0dXJl", "web_search"]),
)  # fmt: skip
KEYS = st.one_of(st.sampled_from(NAMES), st.text(max_size=4))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=25
)


JSONISH = st.text(alphabet="{}[]\":,\\u0d8 \n\t-+.eE1Na'é", max_size=60).map(str.encode)


@given(raw=st.one_of(st.binary(max_size=300), JSONISH))
@settings(relaxed, max_examples=200)
def test_any_bytes(emulator, raw):
    for method in METHODS:
        assert emulator(raw, method=method).status_code == 400  # the luck to write a request is not to be had


@given(value=VALUES, method=st.sampled_from(METHODS))
@relaxed
def test_any_json(emulator, value, method):
    emulator(value, method=method)


@st.composite
def messages(draw, message="GenerateContentRequest", depth=0):
    """An object with fields that the message knows, most of them of the right kind."""
    known = draw(st.lists(st.sampled_from(sorted(fields.of(message))), max_size=5))
    out = {}
    for name in known if depth < 6 else ():
        field = fields.of(message)[name]
        inner = messages(field.kind, depth + 1) if fields.is_message(field.kind) else SCALARS
        inner = draw(st.sampled_from([inner, inner, inner, VALUES]))
        out[name] = draw(st.lists(inner, max_size=3) if field.repeated else inner)
    return out


ROLES = st.sampled_from(["user", "model", "function", "", "tool"])
CONTENT = st.fixed_dictionaries({"role": ROLES, "parts": st.lists(messages("Part"), max_size=3)})


@given(
    contents=st.lists(CONTENT, max_size=5),
    rest=messages(),
    model=st.sampled_from([STRICT, OLD, "gemini-3.8-flash", "gemini-3-flash-preview"]),
    method=st.sampled_from(METHODS),
    path=st.sampled_from(["/v1beta/models", "/v1/projects/p/locations/l/publishers/google/models"]),
)
@settings(relaxed, max_examples=250)
def test_anything_that_looks_like_a_request(emulator, contents, rest, model, method, path):
    emulator({**rest, "contents": contents}, model, method, path)


@given(declarations=st.lists(messages("FunctionDeclaration"), min_size=1, max_size=3), method=st.sampled_from(METHODS))
@relaxed
def test_any_declaration_on_the_tour(tour, declarations, method):
    asked = [{"role": "user", "parts": [{"text": "q"}]}]
    tour({"contents": asked, "tools": [{"functionDeclarations": declarations}]}, method=method)


# --- valid requests with something wrong in them ------------------------------------------------------------


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def owner_of(body, path):
    for key in path[:-1]:
        body = body[key]
    return body


def mutated(draw, body):
    """The body with one to three changes anywhere in it."""
    body = copy.deepcopy(body)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([p for p in places(body) if p]))
        owner, key = owner_of(body, path), path[-1]
        change = draw(st.sampled_from(["replace", "delete", "rename", "wrap", "unwrap", "copy"]))
        if change == "delete":
            del owner[key]
        elif change == "wrap":
            owner[key] = [owner[key]] if draw(st.booleans()) else {draw(KEYS): owner[key]}
        elif change == "unwrap" and isinstance(owner[key], list | dict) and owner[key]:
            owner[key] = next(iter(owner[key].values() if isinstance(owner[key], dict) else owner[key]))
        elif change == "copy" and isinstance(owner, list):
            owner.insert(key, copy.deepcopy(owner[key]))
        elif change == "rename" and isinstance(owner, dict):
            owner[draw(KEYS)] = owner.pop(key)
        else:
            owner[key] = draw(VALUES)
    return body


@given(data=st.data(), model=st.sampled_from([STRICT, OLD]), method=st.sampled_from(METHODS))
@settings(relaxed, max_examples=250)
def test_a_request_with_something_wrong_in_it(emulator, requests, data, model, method):
    emulator(mutated(data.draw, data.draw(st.sampled_from(requests[model]))), model, method)


TOKENS = [
    "1e999", "-1e999", "NaN", "Infinity", "-Infinity", "9" * 5000, "1" * 400, "-", "01", "'x'", "nul",
    '"\\ud800"', '"\\udc00x"', '"\\x"', '"\\u12"', "[" * 2000, '{"a":' * 200 + "1" + "}" * 200, "\x00", "\ufeff",
]  # fmt: skip


@given(data=st.data(), token=st.sampled_from(TOKENS), model=st.sampled_from([STRICT, OLD]))
@relaxed
def test_a_value_that_json_has_not_is_refused_wherever_it_stands(emulator, requests, data, token, model):
    marked = copy.deepcopy(data.draw(st.sampled_from(requests[model])))
    path = data.draw(st.sampled_from([p for p in places(marked) if p]))
    owner_of(marked, path)[path[-1]] = "MARK"
    raw = json.dumps(marked).replace('"MARK"', token).encode()
    for method in METHODS:
        assert emulator(raw, model, method).status_code == 400


@given(data=st.data(), junk=st.binary(min_size=1, max_size=6), model=st.sampled_from([STRICT, OLD]))
@relaxed
def test_a_request_cut_or_with_bytes_changed(emulator, requests, data, junk, model):
    raw = json.dumps(data.draw(st.sampled_from(requests[model])), ensure_ascii=False).encode()
    at = data.draw(st.integers(0, len(raw) - 1))
    cut = raw[:at]
    assert emulator(cut, model).status_code == 400
    changed = raw[:at] + junk + raw[at + data.draw(st.sampled_from([0, len(junk)])) :]
    response = emulator(changed, model)
    try:
        changed.decode("utf-8")
    except UnicodeDecodeError:
        assert response.status_code == 400
        assert "UTF-8" in response.json()["error"]["message"]


# --- the same request said in another way -------------------------------------------------------------------


def snake(name):
    return re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name)


OPAQUE = ("args", "response", "parametersJsonSchema", "properties")


def respelled(value, choose):
    """The same request: names in either spelling, null fields, one value for a list of one."""
    if isinstance(value, list):
        return [respelled(v, choose) for v in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for name, item in value.items():
        item = item if name in OPAQUE else respelled(item, choose)
        if name in ("contents", "parts", "tools", "functionDeclarations") and len(item) == 1 and choose():
            item = item[0]
        out[snake(name) if choose() else name] = item
    return out


@given(seed=st.integers(0, 2**32), data=st.data(), model=st.sampled_from([STRICT, OLD]))
@relaxed
def test_either_spelling_is_the_same_request(emulator, requests, seed, data, model):
    request = data.draw(st.sampled_from(requests[model]))
    rng = random.Random(seed)
    twin = respelled(request, lambda: rng.random() < 0.5)
    assert said(emulator(twin, model)) == said(emulator(request, model))


def said(response):
    body = response.json()
    assert body.pop("responseId")
    return response.status_code, body


@given(data=st.data(), model=st.sampled_from([STRICT, OLD]))
@relaxed
def test_null_fields_are_not_there(emulator, requests, data, model):
    request = data.draw(st.sampled_from(requests[model]))
    twin = copy.deepcopy(request)
    twin["cachedContent"] = twin["generationConfig"]["topP"] = None
    part = data.draw(st.sampled_from([p for c in twin["contents"] for p in c["parts"]]))
    part.update(dict.fromkeys(["text", "functionCall", "inlineData"], None) | part)
    assert said(emulator(twin, model)) == said(emulator(request, model))


def test_of_a_name_given_twice_the_last_counts(emulator):
    first = '{"contents": [{"parts": [{"text": "q"}]}], "generationConfig": {"seed": "x", "seed": 1}, "contents": '
    assert emulator((first + "5}").encode()).status_code == 400
    assert emulator((first + '[{"parts": {"text": "r"}}]}').encode()).status_code == 200
