"""The canary's figure: how many runs until the alarm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

from .. import backends
from ..measure import figures

if TYPE_CHECKING:
    import pandas as pd


def alarms(found: pd.DataFrame, alpha: float) -> Figure:
    """Return the share of watches that have raised the alarm by each look, one line a stream, 95% intervals."""
    colours = dict(
        zip(dict.fromkeys(found.stream), (figures.GREY, figures.RED, figures.BLUE, figures.ORANGE), strict=False)
    )
    with mpl.rc_context(figures.STYLE):
        figure = Figure(figsize=(7.6, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.axhline(alpha, color=figures.INK, linewidth=0.8, linestyle="--")
        axes.annotate(
            f"stated false-alarm rate {alpha:.0%}", (found.runs.min(), alpha), (0, 5), textcoords="offset points"
        )
        for name, rows in found.groupby("stream", sort=False):
            axes.fill_between(rows.runs, rows.low, rows.high, color=colours[name], alpha=0.2, linewidth=0)
            axes.plot(rows.runs, rows.alarmed, "o-", color=colours[name])
            last = rows.iloc[-1]
            axes.annotate(name, (last.runs, last.alarmed), (8, -3), textcoords="offset points", color=colours[name])
        axes.set(ylim=(0, 1.04), xlabel="runs since the change", title="Alarm raised by then")
        axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
        axes.margins(x=0.22)
        figure.supxlabel(
            f"{backends.SCRIPTED.label} · 95% intervals", fontsize=8, color=figures.GREY, x=0.01, ha="left"
        )
    return figure
