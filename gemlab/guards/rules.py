"""Loop guards: they watch a turn's rounds and say nothing, nudge, finish or stop.

Guards are frozen settings; what they say follows from the rounds alone (with what guards said in them), so the
same guard runs live and over recorded runs. What they count stands in detectors.py. All go up one ladder: a
nudge once a streak, blocked calls where calls can be told apart before they run, one forced final answer (or
the end), and where that answer is empty or a call, the end with the guard's reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from . import detectors
from .ladder import ANSWER, STOP, Ladder, Watch, last
from .rounds import Round, Verdict

# A turn without any guard still ends: nobody waits for an endless loop.
HARD_CAP = 200

# The body of the response to a blocked call, beside the notice.
BLOCKED = {"error": "blocked"}


# --- repetition ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RepeatedCall(Watch):
    """The same call in `limit` rounds: nudge once a streak, then block it, then finish.

    `by`, `scope`, `window`: see detectors.Repetition. A streak is a run of rounds that each repeat some call so
    often: A-B-A-B is one. A blocked call counts as the same result again.
    """

    limit: int = 3
    by: Literal["args", "result"] = "result"
    scope: Literal["turn", "consecutive"] = "turn"
    window: int = 0
    reason: ClassVar[str] = "repeated_call"
    ending: ClassVar[str] = "The same call again."

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by not in ("args", "result") or self.scope not in ("turn", "consecutive"):
            raise ValueError(f"{self}: by is not args or result, or scope is not turn or consecutive")
        if 0 < self.window < self.limit:
            raise ValueError(f"{self} can never fire: the window holds {self.window} rounds")

    @property
    def rule(self) -> detectors.Repetition:
        return detectors.Repetition(self.by, self.scope, self.window)

    def before(self, rounds: Sequence[Round]) -> list[Verdict]:
        *earlier, now = rounds
        told = self._told(earlier)
        return [Verdict("block", self.reason, _BLOCKED, i) for i, key in enumerate(now.keys) if key in told]

    def after(self, rounds: Sequence[Round]) -> list[Verdict]:
        levels = last(self.rule.call_levels(r.seen for r in rounds))
        if levels is None or max(levels) < self.limit:
            return []
        blocked = [any(v.kind == "block" and v.reason == self.reason for v in r.verdicts) for r in rounds]
        over = sum(blocked) if self.ladder.nudge else sum(self.fired(rounds))
        ending = over >= self.ladder.patience and (blocked[-1] or not self.ladder.nudge)
        nudges = self._nudges(rounds, levels) if self.ladder.nudge else []
        return nudges + [Verdict(self.ladder.last, self.reason, f"{self.ending} {ANSWER}")] * ending

    def _nudges(self, rounds: Sequence[Round], levels: Sequence[int]) -> list[Verdict]:
        """Nudge each call that reached the limit and was not told so in this streak, its copies not."""
        *earlier, now = rounds
        told = self._told(earlier)
        found = []
        for (key, result), level in zip(now.seen.calls, levels, strict=True):
            if level >= self.limit and key not in told:
                told.add(key)
                text = _NUDGE if self.by == "result" and result is not None else _NUDGE_ARGS
                found.append(Verdict("nudge", self.reason, text, now.keys.index(key), self.ladder.place))
        return found

    def _told(self, earlier: Sequence[Round]) -> set[Any]:
        """Return the calls that reached the limit in the streak that is still going on."""
        levels = list(self.rule.call_levels(r.seen for r in earlier))
        told: set[Any] = set()
        for past, found in zip(reversed(earlier), reversed(levels), strict=True):
            if found is not None and max(found) < self.limit:
                break
            told |= {key for (key, _), n in zip(past.seen.calls, found or (), strict=True) if n >= self.limit}
        return told


_NUDGE = (
    "This call was made before with the same arguments and gave the same result; it will not change. Use the "
    "result you have, call another tool, or answer."
)
_NUDGE_ARGS = (
    "This call was made before with the same arguments (counted by arguments alone). Use the result you have, "
    "call another tool, or answer."
)
_BLOCKED = "Not executed: the same call again. Use the result you have, call another tool, or answer."


@dataclass(frozen=True)
class ResultStall(Watch):
    """`limit` rounds in a row with the same results though calls may differ; trivial ones, acknowledgements skipped.

    `brief`: let short results of different calls count too, as an acknowledgement or a number is.
    """

    limit: int = 3
    brief: bool = False
    reason: ClassVar[str] = "result_stall"
    nudge: ClassVar[str] = "The last results are all the same. Try something else, or answer from what you have."
    ending: ClassVar[str] = "The results have not changed."

    @property
    def rule(self) -> detectors.Stall:
        return detectors.Stall(self.brief)


@dataclass(frozen=True)
class Cycle(Watch):
    """`limit` times through a cycle of at most `max_period` rounds (A-B-C-A-B-C is twice)."""

    limit: int = 3
    max_period: int = 5
    by: Literal["args", "result"] = "result"
    reason: ClassVar[str] = "cycle"
    nudge: ClassVar[str] = "The last calls go round in a circle. Try something else, or answer from what you have."
    ending: ClassVar[str] = "The calls go round in a circle."

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by not in ("args", "result") or self.max_period < 1:
            raise ValueError(f"{self}: by is args or result, max_period at least 1")

    @property
    def rule(self) -> detectors.Cycles:
        return detectors.Cycles(self.max_period, self.by)


@dataclass(frozen=True)
class RepeatedError(Watch):
    """The same error of one tool in `limit` rounds, with no other answer of that tool between them."""

    limit: int = 3
    reason: ClassVar[str] = "repeated_error"
    nudge: ClassVar[str] = "The tool keeps giving this error. Change the arguments, use another tool, or answer."
    ending: ClassVar[str] = "The tool keeps failing."

    @property
    def rule(self) -> detectors.Errors:
        return detectors.Errors()


# Other calls are tried after the nudge, which may take some rounds: at 2 it ends five healthy recorded runs more.
_PATIENT = Ladder(patience=3)


@dataclass(frozen=True)
class FailuresInARow(Watch):
    """`limit` rounds in a row in which every call failed, whichever the tools and whatever the errors say."""

    limit: int = 5
    ladder: Ladder = _PATIENT
    reason: ClassVar[str] = "failures"
    nudge: ClassVar[str] = "The last calls have all failed. Go by what the errors say, try another way, or answer."
    ending: ClassVar[str] = "The calls keep failing."

    @property
    def rule(self) -> detectors.Failures:
        return detectors.Failures()


@dataclass(frozen=True)
class UnknownTool(Watch):
    """Calls to functions that are not declared in `limit` rounds of the turn, whichever they are."""

    limit: int = 3
    reason: ClassVar[str] = "unknown_tool"
    least: ClassVar[int] = 1
    nudge: ClassVar[str] = "There is no such function: call only those that are declared, or answer."
    ending: ClassVar[str] = "The functions called do not exist."

    @property
    def rule(self) -> detectors.UnknownTools:
        return detectors.UnknownTools()


# --- budgets ------------------------------------------------------------------------------------------------

_AT_ONCE = Ladder(nudge=False, patience=1)


@dataclass(frozen=True)
class TurnBudget(Watch):
    """At most `limit` rounds a turn, then one forced final answer: a budget, not a detector."""

    limit: int = 50
    ladder: Ladder = _AT_ONCE
    reason: ClassVar[str] = "max_steps"
    least: ClassVar[int] = 1
    ending: ClassVar[str] = "The budget of tool calls is used up."

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.limit > HARD_CAP:
            raise ValueError(f"{self} can never fire: every turn ends after {HARD_CAP} rounds")

    @property
    def rule(self) -> detectors.Rounds:
        return detectors.Rounds()


@dataclass(frozen=True)
class TokenBudget(Watch):
    """At most `limit` tokens a turn, prompt and output (thoughts included) of all requests together."""

    limit: int = 1_000_000
    ladder: Ladder = _AT_ONCE
    reason: ClassVar[str] = "token_budget"
    least: ClassVar[int] = 1
    ending: ClassVar[str] = "The budget of tokens is used up."

    @property
    def rule(self) -> detectors.Tokens:
        return detectors.Tokens()


@dataclass(frozen=True)
class CostBudget(Watch):
    """At most `limit` dollars a turn, at `prompt` and `output` dollars a million tokens (the model's prices)."""

    limit: float = 1.0
    ladder: Ladder = _AT_ONCE
    prompt: float = 0.0
    output: float = 0.0
    reason: ClassVar[str] = "cost_budget"
    least: ClassVar[float] = 0.0
    ending: ClassVar[str] = "The budget is used up."

    def __post_init__(self) -> None:
        if not self.limit > 0:
            raise ValueError(f"CostBudget.limit is {self.limit}: it has to be above 0 dollars")
        if min(self.prompt, self.output) < 0 or not self.prompt + self.output > 0:
            raise ValueError(f"{self} can never fire: it needs prices in dollars a million tokens")

    @property
    def rule(self) -> detectors.Tokens:
        return detectors.Tokens(self.prompt / 1e6, self.output / 1e6)


@dataclass(frozen=True)
class EmptyAnswer(Watch):
    """The run ends at the `limit`-th empty, malformed or thought-only answer in a row; before, it is asked again."""

    limit: int = 2
    ladder: Ladder = STOP
    reason: ClassVar[str] = "empty"
    least: ClassVar[int] = 1

    @property
    def rule(self) -> detectors.Empties:
        return detectors.Empties()
