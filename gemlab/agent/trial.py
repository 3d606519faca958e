"""What a trial is: its setting, and its steps as it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..guards.rounds import Round
from ..tasks import Called
from ..wire.contents import Content
from . import step as views
from .arm import Arm
from .step import Step

OUTCOMES = ("completed", "wrong", "unfinished", "refused", "failed")

# Why a trial is unfinished, or, the last, refused where there was no HTTP error.
REASONS: dict[str, str] = {
    "max_steps": "the turn took all of its rounds",
    "guard": "a guard stopped it, or got no text where it had a final answer forced",
    "empty": "the answer came to its end with neither a call nor a text",
    "malformed": "the model wrote a call, or an answer, that cannot be read or calls what is not declared",
    "truncated": "the answer reached a limit of tokens or tool calls before its end",
    "blocked": "the prompt or the answer was blocked: safety, recitation, prohibited content and the like",
    "cut": "what came of the answer has no end: a stream or call that broke off, an interaction that was cancelled",
    "other": "the API ended the answer for another reason",
    "missing_signature": "the API refused the history for a missing signature, by a finish reason",
}
# The answer was ended from outside: whether the run would have gone well is not known.
INTERRUPTED = frozenset(("truncated", "blocked", "cut", "other"))


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
    """A trial as it runs: its steps, and what they do not tell.

    `donor`: the signatures that go out in the place of its own, where the history strategy swaps them.
    """

    spec: Spec
    donor: Sequence[str] = ()
    steps: list[Step] = field(default_factory=list)
    outcome: str = "failed"
    reason: str | None = None
    detail: str | None = None
    answer: str | None = None
    seconds: float = 0.0

    @property
    def model(self) -> str:
        """The model asked last: another than the spec's after a fallback."""
        return self.steps[-1].model if self.steps else self.spec.model

    @property
    def received(self) -> list[Content]:
        """The history as it came."""
        return views.received(self.steps)

    @property
    def called(self) -> list[Called]:
        """The executed calls, in order."""
        return views.called(self.steps)

    @property
    def rounds(self) -> list[Round]:
        """The newest turn as guards see it, without what tools declare."""
        return views.rounds(views.turns(self.steps)[-1], {}) if self.steps else []

    @property
    def forced(self) -> bool:
        """Tell whether a final answer was forced."""
        return views.is_forced(self.steps)


class End(Exception):
    """A trial is over before its answer: with this outcome, and for this reason (one of REASONS)."""

    def __init__(self, outcome: str, reason: str | None = None, detail: str | None = None):
        assert outcome in OUTCOMES and (reason is None or reason in REASONS)
        super().__init__(outcome)
        self.outcome, self.reason, self.detail = outcome, reason, detail
