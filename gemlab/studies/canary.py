"""The canary: does an agent behave today as it did, by the model that served it?

Reads traces or plain rows. A row has `served`, `calls`, `redundant` and, if it is known, `reason`. The alarm is a
two-sample test of today's runs against the baseline's with a stated false-alarm rate.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats as scipy_stats

from .. import backends, stats
from ..measure import metrics
from ..runs import trace, trials

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("served", "calls", "redundant")
# What is watched, and so how many tests share one false-alarm rate.
WATCHED = ("calls", "redundant")


def load(path: Path) -> pd.DataFrame:
    """Return rows from a trials.jsonl, or from rows as CSV or JSON lines; raises ValueError with one line."""
    import pandas as pd

    if path.suffix == ".csv":
        rows = pd.read_csv(path)
    else:
        lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
        try:
            first = json.loads(lines[0]) if lines else {}
            traces = isinstance(first, dict) and "steps" in first
            rows = metrics.frame(trace.read(path)) if traces else pd.DataFrame([json.loads(line) for line in lines])
        except ValueError as error:
            raise ValueError(f"{path}: neither traces nor JSON lines ({error})") from None
    missing = [c for c in COLUMNS if c not in rows]
    if missing:
        raise ValueError(f"{path}: no column {', '.join(missing)}; a row has {', '.join(COLUMNS)}")
    return rows


def table(rows: pd.DataFrame, cap: int) -> pd.DataFrame:
    """Return one line a served model: runs, mean tool calls, share of runs at the cap, redundant calls.

    `cap`: tool calls from which on a run counts as capped. Intervals: BCa for means, Wilson for the share.
    """
    import pandas as pd

    found = []
    for served, group in rows.groupby(rows.served.fillna("unknown"), sort=True):
        capped = (group.calls >= cap).astype(float)
        calls, share, again = stats.mean(group.calls), stats.rate(capped), stats.mean(group.redundant)
        found.append(
            {
                "served": served,
                "runs": len(group),
                "calls": calls.value,
                "calls_ci": calls.ci,
                "cap_ratio": share.value,
                "cap_ci": share.ci,
                "redundant": again.value,
                "redundant_ci": again.ci,
            }
        )
    return pd.DataFrame(found)


@dataclass(frozen=True)
class Alarm:
    """The verdict on one look: `p` is the smallest over what is watched, already multiplied by their number."""

    runs: int
    p: float
    watched: str
    raised: bool


def look(baseline: pd.DataFrame, today: pd.DataFrame, alpha: float) -> Alarm:
    """Compare today's runs with the baseline's: Mann–Whitney on each watched column, Bonferroni over them."""
    ps = {name: _p(baseline[name].to_numpy(float), today[name].to_numpy(float)) for name in WATCHED}
    worst = min(ps, key=lambda name: ps[name])
    p = min(1.0, len(ps) * ps[worst])
    return Alarm(len(today), p, worst, p < alpha)


def _p(before: np.ndarray, now: np.ndarray) -> float:
    if len(before) < 2 or len(now) < 2 or np.ptp(np.concatenate([before, now])) == 0:
        return 1.0
    # The normal approximation, always: counts are full of ties, and the choice must not hang on the data.
    p = float(scipy_stats.mannwhitneyu(before, now, method="asymptotic").pvalue)
    return p if math.isfinite(p) else 1.0


def watch(
    baseline: pd.DataFrame, runs: pd.DataFrame, looks: Sequence[int], alpha: float = 0.05
) -> tuple[list[Alarm], int | None]:
    """Look at the first n runs for each n of `looks`; return the looks and the runs until the alarm, or None.

    Each look gets alpha / len(looks), so that the false-alarm rate of the whole watch is at most alpha.
    """
    alarms = [look(baseline, runs.iloc[:n], alpha / len(looks)) for n in looks if n <= len(runs)]
    raised = next((a.runs for a in alarms if a.raised), None)
    return alarms, raised


def summary(alarms: Sequence[Alarm]) -> list[dict[str, Any]]:
    """Return the looks as JSON values."""
    return [{"runs": a.runs, "p": float(f"{a.p:.6g}"), "watched": a.watched, "raised": bool(a.raised)} for a in alarms]


def study(
    baseline: pd.DataFrame,
    streams: dict[str, pd.DataFrame],
    looks: Sequence[int],
    alpha: float,
    repetitions: int,
    seed: int,
) -> pd.DataFrame:
    """Return, by stream and look, the share of repetitions that have raised the alarm by then, with intervals.

    A repetition takes half of the baseline's runs and the stream's runs in a new random order.
    """
    import pandas as pd

    rng, rows = np.random.default_rng(seed), []
    for name, runs in streams.items():
        until = []
        for _ in range(repetitions):
            before = baseline.iloc[rng.permutation(len(baseline))[: len(baseline) // 2]]
            until.append(watch(before, runs.iloc[rng.permutation(len(runs))], looks, alpha)[1])
        for n in looks:
            raised = sum(u is not None and u <= n for u in until)
            low, high = stats.wilson(raised, repetitions)
            rows.append({"stream": name, "runs": n, "alarmed": raised / repetitions, "low": low, "high": high})
    return pd.DataFrame(rows)


def days(
    model: str, changed: str, task: str, runs: int, seed: int, folder: Path, baseline_file: str, today_file: str
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the rows of a baseline, of a day without a change, and of a day on which `changed` serves.

    From files where they are named (the day without a change is then the baseline itself), else from the
    scripted model.
    """
    if baseline_file or today_file:
        baseline, today = load(Path(baseline_file)), load(Path(today_file))
        return baseline, baseline, today
    routes = [None, None, {model: changed}]
    jobs = []
    for day, route in enumerate(routes):
        api = backends.simulated(backends.emulator(routes=route))
        specs = trials.plan(["preserve"], task, model, runs, 1, seed * 100 + day)
        jobs.append((specs, api, folder / f"day{day}.jsonl"))
    traces = trials.run_all(jobs, 4)
    first, second, third = (metrics.frame(traces[i * runs : (i + 1) * runs]) for i in range(3))
    return first, second, third


def together(*days: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of several days as one."""
    import pandas as pd

    return pd.concat(days, ignore_index=True)


def reading(found: pd.DataFrame, alpha: float) -> str:
    """Return what the study says, in lines."""
    lines = []
    for name, rows in found.groupby("stream", sort=False):
        half = rows[rows.alarmed >= 0.5]
        most = rows.iloc[-1]
        text = (
            f"- {name}: {100 * most.alarmed:.0f}% [{100 * most.low:.0f}, {100 * most.high:.0f}] of watches raise the "
        )
        text += f"alarm within {most.runs:.0f} runs"
        text += f"; half of them within {half.runs.iloc[0]:.0f}." if len(half) else "."
        lines.append(text)
    lines.append(f"- The stated false-alarm rate of a whole watch is at most {100 * alpha:.0f}%, shared by its looks.")
    return "\n".join(lines)
