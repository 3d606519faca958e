"""The seam to the API: a backend, its source, an exchange, and the ways in which a request can go without an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

NO_KEY = (
    "no API key: set GEMINI_API_KEY (or GOOGLE_API_KEY; for Vertex AI GOOGLE_GENAI_USE_VERTEXAI=true with "
    "GOOGLE_CLOUD_PROJECT), or leave out --backend gemini to run on the embedded emulator"
)


# --- who answers --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """Who answered: the one place from which tables, figures, readings and summaries take their label.

    `kind`: `scripted` and `tour` are programs behind the emulator, `mind` another one, `language` a language model
    behind it; `api` is Google's own address, `elsewhere` another; `own`: somebody's recorded runs. `label` stands
    under every figure. `settings`: what was set otherwise than by default.
    """

    kind: Literal["scripted", "tour", "mind", "language", "api", "elsewhere", "own"]
    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """The label as a sentence."""
        return f"{self.label[:1].upper()}{self.label[1:]}."

    @property
    def is_simulated(self) -> bool:
        """Tell whether a program, not a model, decided what was answered."""
        return self.kind in ("scripted", "tour", "mind")


SCRIPTED = Source("scripted", "scripted model: shows the instrument, not Gemini")
API = Source("api", "measured on the real API")


# --- requests -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """The settings of one request beside its contents.

    `declarations`: the functions as the API's JSON (`parametersJsonSchema`). `thinking` False asks for a budget of 0;
    `mode` NONE for an answer without calls.
    """

    system: str = ""
    declarations: tuple[dict[str, Any], ...] = ()
    seed: int | None = None
    thinking: bool = True
    mode: Literal["AUTO", "NONE"] = "AUTO"


@dataclass(frozen=True)
class Exchange:
    """One request and its response as they were on the wire (bodies only): one body, or a stream's chunks."""

    request: dict[str, Any]
    response: dict[str, Any] | list[dict[str, Any]]


class Backend(Protocol):
    """A named way to a model. `service`: developer or vertex; `source`: who answers."""

    name: str
    service: str
    source: Source

    async def send(
        self, model: str, contents: Sequence[dict[str, Any]], settings: Settings, stream: bool = False
    ) -> Exchange:
        """Send one generateContent request, contents as they are; raises Refused, Rejected or Unavailable."""
        ...

    async def interact(self, request: dict[str, Any]) -> Exchange:
        """Create one interaction (Interactions API); raises Refused, Rejected or Unavailable."""
        ...

    async def release(self) -> None:
        """Close what this event loop has opened; the next request opens it anew."""
        ...


# --- what can go wrong --------------------------------------------------------------------------------------


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
    """HTTP 400 about the history (`wire.rules.refuses_history`): the API does not take it, nor will it later."""


class Rejected(ApiFailure):
    """Another 4xx: a setting, a key, a place, a prompt too long. Not the history's fault, nor better at once."""


class Unavailable(ApiFailure):
    """429, 5xx, a lost connection or an unreadable answer: the same request may be answered later."""


_LONGEST_MESSAGE = 400


def _message(body: dict[str, Any]) -> str:
    """Return what the API said as one line, shortened: a parser lists all that is wrong, with the values."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return "no error body"
    line = " ".join(str(error.get("message"))[: 4 * _LONGEST_MESSAGE].split())
    return line if len(line) <= _LONGEST_MESSAGE else line[: _LONGEST_MESSAGE - 1] + "…"
