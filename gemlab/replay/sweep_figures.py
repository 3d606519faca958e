"""Figures of a sweep: the frontier, what each threshold catches and stops, and when rules fire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import Source
from ..measure import style
from ..measure.style import BLUE, FAINT, GREY, INK, ORANGE, RED, SERIES, SKY, Cell
from ..measure.subject import Subject
from ..measure.tables import each
from . import thresholds
from .firing import ASSUMPTION, NEVER, Fires, label
from .importers import Run
from .thresholds import ALL, Choice

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KINDS = {"healthy": ORANGE, "capped": BLUE, "failing": SKY}
_INTERVALS = "95% intervals: Wilson"


def counted(runs: Sequence[Run]) -> str:
    """Return in words how many runs of each kind there are."""
    labels = Counter(label(run) for run in runs)
    return ", ".join(f"{labels[k]} {k}" for k in (*_KINDS, "unlabelled") if labels[k] or k in _KINDS) + " runs"


def subject(runs: Sequence[Run], source: Source) -> Subject:
    """Return whose recorded runs a sweep replays, their models and how many of each kind there are."""
    models = tuple(sorted({run.model for run in runs if run.model}))
    few = models if len(models) < 4 else (*models[:2], f"and {len(models) - 2} more")
    return Subject(source, counted(runs), models=few)


def colours(rules: Sequence[str]) -> dict[str, str]:
    """Return each rule's colour, the same in every figure of a sweep."""
    return {rule: SERIES[i % len(SERIES)] for i, rule in enumerate(rules)}


def frontier(rows: pd.DataFrame, choices: Sequence[Choice], kind: str, tolerance: float, about: Subject) -> Figure:
    """Return what each rule catches against the healthy runs that it stops, a point a threshold.

    Dots are the recommended thresholds with their intervals, the dashed line is the tolerance.
    """
    with style.sheet(8.6, 4.9) as figure:
        axes = figure.subplots()
        palette = colours(list(dict.fromkeys(rows.rule)))
        style.grid(axes, "both")
        # Everything of interest lies near the tolerance; what stops far more healthy runs is off the figure.
        shown = max(2.5 * tolerance, 1.3 * max((c.stopped_high or 0 for c in choices), default=0), 0.01)
        axes.axvline(tolerance, color=INK, linewidth=0.8, linestyle="--")
        axes.annotate(f"tolerance {tolerance:.1%}", (tolerance, 1.03), (4, 0), textcoords="offset points", fontsize=8)
        taken: list[tuple[float, float]] = []
        for rule, found in rows.groupby("rule", sort=False):
            axes.plot(found.stopped, found.caught, color=palette[str(rule)], linewidth=1.5, marker=".", alpha=0.9)
            _number(axes, found, palette[str(rule)], shown, taken)
        axes.set(xlim=(-0.02 * shown, shown), ylim=(-0.03, 1.1))
        axes.set(
            xlabel="healthy runs stopped", ylabel=f"{kind} runs caught", title="What a threshold catches and stops"
        )
        style.percent(axes.xaxis)
        style.percent(axes.yaxis)
        for y, choice in enumerate(choices):
            _choice(axes, choice, rows, palette[choice.rule])
            text = f"{choice.rule} {'– none' if choice.threshold is None else f'≥ {choice.threshold}'}"
            axes.text(
                0.985, 0.05 + 0.065 * (len(choices) - 1 - y), text, color=palette[choice.rule], ha="right",
                transform=axes.transAxes, weight="bold", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
            )  # fmt: skip
        style.caption(figure, about, _INTERVALS, ASSUMPTION)
    return figure


def _number(axes: Axes, found: pd.DataFrame, colour: str, shown: float, taken: list[tuple[float, float]]) -> None:
    """Write thresholds beside their points, where no other number stands yet."""
    for row in each(found):
        x, y = row.stopped / shown, row.caught
        if x <= 1 and not any(abs(x - u) < 0.035 and abs(y - v) < 0.055 for u, v in taken):
            at = (row.stopped, row.caught)
            axes.annotate(str(row.threshold), at, (4, -11), textcoords="offset points", color=colour, fontsize=8)
            taken.append((x, y))


def _choice(axes: Axes, choice: Choice, rows: pd.DataFrame, colour: str) -> None:
    if choice.threshold is None:
        return
    row = rows[(rows.rule == choice.rule) & (rows.threshold == choice.threshold)].iloc[0]
    axes.plot([row.stopped_low, row.stopped_high], [row.caught] * 2, color=colour, linewidth=2)
    axes.plot([row.stopped] * 2, [row.caught_low, row.caught_high], color=colour, linewidth=2)
    axes.plot([row.stopped], [row.caught], "o", color=colour, markersize=8)


def heat(rows: pd.DataFrame, choices: Sequence[Choice], kind: str, about: Subject, most: int = 12) -> Figure:
    """Return caught and stopped by rule and threshold as two maps; frames mark the recommended thresholds."""
    rules = list(dict.fromkeys(rows.rule))
    chosen = {c.rule: c.threshold for c in choices}
    # Stops of a few percent matter already, so that map is full at a tenth.
    panels = (("caught", f"{kind} runs caught", BLUE, 1.0), ("stopped", "healthy runs stopped", RED, 0.1))
    with style.sheet(8.6, 2.2 + 0.62 * len(rules)) as figure:
        for axes, (value, title, colour, full) in zip(figure.subplots(2, 1), panels, strict=True):
            shares = rows.pivot(index="rule", columns="threshold", values=value).loc[rules].iloc[:, :most]
            cells = [
                [_cell(float(shares.loc[rule, n]), full, chosen.get(rule) == n) for n in shares.columns]
                for rule in rules
            ]
            style.heat(axes, cells, colour)
            axes.set_yticks(range(len(rules)), rules)
            axes.set_xticks(range(len(shares.columns)), [str(n) for n in shares.columns])
            axes.set_title(f"{title}, percent by threshold")
        style.caption(figure, about, "frames: recommended", ASSUMPTION)
    return figure


def _cell(share: float, full: float, framed: bool) -> Cell:
    text = "–" if np.isnan(share) else f"{100 * share:.0f}" if full == 1 else f"{100 * share:.1f}"
    return Cell(share / full, text, framed=framed)


def firing(fires: Fires, choices: Sequence[Choice], about: Subject, source: str = ALL, most: int = 20) -> Figure:
    """Return, by rule at its recommended threshold, the round at which it fires first, as shares of each kind."""
    shown = [c for c in choices if c.threshold is not None]
    inside = np.ones(len(fires.ids), bool) if source == ALL else fires.sources == source
    with style.sheet(8.6, 1.5 + 1.3 * max(len(shown), 1)) as figure:
        grid = figure.subplots(max(len(shown), 1), 1, sharex=True, squeeze=False)[:, 0]
        for axes, choice in zip(grid, shown, strict=False):
            rule, threshold = fires.of(choice.rule, choice.threshold or 0)
            steps = fires.steps[:, rule, threshold]
            parts = {k: steps[inside & (fires.labels == k) & (steps != NEVER)] + 1 for k in _KINDS}
            _bars(axes, parts, most)
            axes.set_title(f"{choice.rule} ≥ {choice.threshold}: round of the first firing")
        if not shown:
            style.blank(grid[0], "no threshold is within the tolerance")
        else:
            grid[-1].set_xticks(range(1, most + 1), [*map(str, range(1, most)), f"{most}+"])
        style.caption(figure, about, "shares of the runs of a kind in which the rule fires")
    return figure


def _bars(axes: Axes, parts: dict[str, np.ndarray], most: int) -> None:
    there = {kind: np.minimum(rounds, most) for kind, rounds in parts.items() if len(rounds)}
    for i, (kind, rounds) in enumerate(there.items()):
        share = np.bincount(rounds, minlength=most + 1)[1:] / len(rounds)
        at = np.arange(1, most + 1) + (i - (len(there) - 1) / 2) * 0.27
        axes.bar(at, share, width=0.25, color=_KINDS[kind], label=f"{len(rounds)} {kind}")
    style.percent(axes.yaxis, decimals=0)
    axes.set_xlim(0.4, most + 0.6)
    if not there:
        axes.set_yticks([])
        axes.text(0.5, 0.4, "fires in no labelled run", ha="center", transform=axes.transAxes, color=GREY)
    else:
        axes.legend(frameon=False, loc="upper right", ncols=3, fontsize=9)


def by_source(fires: Fires, choices: Sequence[Choice], about: Subject) -> Figure:
    """Return caught and stopped of the recommended thresholds by data set, with intervals; a cross: no such run."""
    shown = [c for c in choices if c.threshold is not None]
    names = thresholds.sources(fires)
    palette = colours(fires.rules)
    with style.sheet(8.6, 1.9 + (0.25 + 0.11 * len(shown)) * len(names)) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for y, source in enumerate(names):
            rows = thresholds.table(fires, source)
            if y % 2:
                for axes in (left, right):
                    axes.axhspan(y - 0.5, y + 0.5, color=FAINT, alpha=0.35, linewidth=0)
            for i, choice in enumerate(shown):
                row = rows[(rows.rule == choice.rule) & (rows.threshold == choice.threshold)].iloc[0]
                at = y + (i - (len(shown) - 1) / 2) * 0.75 / len(shown)
                _dot(left, row, "caught", at, palette[choice.rule])
                _dot(right, row, "stopped", at, palette[choice.rule])
        for axes, title in ((left, "Caught (capped, else failing runs)"), (right, "Healthy runs stopped")):
            axes.set(title=title, xlim=(-0.03, 1.03), ylim=(len(names) - 0.5, -0.5))
            style.percent(axes.xaxis)
            style.grid(axes)
        left.set_yticks(range(len(names)), names)
        style.legend(figure, {f"{c.rule} ≥ {c.threshold}": palette[c.rule] for c in shown}, "outside upper center")
        style.caption(figure, about, f"{_INTERVALS}; a cross: no such run in the set")
    return figure


def _dot(axes: Axes, row: Any, value: str, y: float, colour: str) -> None:
    if np.isnan(row[value]):
        axes.plot([0], [y], "x", color=GREY, markersize=4)
        return
    style.interval(axes, y, row[value], (row[f"{value}_low"], row[f"{value}_high"]), colour)
