"""Guards over recorded runs, without a call: when each threshold of each rule would have fired.

A rule's level after each round (detectors.py) does not depend on the threshold, so one pass over a run tells for
all thresholds the first round at which they fire. A replay assumes that the run would have gone on unchanged:
it cannot tell what the model would have done after a nudge.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..guards import (
    Cycle,
    EmptyAnswer,
    FailuresInARow,
    Guards,
    RepeatedCall,
    RepeatedError,
    ResultStall,
    TurnBudget,
    UnknownTool,
)
from ..guards.ladder import Watch
from ..guards.rounds import Round, Seen, Verdict
from ..registry import Kind, bind
from .importers.base import Run

ASSUMPTION = "A replay assumes that the run would have gone on unchanged until the rule fired, and ends it there."
NEVER = -1
# Rules that can be swept: their own limit does not count.
RULES: Kind[Watch | Callable[..., Watch]] = Kind("rule", "gemlab.rules")
for _name, _rule in {
    "args": RepeatedCall(by="args"),
    "result": RepeatedCall(),
    "args_consecutive": RepeatedCall(by="args", scope="consecutive"),
    "result_consecutive": RepeatedCall(scope="consecutive"),
    "stall": ResultStall(),
    "cycle": Cycle(),
    "error": RepeatedError(),
    "failures": FailuresInARow(),
    "unknown_tool": UnknownTool(),
    "empty": EmptyAnswer(),
    "rounds": TurnBudget(),
}.items():
    RULES.register(_rule, name=_name)
DEFAULT_RULES = ("args", "result", "stall")
THRESHOLDS = tuple(range(2, 22))
# Ways in which sources say that a run hit its cap of steps.
_CAPS = frozenset({"cap", "max_steps", "max_turns", "max_iterations"})


def named_rules(names: Iterable[str]) -> dict[str, Watch]:
    """Return rules by their texts; raises BadInput for an unknown one."""
    return {text: _rule_of(text) for text in names}


def _rule_of(text: str) -> Watch:
    part, name = RULES.find(text)
    return part if isinstance(part, Watch) else part(**bind(part, name))


# --- indexing -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Indexed:
    """A run made ready for replay: rounds with small numbers in place of fingerprints, and running totals.

    `calls`, `tokens`: totals through each round of the run, over all turns.
    """

    id: str
    source: str
    label: str
    turns: tuple[tuple[Seen, ...], ...]
    calls: tuple[int, ...]
    tokens: tuple[int, ...]


def label(run: Run) -> str:
    """Return healthy, capped (no success, and ended by its cap), failing, or unlabelled."""
    if run.success is None:
        return "unlabelled"
    return "healthy" if run.success else "capped" if run.end in _CAPS else "failing"


def index(runs: Iterable[Run], declared: bool = True) -> list[Indexed]:
    """Fingerprint every round once; `declared`: by what tools declare about their calls, where that is known."""
    numbers: dict[Hashable, int] = {}

    def number(value: Hashable | None) -> int | None:
        return None if value is None else numbers.setdefault(value, len(numbers))

    def small(seen: Seen) -> Seen:
        return seen._replace(
            calls=tuple([(number(key), number(result)) for key, result in seen.calls]),
            stall=number(seen.stall),
            errors=tuple([(tool, number(error)) for tool, error in seen.errors]),
        )

    made = []
    for run in runs:
        rounds = [r for turn in run.turns for r in turn]
        calls = np.cumsum([len(r.calls) for r in rounds]).tolist()
        tokens = np.cumsum([r.prompt_tokens + r.output_tokens for r in rounds]).tolist()
        heard = (turn if declared else [replace(r, identities={}) for r in turn] for turn in run.turns)
        turns = tuple(tuple(small(r.seen) for r in turn) for turn in heard)
        made.append(Indexed(run.id, run.source, label(run), turns, tuple(calls), tuple(tokens)))
    return made


# --- one pass -----------------------------------------------------------------------------------------------


def first_fires(turns: Iterable[Sequence[Seen]], rule: Watch, thresholds: Sequence[float]) -> list[int]:
    """Return for each threshold, ascending, the index of the first round of the run at which it fires, or NEVER.

    Guards see one turn at a time, so levels start anew with each; a run fires where its first turn does.
    """
    found = [NEVER] * len(thresholds)
    detector, step, open_ = rule.rule, 0, 0
    for turn in turns:
        # What counts rounds cannot reach a level above their number.
        if len(turn) >= thresholds[open_] or rule.reason.endswith("budget"):
            for at, level in enumerate(detector.levels(turn), step):
                if level is not None and level >= thresholds[open_]:
                    reached = bisect.bisect_right(thresholds, level)
                    found[open_:reached] = [at] * (reached - open_)
                    open_ = reached
                    if open_ == len(thresholds):
                        return found
        step += len(turn)
    return found


def live(run: Run, guard: Guards) -> list[tuple[int, Verdict]]:
    """Run live guards over a recorded run as they would watch it; return what they say by round of the run.

    The run goes on as recorded whatever they say, only that a call which they block has no result. So what follows the
    first verdict did not happen: that they end a run means that it was to go on just so after their nudge.
    """
    said: list[tuple[int, Verdict]] = []
    step = 0
    for turn in run.turns:
        past: list[Round] = []
        for now in turn:
            before = tuple(guard.before([*past, now]).values())
            past.append(replace(now, verdicts=before) if before else now)
            said += [(step, verdict) for verdict in (*before, *guard.after(past))]
            step += 1
    return said


# --- many runs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fires:
    """First firing rounds of runs × rules × thresholds; NEVER where none.

    `saved_calls`, `saved_tokens`: calls and tokens after that round, 0 where none; same shape.
    """

    ids: tuple[str, ...]
    sources: np.ndarray
    labels: np.ndarray
    rounds: np.ndarray
    rules: tuple[str, ...]
    thresholds: tuple[int, ...]
    steps: np.ndarray
    saved_calls: np.ndarray
    saved_tokens: np.ndarray
    calls: np.ndarray

    def of(self, rule: str, threshold: int) -> tuple[int, int]:
        """Return the indices of a rule and a threshold."""
        return self.rules.index(rule), self.thresholds.index(threshold)


def sweep(
    runs: Sequence[Indexed],
    rules: Mapping[str, Watch] | None = None,
    thresholds: Sequence[int] = THRESHOLDS,
) -> Fires:
    """Return when every threshold of every rule fires first in every run; one pass a run and rule.

    Raises ValueError for thresholds that are not ascending.
    """
    rules = rules or named_rules(DEFAULT_RULES)
    if not thresholds or any(a >= b for a, b in itertools.pairwise(thresholds)):
        raise ValueError(f"thresholds go up, each once, not {list(thresholds)}")
    shape = (len(runs), len(rules), len(thresholds))
    fires = [[first_fires(run.turns, rule, thresholds) for rule in rules.values()] for run in runs]
    steps = np.asarray(fires, np.int32).reshape(shape)
    return Fires(
        ids=tuple(run.id for run in runs),
        sources=np.asarray([run.source for run in runs], str),
        labels=np.asarray([run.label for run in runs], str),
        rounds=np.asarray([len(run.calls) for run in runs]),
        rules=tuple(rules),
        thresholds=tuple(thresholds),
        steps=steps,
        saved_calls=_after(steps, [run.calls for run in runs]),
        saved_tokens=_after(steps, [run.tokens for run in runs]),
        calls=np.asarray([run.calls[-1] if run.calls else 0 for run in runs]),
    )


def _after(steps: np.ndarray, totals: Sequence[Sequence[int]]) -> np.ndarray:
    """Return what a run took after each of its first firings."""
    saved = np.zeros(steps.shape, np.int32)
    for i in np.flatnonzero((steps != NEVER).any(axis=(1, 2))).tolist():
        through = np.asarray(totals[i])
        fired = steps[i] != NEVER
        saved[i][fired] = through[-1] - through[steps[i][fired]]
    return saved
