"""Any client of the Gemini API against a language model behind the emulator, with tools that no task knows."""

from __future__ import annotations

import json

import pytest
from google import genai
from google.genai import types

from gemlab.backends import language
from gemlab.backends.inprocess import StreamingASGITransport
from gemlab.emulator.app import create_app

ONE = json.dumps({"thought": "Ask for Oslo.", "call": {"name": "weather", "args": {"city": "Oslo"}}})
SAID = json.dumps({"thought": "All is there.", "answer": "It rains in Oslo, as it does in Bergen, and will go on."})


@pytest.fixture
async def client(model_server):
    """A google-genai client of its own making over the emulator."""
    model, _ = language.model(f"openai:{model_server.url}#small")
    transport = StreamingASGITransport(create_app(model))
    options = types.HttpOptions(base_url="http://emulator", async_client_args={"transport": transport})
    yield genai.Client(api_key="any", http_options=options)
    await model.runtime.aclose()


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3.6-flash"])
async def test_the_client_s_own_calling_of_a_foreign_tool_works(client, model_server, model):
    asked = []

    def weather(city: str, days: int = 1) -> dict:
        """Tell the weather of a city."""
        asked.append((city, days))
        return {"sky": "rain"}

    model_server.answers = [ONE, SAID]
    response = await client.aio.models.generate_content(
        model=model, contents="How is the weather?", config=types.GenerateContentConfig(tools=[weather])
    )
    assert response.text == json.loads(SAID)["answer"] and asked == [("Oslo", 1)]
    first, second = (a["messages"] for a in model_server.asked)
    assert "- weather(city: string, days?: integer): Tell the weather of a city." in first[0]["content"]
    assert [m["role"] for m in first] == ["system", "user"], "no worked example is of this tool"
    assert json.loads(second[2]["content"]) == json.loads(ONE) and '"sky":"rain"' in second[3]["content"]


async def test_a_chat_streams(client, model_server):
    model_server.answers = [SAID]
    chat = client.aio.chats.create(model="gemini-2.5-flash")
    chunks = [chunk.text async for chunk in await chat.send_message_stream("How is the weather?")]
    assert len(chunks) > 1 and "".join(chunks) == json.loads(SAID)["answer"]
    async for _ in await chat.send_message_stream("And tomorrow?"):
        pass
    roles = [m["role"] for m in model_server.asked[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert "Tools" not in model_server.asked[-1]["messages"][0]["content"]
