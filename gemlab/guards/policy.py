"""Several guards as one policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from .ladder import Guard, Watch
from .rounds import Round, Verdict
from .rules import CostBudget, EmptyAnswer, TokenBudget, TurnBudget


@dataclass(frozen=True)
class Guards:
    """Several guards as one: of their verdicts on a call the strongest counts, the first among equals.

    `declared`: whether they hear what tools declare about their calls. Raises ValueError for a threshold, or a
    last rung, that the turn budget keeps from ever being reached.
    """

    members: tuple[Guard, ...] = field(default_factory=tuple)
    declared: bool = True

    def __post_init__(self) -> None:
        budget = min((g.limit for g in self.members if isinstance(g, TurnBudget)), default=math.inf)
        for guard in self.members:
            if isinstance(guard, Watch) and not isinstance(guard, TurnBudget | TokenBudget | CostBudget):
                over = guard.ladder.patience + guard.ladder.nudge - 1
                if guard.limit > budget:
                    raise ValueError(f"{guard} can never fire: the turn ends after {budget} rounds")
                if guard.limit + over > budget:
                    raise ValueError(f"{guard} can never get to its end: the turn ends after {budget} rounds")

    def before(self, rounds: Sequence[Round]) -> dict[int | None, Verdict]:
        """Return the verdict on each call of the newest round that has one; under None, one on the round as a whole."""
        found: dict[int | None, Verdict] = {}
        for guard in self.members:
            for verdict in guard.before(rounds):
                kept = found.get(verdict.call)
                if kept is None or _STRENGTH[verdict.kind] > _STRENGTH[kept.kind]:
                    found[verdict.call] = verdict
        return found

    def after(self, rounds: Sequence[Round]) -> list[Verdict]:
        """Return all nudges on the newest round and, last, the strongest verdict that ends the turn, if any."""
        found = [v for guard in self.members for v in guard.after(rounds)]
        endings = [v for v in found if v.kind in ("finish", "stop")]
        nudges = [v for v in found if v.kind == "nudge"]
        return nudges + ([max(endings, key=lambda v: _STRENGTH[v.kind])] if endings else [])

    def asks_again(self, rounds: Sequence[Round]) -> bool:
        """Tell whether an empty answer, the newest round, is to be asked for again: only where a guard counts them."""
        counting = [g for g in self.members if isinstance(g, EmptyAnswer)]
        return bool(counting) and not any(g.after(rounds) for g in counting)


_STRENGTH = {"nudge": 0, "block": 1, "finish": 2, "stop": 3}
