"""What each rule counts: a level after every round of a turn, on which guards and replays both stand.

A rule fires where its level reaches its threshold, so one pass over the levels tells for all thresholds when
they would fire. A level is None after a round that says nothing to the rule: it neither fires nor ends a streak.
Counting is by rounds, never by calls: three equal searches in one answer are one round of repetition.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from .rounds import Seen

Levels = Iterator[float | None]
Entry = tuple[int, list[Hashable | None]]


@dataclass(frozen=True)
class Repetition:
    """In how many rounds the same call was made.

    `by`: "args" counts name and arguments, "result" only rounds with the newest known result as well, so that
    polling with a changing result is healthy; an unknown result counts as the same one. `scope`: anywhere in the
    turn, or in consecutive rounds. `window`: of these, only the newest so many rounds with calls; 0: all.
    """

    by: Literal["args", "result"] = "result"
    scope: Literal["turn", "consecutive"] = "turn"
    window: int = 0

    def call_levels(self, seen: Iterable[Seen]) -> Iterator[tuple[int, ...] | None]:
        """Yield a level for each counted call of each round."""
        past: dict[Hashable, list[Entry]] = {}
        position = 0
        for one in seen:
            if not one.calls:
                yield None
                continue
            position += 1
            for key, result in one.calls:
                entries = past.setdefault(key, [])
                if entries and entries[-1][0] == position:
                    entries[-1][1].append(result)
                else:
                    entries.append((position, [result]))
            yield tuple([self._count(past[key], position) for key, _ in one.calls])

    def levels(self, seen: Iterable[Seen]) -> Levels:
        for found in self.call_levels(seen):
            yield None if found is None else max(found)

    def _count(self, entries: list[Entry], position: int) -> int:
        if len(entries) == 1:
            return 1
        known = None
        if self.by == "result":
            known = next((r for _, results in reversed(entries) for r in reversed(results) if r is not None), None)
        count = 0
        for at, results in reversed(entries):
            if self.window and at <= position - self.window:
                break
            if self.scope == "consecutive" and at != position - count:
                break
            if known is None or any(r is None or r == known for r in results):
                count += 1
            elif self.scope == "consecutive":
                break
        return count


@dataclass(frozen=True)
class Stall:
    """How many rounds in a row gave the same results though calls may differ; trivial results are skipped.

    So are brief ones, as long as the calls differ: six edits that each answer "Edited." are six steps forward. They
    count where a call comes back within the streak, and always with `brief`.
    """

    brief: bool = False

    def levels(self, seen: Iterable[Seen]) -> Levels:
        newest, streak = None, 0
        past: set[Hashable] = set()
        for now in seen:
            if now.stall is None:
                yield None
                continue
            calls = {key for key, _ in now.calls}
            if now.stall != newest:
                newest, streak, past = now.stall, 0, set()
            progress = streak > 0 and now.brief and not self.brief and past.isdisjoint(calls)
            past |= calls
            streak += not progress
            yield None if progress else streak


@dataclass(frozen=True)
class Cycles:
    """How often a cycle of at most `max_period` rounds has been gone through in a row: A-B-A-B is 2 of period 2.

    Rounds are the same if their calls are, and by default their results; unknown results only match each other.
    """

    max_period: int = 5
    by: Literal["args", "result"] = "result"

    def levels(self, seen: Iterable[Seen]) -> Levels:
        past: list[Any] = []
        matched = [0] * (self.max_period + 1)
        for one in seen:
            if not one.calls:
                yield None
                continue
            past.append(one.calls if self.by == "result" else tuple([key for key, _ in one.calls]))
            best = 1
            for period in range(1, min(self.max_period, len(past) - 1) + 1):
                matched[period] = matched[period] + 1 if past[-1] == past[-1 - period] else 0
                best = max(best, matched[period] // period + 1)
            yield best


@dataclass(frozen=True)
class Errors:
    """In how many rounds one tool gave the same error, with no other answer of that tool between them."""

    def levels(self, seen: Iterable[Seen]) -> Levels:
        streaks: dict[str, tuple[Hashable, int]] = {}
        for one in seen:
            if not one.errors:
                yield None
                continue
            level = 0
            for tool in {tool for tool, _ in one.errors}:
                now = {error for name, error in one.errors if name == tool}
                error, count = streaks.pop(tool, (None, 0))
                if None in now or len(now) > 1:
                    continue
                (newest,) = now
                count = count + 1 if newest == error else 1
                streaks[tool] = (newest, count)
                level = max(level, count)
            yield level


@dataclass(frozen=True)
class Failures:
    """In how many rounds in a row every call failed, whichever the tools and whatever the errors say."""

    def levels(self, seen: Iterable[Seen]) -> Levels:
        streak = 0
        for now in seen:
            if not now.errors:
                yield None
                continue
            streak = streak + 1 if all(error is not None for _, error in now.errors) else 0
            yield streak


@dataclass(frozen=True)
class UnknownTools:
    """In how many rounds of the turn a function was called that is not declared, whichever it was."""

    def levels(self, seen: Iterable[Seen]) -> Levels:
        count = 0
        for one in seen:
            count += bool(one.unknown)
            yield count if one.unknown else None


@dataclass(frozen=True)
class Empties:
    """How many answers in a row were empty, malformed, or nothing but thoughts."""

    def levels(self, seen: Iterable[Seen]) -> Levels:
        streak = 0
        for one in seen:
            streak = streak + 1 if one.empty else 0
            yield streak


@dataclass(frozen=True)
class Rounds:
    """How many answers the turn took."""

    def levels(self, seen: Iterable[Seen]) -> Levels:
        yield from (i for i, _ in enumerate(seen, 1))


@dataclass(frozen=True)
class Tokens:
    """What the turn's requests took, weighted: with both weights 1 tokens, with prices dollars."""

    prompt: float = 1
    output: float = 1

    def levels(self, seen: Iterable[Seen]) -> Levels:
        total = 0.0
        for one in seen:
            total += self.prompt * one.prompt_tokens + self.output * one.output_tokens
            yield total
