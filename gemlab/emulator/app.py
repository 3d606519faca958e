"""The ASGI app: Google's routes for generateContent, its stream and interactions, in-process or behind a server."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..wire import families, rules
from ..wire.families import DEVELOPER, VERTEX, Profile
from . import catalogue, errors, faults, interactions, signatures
from .answer import forms, usage
from .errors import ApiError
from .faults import Fault, Faults
from .minds.view import Mind, Reply, View, read
from .parse import shape

_JSON = "application/json; charset=UTF-8"


def create_app(
    mind: Mind,
    routes: Mapping[str, str] | None = None,
    switches: Mapping[str, str | bool] | None = None,
    faults: Sequence[Fault] = (),
    seed: int = 0,
) -> Starlette:
    """Return the emulator with the given mind behind it.

    `routes` maps requested to served ids (default: `families.ROUTES`); `switches` override profile fields that
    are unsettled (see `families.Profile`); `faults` strike by `seed` (see `faults.Fault`). Raises ValueError for an
    unknown switch.
    """
    families.check_switches(switches or {})
    emulator = _Emulator(
        mind, dict(families.ROUTES if routes is None else routes), dict(switches or {}), Faults(faults, seed)
    )
    publishers = "publishers/google/models"
    return Starlette(
        routes=[
            Route(
                f"/{{version}}/projects/{{p}}/locations/{{l}}/{publishers}/{{call:path}}",
                emulator.serve_vertex,
                methods=_POST,
            ),
            Route(f"/{{version}}/{publishers}/{{call:path}}", emulator.serve_vertex, methods=_POST),
            *(Route(f"/{{version}}{p}/interactions", emulator.create_interaction, methods=_POST) for p in _PARENTS),
            *(Route(f"/{{version}}{p}/interactions/{{id}}", emulator.get_interaction, methods=_GET) for p in _PARENTS),
            Route("/{version}/models", emulator.list_models, methods=_GET),
            Route("/{version}/models/{call:path}", emulator.get_model, methods=_GET),
            Route("/{version}/models/{call:path}", emulator.serve_developer, methods=_POST),
            Route("/{path:path}", _unknown_route, methods=_ALL_METHODS),
        ]
    )


_GET, _POST = ["GET"], ["POST"]
_PARENTS = ("", "/projects/{p}/locations/{l}")
_ALL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_VERSIONS = ("v1", "v1beta", "v1beta1")
_METHODS = ("generateContent", "streamGenerateContent", "countTokens")


def _json(body: Any, status: int = 200) -> Response:
    text = json.dumps(body, indent=2, ensure_ascii=False).encode("utf-8", "replace")
    return Response(text + b"\n", status, media_type=_JSON)


async def _unknown_route(request: Request) -> Response:
    page = "<!DOCTYPE html>\n<html lang=en>\n<title>Error 404 (Not Found)!!1</title>\n"
    return Response(page, 404, media_type="text/html; charset=UTF-8")


class _Emulator:
    def __init__(self, mind: Mind, routes: dict[str, str], switches: dict[str, str | bool], faults: Faults):
        self.mind, self.routes, self.switches, self.faults = mind, routes, switches, faults
        self.interactions = interactions.Interactions()

    async def serve_developer(self, request: Request) -> Response:
        return await self._serve(request, DEVELOPER)

    async def serve_vertex(self, request: Request) -> Response:
        return await self._serve(request, VERTEX)

    async def list_models(self, request: Request) -> Response:
        try:
            return _json(catalogue.page(request.query_params))
        except ApiError as error:
            return _json(error.body(), error.code)

    async def get_model(self, request: Request) -> Response:
        version, name = request.path_params["version"], request.path_params["call"]
        try:
            self._profile(name, version, "getModel", DEVELOPER)
            return _json(catalogue.card(name))
        except ApiError as error:
            return _json(error.body(), error.code)

    async def create_interaction(self, request: Request) -> Response:
        """Create an interaction: read as the generateContent request that it stands for, and answered as one."""
        version, service = request.path_params["version"], VERTEX if "p" in request.path_params else DEVELOPER
        if version not in _VERSIONS:
            return await _unknown_route(request)
        try:
            asked = self.interactions.read(await request.body())
            profile = self._profile(asked.model, version, "createInteraction", service)
            fault = self.faults.choose(asked.body, profile.model, False)
            (answer,) = await self._answer(asked.body, profile, fault, False)
            return _json(self.interactions.answer(asked, answer))
        except ApiError as error:
            return _json(interactions.error_body(error), error.code)

    async def get_interaction(self, request: Request) -> Response:
        try:
            return _json(self.interactions.get(request.path_params["id"]))
        except ApiError as error:
            return _json(interactions.error_body(error), error.code)

    async def _serve(self, request: Request, service: str) -> Response:
        version, call = request.path_params["version"], request.path_params["call"]
        requested, _, method = call.rpartition(":")
        streamed = method == "streamGenerateContent"
        sse = request.query_params.get("alt") == "sse"
        if version not in _VERSIONS:
            return await _unknown_route(request)
        try:
            if method not in _METHODS:
                raise errors.not_found(requested or call, version, method or "generateContent")
            profile = self._profile(requested, version, method, service)
            raw = await request.body()
            if method == "countTokens":
                return _json(self._count(shape.parse(raw, counting=True), profile))
            body = shape.parse(raw)
            fault = self.faults.choose(body, profile.model, streamed)
            bodies = await self._answer(body, profile, fault, streamed)
        except ApiError as error:
            # A stream that is no event stream is one array, and so is its error.
            return _json([error.body()] if streamed and not sse else error.body(), error.code)
        if not streamed:
            return _json(bodies[0])
        if sse:
            return _Stream(_events(bodies, fault), headers={"content-type": "text/event-stream"})
        return _Stream(_array(bodies, fault), media_type=_JSON)

    async def _answer(
        self, body: dict[str, Any], profile: Profile, fault: Fault | None, streamed: bool
    ) -> list[dict[str, Any]]:
        """Return the bodies of an answer: one, or a stream's chunks."""
        faults.refuse(fault, profile)
        if fault and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        if fault and fault.kind == "served_model":
            profile = families.profile(fault.served, profile.service, **self.switches)
        view, mismatched = self.judge(body, profile)
        reply = Reply() if mismatched else self.mind.respond(view)
        if inspect.isawaitable(reply):
            reply = await reply
        if streamed:
            return faults.spoil(fault, forms.stream(reply, body, view, profile), profile)
        return faults.spoil(fault, [forms.unary(reply, body, view, profile)], profile)

    def _count(self, body: dict[str, Any], profile: Profile) -> dict[str, Any]:
        """Count what generateContent would; of the rules only the parser's apply."""
        findings = [f for f in rules.check(body["contents"], profile) if f.rule in ("base64", "inside_call")]
        if findings:
            raise errors.refused(findings)
        prompt = usage.prompt_details(body, read(body, profile), profile)
        return {"totalTokens": sum(prompt.values()), "promptTokensDetails": usage.details(prompt)}

    def _profile(self, requested: str, version: str, method: str, service: str) -> Profile:
        served = families.serve(requested, self.routes)
        if not families.is_known(served) or (requested.endswith("-latest") and version == "v1"):
            raise errors.not_found(requested, version, method)
        return families.profile(served, service, **self.switches)

    def judge(self, body: dict[str, Any], profile: Profile) -> tuple[View, bool]:
        """Refuse what the served model's API refuses; return what the model sees, and whether ids mismatch.

        Where a mismatched id is not refused, the API is documented to answer nothing, with STOP.
        """
        shape.thinking(body, profile)
        findings = rules.check(body["contents"], profile, lambda raw: signatures.open_(raw, profile) is not None)
        refused = rules.refusal(findings)
        if refused:
            raise errors.refused(refused)
        return read(body, profile), any(f.rule == "id_mismatch" for f in findings)


class _Stream(StreamingResponse):
    """A stream without Starlette's watch for clients that leave: it ends soon, and servers drop what comes late."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.stream_response(send)


_LINE = json.JSONEncoder(ensure_ascii=False, separators=(",", ": "))


async def _events(chunks: list[dict[str, Any]], fault: Fault | None) -> AsyncIterator[bytes]:
    async for chunk in _until(chunks, fault):
        yield b"data: " + _LINE.encode(chunk).encode("utf-8", "replace") + b"\r\n\r\n"


async def _array(chunks: list[dict[str, Any]], fault: Fault | None) -> AsyncIterator[bytes]:
    start = b"["
    async for chunk in _until(chunks, fault):
        yield start + json.dumps(chunk, indent=2, ensure_ascii=False).encode("utf-8", "replace")
        start = b"\n,\r\n"
    yield b"\n]"


async def _until(chunks: list[dict[str, Any]], fault: Fault | None) -> AsyncIterator[dict[str, Any]]:
    """Yield the chunks, up to where a fault ends the stream."""
    ending = fault if fault is not None and fault.kind in ("cut", "error_chunk") else None
    for chunk in chunks if ending is None else chunks[: ending.after]:
        yield chunk
    if ending is not None and ending.kind == "cut":
        raise faults.Cut("the connection was cut in the middle of a stream")
    if ending is not None:
        yield ApiError(503, errors.OVERLOADED).body()
