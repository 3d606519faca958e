"""Whatever comes in as an interaction is answered, or refused in that API's form; never an exception."""

from __future__ import annotations

import asyncio
import copy
import json

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemlab import backends

WORDS = ["type", "text", "id", "name", "arguments", "result", "content", "signature", "user", "thought", "model_output"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.sampled_from(WORDS) | st.text(max_size=4)
VALUES = st.recursive(
    SCALARS | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)
ASKED = {
    "model": "gemini-3.8-flash",
    "input": [
        {"type": "user_input", "content": [{"type": "text", "text": "q"}]},
        {"type": "thought", "signature": "abcd", "summary": [{"type": "text", "text": "s"}]},
        {"type": "function_call", "id": "c", "name": "a", "arguments": {"x": 1}},
        {"type": "function_result", "call_id": "c", "name": "a", "result": {"r": 1}},
    ],
    "tools": [{"type": "function", "name": "a", "parameters": {"type": "object", "properties": {"x": {}}}}],
    "generation_config": {"thinking_level": "low", "seed": 1, "temperature": 0.5},
    "system_instruction": "s",
    "store": True,
}


@pytest.fixture(scope="module")
def post():
    transport = httpx2.ASGITransport(backends.emulator())
    client = httpx2.AsyncClient(transport=transport, base_url="http://emulator")
    with asyncio.Runner() as runner:
        yield lambda raw: runner.run(client.post("/v1beta/interactions", content=raw))


def check(response):
    body = json.loads(response.content)
    if response.status_code == 200:
        assert body["status"] and body["id"]
        return
    assert response.status_code in (400, 404)
    assert list(body) == ["error"] and list(body["error"]) == ["message", "code"]
    assert body["error"]["message"] and body["error"]["code"]


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


@given(data=st.data(), text=st.booleans())
@settings(deadline=None, max_examples=200)
def test_a_request_with_something_wrong_in_it(post, data, text):
    body = copy.deepcopy(ASKED)
    if text:
        body["input"] = "q"
    for _ in range(data.draw(st.integers(0, 3))):
        *path, key = data.draw(st.sampled_from([p for p in places(body) if p]))
        owner = body
        for step in path:
            owner = owner[step]
        if data.draw(st.booleans()):
            owner[key] = data.draw(VALUES)
        else:
            del owner[key]
    check(post(json.dumps(body).encode()))


@given(raw=st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
@settings(deadline=None, max_examples=100)
def test_any_bytes_and_any_json(post, raw):
    response = post(raw)
    check(response)
    assert response.status_code == 400


def test_the_request_itself_is_answered(post):
    assert post(json.dumps({**ASKED, "input": "q"}).encode()).status_code == 200
