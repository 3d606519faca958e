"""The ladder that every guard climbs: a nudge once a streak, then, where that did not help, an end."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, get_args

from .rounds import Place, Round, Seen, Verdict


class Guard(Protocol):
    """`before` judges the newest round's calls ahead of their execution, `after` the round with its results."""

    def before(self, rounds: Sequence[Round]) -> list[Verdict]: ...
    def after(self, rounds: Sequence[Round]) -> list[Verdict]: ...


@dataclass(frozen=True)
class Ladder:
    """How a guard goes up: `nudge` first or not, and where (`place`); then `patience` further rounds that still
    repeat (blocked ones where the guard blocks); then `last`: a forced final answer, or the end of the run.

    Places: in the `response` to the call; as a `user_text` after the responses; or `unanswered`, the user text with
    the call's response left out, as loops do that go on with a text instead of the result. The API refuses such a
    history, and the run is over: the place is there to see that.
    """

    nudge: bool = True
    place: Place = "response"
    patience: int = 2
    last: Literal["finish", "stop"] = "finish"

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise ValueError(f"Ladder.patience is {self.patience}: it has to be at least 1")
        if self.place not in get_args(Place) or self.last not in ("finish", "stop"):
            raise ValueError(f"{self}: place is response, user_text or unanswered, last is finish or stop")


# Known systems end a run where their rule fires.
STOP = Ladder(nudge=False, patience=1, last="stop")


@dataclass(frozen=True)
class Watch:
    """What all guards share: a rule's level, its threshold `limit`, and the ladder."""

    limit: float = 3
    ladder: Ladder = Ladder()
    reason: ClassVar[str]
    least: ClassVar[float] = 2
    nudge: ClassVar[str] = ""
    ending: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.limit < self.least:
            raise ValueError(f"{type(self).__name__}.limit is {self.limit}: it has to be at least {self.least}")

    @property
    def rule(self) -> Any:
        """The detector whose level counts: a guard with `levels` of its own is one itself."""
        return self

    def levels(self, seen: Iterable[Seen]) -> Iterator[float | None]:
        """Yield a level after every round, None after one that says nothing to the rule."""
        raise NotImplementedError

    def fired(self, rounds: Sequence[Round]) -> list[bool]:
        """Tell of each round that says something to the rule whether the level reached the limit after it."""
        levels = self.rule.levels(r.seen for r in rounds)
        return [level >= self.limit for level in levels if level is not None]

    def before(self, rounds: Sequence[Round]) -> list[Verdict]:
        return []

    def after(self, rounds: Sequence[Round]) -> list[Verdict]:
        level = last(self.rule.levels(r.seen for r in rounds))
        if level is None or level < self.limit:
            return []
        fired = self.fired(rounds)
        streaks = sum(now and not then for then, now in zip([False, *fired], fired, strict=False))
        over = sum(fired) - (streaks if self.ladder.nudge else 0)
        if over >= self.ladder.patience:
            return [Verdict(self.ladder.last, self.reason, f"{self.ending} {ANSWER}")]
        if self.ladder.nudge and fired[-2:] in ([True], [False, True]):
            return [Verdict("nudge", self.reason, self.nudge, 0, self.ladder.place)]
        return []


ANSWER = "Give the final answer now from what you have."


def last(values: Iterable[Any]) -> Any:
    """Return the last of some values, None where there are none."""
    newest = collections.deque(values, maxlen=1)
    return newest[0] if newest else None
