"""Arms that differ in their pruning: variant by budget, and tokens against completion."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import registry
from ..backends import Backend
from ..measure import style, tables
from ..measure.style import BLUE, FAINT, GREEN, RED, Cell
from . import base
from .parameters import Count, TrialParameters

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..measure.findings import Findings
    from ..measure.results import Results

_PANELS = (("refused", "Refused", RED), ("completion", "Completed", BLUE), ("tokens", "Tokens a trial", GREEN))
# Variants with a budget; blue is for those without.
_COLOURS = style.SERIES[1:]


def _arms() -> list[Any]:
    budgets = ("steps(2)", "steps(4)", "steps(8)", "window(8)")
    return [
        {"name": "none", "guard": "off"},
        *({"name": b.replace("(", " ").rstrip(")"), "pruning": b, "guard": "off"} for b in budgets),
    ]


@dataclass(frozen=True, kw_only=True)
class Parameters(TrialParameters):
    model: str = "gemini-3.8-flash"
    task: str = "chain(12)"
    arms: list[Any] = field(default_factory=_arms)
    instances: Count = 12


class Pruning(base.OfArms):
    """Arms by their pruning; the first is the control of the comparisons."""

    name = "pruning"
    question = "What does leaving old steps out of a history cost, and what does it save?"
    Parameters = Parameters

    def run(self, parameters: Any, folder: Path, backend: Backend) -> Findings:
        from ..measure.findings import Table

        results = self.results(parameters, folder, backend)
        rows = table(results)
        split = rows.assign(completion_low=[ci[0] for ci in rows.ci], completion_high=[ci[1] for ci in rows.ci])
        return base.of_arms(
            self,
            parameters,
            results,
            folder,
            tables={"prunings": Table(split.drop(columns="ci").reset_index(), cells=shown(rows))},
            figures={"frontier": lambda: frontier(results), "heat_maps": lambda: heat_maps(results)},
            sentences=[*reading(results), *results.sentences()],
        )


# --- numbers ------------------------------------------------------------------------------------------------


def table(results: Results) -> pd.DataFrame:
    """Return one row an arm: variant, budget (NaN without one), shares refused and completed, tokens a trial.

    Tokens: all that the API counted, over all requests, also of trials that came to nothing. `front`: no other
    arm completes as much for fewer tokens, or more for as many; one that completes nothing is never on it.
    """
    import pandas as pd

    pruned = {t.arm.name: t.arm.pruning for t in results.traces}
    rows = []
    for arm, one in results.summarised.items():
        name = registry.parse(pruned[arm])
        budgets = [n for n in name.args if isinstance(n, int)]
        rows.append(
            {
                "arm": arm,
                "variant": name.base if budgets else pruned[arm],
                "budget": float(budgets[0]) if budgets else math.nan,
                "refused": one["outcomes"]["refused"] / one["trials"],
                "completion": one["completion_rate"],
                "ci": one["completion_ci"],
                "tokens": one["tokens"]["total"] / one["trials"],
            }
        )
    found = pd.DataFrame(rows).set_index("arm")
    found["front"] = [bool(a["completion"]) and not any(_beats(b, a) for b in rows) for a in rows]
    return found


def _beats(one: dict[str, Any], other: dict[str, Any]) -> bool:
    if one["completion"] is None:
        return False
    better = one["completion"] - other["completion"], other["tokens"] - one["tokens"]
    return min(better) >= 0 and max(better) > 0


# --- figures ------------------------------------------------------------------------------------------------


def heat_maps(results: Results) -> Figure:
    """Return refused, completed and tokens as heat maps: a row a variant, its budgets from small to large.

    Budgets of one column are not alike (contents, steps, tokens): each cell says its own. Variants without a
    budget have one cell.
    """
    found = table(results)
    variants = list(dict.fromkeys(found.variant))
    with style.sheet(10.5, 1.6 + 0.52 * len(variants)) as figure:
        for axes, (metric, title, colour) in zip(figure.subplots(1, 3, sharey=True), _PANELS, strict=True):
            groups = [found[found.variant == variant].sort_values("budget") for variant in variants]
            cells = [[_cell(row, found[metric], metric) for _, row in rows.iterrows()] for rows in groups]
            style.heat(axes, cells, colour)
            axes.set_title(title)
            axes.set_yticks(range(len(variants)), variants)
            axes.set_xticks([])
            axes.set_xlabel("budget, from small to large", fontsize=8)
        extra = "small figure: the budget (window: contents, tokens: tokens, others: steps)"
        style.caption(figure, results.subject, "rates and means", extra)
    return figure


def _cell(row: Any, column: pd.Series, metric: str) -> Cell:
    value = row[metric]
    known = value is not None and not math.isnan(value)
    text = "–" if not known else f"{value:,.0f}" if metric == "tokens" else f"{value:.0%}"
    return Cell(_shade(value, column, metric), text, "" if math.isnan(row.budget) else f"{row.budget:.0f}")


def _shade(value: float | None, column: pd.Series, metric: str) -> float | None:
    """Return how dark a cell is: shares as they are, tokens by their logarithm."""
    if value is None or metric != "tokens":
        return value
    low, high = float(column.min()), float(column.max())
    return math.log(value / low) / math.log(high / low) if 0 < low < high else 0.0


def frontier(results: Results) -> Figure:
    """Return tokens a trial against completion with 95% intervals, the arms on the front joined by a line."""
    from matplotlib.ticker import FuncFormatter

    found = table(results)
    found = found[found.completion.notna() & (found.tokens > 0)]
    budgeted = list(dict.fromkeys(found.variant[found.budget.notna()]))
    with style.sheet(8.6, 5.2) as figure:
        axes = figure.subplots()
        front = found[found.front].sort_values("tokens")
        axes.plot(front.tokens, front.completion, color=FAINT, linewidth=5, zorder=0, solid_joinstyle="round")
        for variant in dict.fromkeys(found.variant):
            rows = found[found.variant == variant]
            colour = _COLOURS[budgeted.index(variant) % len(_COLOURS)] if variant in budgeted else BLUE
            for _, row in rows.iterrows():
                axes.plot([row.tokens] * 2, row.ci, color=colour, linewidth=1, alpha=0.5)
            marker = "o" if variant in budgeted else "D"
            axes.plot(rows.tokens, rows.completion, marker, color=colour, markersize=7)
        _labels(axes, found)
        axes.set(ylim=(-0.05, 1.05), xscale="log", title="Completed trials against what they cost")
        axes.set_xlabel("Tokens a trial (logarithmic)")
        axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
        axes.xaxis.set_minor_formatter(FuncFormatter(_thousands))
        axes.tick_params(axis="x", which="both", length=3, pad=4)
        style.percent(axes.yaxis)
        style.grid(axes, "both")
        style.caption(
            figure, results.subject, "95% intervals: Wilson", "grey line: no arm completes more for fewer tokens"
        )
    return figure


def _thousands(value: float, _: int) -> str:
    """Label 1, 2 and 5 of each decade, so that a logarithmic axis stays readable."""
    leading = f"{value:.0e}"[0]
    return f"{value:,.0f}" if leading in "125" else ""


def _labels(axes: Axes, found: pd.DataFrame) -> None:
    """Name the arms; where points lie together, one label names them all."""
    groups: list[list[tuple[str, float, float]]] = []
    for arm, row in found.sort_values(["completion", "tokens"]).iterrows():
        point = (str(arm), float(row.tokens), float(row.completion))
        near = (g for g in groups if abs(math.log(g[0][1] / point[1])) < 0.35 and abs(g[0][2] - point[2]) < 0.02)
        group = next(near, None)
        if group is None:
            groups.append([point])
        else:
            group.append(point)
    middle = math.sqrt(float(found.tokens.min()) * float(found.tokens.max()))
    for group in groups:
        _, x, y = max(group, key=lambda p: p[1])
        # Towards the middle, in short lines, and without making room for them: they must not squeeze the axes.
        side, offset = ("left", 7) if x <= middle else ("right", -7)
        text = textwrap.fill(", ".join(p[0] for p in group), 30)
        up = y < 0.5
        label = axes.annotate(
            text, (x, y), (offset, 4 if up else -4), textcoords="offset points", fontsize=8, ha=side,
            va="bottom" if up else "top",
        )  # fmt: skip
        label.set_in_layout(False)


# --- for people -----------------------------------------------------------------------------------------------


def shown(rows: pd.DataFrame) -> list[tables.Cells]:
    """Return the rows of `table` as cells."""
    return [
        {
            "arm": str(arm),
            "variant": row.variant,
            "budget": "–" if math.isnan(row.budget) else f"{row.budget:.0f}",
            "refused": f"{row.refused:.0%}",
            "completed": tables.percent(row.completion, row.ci),
            "tokens a trial": f"{row.tokens:,.0f}",
            "on the front": "yes" if row.front else "",
        }
        for arm, row in rows.iterrows()
    ]


def reading(results: Results) -> list[str]:
    """Return what the figures say: the arms on the front, and those that the API refused."""
    found = table(results)
    front = found[found.front].sort_values("tokens")
    lines = [
        f"On the front: {arm}, {row.completion:.0%} completed for {row.tokens:,.0f} tokens a trial "
        f"(n = {results.summarised[str(arm)]['trials']})."
        for arm, row in front.iterrows()
    ]
    refused = [str(arm) for arm, row in found.iterrows() if row.refused > 0]
    return [*lines, f"Refused at least once: {', '.join(refused) or 'none'}."]


STUDY = Pruning()
