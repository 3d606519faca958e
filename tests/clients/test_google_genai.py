"""google-genai against `gemlab serve`: loops of its own keep everything, automatic function calling does not."""

from __future__ import annotations

import asyncio

import pytest
from google import genai
from google.genai import errors, types

pytestmark = pytest.mark.slow

OLD, STRICT = "gemini-2.5-flash", "gemini-3.8-flash"
MOST_CONTENTS = 40


def python(server):
    return genai.Client(api_key="emulator", http_options={"base_url": server.base})


def options(job):
    return types.GenerateContentConfig(
        system_instruction=job.system,
        tools=[{"function_declarations": list(job.declarations)}],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )


class Conversation:
    """The contents of a loop over the SDK's own types; `take` returns the answer's text, or None for calls."""

    def __init__(self, job):
        self.job = job
        self.contents = [types.Content(role="user", parts=[types.Part(text=job.message)])]

    def take(self, parts):
        self.contents.append(types.Content(role="model", parts=parts))
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            return "".join(part.text or "" for part in parts)
        responses = [
            types.FunctionResponse(id=c.id, name=c.name, response=self.job.call(c.name, c.args)) for c in calls
        ]
        answered = [types.Part(function_response=response) for response in responses]
        self.contents.append(types.Content(role="user", parts=answered))
        assert len(self.contents) < MOST_CONTENTS
        return None


def ask(model, talk):
    return {"model": model, "contents": talk.contents, "config": options(talk.job)}


def sync_loop(server, model, job):
    with python(server) as client:
        talk, answer = Conversation(job), None
        while answer is None:
            got = client.models.generate_content(**ask(model, talk))
            answer = talk.take(got.candidates[0].content.parts)
    return answer


def stream_loop(server, model, job):
    with python(server) as client:
        talk, answer = Conversation(job), None
        while answer is None:
            parts = []
            for chunk in client.models.generate_content_stream(**ask(model, talk)):
                parts += chunk.candidates[0].content.parts
            answer = talk.take(parts)
    return answer


def async_loop(server, model, job):
    async def run():
        async with python(server).aio as client:
            talk, answer = Conversation(job), None
            while answer is None:
                got = await client.models.generate_content(**ask(model, talk))
                answer = talk.take(got.candidates[0].content.parts)
        return answer

    return asyncio.run(run())


def async_stream_loop(server, model, job):
    async def run():
        async with python(server).aio as client:
            talk, answer = Conversation(job), None
            while answer is None:
                parts = []
                stream = await client.models.generate_content_stream(**ask(model, talk))
                async for chunk in stream:
                    parts += chunk.candidates[0].content.parts
                answer = talk.take(parts)
        return answer

    return asyncio.run(run())


@pytest.mark.parametrize("model", [OLD, STRICT])
@pytest.mark.parametrize("loop", [sync_loop, stream_loop, async_loop, async_stream_loop])
def test_google_genai_with_a_loop_of_its_own(server, job, loop, model):
    job.finish(loop(server, model, job))
    server.assert_nothing_lost(model, ids=model == STRICT)


# --- google-genai, automatic function calling ---------------------------------------------------------------


def automatic(job):
    return types.GenerateContentConfig(system_instruction=job.system, tools=job.functions())


def generate(client, model, job):
    return client.models.generate_content(model=model, contents=job.message, config=automatic(job)).text


def chat(client, model, job):
    return client.chats.create(model=model, config=automatic(job)).send_message(job.message).text


def chat_stream(client, model, job):
    talk = client.chats.create(model=model, config=automatic(job))
    chunks = list(talk.send_message_stream(job.message))
    return "".join(part.text or "" for chunk in chunks for part in chunk.candidates[0].content.parts)


@pytest.mark.parametrize(
    ("way", "model"), [(generate, OLD), (generate, STRICT), (chat, OLD), (chat, STRICT), (chat_stream, OLD)]
)
def test_google_genai_with_automatic_function_calling(server, job, way, model):
    """It keeps the signatures and drops the ids of its responses, which 3.8 lets pass as long as none is wrong."""
    with python(server) as client:
        job.finish(way(client, model, job))
    sent = server.sent(model)
    assert (sent.requests, sent.model_contents, sent.signed) == (5, 4, [True] * 4)
    assert (sent.call_ids, sent.response_ids) == ([model == STRICT] * 5, [False] * 5)


def test_google_genai_streaming_with_automatic_function_calling_is_refused_by_3x(server, job):
    with python(server) as client, pytest.raises(errors.ClientError, match="missing a thought_signature"):
        chat_stream(client, STRICT, job)
    server.assert_refused_at_the_parallel_calls(job)
