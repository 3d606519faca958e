"""Figure of a language model's runs: completion and redundant calls by arm, set-up by set-up."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

from ...measure.figures import _FAINT, BLUE, GREY, RED, SKY, STYLE, _figure
from .language_report import e_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def setups(rows: pd.DataFrame, told: str) -> Figure:
    """Return both metrics of every arm (rows of `language_report.frame`); `told` says which model was measured.

    Red: worse than the control by evidence, light blue: better by evidence, grey: no difference shown.
    """
    groups = list(dict.fromkeys(zip(rows.task, rows.prompt, strict=True)))
    lines = len(rows) + len(groups)
    with mpl.rc_context(STYLE):
        figure = _figure(9.4, 1.3 + 0.27 * lines)
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.35, 1))
        y, ticks = 0, []
        for task, prompt in groups:
            left.annotate(
                f"{task}, prompt {prompt}", (0, y), (-0.24, y), ("axes fraction", "data"), va="center", weight="bold"
            )
            y += 1
            for row in rows[(rows.task == task) & (rows.prompt == prompt)].itertuples():
                _interval(left, y, row.completion, row.completion_low, row.completion_high, _colour(row))
                _interval(right, y, row.redundant, row.redundant_low, row.redundant_high, _colour(row))
                left.annotate(
                    _label(row), (1.03, y), va="center", fontsize=8, color=_colour(row), annotation_clip=False
                )
                ticks.append((y, row.arm))
                y += 1
        left.set(title="Completed trials", xlim=(-0.03, 1.5), ylim=(y - 0.4, -0.6))
        left.set_xticks([0, 0.25, 0.5, 0.75, 1])
        left.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
        left.set_yticks([t for t, _ in ticks], [name for _, name in ticks])
        right.set_title("Redundant calls a trial")
        right.set_xlim(-0.05, max(right.get_xlim()[1], 1))
        for axes in (left, right):
            axes.grid(axis="x", color=_FAINT, linewidth=0.6)
            axes.set_axisbelow(True)
        figure.supxlabel(_caption(told), fontsize=8, color=GREY, x=0.01, ha="left")
    return figure


def _interval(axes: Axes, y: int, value: float, low: float, high: float, colour: str) -> None:
    if value is None or value != value:
        return
    axes.plot([low, high], [y, y], color=colour, linewidth=2, solid_capstyle="round")
    axes.plot([value], [y], "o", color=colour, markersize=5.5)


def _colour(row) -> str:
    if row.pairs is None or row.pairs != row.pairs:
        return BLUE
    if row.closed is None or row.closed != row.closed:
        return GREY
    return RED if row.only_control > row.only_arm else SKY


def _label(row) -> str:
    counts = f"{row.completed}/{row.trials}"
    if row.pairs is None or row.pairs != row.pairs:
        return f"{counts}, control"
    return f"{counts}, e = {e_text(row.e_value)}"


def _caption(told: str) -> str:
    how = (
        "Red: worse than the control by evidence (e-process, stopped then), light blue: better, grey: no difference "
        "shown. 95% intervals describe; after a stop only the e-value tests."
    )
    return "\n".join(textwrap.fill(text, 150) for text in (told, how))
