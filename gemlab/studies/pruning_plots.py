"""Figures of a run whose arms differ in their pruning: variant by budget, and tokens against completion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from .. import registry
from ..measure import figures
from ..measure.figures import BLUE, GREEN, ORANGE, RED, SKY
from ..measure.report import Results

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# From the budget-free arms on, each variant keeps its colour.
_COLOURS = (ORANGE, SKY, GREEN, "#CC79A7", "#F0E442")
_PANELS = (("refused", "Refused", RED), ("completion", "Completed", BLUE), ("tokens", "Tokens a trial", GREEN))


def table(results: Results) -> pd.DataFrame:
    """Return one row an arm: variant, budget (NaN without one), shares refused and completed, tokens a trial.

    Tokens: all that the API counted, over all requests, also of trials that came to nothing. `front`: no other
    arm completes as much for fewer tokens, or more for as many; one that completes nothing is never on it.
    """
    import pandas as pd

    pruned = {t.arm.name: t.arm.pruning for t in results.traces}
    rows = []
    for arm, one in results.summary()["arms"].items():
        name = registry.parse(pruned[arm])
        variant, budget = name.base, next(iter(name.args), None)
        budgeted = isinstance(budget, int)
        rows.append(
            {
                "arm": arm,
                "variant": variant if budgeted else pruned[arm],
                "budget": float(budget) if budgeted else math.nan,
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


def heat_maps(results: Results) -> Figure:
    """Return refused, completed and tokens as heat maps: a row a variant, its budgets from small to large.

    Budgets of one column are not alike (contents, steps, tokens): each cell says its own. Variants without a
    budget have one cell.
    """
    found = table(results)
    variants = list(dict.fromkeys(found.variant))
    columns = int(found.variant.value_counts().max())
    with mpl.rc_context(figures.STYLE):
        figure = Figure(figsize=(10.5, 1.4 + 0.52 * len(variants)), layout="constrained")
        for axes, (metric, title, colour) in zip(figure.subplots(1, 3, sharey=True), _PANELS, strict=True):
            shades = LinearSegmentedColormap.from_list(metric, ["white", colour])
            for y, variant in enumerate(variants):
                rows = found[found.variant == variant].sort_values("budget")
                for x, (_, row) in enumerate(rows.iterrows()):
                    _cell(axes, x, y, row, metric, shades(_shade(row[metric], found[metric], metric)))
            axes.set(xlim=(-0.5, columns - 0.5), ylim=(len(variants) - 0.5, -0.5), title=title)
            axes.set_yticks(range(len(variants)), variants)
            axes.set_xticks([])
            axes.set_xlabel("budget, from small to large", fontsize=8)
            axes.tick_params(length=0)
            axes.spines["bottom"].set_visible(False)
        figures.caption(figure, results, "small figure: the budget (window: contents, tokens: tokens, others: steps)")
    return figure


def _shade(value: float | None, column: pd.Series, metric: str) -> float:
    """Return how dark a cell is: shares as they are, tokens by their logarithm."""
    if value is None or math.isnan(value):
        return 0.0
    if metric != "tokens":
        return value
    low, high = float(column.min()), float(column.max())
    return math.log(value / low) / math.log(high / low) if 0 < low < high else 0.0


def _cell(axes: Axes, x: int, y: int, row: Any, metric: str, colour: tuple[float, ...]) -> None:
    value = row[metric]
    box = mpl.patches.Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=colour, edgecolor="#D9D9D9")
    axes.add_patch(box)
    luminance = 0.3 * colour[0] + 0.59 * colour[1] + 0.11 * colour[2]
    ink = "white" if luminance < 0.55 else "#222222"
    known = value is not None and not math.isnan(value)
    text = "–" if not known else f"{value:,.0f}" if metric == "tokens" else f"{value:.0%}"
    axes.text(x, y - 0.06, text, ha="center", va="center", color=ink, fontsize=9.5)
    if not math.isnan(row.budget):
        axes.text(x, y + 0.29, f"{row.budget:.0f}", ha="center", va="center", color=ink, fontsize=6.5)


def frontier(results: Results) -> Figure:
    """Return tokens a trial against completion with 95% intervals, the arms on the front joined by a line."""
    found = table(results)
    found = found[found.completion.notna() & (found.tokens > 0)]
    budgeted = list(dict.fromkeys(found.variant[found.budget.notna()]))
    with mpl.rc_context(figures.STYLE):
        figure = Figure(figsize=(8.6, 5.0), layout="constrained")
        axes = figure.subplots()
        front = found[found.front].sort_values("tokens")
        axes.plot(front.tokens, front.completion, color="#D9D9D9", linewidth=5, zorder=0, solid_joinstyle="round")
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
        for axis in ("set_major_formatter", "set_minor_formatter"):
            getattr(axes.xaxis, axis)(mpl.ticker.FuncFormatter(_thousands))
        axes.tick_params(axis="x", which="both", length=3, pad=4)
        axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
        axes.grid(color="#EEEEEE", linewidth=0.6)
        axes.set_axisbelow(True)
        figures.caption(figure, results, "grey line: no arm completes more for fewer tokens")
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
    for group in groups:
        _, x, y = max(group, key=lambda p: p[1])
        axes.annotate(", ".join(p[0] for p in group), (x, y), (7, 4), textcoords="offset points", fontsize=8)


def reading(results: Results) -> str:
    """Return what the figures say in lines: the arms on the front, and those that the API refused."""
    found = table(results)
    front = found[found.front].sort_values("tokens")
    lines = [
        f"{arm}: {row.completion:.0%} completed for {row.tokens:,.0f} tokens a trial." for arm, row in front.iterrows()
    ]
    refused = [arm for arm, row in found.iterrows() if row.refused > 0]
    return _listed("On the front", lines) + _listed("Refused at least once", [", ".join(refused) or "none"])


def _listed(head: str, lines: Sequence[str]) -> str:
    return f"{head}:\n\n" + "".join(f"- {line}\n" for line in lines) + "\n"
