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

from gemlab import backends
from gemlab.agent import history
from gemlab.agent.arm import Arm
from gemlab.agent.loop import run
from gemlab.agent.trial import Spec
from gemlab.emulator import signatures
from gemlab.emulator.app import create_app
from gemlab.emulator.minds import view
from gemlab.emulator.minds.scripted import Parameters
from gemlab.emulator.minds.view import Reply
from gemlab.tasks import ecpm
from gemlab.wire import answers, families
from gemlab.wire import contents as wire

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
        families.profile(m, s) for m in (G25, OLD, G36, "gemini-4-argon") for s in (families.DEVELOPER, families.VERTEX)
    ]
    for one, other in itertools.product(made, made):
        opened = signatures.open_(signatures.seal("wait for the range", one), other)
        same = (one.family, one.service) == (other.family, other.service)
        assert opened == ("wait for the range" if same else None)
    assert len({(p.family, p.service) for p in made}) == 6


def test_a_signature_altered_in_any_byte_or_cut_does_not_open():
    profile = families.profile(OLD)
    raw = signatures.seal("thought", profile)
    for i in range(len(raw)):
        assert signatures.open_(raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1 :], profile) is None
        assert signatures.open_(raw[:i], profile) is None
    assert signatures.open_(raw, profile) == "thought"


@pytest.mark.parametrize("characters", [0, 1, 100, 5000])
def test_signatures_are_as_long_as_recorded_ones(characters):
    length = len(base64.b64encode(signatures.seal("x" * characters, families.profile(OLD))))
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
        results = [history.response_part(c, instance.functions[c["name"]](**c["args"])) for c in wire.calls(content)]
        body["contents"].append({"role": "user", "parts": results})
    return body


async def answer(body, model=OLD, **options):
    app = backends.emulator(routes={}, **{"parameters": SURE, **options})
    response = await send(app, model, body)
    assert response.status_code == 200, response.text
    return response.json()["candidates"][0]["content"]


def thought_in(part, model=OLD):
    raw = base64.b64decode(part["thoughtSignature"])
    return json.loads(signatures.open_(raw, families.profile(model)))


def signed(content):
    return next(p for p in content["parts"] if "functionCall" in p)


@pytest.mark.parametrize(
    ("donor", "next_tool", "done"),
    [(1, "find_outliers", [0, 1]), (0, "estimate_range", [0]), (2, "find_outliers", [0, 1, 2])],
    ids=["its own", "of the step before", "of the step after"],
)
async def test_the_model_follows_the_thought_that_comes_back(donor, next_tool, done):
    """The second step's signature is swapped; with a later one the model lacks a result and fetches it."""
    body = await history_of(3)
    donated = signed(body["contents"][1 + 2 * donor])["thoughtSignature"]
    body["contents"] = body["contents"][:5]
    signed(body["contents"][3])["thoughtSignature"] = donated
    part = signed(await answer(body))
    assert part["functionCall"]["name"] == next_tool
    assert thought_in(part)["done"] == done


async def test_a_thought_about_another_plan_says_nothing():
    """A history with another task's thoughts is legal: they open, and the model can make nothing of them."""
    body = await history_of(1)
    foreign = json.dumps({"done": [0, 7], "doing": 8, "note": "other"})
    sealed = base64.b64encode(signatures.seal(foreign, families.profile(OLD))).decode()
    signed(body["contents"][1])["thoughtSignature"] = sealed
    assert signed(await answer(body))["functionCall"]["name"] == "estimate_range"


async def test_either_base64_alphabet_comes_back_as_the_same_thought():
    body = await history_of(2)
    first = await answer(body)
    for content in body["contents"][1::2]:
        part = signed(content)
        part["thoughtSignature"] = part["thoughtSignature"].replace("+", "-").replace("/", "_").rstrip("=")
    assert signed(await answer(body))["thoughtSignature"] == signed(first)["thoughtSignature"]


@pytest.mark.parametrize(("model", "read"), [(OLD, False), (G36, True)])
async def test_whose_thoughts_are_read_shows_in_the_prompts_tokens(model, read):
    """Within the turn a signed call raises the prompt by its thought; in an older turn only from 3.5 on."""
    app = create_app(Says(ONE), routes={})
    body = {"contents": [{"role": "user", "parts": [{"text": "q"}]}], "tools": TOOLS}
    made = (await send(app, model, body)).json()
    thought = made["usageMetadata"]["thoughtsTokenCount"]
    call = made["candidates"][0]["content"]["parts"][0]
    response = {"name": "a", "id": call["functionCall"]["id"], "response": {"ok": 1}}
    for tail, counted in (([], True), ([{"role": "user", "parts": [{"text": "so?"}]}], read)):
        prompts = []
        for value in (call["thoughtSignature"], "skip_thought_signature_validator"):
            step = [
                {"role": "model", "parts": [{**call, "thoughtSignature": value}]},
                {"role": "user", "parts": [{"functionResponse": response}]},
            ]
            sent = {**body, "contents": [*body["contents"], *step, *tail]}
            prompts.append((await send(app, model, sent)).json()["usageMetadata"]["promptTokenCount"])
        assert prompts[0] - prompts[1] == (thought if counted else 0)


async def test_signatures_and_ids_do_not_change_the_draws():
    """Arms with the same visible history get the same random numbers: what differs comes from the thoughts."""
    body = await history_of(2, G36)
    bare = {**body, "contents": history.rebuild(body["contents"])}
    assert json.dumps(bare) != json.dumps(body)
    profile = families.profile(G36)
    draws = [view.read(b, profile).rng("slip").random() for b in (body, bare)]
    assert draws[0] == draws[1]
    changed = [*body["contents"], {"role": "user", "parts": [{"text": "so?"}]}]
    assert view.read({**body, "contents": changed}, profile).rng("slip").random() != draws[0]


# --- an arm can change nothing but the request --------------------------------------------------------------


class StripOnTheWay(httpx2.ASGITransport):
    """Removes every signature from a request's body, whoever wrote it."""

    async def handle_async_request(self, request):
        body = json.loads(request.content)
        for content in body["contents"]:
            for part in content["parts"]:
                part.pop("thoughtSignature", None)
        headers = {k: v for k, v in request.headers.items() if k != "content-length"}
        changed = httpx2.Request(request.method, request.url, headers=headers, content=json.dumps(body))
        return await super().handle_async_request(changed)


async def outcomes(arm, transport=None, instances=40):
    backend = backends.simulated(transport=transport)
    trials = [await run(backend, Spec(arm, "ecpm", G25, i, 0, i)) for i in range(instances)]
    return [(t.outcome, t.reason, t.answer, [(c.name, c.args) for c in t.called]) for t in trials]


async def test_signatures_removed_on_the_way_have_the_effect_of_never_sending_them():
    stripped = await outcomes(Arm("strip", history="strip"))
    on_the_way = await outcomes(Arm("preserve"), StripOnTheWay(backends.emulator()))
    assert on_the_way == stripped
    assert await outcomes(Arm("preserve")) != stripped


# --- streams ------------------------------------------------------------------------------------------------


def shape(chunks):
    """Chunks in short: Th thought, fc call, t text, "" empty text, +S signed, ! finish reason."""

    def short(part):
        kind = "Th" if part.get("thought") else "fc" if "functionCall" in part else "t" if part["text"] else '""'
        return kind + ("+S" if "thoughtSignature" in part else "")

    said = []
    for (candidate,) in (c["candidates"] for c in chunks):
        finish = f" !{candidate['finishReason']}" if "finishReason" in candidate else ""
        said.append(" ".join(short(p) for p in candidate["content"]["parts"]) + finish)
    return " | ".join(said)


STREAMS = [
    (OLD, ONE, {}, 'fc+S | "" !STOP', None),
    (OLD, TWO, {}, 'fc+S | fc | "" !STOP', None),
    (OLD, TEXT, {}, 't | t | t | ""+S !STOP', None),
    (OLD, TEXT, {"includeThoughts": True}, 'Th | t | t | t | ""+S !STOP', None),
    (G36, TWO, {"includeThoughts": True}, 'Th | fc+S | fc | "" !STOP', None),
    (OLD, Reply(text="Short."), {}, 't | "" !STOP', None),
    (G25, ONE, {}, "fc+S !STOP", "Model generated function call(s)."),
    (G25, TWO, {}, "fc+S fc !STOP", "Model generated function call(s)."),
    (G25, TWO, {"thinkingBudget": 0}, "fc fc !STOP", "Model generated function call(s)."),
    (G25, TEXT, {}, "t+S | t | t !STOP", None),
    ("gemini-2.5-flash-lite", TWO, {}, "fc fc !STOP", "Model generated function call(s)."),
]


def events(text):
    blocks = text.split("\r\n\r\n")
    assert blocks.pop() == ""
    assert all(block.startswith("data: {") and "\n" not in block for block in blocks)
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


@pytest.mark.parametrize(("model", "reply", "thinking", "expected", "message"), STREAMS)
async def test_the_form_of_a_stream(model, reply, thinking, expected, message):
    app = create_app(Says(reply), routes={})
    contents = [{"role": "user", "parts": [{"text": "q"}]}]
    body = {"contents": contents, "tools": TOOLS, "generationConfig": {"thinkingConfig": thinking}}
    chunks = events((await send(app, model, body, "streamGenerateContent?alt=sse")).text)
    array = (await send(app, model, body, "streamGenerateContent")).json()
    whole = (await send(app, model, body)).json()
    for form in (chunks, array):
        assert shape(form) == expected
        assert len({c["responseId"] for c in form}) == 1
        assert all(list(c) == ["candidates", "usageMetadata", "modelVersion", "responseId"] for c in form)
        counts = [c["usageMetadata"].get("candidatesTokenCount", 0) for c in form]
        assert counts == sorted(counts)
        assert form[-1]["usageMetadata"] == whole["usageMetadata"]
        assert form[-1]["candidates"][0].get("finishMessage") == message
    said, unary = answers.fold(chunks).content, whole["candidates"][0]["content"]
    assert wire.calls(said) == wire.calls(unary)
    assert wire.answer_text(said) == wire.answer_text(unary)
    assert wire.signatures(said) == wire.signatures(unary)


async def test_2_5_signs_a_text_only_where_functions_were_declared():
    app = create_app(Says(TEXT), routes={})
    body = {"contents": [{"role": "user", "parts": [{"text": "q"}]}]}
    answers = {m: (await send(app, m, body)).json()["candidates"][0]["content"] for m in (G25, OLD)}
    assert [len(wire.signatures(a)) for a in answers.values()] == [0, 1]


async def test_a_refused_stream_is_one_json_error():
    body = {"contents": [{"role": "user", "parts": []}]}
    response = await send(create_app(Says(TEXT)), OLD, body, "streamGenerateContent?alt=sse")
    assert response.status_code == 400
    assert response.json()["error"]["status"] == "INVALID_ARGUMENT"


# --- the SDK over a socket ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address():
    """The emulator behind a real server on a free port of the loopback."""
    app = create_app(Says(TWO), routes={})
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        thread.join(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()


def test_the_sdks_blocking_client_over_a_socket(address):
    with genai.Client(api_key="x", http_options=types.HttpOptions(base_url=address)) as client:
        whole = client.models.generate_content(model=OLD, contents="q")
        chunks = list(client.models.generate_content_stream(model=OLD, contents="q"))
        with pytest.raises(genai.errors.ClientError) as refused:
            client.models.generate_content(model="gemini-9", contents="q")
    assert refused.value.code == 404
    parts = whole.candidates[0].content.parts
    assert [p.function_call.name for p in parts] == ["a", "b"]
    assert signatures.open_(parts[0].thought_signature, families.profile(OLD)) == TWO.thought
    streamed = [p for c in chunks for p in c.candidates[0].content.parts]
    assert [p.function_call.name for p in streamed if p.function_call] == ["a", "b"]
    assert streamed[0].thought_signature == parts[0].thought_signature
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
