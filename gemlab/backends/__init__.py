"""Where requests go: the embedded emulator, the real API or a language model, all through the same client."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from ..registry import Kind, bind, first_line
from . import language, minds
from .api import gemini
from .client import ClientBackend, embedded, sdk_client
from .emulated import emulator, simulated
from .inprocess import StreamingASGITransport
from .seam import (
    API,
    NO_KEY,
    SCRIPTED,
    ApiFailure,
    Backend,
    Exchange,
    NoKey,
    Refused,
    Rejected,
    Settings,
    Source,
    Unavailable,
)

__all__ = [
    "API",
    "BACKENDS",
    "NO_KEY",
    "SCRIPTED",
    "ApiFailure",
    "Backend",
    "ClientBackend",
    "Exchange",
    "NoKey",
    "Refused",
    "Rejected",
    "Settings",
    "Source",
    "Unavailable",
    "Way",
    "embedded",
    "emulator",
    "find",
    "gemini",
    "get",
    "minds",
    "sdk_client",
    "simulated",
]


@dataclass(frozen=True)
class Way:
    """A backend as a part: `open` it by its address, `check` it without opening, `label`: what traces call it.

    `kind`: whose answers come (Source.kind); `spends`: they cost money; `usage`: how the name is written. `check`
    raises BadInput.
    """

    name: str
    doc: str
    kind: str
    open: Callable[[str], Backend]
    check: Callable[[str], None] = lambda address: None
    label: Callable[[str], str] | None = None
    spends: bool = False
    usage: str = ""

    def called(self, address: str) -> str:
        """Return what traces call the backend."""
        return self.label(address) if self.label else f"{self.name}:{address}" if address else self.name


BACKENDS: Kind[Way | Callable[..., Backend]] = Kind("backend", "gemlab.backends")


def find(text: str) -> tuple[Way, str]:
    """Return the way to a backend and the address in its name; raises BadInput for an unknown one."""
    part, name = BACKENDS.find(text)
    if isinstance(part, Way):
        return part, str(name.args[0]) if name.args else ""
    open_ = functools.partial(part, **bind(part, name))
    return Way(name.base, first_line(part), "elsewhere", lambda address: open_()), ""


def get(text: str) -> Backend:
    """Return a backend by its text: `sim`, `sim:MIND`, `gemini`, `gguf:FILE`, `openai:URL#MODEL`; raises BadInput."""
    way, address = find(text)
    return way.open(address)


def _simulated(mind: str) -> Backend:
    if not mind or mind == "scripted":
        return simulated()
    return embedded(f"sim:{mind}", StreamingASGITransport(emulator(mind)), minds.source(mind))


def _language(scheme: str, written: str, doc: str) -> Way:
    return Way(
        scheme,
        doc,
        "language",
        open=lambda address: language.backend(f"{scheme}:{address}"),
        check=lambda address: language.check(f"{scheme}:{address}"),
        label=lambda address: language.label(f"{scheme}:{address}"),
        usage=f"{scheme}:{written}",
    )


def _known_mind(mind: str) -> None:
    minds.source(mind or "scripted")


for _way in (
    Way(
        "sim",
        "The embedded emulator, offline; sim:MIND with another mind behind it.",
        "scripted",
        _simulated,
        _known_mind,
    ),
    Way(
        "gemini",
        "The real API by the SDK's own environment variables; costs money.",
        "api",
        lambda _: gemini(),
        spends=True,
    ),
    _language("gguf", "FILE", "A language model from a GGUF file behind the emulator; none: a fetched one."),
    _language("openai", "URL#MODEL", "A language model of an OpenAI-compatible server behind the emulator."),
):
    BACKENDS.register(_way)
