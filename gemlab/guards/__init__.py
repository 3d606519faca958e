"""Loop guards: what they see (rounds), count (detectors) and say (rules, a ladder); by name (presets)."""

from __future__ import annotations

from .policy import Guards
from .presets import GUARDS, PRESETS, get, together
from .rules import (
    BLOCKED,
    HARD_CAP,
    CostBudget,
    Cycle,
    EmptyAnswer,
    RepeatedCall,
    RepeatedError,
    ResultStall,
    TokenBudget,
    TurnBudget,
    UnknownTool,
)

__all__ = [
    "BLOCKED",
    "GUARDS",
    "HARD_CAP",
    "PRESETS",
    "CostBudget",
    "Cycle",
    "EmptyAnswer",
    "Guards",
    "RepeatedCall",
    "RepeatedError",
    "ResultStall",
    "TokenBudget",
    "TurnBudget",
    "UnknownTool",
    "get",
    "together",
]
