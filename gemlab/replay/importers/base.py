"""What every importer makes of its files: runs, and a named count of what could not be read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ...guards.rounds import Round


@dataclass(frozen=True)
class Run:
    """A recorded run: user turns of rounds, and whether it succeeded (None: not known).

    `end`: how it ended in the source's own words; `source`: the data set.
    """

    id: str
    source: str
    model: str
    success: bool | None
    end: str | None
    turns: tuple[tuple[Round, ...], ...]

    @property
    def has_calls(self) -> bool:
        """Tell whether any call is in it: rules of calls cannot fire in a run without."""
        return any(r.calls for turn in self.turns for r in turn)


@dataclass
class Imported:
    """Runs read so far, and what was not read: reason → how often, with the first place of each reason."""

    runs: list[Run] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    places: dict[str, str] = field(default_factory=dict)

    def skip(self, reason: str, place: str) -> None:
        """Count something that could not be read."""
        self.skipped[reason] += 1
        self.places.setdefault(reason, place)

    def notes(self) -> list[str]:
        """Return one sentence a reason, and one on runs without a call, which nobody would miss otherwise."""
        unread = [f"{n} not read: {reason} (first: {self.places[reason]})" for reason, n in self.skipped.items()]
        idle = [run.id for run in self.runs if not run.has_calls]
        if not idle:
            return unread
        return [*unread, f"{len(idle)} of {len(self.runs)} runs are without a call (first: {idle[0]})"]


class Broken(ValueError):
    """A record that is not what its format says; the message is the reason, the same for the same kind."""


def need(value: Any, kind: type | tuple[type, ...], what: str) -> Any:
    """Return the value if it is of the kind; raises Broken that names what is missing."""
    if not isinstance(value, kind):
        raise Broken(f"no {what}" if value is None else f"{what} is {type(value).__name__}")
    return value
