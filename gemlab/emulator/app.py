"""The ASGI app: Google's routes for generateContent and streamGenerateContent, in-process or behind a server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from .. import models, rules
from ..models import DEVELOPER, VERTEX, Profile
from . import errors, forms, shape, signatures
from .errors import ApiError
from .view import Model, Reply, View, read

_JSON = "application/json; charset=UTF-8"


def create_app(
    model: Model, routes: Mapping[str, str] | None = None, switches: Mapping[str, str] | None = None
) -> Starlette:
    """Return the emulator with the given model behind it.

    `routes` maps requested to served ids (default: `models.ROUTES`); `switches` override profile fields that
    are unsettled (see `models.Profile`).
    """
    emulator = _Emulator(model, dict(models.ROUTES if routes is None else routes), dict(switches or {}))
    vertex = "/{version}/projects/{project}/locations/{location}/publishers/google/models/{call:path}"
    return Starlette(
        routes=[
            Route(vertex, emulator.vertex, methods=["POST"]),
            Route("/{version}/publishers/google/models/{call:path}", emulator.vertex, methods=["POST"]),
            Route("/{version}/models/{call:path}", emulator.developer, methods=["POST"]),
            Route("/{path:path}", _unknown_route, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]
    )


def _pretty(body: Any) -> bytes:
    return json.dumps(body, indent=2, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _failed(error: ApiError) -> Response:
    return Response(_pretty(error.body()), error.code, media_type=_JSON)


async def _unknown_route(request: Request) -> Response:
    return Response(b"", 404, media_type="text/html; charset=UTF-8")


class _Emulator:
    def __init__(self, model: Model, routes: dict[str, str], switches: dict[str, str]):
        self.model, self.routes, self.switches = model, routes, switches

    async def developer(self, request: Request) -> Response:
        return await self._serve(request, DEVELOPER)

    async def vertex(self, request: Request) -> Response:
        return await self._serve(request, VERTEX)

    async def _serve(self, request: Request, service: str) -> Response:
        version, call = request.path_params["version"], request.path_params["call"]
        requested, _, method = call.rpartition(":")
        try:
            if version not in ("v1", "v1beta", "v1beta1") or method not in _METHODS:
                raise errors.not_found(requested or call, version, method or "generateContent")
            profile = self._profile(requested, version, method, service)
            body = shape.parse(await request.body())
            view, mismatched = self.judge(body, profile)
            reply = Reply() if mismatched else self.model.respond(view)
        except ApiError as error:
            return _failed(error)
        if method == "generateContent":
            return Response(_pretty(forms.unary(reply, body, view, profile)), media_type=_JSON)
        chunks = forms.stream(reply, body, view, profile)
        if request.query_params.get("alt") == "sse":
            return StreamingResponse(_events(chunks), media_type="text/event-stream")
        return Response(_pretty(chunks), media_type=_JSON)

    def _profile(self, requested: str, version: str, method: str, service: str) -> Profile:
        served = models.serve(requested, self.routes)
        if not models.is_known(served) or (requested.endswith("-latest") and version == "v1"):
            raise errors.not_found(requested, version, method)
        return models.profile(served, service, **self.switches)

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


_METHODS = ("generateContent", "streamGenerateContent")


async def _events(chunks: list[dict[str, Any]]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield b"data: " + json.dumps(chunk, ensure_ascii=False).encode("utf-8", "replace") + b"\r\n\r\n"
