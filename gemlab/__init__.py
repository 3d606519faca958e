"""gemlab: measure what an agent on Gemini loses with its thought signatures, and which guards stop its loops.

The names below are what a notebook needs; each is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app.api import (
        backend,
        guard,
        importer,
        instance,
        mind,
        pruning,
        rule,
        run,
        strategy,
        study,
        task,
    )
    from .registry import BadInput

__all__ = [
    "BadInput",
    "backend",
    "guard",
    "importer",
    "instance",
    "mind",
    "pruning",
    "rule",
    "run",
    "strategy",
    "study",
    "task",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(".registry" if name == "BadInput" else ".app.api", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
