"""Sealed thoughts and streams: what opens, what is restored, what an arm can change, and the SDK over a socket."""

from __future__ import annotations

import base64
import itertools
import json
import threading

import httpx2
import pytest
import uvicorn
from google import genai
from google.genai import types

from gemlab import backends, models
from gemlab import contents as wire
from gemlab.emulator import signatures
from gemlab.emulator.app import create_app
from gemlab.emulator.scripted import Parameters
from gemlab.emulator.view import Reply
from gemlab.loop import Arm, Spec, run
from gemlab.tasks import ecpm

OLD, G25, G36 = "gemini-3-flash-preview", "gemini-2.5-flash", "gemini-3.6-flash"
SURE = Parameters(repeat=0, quit=0, doubt=0, lose_thread=0, heed=0)
TOOLS = [{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}]
TEXT = Reply("I know it.", text="This is an answer that takes more than one chunk of a stream.")
ONE = Reply("I shall call one.", (("a", {}),))
TWO = Reply("I shall call both.", (("a", {}), ("b", {})))


class Says:
    def __init__(self, reply):
        self.reply = reply

    def respond(self, view):
        return self.reply


async def send(app, model, body, method="generateContent"):
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://emulator") as client:
        return await client.post(f"/v1/models/{model}:{method}", json=body)


# --- the seal -----------------------------------------------------------------------------------------------


def test_a_thought_opens_for_its_family_and_service_alone():
    made = [
        models.profile(m, s)
        for m in (G25, OLD, G36, "gemini-4-argon")
        for s in (models.DEVELOPER, models.VERTEX)
    ]
    for one, other in itertools.product(made, made):
        opened = signatures.open_(signatures.seal("wait for the range", one), other)
        same = (one.family, one.service) == (other.family, other.service)
        assert opened == ("wait for the range" if same else None)
    assert len({(p.family, p.service) for p in made}) == 6


def test_a_signature_altered_in_any_byte_or_cut_does_not_open():
    profile = models.profile(OLD)
    raw = signatures.seal("thought", profile)
    for i in range(len(raw)):
        assert signatures.open_(raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1 :], profile) is None
        assert signatures.open_(raw[:i], profile) is None
    assert signatures.open_(raw, profile) == "thought"


@pytest.mark.parametrize("characters", [0, 1, 100, 5000])
def test_signatures_are_as_long_as_recorded_ones(characters):
    length = len(base64.b64encode(signatures.seal("x" * characters, models.profile(OLD))))
    assert length >= 72
    if characters >= 100:
        assert 5 <= length / (characters / 4) <= 7


# --- what comes back ----------------------------------------------------------------------------------------


async def history_of(steps, model=OLD, **options):
    """Let the scripted model take its first steps on one instance; return the request that would come next."""
    instance = ecpm.TASK.instance(1)
    body = {
        "contents": [{"role": "user", "parts": [{"text": instance.messages[0]}]}],
        "tools": [{"functionDeclarations": list(ecpm.DECLARATIONS)}],
    }
    for _ in range(steps):
        content = await answer(body, model, **options)
        body["contents"].append(content)
        results = [
            {"functionResponse": {**c, "response": instance.functions[c["name"]](**c.pop("args"))}}
            for c in map(dict, wire.calls(content))
        ]
        body["contents"].append({"role": "user", "parts": results})
    return body


async def answer(body, model=OLD, **options):
    app = backends.emulator(routes={}, **{"parameters": SURE, **options})
    response = await send(app, model, body)
    assert response.status_code == 200, response.text
    return response.json()["candidates"][0]["content"]


def signed(content):
    return next(p for p in content["parts"] if "functionCall" in p)


@pytest.mark.parametrize(
    ("donor", "next_tool"), [(1, "find_outliers"), (0, "estimate_range"), (2, "lookup_mediation")]
)
async def test_the_model_follows_the_thought_that_comes_back(donor, next_tool):
    """The second step carries its own signature, that of the step before, or that of the step after it."""
    longer = await history_of(3)
    contents = longer["contents"][:5]
    donated = signed(longer["contents"][1 + 2 * donor])["thoughtSignature"]
    signed(contents[3])["thoughtSignature"] = donated
    (called,) = wire.calls(await answer({**longer, "contents": contents})) if donor != 2 else [
        wire.calls(await answer({**longer, "contents": contents}))[0]
    ]  # fmt: skip
    assert called["name"] == next_tool
