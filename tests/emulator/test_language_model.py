"""A language model behind the emulator, over the client: what it is shown and what leaves it; by a fake server."""

from __future__ import annotations

import json

import pytest
from google.genai import types

from gemlab.agent import history, loop, step
from gemlab.backends import Refused, Unavailable, language
from gemlab.emulator import signatures
from gemlab.measure import metrics
from gemlab.runs import trace, trials
from gemlab.wire import answers, families
from gemlab.wire import contents as wire

G25, G36 = "gemini-2.5-flash", "gemini-3.6-flash"
THOUGHT = 'Ask for "Oslo" – first.'
CALL = {"name": "weather", "args": {"city": "Oslo"}}
ONE = json.dumps({"thought": THOUGHT, "call": CALL})
TWO = json.dumps({"thought": THOUGHT, "call": [CALL, {"name": "weather", "args": {"city": "Bergen"}}]})
SAID = json.dumps({"thought": "All is there.", "answer": "It rains in Oslo, as it does in Bergen, and will go on."})
ASKED = {"role": "user", "parts": [{"text": "How is the weather?"}]}
WEATHER = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="weather",
            description="Tell the weather.",
            parameters_json_schema={
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        )
    ]
)


@pytest.fixture
def backend(model_server, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return language.backend(f"openai:{model_server.url}#small", "bare")


def config(**given):
    return types.GenerateContentConfig(
        tools=[WEATHER], automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True), **given
    )


async def send(backend, *contents, model=G25, stream=False, **given):
    try:
        return (await backend.send(model, contents or (ASKED,), config(**given), stream)).response
    finally:
        await backend.release()


def opened(content, model=G25):
    profile = families.profile(model)
    return [signatures.open_(raw, profile) for raw in wire.signatures(content)]


def responses(content):
    parts = [history.response_part(c, {"sky": c["args"]["city"]}) for c in wire.calls(content)]
    return {"role": "user", "parts": parts}


def assistants(model_server):
    """The model's own earlier answers in the last prompt."""
    return [json.loads(m["content"]) for m in model_server.asked[-1]["messages"] if m["role"] == "assistant"]


def schema(model_server):
    return json.dumps(model_server.asked[-1]["response_format"]["json_schema"]["schema"])


# --- thoughts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("model", [G25, G36])
@pytest.mark.parametrize("text", [ONE, TWO, SAID], ids=["call", "calls", "text"])
async def test_a_thought_leaves_sealed_once_and_opens_to_the_same_words(backend, model_server, model, text, stream):
    model_server.answers = [text]
    response = await send(backend, model=model, stream=stream)
    answer = answers.of(response)
    assert opened(answer.content, model) == [json.loads(text)["thought"]]
    assert THOUGHT not in json.dumps(response, ensure_ascii=False) and "All is there." not in json.dumps(response)
    assert answer.finish_reason == "STOP" and answer.served == model
    made = json.loads(text).get("call", [])
    made = made if isinstance(made, list) else [made]
    assert [{k: c[k] for k in ("name", "args")} for c in wire.calls(answer.content)] == made
    assert wire.answer_text(answer.content) == json.loads(text).get("answer", "")


@pytest.mark.parametrize("model", [G25, G36])
@pytest.mark.parametrize("text", [ONE, TWO], ids=["call", "calls"])
async def test_a_thought_stands_in_the_next_prompt_where_its_signature_comes_back_and_nowhere_else(
    backend, model_server, text, model
):
    model_server.answers = [text]
    content = answers.of(await send(backend, model=model)).content
    said = json.loads(text)
    for name, there in (("preserve", True), ("strip", False), ("dummy", False), ("rebuild", False)):
        if model == G36 and name in ("strip", "rebuild"):
            continue  # refused, so there is no prompt
        await send(backend, *history.get(name)([ASKED, content, responses(content)]), model=model)
        assert assistants(model_server) == [said if there else {"call": said["call"]}], name
        assert ("– first." in json.dumps(model_server.asked[-1], ensure_ascii=False)) is there
    told = [m["content"] for m in model_server.asked[-1]["messages"] if m["role"] == "user"]
    assert told[-1].splitlines() == [f'Result: {{"sky":"{c["args"]["city"]}"}}' for c in wire.calls(content)]


async def test_a_model_that_wants_signatures_refuses_before_the_language_model_is_asked(backend, model_server):
    model_server.answers = [ONE]
    content = answers.of(await send(backend, model=G36)).content
    with pytest.raises(Refused, match="thought_signature"):
        await send(backend, *history.get("strip")([ASKED, content, responses(content)]), model=G36)
    assert len(model_server.asked) == 1


async def test_without_thinking_nothing_is_thought_sealed_or_read(backend, model_server):
    off = {"thinking_config": types.ThinkingConfig(thinking_budget=0)}
    model_server.answers = [ONE]
    content = answers.of(await send(backend)).content
    assert '"thought"' in schema(model_server)
    # One that thinks in spite of it: a server without grammars lets it.
    response = await send(backend, ASKED, **off)
    assert '"thought"' not in schema(model_server)
    assert "thought" not in model_server.asked[-1]["messages"][0]["content"]
    assert wire.signatures(answers.of(response).content) == []
    assert "thoughtsTokenCount" not in response["usageMetadata"]
    # A thought that was had before is still the history's.
    await send(backend, ASKED, content, responses(content), **off)
    assert assistants(model_server) == [json.loads(ONE)]


async def test_a_thought_is_shown_where_the_request_asks_for_it(backend, model_server):
    model_server.answers = [ONE]
    response = await send(backend, thinking_config=types.ThinkingConfig(include_thoughts=True))
    first, second = wire.parts(answers.of(response).content)
    assert (first["text"], first["thought"], "functionCall" in second) == (THOUGHT, True, True)


async def test_an_empty_thought_is_signed_and_comes_back_empty(backend, model_server):
    model_server.answers = [json.dumps({"thought": "", "call": CALL})]
    content = answers.of(await send(backend)).content
    assert opened(content) == [""]
    await send(backend, ASKED, content, responses(content))
    assert assistants(model_server) == [{"thought": "", "call": CALL}]


# --- the request's settings ---------------------------------------------------------------------------------


async def test_temperature_length_and_seed_of_the_request_reach_the_model(backend, model_server):
    await send(backend, temperature=0.25, max_output_tokens=33, seed=11)
    await send(backend, temperature=0.0, max_output_tokens=100_000)
    await send(backend)
    found = [{k: a.get(k) for k in ("temperature", "max_tokens", "seed")} for a in model_server.asked]
    assert found == [
        {"temperature": 0.25, "max_tokens": 33, "seed": 11},
        {"temperature": 0.0, "max_tokens": 512, "seed": None},
        {"temperature": 0.7, "max_tokens": 512, "seed": None},
    ]


@pytest.mark.parametrize(
    ("mode", "call", "answer"), [("NONE", False, True), ("ANY", True, False), ("AUTO", True, True)]
)
async def test_the_mode_says_what_may_be_decoded(backend, model_server, mode, call, answer):
    calling = types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode=mode))
    model_server.answers = [SAID if answer else ONE]
    response = await send(backend, tool_config=calling)
    assert [f'"{key}"' in schema(model_server) for key in ("call", "answer")] == [call, answer]
    assert bool(wire.calls(answers.of(response).content)) is not answer


# --- usage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("model", [G25, G36])
@pytest.mark.parametrize("text", [ONE, TWO, SAID], ids=["call", "calls", "text"])
async def test_usage_is_what_the_runtime_counted(backend, model_server, model, text, stream):
    model_server.answers = [text]
    model_server.usage = {
        "prompt_tokens": 345, "completion_tokens": 41, "prompt_tokens_details": {"cached_tokens": 300},
    }  # fmt: skip
    usage = answers.of(await send(backend, model=model, stream=stream)).usage
    assert (usage["promptTokenCount"], usage["cachedContentTokenCount"], usage["totalTokenCount"]) == (345, 300, 386)
    assert usage["candidatesTokenCount"] + usage["thoughtsTokenCount"] == 41
    assert usage["cacheTokensDetails"] == [{"modality": "TEXT", "tokenCount": 300}]
    # The thought's share of the tokens is its share of the characters, quotes and all.
    share = len(json.dumps(json.loads(text)["thought"], ensure_ascii=False)) / len(text)
    assert usage["thoughtsTokenCount"] == round(41 * share)


async def test_a_runtime_that_counts_nothing_is_no_error(backend, model_server):
    model_server.usage, model_server.answers = None, [ONE]
    usage = answers.of(await send(backend)).usage
    assert (usage["promptTokenCount"], usage["totalTokenCount"]) == (0, 0)
    assert "thoughtsTokenCount" not in usage


# --- when it goes wrong -------------------------------------------------------------------------------------

CUT = '{"thought": "A long'
MALFORMED = '{"thought": "Go on.", "call": {"name": "elsewhere", "args": {}}}'


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
async def test_a_cut_answer_and_a_malformed_call_have_a_reason_and_no_content(backend, model_server, stream):
    model_server.answers, model_server.finish = [CUT], "length"
    cut = answers.of(await send(backend, stream=stream))
    assert (cut.content, cut.finish_reason, cut.usage["totalTokenCount"]) == (None, "MAX_TOKENS", 120)
    model_server.answers, model_server.finish = [MALFORMED], "stop"
    malformed = answers.of(await send(backend, model=G36, stream=stream))
    assert (malformed.content, malformed.finish_reason) == (None, "MALFORMED_FUNCTION_CALL")
    assert malformed.message == 'Malformed function call: {"name":"elsewhere","args":{}}'
    assert malformed.usage["totalTokenCount"] == 120


async def trial(backend, arm="preserve", task="ecpm-handles", **fields):
    (spec,) = trials.plan([{"name": arm, "history": arm, **fields}], task, G25, 1)
    try:
        return await loop.run(backend, spec)
    finally:
        await backend.release()


@pytest.mark.parametrize(
    ("text", "finish", "reason", "detail"),
    [
        (CUT, "length", "truncated", "MAX_TOKENS"),
        (MALFORMED, "stop", "malformed", '{"name":"elsewhere","args":{}}'),
        ('{"thought": "x", "answer": ""}', "stop", "empty", "STOP"),
        ("", "stop", "empty", "STOP"),
    ],
)
async def test_a_trial_ends_unfinished_with_the_reason(backend, model_server, text, finish, reason, detail):
    model_server.answers, model_server.finish = [text], finish
    done = await trial(backend)
    assert (done.outcome, done.reason, len(done.steps)) == ("unfinished", reason, 1)
    assert detail in done.detail


async def test_a_server_that_fails_is_asked_again_and_then_the_trial_has_failed(
    backend, model_server, following, slept
):
    model_server.answers = [500, 503, following()]
    done = await trial(backend)
    assert done.outcome == "completed" and [f["status"] for f in done.steps[0].failures] == [503, 503]
    model_server.answers = [500]
    done = await trial(backend)
    assert (done.outcome, done.reason) == ("failed", None) and len(slept) == 2 + 4
    assert done.detail.endswith("(the model's server answered HTTP 500)") and "\n" not in done.detail


async def test_no_server_is_a_failed_trial_that_never_holds_the_key(monkeypatch, slept):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    backend = language.backend("openai:http://127.0.0.1:9/v1#small")
    with pytest.raises(Unavailable, match="no answer from the model's server: ConnectError"):
        await send(backend)
    done = await trial(backend)
    assert done.outcome == "failed" and "secret" not in trace.dumps(trace.of(done, backend.name, backend.source))


async def test_too_long_a_prompt_has_the_words_of_the_api_is_not_sent_again_and_refuses_no_history(
    backend, model_server, slept
):
    from starlette.responses import JSONResponse

    model_server.answers = [JSONResponse({"error": {"type": "exceed_context_size_error"}}, 400)]
    done = await trial(backend)
    assert (done.outcome, slept, len(model_server.asked)) == ("failed", [], 1)
    assert "input token count exceeds the maximum" in done.detail


# --- whole trials -------------------------------------------------------------------------------------------


async def test_a_trial_completes_and_its_trace_holds_the_runtime_s_counts(backend, model_server, following):
    model_server.answers = [following()]
    done = await trial(backend)
    assert (done.outcome, len(done.steps), len(model_server.asked)) == ("completed", 5, 5)
    assert [a["seed"] for a in model_server.asked] == [s.request["generationConfig"]["seed"] for s in done.steps]
    row = metrics.row(trace.load(json.loads(trace.dumps(trace.of(done, backend.name, backend.source)))))
    assert (row["prompt_tokens"], row["cached_tokens"], row["output_tokens"]) == (500, 300, 100)
    assert 0 < row["thought_tokens"] < 100


@pytest.mark.parametrize(
    ("arm", "transport"),
    [("preserve", "unary"), ("preserve", "stream"), ("server_state", "unary"), ("server_state_stateless", "unary")],
)
async def test_thoughts_come_back_over_streams_and_interactions_too(backend, model_server, following, arm, transport):
    model_server.answers = [following(early=1.0)]  # lost without its newest thought
    done = await trial(backend, arm, transport=transport)
    assert done.outcome == "completed"
    app = step.question(done.steps).split()[1].rstrip(":")
    assert [step["thought"] for step in assistants(model_server)] == [f"{n} done for {app}" for n in range(4)]


async def test_a_lost_thought_is_lost_to_the_model(backend, model_server, following):
    model_server.answers = [following(early=1.0)]
    done = await trial(backend, "strip")
    assert (done.outcome, len(done.steps)) == ("wrong", 2)


async def test_malformed_interactions_are_told_as_the_emulator_tells_them(backend, model_server):
    model_server.answers = [MALFORMED]
    done = await trial(backend, "server_state")
    assert (done.outcome, done.reason) == ("unfinished", "malformed")
