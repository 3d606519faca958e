"""From firing rounds to a choice: what each threshold catches, stops and saves, and which to take.

Healthy runs are those that succeeded; capped ones did not and ran into their cap of steps, the others that
failed are failing. Caught is the share of capped runs in which the rule fires; where a data set has none, of the
failing ones. Intervals are Wilson's, 95%.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from .. import stats
from ..guards import Guards
from ..guards.ladder import Watch
from ..guards.presets import PRESETS, get
from ..guards.rounds import Round
from ..measure.tables import Cells, each
from .firing import NEVER, Fires, Indexed, first_fires, index, live
from .importers.base import Run

ALL = "all"
_LABELS = ("healthy", "capped", "failing", "unlabelled")


def _chosen(fires: Fires, source: str) -> np.ndarray:
    return np.ones(len(fires.ids), bool) if source == ALL else fires.sources == source


def sources(fires: Fires) -> list[str]:
    """Return the data sets present."""
    return sorted(set(fires.sources.tolist()))


def target(fires: Fires, source: str = ALL) -> str:
    """Return which runs count as to be caught in a data set: capped, or failing where none is capped."""
    return "capped" if (fires.labels[_chosen(fires, source)] == "capped").any() else "failing"


def table(fires: Fires, source: str = ALL) -> pd.DataFrame:
    """Return one row a rule and threshold.

    `healthy`, `capped`, `failing`: runs of that kind; `…_fired`: those in which it fires. `stopped`, `caught`:
    shares with intervals `…_low`, `…_high`. `calls_saved`, `tokens_saved`: after the firing, in runs without
    success; `calls_saved_share` of all their calls. `success_if_fired`: of the labelled runs in which it fires.
    """
    chosen = _chosen(fires, source)
    labels, kind = fires.labels[chosen], target(fires, source)
    counts = {name: int((labels == name).sum()) for name in _LABELS}
    fired = fires.steps[chosen] != NEVER
    hits = {name: fired[labels == name].sum(axis=0) for name in _LABELS}
    lost = (labels == "capped") | (labels == "failing")
    calls, tokens = (saved[chosen][lost].sum(axis=0) for saved in (fires.saved_calls, fires.saved_tokens))
    spent = max(int(fires.calls[chosen][lost].sum()), 1)
    rows = []
    for i, rule in enumerate(fires.rules):
        for j, threshold in enumerate(fires.thresholds):
            found = {name: int(hits[name][i, j]) for name in _LABELS}
            labelled = found["healthy"] + found["capped"] + found["failing"]
            rows.append(
                {
                    "rule": rule,
                    "threshold": threshold,
                    **{name: counts[name] for name in _LABELS},
                    **{f"{name}_fired": found[name] for name in _LABELS},
                    **_share("stopped", found["healthy"], counts["healthy"]),
                    **_share("caught", found[kind], counts[kind]),
                    **_share("success_if_fired", found["healthy"], labelled),
                    "calls_saved": int(calls[i, j]),
                    "calls_saved_share": int(calls[i, j]) / spent,
                    "tokens_saved": int(tokens[i, j]),
                }
            )
    return pd.DataFrame(rows)


def _share(name: str, k: int, n: int) -> dict[str, float]:
    low, high = stats.wilson(k, n)
    return {name: k / n if n else np.nan, f"{name}_low": low, f"{name}_high": high}


# --- choosing -----------------------------------------------------------------------------------------------


def frontier(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that no other row beats: none catches as much and stops as little, and one of them better."""
    points = rows[["stopped", "caught"]].to_numpy()
    beaten = [
        bool(((points[:, 0] <= s) & (points[:, 1] >= c) & ((points[:, 0] < s) | (points[:, 1] > c))).any())
        for s, c in points
    ]
    return rows[~np.asarray(beaten, bool)].sort_values(["stopped", "caught", "rule"])


@dataclass(frozen=True)
class Choice:
    """The recommended threshold of a rule for a tolerance: the smallest that stops no larger share of the healthy
    runs. `sure`: the smallest whose interval lies within it too. None where no threshold swept does.
    """

    rule: str
    tolerance: float
    threshold: int | None
    caught: float | None
    stopped: float | None
    stopped_high: float | None
    sure: int | None

    def __str__(self) -> str:
        if self.threshold is None:
            return f"{self.rule}: no threshold swept stops at most {self.tolerance:.1%} of the healthy runs"
        sure = "no threshold swept" if self.sure is None else f"from {self.sure} on"
        return (
            f"{self.rule}: {self.threshold} catches {self.caught:.0%}, stops {self.stopped:.1%} of the healthy runs "
            f"(up to {self.stopped_high:.1%}; the interval is within {self.tolerance:.1%} {sure})"
        )


def recommend(rows: pd.DataFrame, tolerance: float = 0.01) -> list[Choice]:
    """Return a choice a rule, the one that catches most first.

    Raises ValueError for a tolerance outside of 0 to 1, or where no run is healthy.
    """
    if not 0 <= tolerance <= 1:
        raise ValueError(f"the tolerance is a share of the healthy runs, from 0 to 1, not {tolerance}")
    if not rows.healthy.any():
        raise ValueError("no run is labelled a success: there is nothing to say what a threshold would stop")
    choices = []
    for rule, found in rows.groupby("rule", sort=False):
        within = found[found.stopped <= tolerance]
        sure = found[found.stopped_high <= tolerance]
        first = within.iloc[0] if len(within) else None
        choices.append(
            Choice(
                str(rule),
                tolerance,
                None if first is None else int(first.threshold),
                None if first is None else float(first.caught),
                None if first is None else float(first.stopped),
                None if first is None else float(first.stopped_high),
                int(sure.iloc[0].threshold) if len(sure) else None,
            )
        )
    return sorted(choices, key=lambda c: -1 if c.caught is None else c.caught, reverse=True)


def flips(fires: Fires, rule: str, one: int, other: int, source: str = ALL) -> np.ndarray:
    """Return the indices of the runs in which exactly one of two thresholds of a rule fires."""
    (i, a), (_, b) = fires.of(rule, one), fires.of(rule, other)
    fired = fires.steps[:, i] != NEVER
    return np.flatnonzero((fired[:, a] != fired[:, b]) & _chosen(fires, source))


def notes(fires: Fires) -> list[str]:
    """Return what has to be read beside the table, data set by data set."""
    found = []
    for source in sources(fires):
        chosen = _chosen(fires, source)
        healthy, other = (fires.rounds[chosen & m] for m in (fires.labels == "healthy", fires.labels != "healthy"))
        if len(healthy) and len(other) and 2 * np.median(healthy) <= np.median(other):
            found.append(
                f"{source}: successful runs are short (median {np.median(healthy):g} rounds against "
                f"{np.median(other):g}): they had no room to repeat, their share of stops says little."
            )
        unlabelled = int((fires.labels[chosen] == "unlabelled").sum())
        if unlabelled:
            found.append(f"{source}: {unlabelled} runs have no outcome and count in no share.")
    return found


# --- whole presets ------------------------------------------------------------------------------------------


def presets(runs: Sequence[Run], names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return one row a preset: the runs in which any of its guards says anything, and in which its detectors do.

    Budgets count in `any` alone: a budget is no detector.
    """
    heard, deaf = index(runs), index(runs, declared=False)
    labels = np.array([run.label for run in heard])
    rows = []
    for name in names or PRESETS:
        guard = get(name)
        indexed = heard if guard.declared else deaf
        row: dict[str, object] = {"preset": name}
        for which in ("any", "detectors"):
            watches = [g for g in guard.members if isinstance(g, Watch)]
            counted = [g for g in watches if which == "any" or g.reason != "max_steps"]
            fired = np.array([_says_anything(run, counted) for run in indexed], np.bool_)
            row |= {f"{kind} {which}": int(fired[labels == kind].sum()) for kind in ("healthy", "capped", "failing")}
        rows.append(row)
    return pd.DataFrame(rows)


def verdicts(runs: Sequence[Run], names: Sequence[str] = ("default",)) -> pd.DataFrame:
    """Replay whole presets live; return one row a preset and data set, and under `all` for all of them.

    `healthy`, `capped`, `failing`: runs of that kind; `… nudged`, `… ended`: those that it speaks to, and those that it
    ends because they go on as recorded all the same (see firing.live). Presets that only end have no nudged ones.
    """
    heard, deaf = index(runs), index(runs, declared=False)
    rows: list[dict[str, object]] = []
    for name in names:
        guard = get(name)
        counts: dict[str, Counter[str]] = {}
        for i, run in enumerate(runs):
            said = _kinds(run, (heard if guard.declared else deaf)[i], guard)
            words = [heard[i].label, *(f"{heard[i].label} {word}" for word in said)]
            for source in dict.fromkeys((run.source, ALL)):
                counts.setdefault(source, Counter()).update(words)
        columns = [f"{label}{word}" for label in ("healthy", "capped", "failing") for word in ("", " nudged", " ended")]
        rows += [
            {"preset": name, "data set": source, **{column: counts[source][column] for column in columns}}
            for source in sorted(counts, key=lambda source: (source == ALL, source))
        ]
    return pd.DataFrame(rows)


def _kinds(run: Run, indexed: Indexed, guard: Guards) -> set[str]:
    """Return whether a guard nudges and ends a run: replayed live where it says anything, which is quick to tell."""
    watches = [g for g in guard.members if isinstance(g, Watch)]
    if len(watches) == len(guard.members) and not _says_anything(indexed, watches):
        return set()
    heard = run if guard.declared else replace(run, turns=tuple(_undeclared(turn) for turn in run.turns))
    kinds = {verdict.kind for _, verdict in live(heard, guard)}
    return {word for word, own in (("nudged", {"nudge"}), ("ended", {"finish", "stop"})) if kinds & own}


def _undeclared(turn: Sequence[Round]) -> tuple[Round, ...]:
    return tuple([replace(r, identities={}) for r in turn])


def _says_anything(run: Indexed, members: Sequence[Watch]) -> bool:
    return any(first_fires(run.turns, guard, [guard.limit])[0] != NEVER for guard in members)


# --- for people ---------------------------------------------------------------------------------------------


def cells(rows: pd.DataFrame) -> list[Cells]:
    """Return one row of cells a rule and threshold; thresholds at which nothing fires any more are left out."""
    fired = rows[["healthy_fired", "capped_fired", "failing_fired", "unlabelled_fired"]].sum(axis=1) > 0
    return [
        {
            "rule": f"{r.rule} ≥ {r.threshold}",
            "caught": _percent(r.caught, r.caught_low, r.caught_high),
            "capped": f"{r.capped_fired}/{r.capped}",
            "failing": f"{r.failing_fired}/{r.failing}",
            "healthy": f"{r.healthy_fired}/{r.healthy}",
            "healthy stopped": _percent(r.stopped, r.stopped_low, r.stopped_high),
            "success if fired": _percent(r.success_if_fired),
            "calls saved": f"{r.calls_saved} ({_percent(r.calls_saved_share)})",
            **({"tokens saved": str(r.tokens_saved)} if rows.tokens_saved.any() else {}),
        }
        for r in each(rows[fired])
    ]


def _percent(value: float | None, low: float | None = None, high: float | None = None) -> str:
    if value is None or np.isnan(value):
        return "–"
    text = f"{100 * value:.1f}%"
    return text if low is None or high is None else f"{text} [{100 * low:.1f}, {100 * high:.1f}]"


def recommended(choices: Sequence[Choice]) -> list[Cells]:
    """Return one row of cells a choice."""
    return [
        {
            "rule": c.rule,
            "threshold": "none" if c.threshold is None else f"≥ {c.threshold}",
            "caught": "–" if c.caught is None else _percent(c.caught),
            "healthy stopped": "–" if c.stopped is None else f"{_percent(c.stopped)}, up to {_percent(c.stopped_high)}",
            "surely within": "none" if c.sure is None else f"from {c.sure} on",
        }
        for c in choices
    ]


def sensitivity(fires: Fires, tolerance: float = 0.01) -> list[Cells]:
    """Return by data set, for each rule, the threshold that it would recommend alone, and what that catches."""
    found: list[Cells] = []
    for source in sources(fires):
        rows = table(fires, source)
        chosen = {c.rule: c for c in recommend(rows, tolerance)} if rows.healthy.any() else {}
        found.append(
            {
                "data set": source,
                "healthy": str(rows.healthy.iloc[0]),
                **{rule: _short(chosen.get(rule)) for rule in fires.rules},
            }
        )
    return found


def _short(choice: Choice | None) -> str:
    if choice is None:
        return "–"
    return "none" if choice.threshold is None else f"≥ {choice.threshold} ({_percent(choice.caught)})"
