"""Requests of many megabytes: valid ones are answered, others refused in few words and bounded time."""

from __future__ import annotations

import json

import httpx2
import pytest

from gemlab import backends

MIB = 2**20


async def send(body):
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(backends.emulator()), base_url="http://e") as client:
        return await client.post("/v1beta/models/gemini-3.6-flash:generateContent", content=body)


def padded(text, size):
    return b'{"contents": [{"role": "user", "parts": [{"text": "' + text * (size // len(text)) + b'"}]}]}'


@pytest.mark.parametrize("size", [MIB, 20 * MIB])
async def test_large_texts_are_answered(size):
    for text in (b"x", rb"\ud83d\ude00"):
        response = await send(padded(text, size))
        assert response.status_code == 200
        counted = response.json()["usageMetadata"]["promptTokenCount"]
        assert counted == -(-(size // len(text)) // 4)


@pytest.mark.parametrize(
    "body",
    [
        padded(rb"\"", 20 * MIB)[:-5],
        padded(rb"\ud800", 20 * MIB),
        b'{"contents": [' + b"[" * 20 * MIB,
        b'{"contents": ' + b"[" * 20 * MIB + b"]" * 20 * MIB + b"}",
        b'{"a":' * (4 * MIB),
        b'{"contents": [' + b"null," * (4 * MIB) + b"null]}",
        b'{"contents": [' + b"{}," * 2**16 + b"{}]}",
        b"{" + b",".join(b'"k%d": 1' % i for i in range(2**20)) + b"}",
        b'{"contents": [{"parts": [{"text": "q"}]}], "generationConfig": {"seed": ' + b"1" * 20 * MIB + b"}}",
        b'{"contents": [{"parts": [{"text": "q"}]}], "x": "' + b"\xff" * 20 * MIB + b'"}',
        b'"' + rb"\"" * 10 * MIB,
    ],
    ids=["cut", "lone surrogates", "open lists", "lists in lists", "objects in objects", "nulls", "empty contents",
         "unknown names", "a number", "no UTF-8", "an open string"],
)  # fmt: skip
async def test_large_bodies_are_refused_in_bounded_time_and_words(body):
    response = await send(body)
    assert response.status_code == 400
    assert json.loads(response.content)["error"]["status"] == "INVALID_ARGUMENT"
    assert len(response.content) < MIB
