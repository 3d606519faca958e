"""Does the instrument tell the truth? Equal arms, a known effect, its power, and what the assumptions carry.

Everything rests on one pool of trials on the scripted model. Repetitions are drawn from the pool: for equal
arms, two repeats of the same arm with their labels swapped at random; for a known effect, instances of both arms
with replacement, so that the pool's own difference is the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from .. import backends, stats
from ..emulator.minds.scripted import Parameters
from ..measure import figures, metrics
from ..runs import trials

if TYPE_CHECKING:
    import pandas as pd

METRICS = ("completed", "redundant")
ALPHA = 0.05


def pool(task: str, model: str, arms: Sequence[Any], instances: int, seed: int, folder: Path) -> dict[str, Any]:
    """Run the arms, the first twice; return per metric the arrays `control`, `again` and `arm` over instances."""
    api = backends.get("sim")
    control, other = arms
    twice = trials.run(trials.plan([control], task, model, instances, 2, seed), api, folder / "control.jsonl")
    once = trials.run(trials.plan([other], task, model, instances, 1, seed), api, folder / "arm.jsonl")
    rows, others = metrics.frame(twice), metrics.frame(once)

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


def equal_arms(found: Mapping[str, Any], size: int, repetitions: int, seed: int) -> pd.DataFrame:
    """Return each test's false-alarm rate over repetitions of two equal arms, with its Wilson interval.

    `within`: 5% lies in the interval, or the test rejects less often (exact tests on few pairs must).
    """
    rng = np.random.default_rng(seed)
    alarms: dict[str, list[bool]] = {metric: [] for metric in METRICS}
    for _ in range(repetitions):
        chosen = rng.choice(len(found["completed"]["control"]), size, replace=False)
        swap = rng.random(size) < 0.5
        for metric in METRICS:
            one, two = found[metric]["control"][chosen], found[metric]["again"][chosen]
            a, b = np.where(swap, two, one), np.where(swap, one, two)
            alarms[metric].append(stats.compare(a, b, metric == "completed").p < ALPHA)
    return _rates(alarms, lambda ci: ci[0] <= ALPHA)


def known_effect(found: Mapping[str, Any], size: int, repetitions: int, seed: int) -> pd.DataFrame:
    """Return, for the pool's own difference as the truth, coverage of the 95% interval and power of the test."""
    rng = np.random.default_rng(seed)
    covered: dict[str, list[bool]] = {metric: [] for metric in METRICS}
    shown: dict[str, list[bool]] = {metric: [] for metric in METRICS}
    for _ in range(repetitions):
        chosen = rng.choice(len(found["completed"]["control"]), size, replace=True)
        for metric in METRICS:
            arm, control = found[metric]["arm"], found[metric]["control"]
            c = stats.compare(arm[chosen], control[chosen], metric == "completed")
            covered[metric].append(c.ci[0] <= (arm - control).mean() <= c.ci[1])
            shown[metric].append(c.p < ALPHA)
    table = _rates(covered, lambda ci: ci[1] >= 0.93).rename(columns={"rate": "coverage", "within": "enough"})
    table["power"] = [float(np.mean(shown[metric])) for metric in METRICS]
    table["truth"] = [float((found[m]["arm"] - found[m]["control"]).mean()) for m in METRICS]
    return table


def _rates(hits: Mapping[str, Sequence[bool]], judge: Any) -> pd.DataFrame:
    import pandas as pd

    rows = {}
    for metric, seen in hits.items():
        ci = stats.wilson(sum(seen), len(seen))
        rows[metric] = {"rate": sum(seen) / len(seen), "low": ci[0], "high": ci[1], "within": judge(ci)}
    return pd.DataFrame.from_dict(rows, orient="index")


def sensitivity(
    task: str, model: str, arms: Sequence[Any], instances: int, factors: Sequence[float], seed: int, folder: Path
) -> pd.DataFrame:
    """Return the A/B's differences over a grid around the calibration.

    Rows: the two parameters of lost thoughts (`doubt`, `lose_thread`) times a factor. Columns: the two that act
    always (`repeat`, `quit`) times a factor. At factor 0 for lost thoughts nothing was put in but which step a
    slip repeats: any of the lost ones, not the newest.
    """
    import pandas as pd

    base, jobs, settings = Parameters(), [], []
    for lost in factors:
        for always in factors[1:]:
            made = replace(
                base,
                doubt=base.doubt * lost,
                lose_thread=base.lose_thread * lost,
                repeat=base.repeat * always,
                quit=base.quit * always,
            )
            api = backends.simulated(backends.emulator(parameters=made))
            specs = trials.plan(arms, task, model, instances, 1, seed)
            jobs.append((specs, api, folder / f"grid_{lost}_{always}.jsonl"))
            settings.append((lost, always))
    traces = trials.run_all(jobs, 4)
    rows, each = [], len(traces) // len(jobs)
    for number, (lost, always) in enumerate(settings):
        frame = metrics.frame(traces[number * each : (number + 1) * each])
        one = {"lost": lost, "always": always}
        for metric in METRICS:
            wide = frame.pivot_table(index="instance", columns="arm", values=metric, aggfunc="mean").astype(float)
            names = [trials.arm(a).name for a in arms]
            c = stats.compare(wide[names[1]].to_numpy(), wide[names[0]].to_numpy(), metric == "completed")
            one |= {metric: c.difference, f"{metric}_low": c.ci[0], f"{metric}_high": c.ci[1], f"{metric}_p": c.p}
        rows.append(one)
    return pd.DataFrame(rows)


def grid_figure(grid: pd.DataFrame) -> Figure:
    """Return the differences over the grid with 95% intervals, one line for each factor of what acts always."""
    titles = {"completed": "Completion, strip − preserve (points)", "redundant": "Redundant calls, strip − preserve"}
    colours = (figures.SKY, figures.BLUE, figures.GREEN, figures.ORANGE)
    with mpl.rc_context(figures.STYLE):
        figure = Figure(figsize=(9.2, 3.4), layout="constrained")
        for axes, (metric, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
            scale = 100 if metric == "completed" else 1
            axes.axhline(0, color=figures.INK, linewidth=0.8)
            for number, (always, rows) in enumerate(grid.groupby("always")):
                x = rows.lost + 0.02 * (number - 1)
                low, high = scale * rows[f"{metric}_low"], scale * rows[f"{metric}_high"]
                axes.vlines(x, low, high, color=colours[number], linewidth=1.6)
                axes.plot(x, scale * rows[metric], "o-", color=colours[number], markersize=5, linewidth=1)
                axes.annotate(
                    f"×{always:g}", (x.iloc[-1], scale * rows[metric].iloc[-1]), (6, -3), textcoords="offset points",
                    color=colours[number],
                )  # fmt: skip
            axes.set(title=title, xlabel="assumed effect of lost thoughts (1 = calibrated)")
            axes.spines["left"].set_visible(True)
        text = f"{backends.SCRIPTED.label} · lines: factor on what the model does anyway · 95% intervals"
        figure.supxlabel(text, fontsize=8, color=figures.GREY, x=0.01, ha="left")
    return figure


def reading(equal: pd.DataFrame, known: pd.DataFrame, grid: pd.DataFrame) -> str:
    """Return what the tables say, in lines."""
    names = {"completed": "completion (exact McNemar)", "redundant": "redundant calls (sign-flip permutation)"}
    lines = []
    for metric in METRICS:
        e, k = equal.loc[metric], known.loc[metric]
        lines.append(
            f"- {names[metric]}: {100 * e.rate:.1f}% false alarms on equal arms [{100 * e.low:.1f}, {100 * e.high:.1f}]"
            f"; the interval covers the truth in {100 * k.coverage:.1f}% of repetitions; power {100 * k.power:.0f}%."
        )
    none = grid[grid.lost == 0]
    false = sum((none[f"{m}_p"] < ALPHA).sum() for m in METRICS)
    lines.append(f"- Where nothing was put in (factor 0), {false} of {2 * len(none)} tests raise an alarm.")
    for metric, word in (("completed", "lower completion"), ("redundant", "more redundant calls")):
        held = grid[(grid.lost > 0) & (grid[f"{metric}_p"] < ALPHA)]
        lines.append(
            f"- {word} under strip is shown at {len(held)} of {(grid.lost > 0).sum()} settings with an effect."
        )
    lines.append(
        "- So the size of the effect is the assumption's; that it is found when there, and only then, is ours."
    )
    return "\n".join(lines)
