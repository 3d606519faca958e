"""Model cards: what clients ask for before they start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..wire import families
from .errors import ApiError

_INPUT_LIMIT, _OUTPUT_LIMIT = 1_048_576, 65_536
_METHODS = ["generateContent", "countTokens"]
_MOST_PER_PAGE = 1000


def card(name: str) -> dict[str, Any]:
    """Return the card of a model id (the requested one: routing does not show here)."""
    title = name.removeprefix("models/").replace("-", " ").title()
    profile = families.profile(families.serve(name))
    return {
        "name": f"models/{name.removeprefix('models/')}",
        "version": "001",
        "displayName": title,
        "description": f"{title}, emulated",
        "inputTokenLimit": _INPUT_LIMIT,
        "outputTokenLimit": _OUTPUT_LIMIT,
        "supportedGenerationMethods": _METHODS,
        "temperature": 1,
        "topP": 0.95,
        "topK": 64,
        "maxTemperature": 2,
        **({"thinking": True} if profile.thinks else {}),
    }


def page(query: Mapping[str, str]) -> dict[str, Any]:
    """Return one page of cards by `pageSize` and `pageToken`; raises ApiError 400 for what is neither."""
    size, start = _number(query, "pageSize", 50), _number(query, "pageToken", 0)
    names = families.known_models()[start : start + min(size or 50, _MOST_PER_PAGE)]
    found: dict[str, Any] = {"models": [card(name) for name in names]}
    if start + len(names) < len(families.known_models()):
        found["nextPageToken"] = str(start + len(names))
    return found


def _number(query: Mapping[str, str], key: str, default: int) -> int:
    text = query.get(key, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ApiError(400, f"Invalid value at '{key}', {text!r}")
    return int(text)
