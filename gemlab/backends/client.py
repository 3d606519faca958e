"""The backend that all of ours are: a way to the API through the google-genai client.

The request's contents and the response's body are taken from the wire, so that what a trial keeps is what was
sent and received, with fields the SDK does not know yet. Headers and keys are never looked at.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import httpx2

from ..registry import BadInput
from ..wire import answers, rules
from ..wire import contents as wire
from ..wire.families import DEVELOPER
from .seam import ApiFailure, Exchange, Refused, Rejected, Settings, Source, Unavailable
from .wiretap import Pools, Recorder, Taken, taking

if TYPE_CHECKING:
    from google import genai
    from google.genai import types


class ClientBackend:
    """A backend (seam.Backend) through a google-genai client; `pools`: connections to close after a run."""

    def __init__(self, name: str, client: genai.Client, service: str, source: Source, pools: Pools | None = None):
        self.name, self.client, self.service, self.source, self._pools = name, client, service, source, pools

    async def release(self) -> None:
        """Close the connections that this event loop has opened; the next request opens new ones."""
        if self._pools is not None:
            await self._pools.aclose()

    async def send(
        self,
        model: str,
        contents: Sequence[dict[str, Any]],
        settings: Settings | types.GenerateContentConfig,
        stream: bool = False,
    ) -> Exchange:
        """Send one generateContent request, or with `stream` one streamGenerateContent; contents go out as they are.

        `settings` may be the SDK's own config, for what Settings does not hold. Raises Refused, Rejected or
        Unavailable.
        """
        from google.genai import errors, types

        config = _config(settings) if isinstance(settings, Settings) else settings
        # As extra_body the contents reach the wire untouched; through the SDK's types signatures change their
        # base64 alphabet, unknown fields are refused, and a request costs twice the time.
        options = types.HttpOptions(extra_body={"contents": list(contents)})
        config = config.model_copy(update={"http_options": options})
        models = self.client.aio.models
        taken = Taken()
        token = taking.set(taken)
        try:
            if stream:
                async for _ in await models.generate_content_stream(model=model, contents="", config=config):
                    pass
            else:
                await models.generate_content(model=model, contents="", config=config)
        except errors.APIError as error:
            body = error.details if isinstance(error.details, dict) else {}
            raise _kind(error.code, error.details)(error.code, body, _sent(taken), got=_got(taken, stream)) from None
        except httpx2.TransportError as error:
            raise _lost(error, taken, stream) from None
        except _UNREADABLE as error:  # what came over the wire counts, and what is still to come
            _check_came(error, taken)
            try:
                await taken.drain()
            except httpx2.TransportError as lost:
                raise _lost(lost, taken, stream) from None
        finally:
            taking.reset(token)
        return _exchange(taken, stream)

    async def reachable(self, model: str) -> None:
        """Ask for the model's card, which costs nothing; raises BadInput where key, model or network will not do."""
        from google.genai import errors

        try:
            await self.client.aio.models.get(model=model)
        except errors.APIError as error:
            raise BadInput(f"the API does not take this key or model: {error.code} {error.message}") from None
        except httpx2.TransportError as error:
            raise BadInput(f"no connection to the API: {type(error).__name__}") from None
        finally:
            await self.client.aio.aclose()

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
            code = error.status_code or 0
            if code >= 400:
                raise _kind(code, error.body)(code, body, _sent(taken)) from None
            if not taken.response:
                raise Unavailable(None, {}, _sent(taken), "unreadable answer") from None
        except _UNREADABLE as error:  # what came over the wire counts
            _check_came(error, taken)
        finally:
            taking.reset(token)
        exchange = _exchange(taken, False)
        _check_interaction(exchange)
        return exchange


_bases: dict[int, tuple[Settings, types.GenerateContentConfig]] = {}


def _config(settings: Settings) -> types.GenerateContentConfig:
    """Return settings in the SDK's types; declarations are put into them once for each set of tools."""
    from google.genai import types

    key = id(settings.declarations)
    kept = _bases.get(key)
    # What is kept holds the declarations, so that no other tuple can get their id.
    if kept is None or kept[0].declarations is not settings.declarations or kept[0].system != settings.system:
        if len(_bases) > 64:
            _bases.clear()
        kept = _bases[key] = settings, _base(settings)
    changes: dict[str, Any] = {"seed": settings.seed}
    if not settings.thinking:
        changes["thinking_config"] = types.ThinkingConfig(thinking_budget=0)
    if settings.mode == "NONE":
        calling = types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode.NONE)
        changes["tool_config"] = types.ToolConfig(function_calling_config=calling)
    return kept[1].model_copy(update=changes)


def _base(settings: Settings) -> types.GenerateContentConfig:
    from google.genai import types

    declared = [
        types.FunctionDeclaration(
            name=d["name"], description=d.get("description"), parameters_json_schema=d["parametersJsonSchema"]
        )
        for d in settings.declarations
    ]
    return types.GenerateContentConfig(
        system_instruction=settings.system or None,
        tools=[types.Tool(function_declarations=declared)] if declared else None,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )


def _kind(code: int, body: Any) -> type[ApiFailure]:
    if code == 429 or code >= 500:
        return Unavailable
    return Refused if code == 400 and rules.refuses_history(body) else Rejected


# What the SDK's types raise on an answer that they do not know: an enumeration as a number is an AttributeError.
_UNREADABLE = (ValueError, AttributeError, TypeError, LookupError)


def _check_came(error: Exception, taken: Taken) -> None:
    """Raise what kept a request from being answered at all: a ValueError is about what was to be sent."""
    if not taken.response:
        raise Rejected(None, {}, None, f"{type(error).__name__}: {error}") if isinstance(error, ValueError) else error


def _lost(error: httpx2.TransportError, taken: Taken, stream: bool) -> Unavailable:
    return Unavailable(None, {}, _sent(taken), type(error).__name__, _got(taken, stream))


def _sent(taken: Taken) -> dict[str, Any] | None:
    return json.loads(taken.request) if taken.request else None


def _got(taken: Taken, stream: bool) -> list[dict[str, Any]]:
    """Return the chunks of a stream that had arrived whole before it failed."""
    return [c for c in _chunks(taken.response) if "error" not in c] if stream else []


def _chunks(raw: bytes | bytearray) -> list[dict[str, Any]]:
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
        if failed:
            code = failed["error"].get("code") if isinstance(failed["error"], dict) else None
            raise Unavailable(code, failed, _sent(taken), "failed stream", _got(taken, stream))
        if not any(map(_says_something, body)):
            raise Unavailable(None, {}, _sent(taken), "empty stream")
        return Exchange(json.loads(taken.request), body)
    try:
        body = json.loads(taken.response)
    except ValueError:
        body = None
    if not isinstance(body, dict):  # a proxy's page, or a cut answer
        raise Unavailable(None, {}, json.loads(taken.request), "unreadable answer")
    return Exchange(json.loads(taken.request), body)


def _says_something(chunk: dict[str, Any]) -> bool:
    answer = answers.read(chunk)
    parts = wire.parts(answer.content) if answer.content else []
    return bool(answer.finish_reason or answer.blocked_for) or not all(map(wire.is_blank, parts))


# Codes of an interaction that failed which stand for HTTP errors that may pass.
_MAY_PASS = ("internal_error", "service_unavailable", "rate_limit_exceeded")


def _check_interaction(exchange: Exchange) -> None:
    """Raise Unavailable for an interaction that failed as a request does, though its own HTTP status is 200."""
    body = exchange.response
    errors = body.get("errors") if isinstance(body, dict) and body.get("status") == "failed" else None
    for error in errors or []:
        if error.get("code") in _MAY_PASS:
            kind = f"interaction failed: {error['code']}: {error.get('message')}"
            raise Unavailable(None, {"error": error}, exchange.request, kind)


def embedded(name: str, transport: httpx2.AsyncBaseTransport, source: Source, pools: Any = None) -> ClientBackend:
    """Return a backend over an emulator's transport; `source` says what stands behind it.

    `pools`: what holds connections of its own by event loop, closed by its `aclose` when a run is over.
    """
    client = sdk_client(transport, api_key="emulator", base_url="http://emulator")
    return ClientBackend(name, client, DEVELOPER, source, pools)


def sdk_client(transport: httpx2.AsyncBaseTransport, base_url: str | None, **options: Any) -> genai.Client:
    from google import genai
    from google.genai import types

    # One attempt: by default the SDK would send an interaction again by itself, unseen, and never obey RetryInfo.
    once = types.HttpRetryOptions(attempts=1)
    transports = {"transport": Recorder(transport)}
    http = types.HttpOptions(base_url=base_url, async_client_args=transports, retry_options=once)
    return genai.Client(http_options=http, **options)
