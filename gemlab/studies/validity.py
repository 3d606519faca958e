"""Does the instrument tell the truth? Equal arms, a known effect, its power, and what the assumptions carry.

Everything rests on one pool of trials on the scripted model. Repetitions are drawn from the pool: for equal
arms, two repeats of the same arm with their labels swapped at random; for a known effect, instances of both arms
with replacement, so that the pool's own difference is the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import backends, stats
from ..agent.trial import Spec
from ..backends import SCRIPTED, Backend, Source
from ..emulator.minds import scripted
from ..measure import metrics, style
from ..measure.style import BLUE, GREEN, INK, ORANGE, SKY
from ..measure.subject import Subject, of_source
from ..registry import BadInput
from ..runs import trials
from ..wire import families
from . import base, parameters
from .parameters import Count

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..measure.findings import Findings

METRICS = ("completed", "redundant")
TESTS = {"completed": "completion (exact McNemar)", "redundant": "redundant calls (sign-flip permutation)"}
ALPHA = 0.05
_COLOURS = (SKY, BLUE, GREEN, ORANGE)


@dataclass(frozen=True, kw_only=True)
class Parameters(parameters.Parameters):
    """`arms`: a control and another; `instances`: in the pool from which `repetitions` of `size` are drawn.

    `grid_instances`: at each setting of the grid; `factors`: times the calibrated parameters, the first one 0.
    """

    task: str = "ecpm"
    arms: list[Any] = field(default_factory=lambda: ["preserve", "strip"])
    instances: Count = 150
    size: Count = 60
    repetitions: Count = 200
    grid_instances: Count = 24
    factors: list[float] = field(default_factory=lambda: [0, 0.5, 1, 2])


class Validity(base.Study):
    """Two arms whose difference was put in."""

    name = "validity"
    question = "Does the instrument tell the truth?"
    only = ("sim",)
    why = "only of the scripted model the truth is known"
    Parameters = Parameters

    def check(self, parameters: Any) -> None:
        p = parameters
        if len(p.arms) != 2:
            raise BadInput(f"arms are a control and one other, not {len(p.arms)}")
        if p.size > p.instances:
            raise BadInput(f"a repetition of {p.size} instances cannot be drawn from {p.instances}")
        numbers = all(isinstance(f, int | float) and not isinstance(f, bool) for f in p.factors)
        if not numbers or len(p.factors) < 2 or p.factors[0] != 0 or p.factors != sorted(set(p.factors)):
            raise BadInput(f"factors go up from 0, at least two of them, not {p.factors}")
        for specs, file in _pool_jobs(p):
            base.check_folder(specs, p, file)
        for specs, set_to, _, file in _grid_jobs(p):
            base.check_folder(specs, p, file, source=_source(set_to))

    def run(self, parameters: Any, folder: Path, backend: Backend) -> Findings:
        from ..measure.findings import Table

        p = parameters
        drawn = pool(p, folder)
        equal, known = (
            equal_arms(drawn, p.size, p.repetitions, p.seed),
            known_effect(drawn, p.size, p.repetitions, p.seed),
        )
        grid = sensitivity(p, folder)
        n = f"{p.instances} instances in the pool, {p.grid_instances} at each setting of the grid"
        subject = Subject(SCRIPTED, n, "sim", (p.model,), (families.serve(p.model),), (p.task,))
        names = base.arm_names(p.arms)
        return base.of_tables(
            self,
            p,
            subject=subject,
            rows=grid,
            tables={
                "equal": Table(equal.rename_axis("metric").reset_index()),
                "known": Table(known.rename_axis("metric").reset_index()),
                "grid": Table(grid),
            },
            figures={
                "grid": lambda: grid_figure(grid, subject, names),
                "truth": lambda: truth_figure(equal, known, subject, p),
            },
            sentences=reading(equal, known, grid, names[1]),
            remarks=[of_source(subject)],
            folder=folder,
        )


# --- the pool -----------------------------------------------------------------------------------------------


def _pool_jobs(p: Parameters) -> list[tuple[list[Spec], str]]:
    control, other = p.arms
    twice = trials.plan([control], p.task, p.model, p.instances, 2, p.seed)
    return [(twice, "control.jsonl"), (trials.plan([other], p.task, p.model, p.instances, 1, p.seed), "arm.jsonl")]


def pool(p: Parameters, folder: Path) -> dict[str, dict[str, np.ndarray]]:
    """Run the arms, the first twice; return per metric the arrays `control`, `again` and `arm` over instances."""
    api = backends.simulated()
    rows, others = (metrics.frame(trials.run(specs, api, folder / file)) for specs, file in _pool_jobs(p))

    def of(frame: pd.DataFrame, metric: str) -> np.ndarray:
        return frame.sort_values("instance")[metric].to_numpy(float)

    return {
        metric: {
            "control": of(rows[rows.repeat == 0], metric),
            "again": of(rows[rows.repeat == 1], metric),
            "arm": of(others, metric),
        }
        for metric in METRICS
    }


def equal_arms(drawn: Mapping[str, Any], size: int, repetitions: int, seed: int) -> pd.DataFrame:
    """Return each test's false-alarm rate over repetitions of two equal arms, with its Wilson interval.

    `within`: 5% lies in the interval, or the test rejects less often (exact tests on few pairs must).
    """
    rng = np.random.default_rng(seed)
    alarms: dict[str, list[bool]] = {metric: [] for metric in METRICS}
    for _ in range(repetitions):
        chosen = rng.choice(len(drawn["completed"]["control"]), size, replace=False)
        swap = rng.random(size) < 0.5
        for metric in METRICS:
            one, two = drawn[metric]["control"][chosen], drawn[metric]["again"][chosen]
            a, b = np.where(swap, two, one), np.where(swap, one, two)
            alarms[metric].append(stats.compare(a, b, metric == "completed").p < ALPHA)
    return _rates(alarms, lambda ci: ci[0] <= ALPHA)


def known_effect(drawn: Mapping[str, Any], size: int, repetitions: int, seed: int) -> pd.DataFrame:
    """Return, for the pool's own difference as the truth, coverage of the 95% interval and power of the test."""
    rng = np.random.default_rng(seed)
    covered: dict[str, list[bool]] = {metric: [] for metric in METRICS}
    shown: dict[str, list[bool]] = {metric: [] for metric in METRICS}
    for _ in range(repetitions):
        chosen = rng.choice(len(drawn["completed"]["control"]), size, replace=True)
        for metric in METRICS:
            arm, control = drawn[metric]["arm"], drawn[metric]["control"]
            c = stats.compare(arm[chosen], control[chosen], metric == "completed")
            covered[metric].append(c.ci[0] <= (arm - control).mean() <= c.ci[1])
            shown[metric].append(c.p < ALPHA)
    names = {"rate": "coverage", "rate_low": "coverage_low", "rate_high": "coverage_high", "within": "enough"}
    table = _rates(covered, lambda ci: ci[1] >= 0.93).rename(columns=names)
    table["power"] = [float(np.mean(shown[metric])) for metric in METRICS]
    table["truth"] = [float((drawn[m]["arm"] - drawn[m]["control"]).mean()) for m in METRICS]
    return table


def _rates(hits: Mapping[str, Sequence[bool]], judge: Callable[[tuple[float, float]], bool]) -> pd.DataFrame:
    import pandas as pd

    rows = {}
    for metric, seen in hits.items():
        ci = stats.wilson(sum(seen), len(seen))
        rows[metric] = {"rate": sum(seen) / len(seen), "rate_low": ci[0], "rate_high": ci[1], "within": judge(ci)}
    return pd.DataFrame.from_dict(rows, orient="index")


# --- the grid -----------------------------------------------------------------------------------------------


def _grid_jobs(p: Parameters) -> list[tuple[list[Spec], scripted.Parameters, tuple[float, float], str]]:
    """Return for each setting its trials, the scripted model's parameters, the two factors and the file."""
    calibrated = scripted.Parameters()
    specs = trials.plan(p.arms, p.task, p.model, p.grid_instances, 1, p.seed)
    jobs = []
    for lost in p.factors:
        for always in p.factors[1:]:
            set_to = replace(
                calibrated,
                doubt=calibrated.doubt * lost,
                lose_thread=calibrated.lose_thread * lost,
                repeat=calibrated.repeat * always,
                quit=calibrated.quit * always,
            )
            jobs.append((specs, set_to, (lost, always), f"grid_{lost}_{always}.jsonl"))
    return jobs


def _source(set_to: scripted.Parameters) -> Source:
    return replace(SCRIPTED, settings={} if set_to == scripted.Parameters() else asdict(set_to))


def sensitivity(p: Parameters, folder: Path) -> pd.DataFrame:
    """Return the A/B's differences over a grid around the calibration.

    Rows: the two parameters of lost thoughts (`doubt`, `lose_thread`) times a factor. Columns: the two that act
    always (`repeat`, `quit`) times a factor. At factor 0 for lost thoughts nothing was put in but which step a
    slip repeats: any of the lost ones, not the newest.
    """
    import pandas as pd

    jobs, names = _grid_jobs(p), base.arm_names(p.arms)
    runs = [
        (specs, backends.simulated(backends.emulator(parameters=set_to), source=_source(set_to)), folder / file)
        for specs, set_to, _, file in jobs
    ]
    traces = trials.run_all(runs, 4)
    rows, each = [], len(traces) // len(jobs)
    for number, (_, _, (lost, always), _) in enumerate(jobs):
        frame = metrics.frame(traces[number * each : (number + 1) * each])
        row: dict[str, float] = {"lost": lost, "always": always}
        for metric in METRICS:
            wide = frame.pivot_table(index="instance", columns="arm", values=metric, aggfunc="mean").astype(float)
            c = stats.compare(wide[names[1]].to_numpy(), wide[names[0]].to_numpy(), metric == "completed")
            row |= {metric: c.difference, f"{metric}_low": c.ci[0], f"{metric}_high": c.ci[1], f"{metric}_p": c.p}
        rows.append(row)
    return pd.DataFrame(rows)


# --- for people ---------------------------------------------------------------------------------------------


def grid_figure(grid: pd.DataFrame, subject: Subject, arms: Sequence[str]) -> Figure:
    """Return the differences over the grid with 95% intervals, one line for each factor of what acts always."""
    pair = f"{arms[1]} − {arms[0]}"
    titles = {"completed": f"Completion, {pair} (points)", "redundant": f"Redundant calls, {pair}"}
    with style.sheet(9.2, 3.7) as figure:
        for axes, (metric, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
            scale = 100 if metric == "completed" else 1
            axes.axhline(0, color=INK, linewidth=0.8)
            for number, (_, rows) in enumerate(grid.groupby("always")):
                colour, x = _COLOURS[number % len(_COLOURS)], rows.lost + 0.02 * (number - 1)
                axes.vlines(
                    x, scale * rows[f"{metric}_low"], scale * rows[f"{metric}_high"], color=colour, linewidth=1.6
                )
                axes.plot(x, scale * rows[metric], "o-", color=colour, markersize=5, linewidth=1)
            axes.set(title=title, xlabel="assumed effect of lost thoughts (1 = calibrated)")
            axes.spines["left"].set_visible(True)
        factors = dict.fromkeys(grid.sort_values("always").always)
        lines = {f"×{f:g} what it does anyway": _COLOURS[i % len(_COLOURS)] for i, f in enumerate(factors)}
        style.legend(figure, lines, "outside upper right")
        style.caption(figure, subject, "95% intervals: Newcombe for rates, BCa bootstrap for means")
    return figure


def truth_figure(equal: pd.DataFrame, known: pd.DataFrame, subject: Subject, p: Parameters) -> Figure:
    """Return false alarms on equal arms, and coverage of a known effect, beside what they should be."""
    panels = (
        (equal, "rate", "False alarms on equal arms", ALPHA),
        (known, "coverage", "Truth inside the interval", 0.95),
    )
    with style.sheet(8.6, 2.6) as figure:
        for axes, (rows, key, title, due) in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
            style.rows(axes, [TESTS[str(metric)].split(" (")[0] for metric in rows.index])
            style.grid(axes)
            axes.axvline(due, color=INK, linewidth=0.8, linestyle="--")
            for y, (_, row) in enumerate(rows.iterrows()):
                style.interval(axes, y, row[key], (row[f"{key}_low"], row[f"{key}_high"]), BLUE, f"{row[key]:.1%}")
            axes.set_title(title)
            axes.margins(x=0.2)
            style.percent(axes.xaxis, decimals=0)
        extra = f"dashed: {ALPHA:.0%} and 95%; {p.repetitions} repetitions of {p.size} instances, drawn from one pool"
        style.caption(figure, subject, "95% intervals: Wilson over repetitions", extra)
    return figure


def reading(equal: pd.DataFrame, known: pd.DataFrame, grid: pd.DataFrame, arm: str) -> list[str]:
    """Return what the tables say."""
    lines = []
    for metric in METRICS:
        e, k = equal.loc[metric], known.loc[metric]
        lines.append(
            f"{TESTS[metric]}: {100 * e.rate:.1f}% false alarms on equal arms [{100 * e.rate_low:.1f}, "
            f"{100 * e.rate_high:.1f}]; the interval covers the truth in {100 * k.coverage:.1f}% of repetitions; "
            f"power {100 * k.power:.0f}%."
        )
    none = grid[grid.lost == 0]
    false = sum((none[f"{m}_p"] < ALPHA).sum() for m in METRICS)
    lines.append(f"Where nothing was put in (factor 0), {false} of {2 * len(none)} tests raise an alarm.")
    for metric, word in (("completed", "another completion"), ("redundant", "other redundant calls")):
        shown = grid[(grid.lost > 0) & (grid[f"{metric}_p"] < ALPHA)]
        lines.append(f"{word} under {arm} is shown at {len(shown)} of {(grid.lost > 0).sum()} settings with an effect.")
    return [
        *lines,
        "So the size of the effect is the assumption's; that it is found when there, and only then, is ours.",
    ]


STUDY = Validity()
