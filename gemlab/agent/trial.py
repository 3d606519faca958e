"""What a trial is: its setting, and its state as it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..guards.rounds import Round
from ..tasks import Called
from ..wire.contents import Content
from .arm import Arm
from .summaries import Summary

# An unfinished one has a reason: max_steps, guard, empty or malformed.
OUTCOMES = ("completed", "wrong", "unfinished", "refused", "failed")


@dataclass(frozen=True)
class Spec:
    """What to run: an arm on one instance of a task. `seed` makes the data and the request seeds."""

    arm: Arm
    task: str
    model: str
    instance: int
    repeat: int
    seed: int

    @property
    def id(self) -> str:
        return f"{self.arm.name}/{self.instance}/{self.repeat}"


@dataclass
class Trial:
    """A trial as it runs: `received` holds the contents as they came (and our messages and responses).

    `model`: the one asked now, another than the spec's after a fallback. `since`: where the
    conversation begins, after a fallback that began a new one. `rebuilt`: how many of the contents a
    retry has reconstructed. `summaries`: the model's own, of its old steps. `question`: the newest user message.
    `donor`: the signatures that go out in the place of its own, where the history strategy swaps them.
    """

    spec: Spec
    received: list[Content] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    called: list[Called] = field(default_factory=list)
    question: str = ""
    steps: list[dict[str, Any]] = field(default_factory=list)
    outcome: str = "failed"
    reason: str | None = None
    detail: str | None = None
    answer: str | None = None
    forced: bool = False
    seconds: float = 0.0
    model: str = ""
    since: int = 0
    rebuilt: int = 0
    summaries: list[Summary] = field(default_factory=list)
    donor: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.model = self.model or self.spec.model


class End(Exception):
    """A trial is over before its answer: with this outcome, and for this reason."""

    def __init__(self, outcome: str, reason: str | None = None, detail: str | None = None):
        super().__init__(outcome)
        self.outcome, self.reason, self.detail = outcome, reason, detail
