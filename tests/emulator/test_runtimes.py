"""The client of a language model's server: what is on the wire, what is read, and what goes wrong."""

from __future__ import annotations

import asyncio
import gc
import socket
import traceback

import pytest
from starlette.responses import JSONResponse, RedirectResponse, Response

from gemlab.emulator.minds import runtimes
from gemlab.emulator.minds.runtimes import Completion, PromptTooLong, Runtime, RuntimeUnavailable

CHAT = [{"role": "system", "content": "Be quick."}, {"role": "user", "content": "Now?"}]
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


async def ask(runtime, schema=SCHEMA, seed=7, temperature=0.5, most=64):
    try:
        return await runtime.complete(CHAT, schema, seed, temperature, most)
    finally:
        await runtime.aclose()


def closed_port():
    """An address on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


# --- the request --------------------------------------------------------------------------------------------


async def test_the_whole_request_on_the_wire(model_server):
    await ask(Runtime(model_server.url + "/", "small"))
    assert model_server.asked == [
        {
            "model": "small",
            "messages": CHAT,
            "temperature": 0.5,
            "max_tokens": 64,
            "seed": 7,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "step", "strict": True, "schema": SCHEMA},
            },
        }
    ]
    assert model_server.keys == [None]


async def test_without_a_seed_and_a_schema_none_is_sent(model_server):
    await ask(Runtime(model_server.url, "small"), schema=None, seed=None)
    (asked,) = model_server.asked
    assert sorted(asked) == ["max_tokens", "messages", "model", "temperature"]
    await ask(Runtime(model_server.url, "small"), seed=0)
    assert model_server.asked[1]["seed"] == 0


async def test_a_key_goes_out_as_the_authorization(model_server):
    await ask(Runtime(model_server.url, "small", KEY))
    assert model_server.keys == [f"Bearer {KEY}"]


def forms(model_server):
    return [(asked.get("response_format") or {}).get("type") for asked in model_server.asked]


@pytest.mark.parametrize(
    ("known", "tried"),
    [
        (("json_schema", "json_object", None), ["json_schema"]),
        (("json_object", None), ["json_schema", "json_object"]),
        ((None,), ["json_schema", "json_object", None]),
    ],
)
async def test_the_strictest_form_that_a_server_takes_is_found_once(model_server, known, tried):
    model_server.forms = known
    runtime = Runtime(model_server.url, "small")
    for _ in range(3):
        await ask(runtime)
    assert forms(model_server) == [*tried, tried[-1], tried[-1]]
    assert all(asked["messages"] == CHAT and asked["seed"] == 7 for asked in model_server.asked)


async def test_requests_at_the_same_time_find_the_form_each_for_itself(model_server):
    model_server.forms = ("json_object", None)
    runtime = Runtime(model_server.url, "small")
    try:
        await asyncio.gather(*(runtime.complete(CHAT, SCHEMA, i, 0.5, 64) for i in range(4)))
        await runtime.complete(CHAT, SCHEMA, 5, 0.5, 64)
    finally:
        await runtime.aclose()
    assert forms(model_server).count("json_object") == 5 and forms(model_server)[-1] == "json_object"
    assert None not in forms(model_server)


async def test_a_refusal_of_one_request_does_not_cost_the_later_ones_their_grammar(model_server):
    runtime = Runtime(model_server.url, "small")
    model_server.answers = [400, 400, 400, '{"answer": "1"}', 400, '{"answer": "2"}', '{"answer": "3"}']
    with pytest.raises(RuntimeUnavailable, match="HTTP 400"):
        await ask(runtime)
    for _ in range(3):
        await ask(runtime)
    every = ["json_schema", "json_object", None]
    assert forms(model_server) == [*every, "json_schema", *every[:2], "json_schema"]


@pytest.mark.parametrize(
    "said",
    [
        {"error": {"code": 400, "type": "exceed_context_size_error", "message": "request exceeds the context size"}},
        {"error": {"code": "context_length_exceeded", "message": "too long"}},
        {"message": "This model's maximum context length is 2048 tokens.", "code": 400},
    ],
    ids=["llama.cpp", "OpenAI", "vLLM"],
)
async def test_too_long_a_prompt_is_told_at_once(model_server, said):
    model_server.answers = [JSONResponse(said, 400)]
    with pytest.raises(PromptTooLong, match="longer than the context"):
        await ask(Runtime(model_server.url, "small"))
    assert len(model_server.asked) == 1


# --- the answer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 90, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 40}}, (90, 40, 12)),
        ({"prompt_tokens": 90, "completion_tokens": 12}, (90, 0, 12)),
        ({"prompt_tokens": 90, "completion_tokens": None, "prompt_tokens_details": None}, (90, 0, 0)),
        (None, (0, 0, 0)),
    ],
)
async def test_text_finish_reason_and_usage_are_read(model_server, usage, counts):
    model_server.usage, model_server.finish = usage, "length"
    model_server.answers = ['{"answer": "Größe"}']
    assert await ask(Runtime(model_server.url, "small")) == Completion('{"answer": "Größe"}', "length", *counts)


@pytest.mark.parametrize(
    "choice", [{"message": {"content": None}}, {"message": {}, "finish_reason": None}, {"message": {"content": ""}}]
)
async def test_an_answer_without_a_text_is_an_empty_one_that_stopped(model_server, choice):
    model_server.answers = [JSONResponse({"choices": [choice]})]
    assert await ask(Runtime(model_server.url, "small")) == Completion("", "stop", 0, 0, 0)


BODIES = [
    b"", b"<html>502</html>", b"[]", b"null", b"{}", b'{"choices": []}', b'{"choices": [{}]}', b'{"choices": [null]}',
    b'{"choices": [{"message": null}]}', b'{"choices": {"0": 1}}', b'{"choices": [{"message": "x"}]}',
    b'{"choices": [{"message": {"content": "x"}}], "usage": 3}',
    b'{"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": "many"}}', b"\xff\xfe",
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=repr)
async def test_an_unreadable_answer_is_one_line(model_server, body):
    model_server.answers = [Response(body, media_type="application/json")]
    with pytest.raises(RuntimeUnavailable, match=r"^unreadable answer of the model's server: \w+$"):
        await ask(Runtime(model_server.url, "small", KEY))


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 502, 503])
async def test_an_error_of_the_server_is_its_status_and_is_asked_once(model_server, status):
    model_server.answers = [status]
    with pytest.raises(RuntimeUnavailable, match=f"^the model's server answered HTTP {status}$") as error:
        await ask(Runtime(model_server.url, "small", KEY))
    assert not isinstance(error.value, PromptTooLong) and len(model_server.asked) == 1


@pytest.mark.parametrize(
    "echo",
    [
        Response(f"Bearer {KEY}", 401),
        Response(f"Bearer {KEY}"),
        RedirectResponse(f"http://h/?key={KEY}", 302),
        Response(b"no gzip " + KEY.encode(), headers={"content-encoding": "gzip"}),
        JSONResponse({"choices": [{"message": KEY}], "usage": KEY}),
    ],
)
async def test_a_key_that_the_server_echoes_is_in_no_error(model_server, echo):
    model_server.answers = [echo]
    runtime = Runtime(model_server.url, "small", KEY)
    with pytest.raises(RuntimeUnavailable) as error:
        await ask(runtime)
    assert KEY not in str(error.value) + repr(runtime) and "\n" not in str(error.value)
    assert KEY not in "".join(traceback.format_exception(error.value))


async def test_no_server_is_one_line():
    with pytest.raises(RuntimeUnavailable, match=r"^no answer from the model's server: ConnectError$"):
        await ask(Runtime(closed_port(), "small", KEY))


# --- connections --------------------------------------------------------------------------------------------


def test_one_runtime_serves_one_event_loop_after_the_other_and_leaves_nothing_open(model_server, recwarn):
    runtime = Runtime(model_server.url, "small")
    for _ in range(3):
        assert asyncio.run(ask(runtime)).text == '{"answer": "done"}'
    gc.collect()
    assert len(model_server.asked) == 3 and not runtime._clients
    assert [str(w.message) for w in recwarn if issubclass(w.category, ResourceWarning)] == []


def test_connections_stay_open_between_requests_and_closing_twice_is_no_matter(model_server):
    runtime = Runtime(model_server.url, "small")

    async def talk():
        await runtime.complete(CHAT, None, None, 0, 1)
        await runtime.complete(CHAT, None, None, 0, 1)
        await runtime.aclose()
        await runtime.aclose()
        await ask(runtime)

    asyncio.run(talk())
    first, second, third = model_server.peers
    assert first == second != third


async def test_a_proxy_of_the_environment_is_not_asked_for_what_this_process_runs(model_server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", closed_port().removesuffix("/v1"))
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await ask(Runtime(model_server.url, "small", KEY, keep=object()))).text
    with pytest.raises(RuntimeUnavailable, match="ConnectError"):
        await ask(Runtime(model_server.url, "small", KEY))


# --- by address ---------------------------------------------------------------------------------------------


def test_an_address_is_a_url_and_a_model(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    made = runtimes.openai("http://localhost:11434/v1/#qwen2.5-coder:0.5b")
    assert (made.url, made.model) == ("http://localhost:11434/v1", "qwen2.5-coder:0.5b")
    assert runtimes.openai("https://models.test/v1#org/name#tag").model == "org/name#tag"


@pytest.mark.parametrize(
    "address",
    [
        "", "#small", "small", "localhost:11434/v1#small", "ftp://host/v1#small", "http://#small", "http://host/v1",
        "http://host/v1#", "http://host:port/v1#small", "http://host:99999/v1#small", "http://[::1/v1#small",
    ],
)  # fmt: skip
def test_what_is_no_address_is_told_with_an_example(address):
    with pytest.raises(ValueError, match=r"^openai: takes URL#MODEL, for example openai:http://localhost"):
        runtimes.openai(address)


@pytest.mark.parametrize(
    "address", [f"http://me:{KEY}@host/v1#m", f"http://{KEY}@host/v1#m", f"http://host/v1?key={KEY}#m"]
)
def test_an_address_with_a_secret_is_refused_without_showing_it(address):
    with pytest.raises(ValueError, match="a key goes into OPENAI_API_KEY") as error:
        runtimes.openai(address)
    assert KEY not in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("given", "sent"), [(KEY, f"Bearer {KEY}"), (f" {KEY}\n", f"Bearer {KEY}"), ("", None)])
def test_the_key_is_the_environment_s(model_server, monkeypatch, given, sent):
    monkeypatch.setenv("OPENAI_API_KEY", given)
    runtime = runtimes.openai(f"{model_server.url}#small")
    asyncio.run(ask(runtime))
    assert runtimes.served(runtime) == ["small"]
    assert model_server.keys == [sent] and model_server.listed == [sent]


@pytest.mark.parametrize("given", [f"{KEY}\nx", f"{KEY}é", f"{KEY}\x7f"])
def test_what_can_be_no_key_is_refused_without_showing_it(monkeypatch, given):
    monkeypatch.setenv("OPENAI_API_KEY", given)
    with pytest.raises(ValueError, match=r"^OPENAI_API_KEY is no key") as error:
        runtimes.openai("http://host/v1#m")
    assert KEY not in str(error.value)


# --- what a server has --------------------------------------------------------------------------------------


def test_the_models_of_a_server_are_listed(model_server):
    model_server.models = ["small", "large:8b"]
    assert runtimes.served(Runtime(model_server.url, "any")) == ["small", "large:8b"]
    model_server.models = []
    assert runtimes.served(Runtime(model_server.url, "any")) == []


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Response("no", 401), "answered HTTP 401"),
        (RedirectResponse("http://h/", 302), "answered HTTP 302"),
        (Response("<html>"), "is not a list of models"),
        (JSONResponse({"models": []}), "is not a list of models"),
        (JSONResponse({"data": None}), "is not a list of models"),
        (JSONResponse({"data": [{"name": "x"}]}), "is not a list of models"),
        (JSONResponse([]), "is not a list of models"),
        (Response(b"no gzip", headers={"content-encoding": "gzip"}), "DecodingError"),
    ],
)
def test_what_lists_no_models_is_one_line_with_the_address(model_server, answer, says):
    model_server.models = answer
    with pytest.raises(RuntimeUnavailable, match=says) as error:
        runtimes.served(Runtime(model_server.url, "small", KEY))
    assert model_server.url in str(error.value) and KEY not in str(error.value) and "\n" not in str(error.value)


def test_a_server_that_is_not_there_is_one_line_with_the_address():
    url = closed_port()
    with pytest.raises(RuntimeUnavailable, match=f"^no server at {url}: ConnectError$"):
        runtimes.served(Runtime(url, "small", KEY))
