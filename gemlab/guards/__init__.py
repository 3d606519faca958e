"""Loop guards: what they see (rounds), count (detectors) and say (rules, a ladder); by name (presets)."""

from __future__ import annotations

from .ladder import STOP, Guard, Ladder, Watch
from .policy import Guards
from .presets import GUARDS, PRESETS, get, together
from .rules import (
    BLOCKED,
    HARD_CAP,
    CostBudget,
    Cycle,
    EmptyAnswer,
    FailuresInARow,
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
    "STOP",
    "CostBudget",
    "Cycle",
    "EmptyAnswer",
    "FailuresInARow",
    "Guard",
    "Guards",
    "Ladder",
    "RepeatedCall",
    "RepeatedError",
    "ResultStall",
    "TokenBudget",
    "TurnBudget",
    "UnknownTool",
    "Watch",
    "get",
    "together",
]
