"""Loop guards: they watch a turn's rounds and say nothing, nudge, finish or stop.

A round is one model answer with the results of its calls. Guards are frozen settings; what they say follows
from the rounds alone (with what guards said in them), so the same guard runs live and over recorded runs.
Counting is by rounds, never by calls: three equal searches in one answer are one round of repetition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from . import contents as wire

# A turn without any guard still ends: nobody waits for an endless loop.
HARD_CAP = 200

Kind = Literal["nudge", "block", "finish", "stop"]
# The body of the response to a blocked call, beside the notice.
BLOCKED = {"error": "blocked"}


@dataclass(frozen=True)
class Verdict:
    """What a guard says. `call`: index of the offending call in its round, None for the round as a whole.

    `nudge`: a notice inside the response; `block`: a synthetic error in place of the result; `finish`: one
    forced final answer; `stop`: the run ends with the reason.
    """

    kind: Kind
    reason: str
    text: str
    call: int | None = None


@dataclass(frozen=True)
class Round:
    """Calls of one answer as (name, args), their results in the same order, and what guards said of them."""

    calls: tuple[tuple[str, Any], ...]
    results: tuple[Any, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


class Guard(Protocol):
    """`before` judges the newest round's calls ahead of their execution, `after` the round with its results."""

    def before(self, rounds: Sequence[Round]) -> list[Verdict]: ...
    def after(self, rounds: Sequence[Round]) -> list[Verdict]: ...


# --- fingerprints -------------------------------------------------------------------------------------------


def call_key(call: tuple[str, Any]) -> tuple[str, str]:
    """Return (name, canonical arguments)."""
    return wire.call_key({"name": call[0], "args": call[1]})


def is_trivial(result: Any) -> bool:
    """Tell whether a result carries no evidence of a stall: nothing, an empty one, or a bare "ok"."""
    if isinstance(result, dict):
        return not result or (len(result) == 1 and is_trivial(next(iter(result.values()))))
    return result is None or result is True or result in ("", [], "ok", "OK")


# --- the guards ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TurnBudget:
    """At most `rounds` rounds a turn, then one forced final answer: a budget, not a detector."""

    rounds: int

    def __post_init__(self) -> None:
        _positive(self, "rounds")
        if self.rounds > HARD_CAP:
            raise ValueError(f"{self} can never fire: every turn ends after {HARD_CAP} rounds")

    def before(self, rounds: Sequence[Round]) -> list[Verdict]:
        return []

    def after(self, rounds: Sequence[Round]) -> list[Verdict]:
        if len(rounds) < self.rounds:
            return []
        text = "The budget of tool calls is used up. Give the final answer now from what you have."
        return [Verdict("finish", "max_steps", text)]


@dataclass(frozen=True)
class RepeatedCall:
    """The same call in `limit` rounds of a turn: nudge once a streak, then block, then finish.

    `by`: "args" counts name and arguments; "result" counts only rounds in which the result was the same as
    well, so that polling with a changing result is healthy; a missing result counts as args only, and so does
    that of a blocked call. A streak is a run of rounds that each repeat some call so often: A-B-A-B is one.
    After `patience` rounds with blocked calls: finish.
    """

    limit: int = 3
    by: Literal["args", "result"] = "result"
    patience: int = 2

    def __post_init__(self) -> None:
        if self.by not in ("args", "result"):
            raise ValueError(f"RepeatedCall.by is {self.by!r}, not args or result")
        if self.limit < 2:
            raise ValueError(f"RepeatedCall.limit is {self.limit}: a first call is no repetition, at least 2")
        _positive(self, "patience")

    def before(self, rounds: Sequence[Round]) -> list[Verdict]:
        *earlier, now = rounds
        found: list[Verdict] = []
        for index, call in enumerate(now.calls):
            key = call_key(call)
            if any(v.call is not None and call_key(now.calls[v.call]) == key for v in found):
                found.append(Verdict("block", "repeated_call", _BLOCKED, index))
            elif self._count(earlier, key) + 1 >= self.limit:
                kind = "block" if self._nudged(earlier, key) else "nudge"
                found.append(Verdict(kind, "repeated_call", _BLOCKED if kind == "block" else _NUDGE, index))
        return found

    def after(self, rounds: Sequence[Round]) -> list[Verdict]:
        blocked = [r for r in rounds if any(_mine(v, "block") for v in r.verdicts)]
        if len(blocked) < self.patience or blocked[-1] is not rounds[-1]:
            return []
        text = "The same call was blocked again. Give the final answer now from what you have."
        return [Verdict("finish", "repeated_call", text)]

    def _count(self, earlier: Sequence[Round], key: tuple[str, str]) -> int:
        """Return in how many rounds the call was made, with its newest known result where results count."""
        seen = [results for r in earlier if (results := _results_of(r, key))]
        known = [r for results in seen for r in results if r is not None]
        if self.by == "args" or not known:
            return len(seen)
        return sum(any(r is None or r == known[-1] for r in results) for results in seen)

    def _nudged(self, earlier: Sequence[Round], key: tuple[str, str]) -> bool:
        """Tell whether the call was nudged in this streak, which a round without any such verdict ends."""
        for past in reversed(earlier):
            mine = [v for v in past.verdicts if v.reason == "repeated_call" and v.call is not None]
            if not mine:
                return False
            if any(call_key(past.calls[v.call]) == key for v in mine):
                return True
        return False


_NUDGE = (
    "This call was made before with the same arguments; its result will not change. Use the result you have, "
    "call another tool, or answer."
)
_BLOCKED = "Not executed: the same call again. Use the result you have, call another tool, or answer."


def _mine(verdict: Verdict, kind: str) -> bool:
    return verdict.reason == "repeated_call" and verdict.kind == kind


def _results(past: Round) -> list[Any]:
    """Return the round's results by call, None where there is none or the call was blocked."""
    blocked = {v.call for v in past.verdicts if v.kind == "block"}
    known = [None if i in blocked else wire.without_notice(r) for i, r in enumerate(past.results)]
    return known + [None] * (len(past.calls) - len(known))


def _results_of(past: Round, key: tuple[str, str]) -> list[str | None]:
    results = zip(past.calls, _results(past), strict=True)
    return [None if r is None else wire.canonical(r) for call, r in results if call_key(call) == key]


@dataclass(frozen=True)
class ResultStall:
    """`window` rounds in a row with the same results though calls may differ: nudge, then finish.

    Rounds whose results are all trivial are skipped. The nudge goes out when the window is full, the forced
    answer when as many rounds again have changed nothing.
    """

    window: int = 3

    def __post_init__(self) -> None:
        if self.window < 2:
            raise ValueError(f"ResultStall.window is {self.window}: one round cannot stall, at least 2")

    def before(self, rounds: Sequence[Round]) -> list[Verdict]:
        return []

    def after(self, rounds: Sequence[Round]) -> list[Verdict]:
        prints = [p for r in rounds if (p := _fingerprint(r)) is not None]
        if not rounds or _fingerprint(rounds[-1]) is None:
            return []
        streak = 0
        for p in reversed(prints):
            if p != prints[-1]:
                break
            streak += 1
        if streak >= 2 * self.window:
            text = "The results have not changed. Give the final answer now from what you have."
            return [Verdict("finish", "result_stall", text)]
        if streak == self.window:
            text = "The last results are all the same. Try something else, or answer from what you have."
            return [Verdict("nudge", "result_stall", text, 0)]
        return []


def _fingerprint(past: Round) -> str | None:
    results = sorted({wire.canonical(r) for r in _results(past) if not is_trivial(r)})
    return wire.canonical(results) if results else None


def _positive(guard: Any, name: str) -> None:
    if getattr(guard, name) < 1:
        raise ValueError(f"{type(guard).__name__}.{name} is {getattr(guard, name)}: it has to be at least 1")


# --- several together ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Guards:
    """Several guards as one: of their verdicts on a call the strongest counts, the first among equals.

    Raises ValueError for a threshold that a smaller turn budget keeps from ever being reached.
    """

    members: tuple[Guard, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        budget = min((g.rounds for g in self.members if isinstance(g, TurnBudget)), default=math.inf)
        for guard in self.members:
            least = getattr(guard, "limit", None) or getattr(guard, "window", 0)
            if least > budget:
                raise ValueError(f"{guard} can never fire: the turn ends after {budget} rounds")

    def before(self, rounds: Sequence[Round]) -> dict[int, Verdict]:
        """Return the verdict on each call of the newest round that has one."""
        found: dict[int, Verdict] = {}
        for guard in self.members:
            for verdict in guard.before(rounds):
                kept = found.get(verdict.call)
                if kept is None or _STRENGTH[verdict.kind] > _STRENGTH[kept.kind]:
                    found[verdict.call] = verdict
        return found

    def after(self, rounds: Sequence[Round]) -> Verdict | None:
        """Return the strongest verdict on the newest round as a whole, or None."""
        found = [v for guard in self.members for v in guard.after(rounds)]
        return max(found, key=lambda v: _STRENGTH[v.kind], default=None)


_STRENGTH = {"nudge": 0, "block": 1, "finish": 2, "stop": 3}

PRESETS: dict[str, tuple[Guard, ...]] = {
    "off": (),
    "budget": (TurnBudget(20),),
    "article": (TurnBudget(10), RepeatedCall(3, by="args"), ResultStall(3)),
    "default": (TurnBudget(30), RepeatedCall(3, by="result"), ResultStall(3)),
}


def get(name: str) -> Guards:
    """Return a preset by name; raises ValueError that names the known ones."""
    if name not in PRESETS:
        raise ValueError(f"unknown guard preset {name!r}; known: {', '.join(PRESETS)}")
    return Guards(PRESETS[name])
