"""Two hundred streams open at once over a real socket: each gets all of its own chunks, in order, and no other's."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys

import httpx2
import pytest

STREAMS, REPEATS = 200, 100
MODEL = "gemini-3.6-flash"

# `gemlab serve` as it is, with a model that says what it is asked, many times over.
SERVER = f"""
from gemlab import backends
from gemlab.app import serving
from gemlab.emulator.app import create_app
from gemlab.emulator.minds.view import Reply

class Echo:
    def respond(self, view):
        return Reply("I repeat.", text=view.turns[-1] * {REPEATS})

backends.emulator = lambda **options: create_app(Echo())
serving.serve(port=0, model="scripted", profiles=[], faults="", record="")
"""


@pytest.fixture
def server():
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=os.setsid,
    )  # fmt: skip
    try:
        yield re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())[0]
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert err == ""


def asked(number):
    return f"stream {number} says {number * 7919}; "


async def test_no_chunk_is_lost_or_goes_astray(server):
    limits = httpx2.Limits(max_connections=STREAMS)
    all_open = asyncio.Barrier(STREAMS)
    async with httpx2.AsyncClient(base_url=server, limits=limits, timeout=60) as client:

        async def stream(number):
            body = {"contents": [{"role": "user", "parts": [{"text": asked(number)}]}]}
            path = f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
            async with client.stream("POST", path, json=body) as response:
                assert response.status_code == 200
                await all_open.wait()
                return [json.loads(line[6:]) async for line in response.aiter_lines() if line.startswith("data: ")]

        async with asyncio.timeout(120):
            streams = await asyncio.gather(*(stream(number) for number in range(STREAMS)))

    for number, chunks in enumerate(streams):
        texts = [chunk["candidates"][0]["content"]["parts"][0]["text"] for chunk in chunks]
        assert "".join(texts) == asked(number) * REPEATS
        assert len(texts) > 50
        finished = [chunk["candidates"][0].get("finishReason") for chunk in chunks]
        assert finished == [None] * (len(chunks) - 1) + ["STOP"]
        counted = [chunk["usageMetadata"].get("candidatesTokenCount", 0) for chunk in chunks]
        assert counted == sorted(counted)
    assert len({chunk["responseId"] for chunks in streams for chunk in chunks}) == STREAMS
