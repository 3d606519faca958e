"""Where requests go: the embedded emulator or the real API, both through the google-genai client.

The request's contents and the response's body are taken from the wire, so that what a trial keeps is what was
sent and received, with fields the SDK does not know yet. Headers and keys are never looked at.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2

from .inprocess import StreamingASGITransport
from .wire.families import DEVELOPER, VERTEX
from .wiretap import Pools, Recorder, Taken, taking

if TYPE_CHECKING:
    from google import genai

NO_KEY = (
    "no API key: set GEMINI_API_KEY (or GOOGLE_API_KEY; for Vertex AI GOOGLE_GENAI_USE_VERTEXAI=true with "
    "GOOGLE_CLOUD_PROJECT), or leave out --backend gemini to run on the embedded emulator"
)


SCRIPTED = "scripted model: shows the instrument, not Gemini"


class NoKey(RuntimeError):
    """The real API was asked for without a key."""


class ApiFailure(Exception):
    """A request without an answer. `status` is None where none came; `sent`: the request's body, if it went out.

    `got`: a stream's chunks that had come before it failed. `failures` collects what failed before, when the
    same request was sent again.
    """

    def __init__(
        self,
        status: int | None,
        body: dict[str, Any],
        sent: dict[str, Any] | None = None,
        kind: str = "",
        got: Sequence[dict[str, Any]] = (),
    ):
        super().__init__(f"HTTP {status}: {_message(body)}" if status else kind)
        self.status, self.body, self.sent, self.kind, self.got = status, body, sent, kind, list(got)
        self.failures: list[dict[str, Any]] = []


class Refused(ApiFailure):
    """HTTP 400: the API does not take this history or request."""


class Rejected(ApiFailure):
    """Another 4xx, or a key that is not valid: neither the history's fault nor better the next time."""


class Unavailable(ApiFailure):
    """429, 5xx, a lost connection or an unreadable answer: the same request may be answered later."""


def _message(body: dict[str, Any]) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    return str(error.get("message")) if isinstance(error, dict) else "no error body"


@dataclass(frozen=True)
class Exchange:
    """One request and its response as they were on the wire (bodies only): one body, or a stream's chunks."""

    request: dict[str, Any]
    response: dict[str, Any] | list[dict[str, Any]]


class Backend:
    """A named way to the API; `simulated` says what a report must say about it."""

    def __init__(
        self, name: str, client: genai.Client, service: str, simulated: str | None, pools: Pools | None = None
    ):
        self.name, self.client, self.service, self.simulated, self._pools = name, client, service, simulated, pools

    async def release(self) -> None:
        """Close the connections that this event loop has opened; the next request opens new ones."""
        if self._pools is not None:
            await self._pools.aclose()

    async def send(self, model: str, contents: Sequence[dict[str, Any]], config: Any, stream: bool = False) -> Exchange:
        """Send one generateContent request, or with `stream` one streamGenerateContent; contents go out as they are.

        `config`: a GenerateContentConfig. Raises Refused, Rejected or Unavailable.
        """
        from google.genai import errors, types

        # As extra_body the contents reach the wire untouched; through the SDK's types signatures change their
        # base64 alphabet, unknown fields are refused, and a request costs twice the time.
        options = types.HttpOptions(extra_body={"contents": list(contents)})
        asked = {"model": model, "contents": "", "config": config.model_copy(update={"http_options": options})}
        taken = Taken()
        token = taking.set(taken)
        try:
            if stream:
                async for _ in await self.client.aio.models.generate_content_stream(**asked):
                    pass
            else:
                await self.client.aio.models.generate_content(**asked)
        except errors.APIError as error:
            body = error.details if isinstance(error.details, dict) else {}
            raise _kind(error.code, body)(error.code, body, _sent(taken), got=_got(taken, stream)) from None
        except httpx2.TransportError as error:
            kind = type(error).__name__
            raise Unavailable(None, {}, _sent(taken), kind, _got(taken, stream)) from None
        except ValueError as error:  # the SDK cannot read the answer: what came over the wire counts
            if not taken.response:
                raise Rejected(None, {}, None, f"{type(error).__name__}: {error}") from None
        finally:
            taking.reset(token)
        return _exchange(taken, stream)

    async def interact(self, request: dict[str, Any]) -> Exchange:
        """Create one interaction (Interactions API). `request`: its body, whose `input` goes out as it is.

        Raises Refused, Rejected or Unavailable.
        """
        from google.genai import _interactions_errors as errors

        # As above: through the SDK's types a step loses its nulls, and a long history takes six times as long.
        settings = {**request, "input": "", "extra_body": {"input": request["input"]}}
        taken = Taken()
        token = taking.set(taken)
        try:
            await self.client.aio.interactions.create(**settings, automatic_continuation=False)
        except errors.APIConnectionError as error:
            raise Unavailable(None, {}, _sent(taken), type(error.__cause__ or error).__name__) from None
        except errors.APIError as error:
            body = error.body if isinstance(error.body, dict) else {}
            if (error.status_code or 0) >= 400:
                raise _kind(error.status_code, body)(error.status_code, body, _sent(taken)) from None
            if not taken.response:
                raise Unavailable(None, {}, _sent(taken), "unreadable answer") from None
        except ValueError as error:  # the SDK cannot read the answer: what came over the wire counts
            if not taken.response:
                raise Rejected(None, {}, None, f"{type(error).__name__}: {error}") from None
        finally:
            taking.reset(token)
        return _exchange(taken, False)


def _kind(code: int, body: dict[str, Any]) -> type[ApiFailure]:
    if code == 429 or code >= 500:
        return Unavailable
    error = body.get("error")
    details = error.get("details") if isinstance(error, dict) else None
    bad_key = any(isinstance(d, dict) and d.get("reason") == "API_KEY_INVALID" for d in details or [])
    return Refused if code == 400 and not bad_key else Rejected


def _sent(taken: Taken) -> dict[str, Any] | None:
    return json.loads(taken.request) if taken.request else None


def _got(taken: Taken, stream: bool) -> list[dict[str, Any]]:
    """Return the chunks of a stream that had arrived whole before it failed."""
    return [c for c in _chunks(taken.response) if "error" not in c] if stream else []


def _chunks(raw: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects of an event stream's whole `data:` lines."""
    found = []
    for line in raw.split(b"\n")[:-1]:
        if line.startswith(b"data:"):
            try:
                found.append(json.loads(line[5:]))
            except ValueError:
                continue
    return [c for c in found if isinstance(c, dict)]


def _exchange(taken: Taken, stream: bool) -> Exchange:
    if stream:
        body: Any = _chunks(taken.response)
        failed = next((c for c in body if "error" in c), None)
        if failed or not body:
            code = failed["error"].get("code") if failed and isinstance(failed["error"], dict) else None
            raise Unavailable(code, failed or {}, _sent(taken), "empty stream", _got(taken, stream))
        return Exchange(json.loads(taken.request), body)
    try:
        body = json.loads(taken.response)
    except ValueError:
        body = None
    if not isinstance(body, dict):  # a proxy's page, or a cut answer
        raise Unavailable(None, {}, json.loads(taken.request), "unreadable answer")
    return Exchange(json.loads(taken.request), body)


# --- building them ------------------------------------------------------------------------------------------


def simulated(app: Any = None, transport: httpx2.AsyncBaseTransport | None = None) -> Backend:
    """Return the embedded emulator as a backend, in-process (no socket); by default with all tasks' plans."""
    if transport is None:
        transport = StreamingASGITransport(app if app is not None else emulator())
    return embedded("sim", transport, SCRIPTED)


def embedded(name: str, transport: httpx2.AsyncBaseTransport, simulated: str, pools: Any = None) -> Backend:
    """Return a backend over an emulator's transport; `simulated` says what stands behind it.

    `pools`: what holds connections of its own by event loop, closed by its `aclose` when a run is over.
    """
    client = _client(transport, api_key="emulator", base_url="http://emulator")
    return Backend(name, client, DEVELOPER, simulated, pools)


def emulator(model: str = "scripted", parameters: Any = None, **options: Any) -> Any:
    """Return the emulator's ASGI app with all tasks' plans behind it; `options` are create_app's.

    `model`: `scripted`, which follows the plan of a task it knows by its tools and is the tour for any other,
    `tour` for every request, or a language model by the name of its backend. Raises ValueError for any other.
    """
    from . import language, tasks
    from .emulator.app import create_app
    from .emulator.minds.scripted import ScriptedModel
    from .emulator.minds.tour import TourModel

    if language.is_language(model):
        return create_app(language.model(model)[0], **options)
    if model not in ("scripted", "tour"):
        raise ValueError(f"unknown model {model!r}; known: scripted, tour, {language.KNOWN}")
    tour = TourModel()
    chosen = tour if model == "tour" else ScriptedModel(tasks.plans(), parameters, otherwise=tour)
    return create_app(chosen, **options)


def gemini(base_url: str | None = None) -> Backend:
    """Return the real API by the SDK's own environment variables; raises NoKey where there is none."""
    vertex = any(
        os.environ.get(name, "").lower() in ("1", "true")
        for name in ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE")
    )
    key = os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY")
    if not key and not (vertex and os.environ.get("GOOGLE_CLOUD_PROJECT")):
        raise NoKey(NO_KEY)
    base_url = base_url or os.environ.get("GOOGLE_GEMINI_BASE_URL")
    pools = Pools()
    client = _client(pools, **({} if vertex else {"api_key": key}), base_url=base_url)
    elsewhere = f"answered by {_address(base_url)}, not by Google's own address" if base_url else None
    return Backend("gemini", client, VERTEX if vertex else DEVELOPER, elsewhere, pools)


def _address(url: str) -> str:
    """Return a URL's scheme, host and port: what else stands in it may be a secret."""
    found = urlsplit(url)
    return f"{found.scheme}://{found.hostname}" + (f":{found.port}" if found.port else "")


def get(name: str, base_url: str | None = None) -> Backend:
    """Return a backend by name: `sim`, `gemini`, `gguf:FILE` or `openai:URL#MODEL`; raises ValueError for others."""
    from . import language

    if name == "sim":
        return simulated()
    if name == "gemini":
        return gemini(base_url)
    if language.is_language(name):
        return language.backend(name)
    raise ValueError(f"unknown backend {name!r}; known: sim, gemini, {language.KNOWN}")


def _client(transport: httpx2.AsyncBaseTransport, base_url: str | None, **options: Any) -> genai.Client:
    from google import genai
    from google.genai import types

    # One attempt: by default the SDK would send an interaction again by itself, unseen, and never obey RetryInfo.
    once = types.HttpRetryOptions(attempts=1)
    transports = {"transport": Recorder(transport)}
    http = types.HttpOptions(base_url=base_url, async_client_args=transports, retry_options=once)
    return genai.Client(http_options=http, **options)
