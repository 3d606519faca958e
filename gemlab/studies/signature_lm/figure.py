"""Figure of a language model's runs: completion and redundant calls by arm, set-up by set-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...measure import style
from ...measure.style import BLUE, GREY, RED, SKY
from ...measure.subject import Subject
from ...measure.tables import each
from .report import e_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_HOW = (
    "Red: worse than the control by evidence (e-process, stopped then), light blue: better, grey: no difference shown."
)


def setups(rows: pd.DataFrame, subject: Subject) -> Figure:
    """Return both metrics of every arm (rows of `report.frame`).

    Red: worse than the control by evidence, light blue: better by evidence, grey: no difference shown.
    """
    groups = list(dict.fromkeys(zip(rows.task, rows.prompt, strict=True)))
    lines = len(rows) + len(groups)
    with style.sheet(9.4, 1.6 + 0.27 * lines) as figure:
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.35, 1))
        y, ticks = 0, []
        for task, prompt in groups:
            left.annotate(
                f"{task}, prompt {prompt}", (0, y), (-0.24, y), ("axes fraction", "data"), va="center", weight="bold"
            )
            y += 1
            for row in each(rows[(rows.task == task) & (rows.prompt == prompt)]):
                style.interval(left, y, row.completion, (row.completion_low, row.completion_high), _colour(row))
                style.interval(right, y, row.redundant, (row.redundant_low, row.redundant_high), _colour(row))
                left.annotate(
                    _label(row), (1.03, y), va="center", fontsize=8, color=_colour(row), annotation_clip=False
                )
                ticks.append((y, row.arm))
                y += 1
        left.set(title="Completed trials", xlim=(-0.03, 1.5), ylim=(y - 0.4, -0.6))
        left.set_xticks([0, 0.25, 0.5, 0.75, 1])
        style.percent(left.xaxis)
        left.set_yticks([t for t, _ in ticks], [name for _, name in ticks])
        right.set_title("Redundant calls a trial")
        right.set_xlim(-0.05, max(right.get_xlim()[1], 1))
        for axes in (left, right):
            style.grid(axes)
        style.caption(figure, subject, "95% intervals, which only describe: after a stop the e-value alone tests", _HOW)
    return figure


def _colour(row: Any) -> str:
    if row.pairs is None or row.pairs != row.pairs:
        return BLUE
    if row.closed is None or row.closed != row.closed:
        return GREY
    return RED if row.only_control > row.only_arm else SKY


def _label(row: Any) -> str:
    counts = f"{row.completed}/{row.trials}"
    if row.pairs is None or row.pairs != row.pairs:
        return f"{counts}, control"
    return f"{counts}, e = {e_text(row.e_value)}"
