"""The emulator over HTTP: routes, malformed requests, the form of answers and streams, and what it may import."""

from __future__ import annotations

import ast
import base64
import copy
import json
import re
import time
from pathlib import Path

import httpx2
import pytest

import gemlab
from gemlab import backends
from gemlab.agent.arm import Arm
from gemlab.agent.loop import run
from gemlab.agent.trial import Spec
from gemlab.emulator.app import create_app
from gemlab.emulator.minds.view import Reply
from gemlab.wire import contents as wire
from gemlab.wire import families

OLD, G25, G35, G36, G37, G38 = (
    "gemini-3-flash-preview", "gemini-2.5-flash", "gemini-3.5-flash", "gemini-3.6-flash", "gemini-3.7-flash",
    "gemini-3.8-flash",
)  # fmt: skip
ASK = {"contents": [{"role": "user", "parts": [{"text": "q"}]}]}
TOOLS = [{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}]
CALLS = Reply("I shall call both.", (("a", {"x": 1}), ("b", {})))
LONG = "This is an answer that takes more than one chunk of a stream."
TEXT = Reply("I know it.", text=LONG)


class Says:
    """A model that always says the same."""

    def __init__(self, reply):
        self.reply = reply

    def respond(self, view):
        return self.reply


async def send(app, path, body, method="POST"):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://emulator") as client:
        return await client.request(method, path, content=content)


def app(reply=CALLS, **options):
    return create_app(Says(reply), **{"routes": {}, **options})


# --- routes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/models/{OLD}:generateContent",
        f"/v1beta/models/{OLD}:streamGenerateContent?alt=sse",
        "/v1beta/models/gemini-flash-latest:generateContent",
        f"/v1/projects/p/locations/l/publishers/google/models/{OLD}:generateContent",
        f"/v1beta1/publishers/google/models/{OLD}:streamGenerateContent",
    ],
)
async def test_routes_that_exist(path):
    assert (await send(app(routes=families.ROUTES), path, ASK)).status_code == 200


@pytest.mark.parametrize(
    ("version", "model", "method"),
    [
        ("v1beta", "gemini-3.6-flahs", "generateContent"),
        ("v1", "gemini-flash-latest", "generateContent"),
        ("v1", OLD, "batchEmbedContents"),
    ],
    ids=["unknown model", "alias on v1", "unknown method"],
)
async def test_what_is_not_found_is_said_in_the_apis_words(version, model, method):
    response = await send(app(routes=families.ROUTES), f"/{version}/models/{model}:{method}", ASK)
    assert response.status_code == 404
    assert response.json()["error"] == {
        "code": 404,
        "message": f"models/{model} is not found for API version {version}, or is not supported for {method}. "
        "Call ModelService.ListModels to see the list of available models and their supported methods.",
        "status": "NOT_FOUND",
    }


@pytest.mark.parametrize(
    ("path", "method"), [("/v1/files", "POST"), ("/", "GET"), (f"/v2/models/{OLD}:generateContent", "POST")]
)
async def test_other_routes_are_a_404_page(path, method):
    response = await send(app(), path, b"", method)
    assert response.status_code == 404 and response.headers["content-type"].startswith("text/html")


async def test_model_cards_are_listed_in_pages_and_got_by_name():
    first = (await send(app(), "/v1beta/models?pageSize=2", b"", "GET")).json()
    second = (await send(app(), f"/v1beta/models?pageSize=2&pageToken={first['nextPageToken']}", b"", "GET")).json()
    assert [m["name"] for m in first["models"]] == ["models/gemini-2.0-flash", "models/gemini-2.5-pro"]
    assert len(second["models"]) == 2 and not {m["name"] for m in second["models"]} & {
        m["name"] for m in first["models"]
    }
    card = (await send(app(), "/v1/models/gemini-2.5-flash", b"", "GET")).json()
    assert card["thinking"] is True and "generateContent" in card["supportedGenerationMethods"]
    assert (await send(app(), "/v1/models/gemini-9", b"", "GET")).json()["error"]["status"] == "NOT_FOUND"
    assert (await send(app(), "/v1/models?pageSize=many", b"", "GET")).status_code == 400


@pytest.mark.parametrize("wrapped", [False, True])
async def test_count_tokens_says_what_a_request_would_cost(wrapped):
    body = {"generateContentRequest": {"model": f"models/{OLD}", **ASK}} if wrapped else ASK
    counted = (await send(app(), f"/v1beta/models/{OLD}:countTokens", body)).json()
    answered = (await send(app(), f"/v1beta/models/{OLD}:generateContent", ASK)).json()
    assert counted["totalTokens"] == answered["usageMetadata"]["promptTokenCount"] > 0


@pytest.mark.parametrize(
    ("requested", "served", "routes"),
    [
        (G25, G25, families.ROUTES),
        (G35, G36, families.ROUTES),
        (G37, G38, families.ROUTES),
        ("gemini-3-pro-preview", "gemini-3.1-pro-preview", families.ROUTES),
        ("gemini-flash-latest", G36, families.ROUTES),
        (G25, "gemini-3.5-flash-lite", families.ROUTES_DECEMBER),
        ("gemini-2.5-pro", G38, families.ROUTES_DECEMBER),
        ("gemini-2.5-flash-lite", "gemini-2.5-flash-lite", families.ROUTES_DECEMBER),
        (G35, G35, {}),
    ],
)
async def test_the_answer_names_the_model_that_served(requested, served, routes):
    response = await send(app(routes=routes), f"/v1beta/models/{requested}:generateContent", ASK)
    assert response.json()["modelVersion"] == served


async def test_the_model_that_served_judges():
    body = {"contents": [*ASK["contents"], {"role": "model", "parts": [{"text": "x"}]}]}
    path = f"/v1/models/{G35}:generateContent"
    assert (await send(app(), path, body)).status_code == 200
    assert (await send(app(routes=families.ROUTES), path, body)).status_code == 400


# --- malformed requests -------------------------------------------------------------------------------------


def asking(**fields):
    return json.dumps({**ASK, **fields}).encode()


def part(**fields):
    return json.dumps({"contents": [{"role": "user", "parts": [fields]}]}).encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"[]", b"null", b"1", b'"x"', b"{'contents': 1}", b"\xff\xfe", b'{"contents": "\xff"}',
        b"{}", b'{"contents": 1}', b'{"contents": []}', b'{"contents": null}', b'{"contents": [null]}',
        b'{"contents": [1]}', b'{"contents": [{"parts": [null]}]}', b'{"contents": [{"parts": "x"}]}',
        b"[" * 100_000, part(functionCall={"name": "a", "args": json.loads('{"a":' * 300 + "1" + "}" * 300)}),
        b'{"contents": [], "x": ' + b"9" * 5000 + b"}",
        part(text=1), part(text=None), part(thought="yes"), part(thoughtSignature=5), part(unknown=1),
        part(functionCall="x"), part(functionCall={"name": 1}), part(functionCall={"name": "a", "args": []}),
        part(functionResponse={"name": "a", "response": "x"}), part(functionResponse={"name": "a", "id": 1}),
        b'{"contents": [{"role": 5, "parts": [{"text": "q"}]}]}',
        b'{"contents": [{"role": "\\ud800", "parts": [{"text": "q"}]}]}',
        asking(systemInstruction=5), asking(tools="x"), asking(tools=[None]), asking(toolConfig=1),
        asking(tools=[{"functionDeclarations": [None]}]), asking(tools=[{"functionDeclarations": [{"name": []}]}]),
        asking(generationConfig=1), asking(generationConfig={"seed": 2**31}), asking(generationConfig={"seed": 0.5}),
        asking(generationConfig={"thinkingConfig": {"thinkingBudget": "x"}}),
        asking(generationConfig={"thinkingConfig": {"thinkingLevel": 1}}),
    ],
    ids=lambda raw: raw[:60].decode(errors="replace"),
)  # fmt: skip
async def test_a_malformed_request_is_a_json_400(raw):
    for method in ("generateContent", "streamGenerateContent?alt=sse"):
        response = await send(app(), f"/v1/models/{OLD}:{method}", raw)
        assert response.status_code == 400
        assert response.headers["content-type"].startswith("application/json")
        error = response.json()["error"]
        assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
        assert error["message"]


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def replaced(body, path, value):
    if not path:
        return value
    body = copy.deepcopy(body)
    owner = body
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = value
    return body


async def test_no_value_anywhere_in_a_request_breaks_the_emulator():
    """Results of a wrong kind included: they reach the scripted model, which has to live with them."""
    seen = []

    class Keep(httpx2.ASGITransport):
        async def handle_async_request(self, request):
            seen.append(json.loads(request.content))
            return await super().handle_async_request(request)

    backend = backends.simulated(transport=Keep(backends.emulator()))
    await run(backend, Spec(Arm("a"), "ecpm", OLD, 1, 0, 1))
    longest = max(seen, key=lambda body: len(json.dumps(body)))
    values = (None, 10**400, "\ud800", [None], {"text": None}, {"": {}}, True)
    statuses = set()
    for path in places(longest):
        for value in values:
            body = json.dumps(replaced(longest, path, value)).encode()
            response = await send(backends.emulator(), f"/v1/models/{OLD}:generateContent", body)
            statuses.add(response.status_code)
    assert statuses == {200, 400}


async def test_one_message_stands_for_a_list_and_both_spellings_are_read():
    """Recorded: clients send a single tool, and snake_case, and are answered."""
    body = {
        "contents": {"parts": {"text": "q"}},
        "tools": {"function_declarations": {"name": "a"}},
        "generation_config": {"thinking_config": {"thinking_level": "low", "include_thoughts": True}},
    }
    response = await send(app(), f"/v1/models/{OLD}:generateContent", body)
    assert response.status_code == 200
    assert response.json()["candidates"][0]["content"]["parts"][0]["thought"] is True


@pytest.mark.parametrize(
    ("model", "thinking", "message"),
    [
        *(
            (m, {"thinkingLevel": "MINIMAL"}, "Thinking level MINIMAL is not supported for this model. Please "
            "retry with other thinking level.")
            for m in ("gemini-3.1-pro-preview", G37, G38)
        ),
        (G36, {"thinkingLevel": "MINIMAL"}, None),
        (OLD, {"thinkingLevel": "LOW", "thinkingBudget": 1}, "You can only set only one of thinking budget and "
        "thinking level."),
        (G25, {"thinkingBudget": 100}, None),
    ],
)  # fmt: skip
async def test_thinking_is_taken_as_the_model_takes_it(model, thinking, message):
    body = {**ASK, "generationConfig": {"thinkingConfig": thinking}}
    response = await send(app(), f"/v1/models/{model}:generateContent", body)
    assert response.status_code == (400 if message else 200)
    assert not message or response.json()["error"]["message"] == message


# --- the form of an answer ----------------------------------------------------------------------------------


async def unary(reply=CALLS, model=OLD, **fields):
    return await send(app(reply), f"/v1/models/{model}:generateContent", {**ASK, **fields})


async def test_the_form_and_key_order_of_an_unary_answer():
    response = await unary(model=G36)
    assert response.text.startswith('{\n  "candidates": [\n')
    body = response.json()
    assert list(body) == ["candidates", "usageMetadata", "modelVersion", "responseId"]
    (candidate,) = body["candidates"]
    assert list(candidate) == ["content", "finishReason", "index", "finishMessage"]
    assert candidate["finishReason"] == "STOP"
    assert candidate["finishMessage"] == "Model generated function call(s)."
    assert list(candidate["content"]) == ["parts", "role"]
    first, second = candidate["content"]["parts"]
    assert list(first) == ["functionCall", "thoughtSignature"]
    assert list(second) == ["functionCall"]
    assert list(first["functionCall"]) == ["name", "args", "id"]
    assert "finishMessage" not in (await unary(TEXT)).json()["candidates"][0]


async def test_a_response_id_is_base64url_and_starts_with_the_time():
    ident = (await unary()).json()["responseId"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{22,23}", ident)
    seconds = int.from_bytes(base64.urlsafe_b64decode(ident + "=" * (-len(ident) % 4))[:4], "little")
    assert abs(seconds - time.time()) < 60


@pytest.mark.parametrize(
    ("model", "form"),
    [(G25, None), (G35, "[a-z0-9]{8}"), (G36, "[A-Za-z0-9]{8}"), (G38, r"call_\d+"), (OLD, r"call_\d+")],
)
async def test_call_ids_have_the_familys_form(model, form):
    ids = [c.get("id") for c in wire.calls((await unary(model=model)).json()["candidates"][0]["content"])]
    assert len(set(ids)) == (2 if form else 1)
    assert all(re.fullmatch(form, i) if form else i is None for i in ids)


async def test_call_ids_can_be_switched_off():
    response = await send(app(switches={"ids": "none"}), f"/v1/models/{G36}:generateContent", ASK)
    assert all("id" not in c for c in wire.calls(response.json()["candidates"][0]["content"]))


# --- usage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [CALLS, TEXT, Reply(text="unthought"), Reply()])
@pytest.mark.parametrize("model", [OLD, G25])
async def test_usage_adds_up_and_leaves_out_what_is_zero(reply, model):
    usage = (await unary(reply, model)).json()["usageMetadata"]
    counts = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    assert usage["totalTokenCount"] == sum(usage.get(k, 0) for k in counts)
    assert ("thoughtsTokenCount" in usage) == (reply.thought is not None)
    assert ("candidatesTokenCount" in usage) == bool(reply.calls or reply.text)
    assert all(usage[k] for k in usage)
    assert usage["serviceTier"] == "standard"


# --- what it may import -------------------------------------------------------------------------------------


def imported(folder, pattern):
    """Our own modules that the files import anywhere, by name below the package."""
    package = Path(gemlab.__path__[0])
    found = set()
    for file in sorted((package / folder).glob(pattern)):
        here = ["gemlab", *file.relative_to(package).parent.parts]
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {a.name for a in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = here[: len(here) - node.level + 1] if node.level else []
                module = [*base, *(node.module or "").split(".")] if node.module else base
                found |= {".".join([*module, a.name]) for a in node.names}
    assert found
    return {name.split(".")[1] for name in found if name.startswith("gemlab.")}


def test_the_emulator_knows_nothing_of_what_is_compared():
    assert imported("emulator", "**/*.py") == {"emulator", "registry", "wire"}


def test_tasks_and_strategies_know_nothing_of_the_emulator():
    assert "emulator" not in imported("tasks", "*.py") | imported("agent", "*.py")
