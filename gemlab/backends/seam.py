"""The seam to the API: what an exchange is, and the ways in which a request can go without an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
