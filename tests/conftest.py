"""Fixtures shared by the tests."""

from __future__ import annotations

import functools
import os
import socket
import threading
import types
from pathlib import Path
from typing import Any

import httpx2
import pytest
import tenacity
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gemlab import retry

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded data, which is no part of the repository; CI must not go without it."""
    folder = Path(os.environ.get("GEMLAB_SHARED") or REPOSITORY.parent / "shared")
    if not (folder / "data" / "exchanges" / "index.json").is_file():
        reason = f"no recorded data in {folder}: set GEMLAB_SHARED to the folder that holds data/exchanges"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


class Scripted(httpx2.AsyncBaseTransport):
    """Answers with the given ones in turn, the last one for ever; `sent` holds the requests' bytes.

    An answer is (status, body), body being bytes or JSON, or an exception to raise.
    """

    def __init__(self, *answers: tuple[int, Any] | Exception):
        self.answers, self.sent = list(answers), []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request.content)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        status, body = answer
        return httpx2.Response(status, **({"content": body} if isinstance(body, bytes) else {"json": body}))

    @staticmethod
    def reply(*parts: dict[str, Any], finish: str = "STOP", served: str | None = "gemini-2.5-flash", **candidate):
        """Return an answer with these parts."""
        content = {"content": {"parts": list(parts), "role": "model"}} if parts else {}
        body = {"candidates": [{**content, "finishReason": finish, "index": 0, **candidate}]}
        return 200, {**body, **({"modelVersion": served} if served else {})}


@pytest.fixture
def scripted() -> type[Scripted]:
    """The transport class for answers written by hand."""
    return Scripted


@pytest.fixture
def slept(monkeypatch):
    """The seconds that the retry would have waited."""
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    quick = functools.partial(tenacity.AsyncRetrying, sleep=sleep)
    monkeypatch.setattr(retry, "tenacity", types.SimpleNamespace(**{**vars(tenacity), "AsyncRetrying": quick}))
    return waited


class ModelServer:
    """A fake OpenAI-compatible server on the loopback address: `answers` in turn, the last one for ever.

    An answer is the text of the message, an HTTP status to refuse with, or a function from the request's body to
    either. `asked` holds the requests' bodies, `keys` their authorization; a form of structured output that is not
    in `forms` is refused with 400.
    """

    def __init__(self) -> None:
        self.answers: list[Any] = ['{"answer": "done"}']
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.forms: tuple[str | None, ...] = ("json_schema", "json_object", None)
        self.models = ["small"]
        self.finish = "stop"
        self.usage: dict[str, Any] | None = {
            "prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 60},
        }  # fmt: skip

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
                Route("/v1/models", self._list),
            ]
        )

    async def _list(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": name} for name in self.models]})

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        self.keys.append(request.headers.get("authorization"))
        if (body.get("response_format") or {}).get("type") not in self.forms:
            return JSONResponse({"error": {"message": "unknown response_format"}}, 400)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        answer = answer(body) if callable(answer) else answer
        if isinstance(answer, int):
            return JSONResponse({"error": {"message": "no"}}, answer)
        choice = {"index": 0, "finish_reason": self.finish, "message": {"role": "assistant", "content": answer}}
        return JSONResponse({"choices": [choice], **({"usage": self.usage} if self.usage else {})})


@pytest.fixture
def model_server():
    """A running ModelServer; its `url` ends in /v1."""
    made = ModelServer()
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(made.app(), log_level="warning", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    made.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    yield made
    server.should_exit = True
    thread.join()
    listener.close()
