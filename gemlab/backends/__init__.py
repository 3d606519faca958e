"""Where requests go: the embedded emulator, the real API or a language model, all through the same client."""

from __future__ import annotations

from .api import gemini
from .client import ClientBackend, sdk_client
from .emulated import embedded, emulator, simulated
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
    "embedded",
    "emulator",
    "gemini",
    "get",
    "sdk_client",
    "simulated",
]


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
