"""Fixtures shared by the tests."""

from __future__ import annotations

import functools
import json
import os
import random
import socket
import threading
import types
from collections.abc import Callable
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

from gemlab.agent import retry

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

    An answer is the text of the message, an HTTP status to refuse with, a whole Response, or a function from the
    request's body to one of these. `asked` holds the requests' bodies, `keys` and `peers` their authorization and
    port, `listed` the authorization of those for the list of `models` (or a whole Response); a form of structured
    output that is not in `forms` is refused with 400.
    """

    url: str

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.answers: list[Any] = ['{"answer": "done"}']
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.peers: list[int] = []
        self.listed: list[str | None] = []
        self.forms: tuple[str | None, ...] = ("json_schema", "json_object", None)
        self.models: list[str] | Response = ["small"]
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
        self.listed.append(request.headers.get("authorization"))
        if isinstance(self.models, Response):
            return self.models
        return JSONResponse({"object": "list", "data": [{"id": name} for name in self.models]})

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        self.keys.append(request.headers.get("authorization"))
        self.peers.append(request.client.port)
        if (body.get("response_format") or {}).get("type") not in self.forms:
            return JSONResponse({"error": {"message": "unknown response_format"}}, 400)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        answer = answer(body) if callable(answer) and not isinstance(answer, Response) else answer
        if isinstance(answer, Response):
            return answer
        if isinstance(answer, int):
            return JSONResponse({"error": {"message": "no"}}, answer)
        choice = {"index": 0, "finish_reason": self.finish, "message": {"role": "assistant", "content": answer}}
        return JSONResponse({"choices": [choice], **({"usage": self.usage} if self.usage else {})})


@pytest.fixture(scope="session")
def running_model_server():
    """A ModelServer that runs once for all tests: to start and stop one takes longer than most of them."""
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


@pytest.fixture
def model_server(running_model_server):
    """A running ModelServer as if it were new; its `url` ends in /v1."""
    running_model_server.reset()
    return running_model_server


def follower(early: float = 0.0) -> Callable[[dict[str, Any]], str]:
    """Return a model for `ecpm-handles`, as an answer of ModelServer, that knows its messages and nothing else.

    It copies the references out of the results. Where its newest step stands without a thought it answers too early,
    with the probability `early`, drawn from the request's seed.
    """

    def answer(body: dict[str, Any]) -> str:
        contents = [(m["role"], m["content"]) for m in body["messages"]]
        start = max(i for i, (role, text) in enumerate(contents) if role == "user" and text.startswith("For app-"))
        app = contents[start][1].split()[1].rstrip(":")
        steps = [json.loads(text) for role, text in contents[start:] if role == "assistant"]
        told = [json.loads(text.removeprefix("Result: ")) for role, text in contents[start + 1 :] if role == "user"]
        known = {key: value for result in told for key, value in result.items()}
        lost = bool(steps) and "thought" not in steps[-1]
        # Whoever may not think is not given the key for it.
        forms = body["response_format"]["json_schema"]["schema"]
        forms = forms.get("anyOf", [forms])
        thought = {"thought": f"{len(steps)} done for {app}"} if "thought" in forms[0]["properties"] else {}
        if lost and random.Random(body["seed"]).random() < early:
            return json.dumps({**thought, "answer": "admob, 1.11"})
        return json.dumps({**thought, **_next(app, told[-1] if told else {}, known)})

    return answer


def _next(app: str, newest: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Return the call that the newest result asks for, or the answer where it holds what was asked for."""
    if "network" in newest:
        return {"answer": f"{newest['network']}, {newest['floor']}"}
    for key, name, args in (
        ("days", "mediation_of", ("days",)),
        ("range", "outlying_days", ("series", "range")),
        ("series", "normal_range", ("series",)),
    ):
        if key in newest:
            return {"call": {"name": name, "args": {arg: known[arg] for arg in args}}}
    return {"call": {"name": "fetch_series", "args": {"app": app}}}


@pytest.fixture(scope="session")
def following():
    """The function that makes a model which follows `ecpm-handles`."""
    return follower


@pytest.fixture(scope="session")
def language_whole(running_model_server, following, tmp_path_factory):
    """Five arms in two set-ups on a model that needs its thoughts: the folder, what came out, the requests made.

    Of the trials without thoughts more than nine in ten answer too early.
    """
    from gemlab.studies.signature_lm import runs as language_runs

    running_model_server.reset()
    running_model_server.answers = [following(early=0.5)]
    folder = tmp_path_factory.mktemp("language")
    setups = [{"task": "ecpm-handles", "prompt": prompt} for prompt in ("worked", "transcript")]
    arms = ["preserve", "strip", "neutral", "placebo", {"name": "none", "thinking": "off"}]
    name = f"openai:{running_model_server.url}#small"
    asked = language_runs.Parameters(backend=name, setups=setups, arms=arms, instances=14, pilot=4)
    runs = language_runs.run(asked, folder)
    return folder, runs, list(running_model_server.asked)
