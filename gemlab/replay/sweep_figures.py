"""Figures of a sweep: the frontier, what each threshold catches and stops, and when rules fire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from ..backends import Source
from ..measure.figures import BLUE, GREEN, GREY, ORANGE, RED, SKY, STYLE
from . import thresholds
from .firing import ASSUMPTION, NEVER, Fires
from .thresholds import ALL, Choice

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_INK, _FAINT = "#222222", "#D9D9D9"
_COLOURS = (BLUE, ORANGE, GREEN, "#CC79A7", SKY, RED, GREY, "#F0E442")
_KINDS = {"healthy": ORANGE, "capped": BLUE, "failing": SKY}


def colours(rules: Sequence[str]) -> dict[str, str]:
    """Return each rule's colour, the same in every figure of a sweep."""
    return {rule: _COLOURS[i % len(_COLOURS)] for i, rule in enumerate(rules)}


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained")


def frontier(rows: pd.DataFrame, choices: Sequence[Choice], kind: str, tolerance: float) -> Figure:
    """Return what each rule catches against the healthy runs that it stops, a point a threshold.

    Dots are the recommended thresholds with their intervals, the dashed line is the tolerance.
    """
    with mpl.rc_context(STYLE):
        figure = _figure(8.6, 4.6)
        axes = figure.subplots()
        palette = colours(list(dict.fromkeys(rows.rule)))
        axes.grid(color=_FAINT, linewidth=0.6)
        # Everything of interest lies near the tolerance; what stops far more healthy runs is off the figure.
        shown = max(2.5 * tolerance, 1.3 * max((c.stopped_high or 0 for c in choices), default=0), 0.01)
        axes.axvline(tolerance, color=_INK, linewidth=0.8, linestyle="--")
        axes.annotate(f"tolerance {tolerance:.1%}", (tolerance, 1.03), (4, 0), textcoords="offset points", fontsize=8)
        taken: list[tuple[float, float]] = []
        for rule, found in rows.groupby("rule", sort=False):
            axes.plot(found.stopped, found.caught, color=palette[str(rule)], linewidth=1.5, marker=".", alpha=0.9)
            _number(axes, found, palette[str(rule)], shown, taken)
        axes.set(xlim=(-0.02 * shown, shown), ylim=(-0.03, 1.1))
        axes.set(
            xlabel="healthy runs stopped", ylabel=f"{kind} runs caught", title="What a threshold catches and stops"
        )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(mpl.ticker.PercentFormatter(1))
        for y, choice in enumerate(choices):
            _choice(axes, choice, rows, palette[choice.rule])
            text = f"{choice.rule} {'– none' if choice.threshold is None else f'≥ {choice.threshold}'}"
            axes.text(
                0.985, 0.05 + 0.065 * (len(choices) - 1 - y), text, color=palette[choice.rule], ha="right",
                transform=axes.transAxes, weight="bold",
            )  # fmt: skip
        _caption(figure, rows)
    return figure


def _number(axes: Axes, found: pd.DataFrame, colour: str, shown: float, taken: list[tuple[float, float]]) -> None:
    """Write thresholds beside their points, where no other number stands yet."""
    for row in found.itertuples():
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


def heat(rows: pd.DataFrame, choices: Sequence[Choice], kind: str, most: int = 12) -> Figure:
    """Return caught and stopped by rule and threshold as two maps; frames mark the recommended thresholds."""
    rules = list(dict.fromkeys(rows.rule))
    chosen = {c.rule: c.threshold for c in choices}
    with mpl.rc_context(STYLE):
        figure = _figure(8.6, 1.9 + 0.62 * len(rules))
        panels = (("caught", f"{kind} runs caught", BLUE), ("stopped", "healthy runs stopped", RED))
        for axes, (value, title, colour) in zip(figure.subplots(2, 1), panels, strict=True):
            cells = rows.pivot(index="rule", columns="threshold", values=value).loc[rules].iloc[:, :most]
            ramp = LinearSegmentedColormap.from_list(value, ["white", colour])
            # Stops of a few percent matter already, so that map is full at a tenth.
            top = 1.0 if value == "caught" else 0.1
            axes.imshow(cells.to_numpy(), cmap=ramp, vmin=0, vmax=top, aspect="auto")
            for y, rule in enumerate(rules):
                for x, threshold in enumerate(cells.columns):
                    share = cells.loc[rule, threshold]
                    text = (
                        "–" if np.isnan(share) else f"{100 * share:.0f}" if value == "caught" else f"{100 * share:.1f}"
                    )
                    axes.text(x, y, text, ha="center", va="center", fontsize=8, color=_ink(share, top))
                    if chosen.get(rule) == threshold:
                        frame = mpl.patches.Rectangle(
                            (x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=_INK, linewidth=1.8
                        )
                        axes.add_patch(frame)
            axes.set_yticks(range(len(rules)), rules)
            axes.set_xticks(range(len(cells.columns)), cells.columns)
            axes.tick_params(length=0)
            axes.spines[["bottom"]].set_visible(False)
            axes.set_title(f"{title}, percent by threshold")
        _caption(figure, rows)
    return figure


def _ink(share: float, top: float) -> str:
    return "white" if share > 0.55 * top else _INK


def firing(fires: Fires, choices: Sequence[Choice], source: str = ALL, most: int = 20) -> Figure:
    """Return, by rule at its recommended threshold, the round at which it fires first, as shares of each kind."""
    shown = [c for c in choices if c.threshold is not None]
    inside = np.ones(len(fires.ids), bool) if source == ALL else fires.sources == source
    with mpl.rc_context(STYLE):
        figure = _figure(8.6, 1.2 + 1.3 * max(len(shown), 1))
        grid = figure.subplots(max(len(shown), 1), 1, sharex=True, squeeze=False)[:, 0]
        for axes, choice in zip(grid, shown, strict=False):
            rule, threshold = fires.of(choice.rule, choice.threshold)
            steps = fires.steps[:, rule, threshold]
            parts = {k: steps[inside & (fires.labels == k) & (steps != NEVER)] + 1 for k in _KINDS}
            _bars(axes, parts, most)
            axes.set_title(f"{choice.rule} ≥ {choice.threshold}: round of the first firing")
        if not shown:
            grid[0].text(0.5, 0.5, "no threshold is within the tolerance", ha="center", color=GREY)
        grid[-1].set_xticks(range(1, most + 1), [*map(str, range(1, most)), f"{most}+"])
    return figure


def _bars(axes: Axes, parts: dict[str, np.ndarray], most: int) -> None:
    there = {kind: np.minimum(rounds, most) for kind, rounds in parts.items() if len(rounds)}
    for i, (kind, rounds) in enumerate(there.items()):
        share = np.bincount(rounds, minlength=most + 1)[1:] / len(rounds)
        at = np.arange(1, most + 1) + (i - (len(there) - 1) / 2) * 0.27
        axes.bar(at, share, width=0.25, color=_KINDS[kind], label=f"{len(rounds)} {kind}")
    axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1, decimals=0))
    axes.set_xlim(0.4, most + 0.6)
    if not there:
        axes.set_yticks([])
        axes.text(0.5, 0.4, "fires in no labelled run", ha="center", transform=axes.transAxes, color=GREY)
    else:
        axes.legend(frameon=False, loc="upper right", ncols=3, fontsize=9)


def by_source(fires: Fires, choices: Sequence[Choice]) -> Figure:
    """Return caught and stopped of the recommended thresholds by data set, with intervals; a cross: no such run."""
    shown = [c for c in choices if c.threshold is not None]
    names = thresholds.sources(fires)
    palette = colours(fires.rules)
    with mpl.rc_context(STYLE):
        figure = _figure(8.6, 1.4 + (0.25 + 0.11 * len(shown)) * len(names))
        left, right = figure.subplots(1, 2, sharey=True)
        for y, source in enumerate(names):
            rows = thresholds.table(fires, source)
            if y % 2:
                for axes in (left, right):
                    axes.axhspan(y - 0.5, y + 0.5, color=_FAINT, alpha=0.35, linewidth=0)
            for i, choice in enumerate(shown):
                row = rows[(rows.rule == choice.rule) & (rows.threshold == choice.threshold)].iloc[0]
                at = y + (i - (len(shown) - 1) / 2) * 0.75 / len(shown)
                _dot(left, row, "caught", at, palette[choice.rule])
                _dot(right, row, "stopped", at, palette[choice.rule])
        for axes, title in ((left, "Caught (capped, else failing runs)"), (right, "Healthy runs stopped")):
            axes.set(title=title, xlim=(-0.03, 1.03), ylim=(len(names) - 0.5, -0.5))
            axes.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
            axes.grid(axis="x", color=_FAINT, linewidth=0.6)
        left.set_yticks(range(len(names)), names)
        handles = [
            mpl.lines.Line2D([], [], color=palette[c.rule], marker="o", label=f"{c.rule} ≥ {c.threshold}")
            for c in shown
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=max(len(shown), 1), frameon=False)
    return figure


def _dot(axes: Axes, row: Any, value: str, y: float, colour: str) -> None:
    if np.isnan(row[value]):
        axes.plot([0], [y], "x", color=GREY, markersize=4)
        return
    axes.plot([row[f"{value}_low"], row[f"{value}_high"]], [y, y], color=colour, linewidth=1.5)
    axes.plot([row[value]], [y], "o", color=colour, markersize=5)


def arms(rows: pd.DataFrame, source: Source) -> Figure:
    """Return what became of the trials of each task by arm: completed with its interval, and requests a trial."""
    names, tasks = list(dict.fromkeys(rows.arm)), list(dict.fromkeys(rows.task))
    palette = dict(zip(names, (GREY, RED, BLUE, SKY, GREEN, ORANGE), strict=False))
    with mpl.rc_context(STYLE):
        figure = _figure(8.6, 1.4 + (0.25 + 0.17 * len(names)) * len(tasks))
        left, right = figure.subplots(1, 2, sharey=True)
        for row in rows.itertuples():
            at = tasks.index(row.task) + (names.index(row.arm) - (len(names) - 1) / 2) * 0.75 / len(names)
            left.plot([row.completed_low, row.completed_high], [at, at], color=palette[row.arm], linewidth=2)
            left.plot([row.completed], [at], "o", color=palette[row.arm], markersize=6)
            right.barh(at, row.requests, height=0.6 / len(names), color=palette[row.arm])
            right.annotate(f"{row.requests:.1f}", (row.requests, at), (3, -3), textcoords="offset points", fontsize=8)
        left.set(title="Completed trials", xlim=(-0.03, 1.03), ylim=(len(tasks) - 0.5, -0.5))
        left.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
        left.grid(axis="x", color=_FAINT, linewidth=0.6)
        left.set_yticks(range(len(tasks)), tasks)
        right.set_title("Requests a trial")
        handles = [mpl.lines.Line2D([], [], color=palette[n], marker="o", label=n) for n in names]
        figure.legend(handles=handles, loc="outside upper right", ncols=len(names), frameon=False)
        figure.supxlabel(source.label, fontsize=8, color=GREY, x=0.01, ha="left")
    return figure


def _caption(figure: Figure, rows: pd.DataFrame) -> None:
    one = rows.iloc[0]
    text = f"{one.healthy} healthy, {one.capped} capped, {one.failing} failing runs · 95% intervals\n{ASSUMPTION}"
    figure.supxlabel(text, fontsize=8, color=GREY, x=0.01, ha="left")
