"""Figures of arms and of one trial, in the house style."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..agent.trial import OUTCOMES
from ..runs.trace import Trace
from . import style, tables
from . import timeline as strips
from .results import Results
from .style import BLUE, FAINT, GREEN, GREY, INK, ORANGE, RED, SKY
from .subject import of_traces

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Outcomes keep their colour in every figure.
OUTCOME_COLOURS = dict(zip(OUTCOMES, (BLUE, ORANGE, SKY, RED, GREY), strict=True))
CALL_COLOURS = {"new": BLUE, "repeated": ORANGE, "failed": RED, "blocked": INK, "open": GREY}


def of_arms(results: Results) -> dict[str, Callable[[], Figure]]:
    """Return what draws each figure that arms can have, by name; the first answers most questions."""
    drawers = (estimates, outcomes, differences, signatures)
    return {draw.__name__: lambda draw=draw: draw(results) for draw in drawers}  # type: ignore[misc]


def estimates(results: Results) -> Figure:
    """Return completion and redundant calls of every arm with 95% intervals, one row an arm."""
    arms = results.summarised
    with style.sheet(8.6, 1.6 + 0.42 * len(arms)) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        _dots(left, arms, "completion_rate", "completion_ci", lambda v: f"{100 * v:.0f}%")
        left.set(xlim=(-0.04, 1.08), title="Completed trials")
        style.percent(left.xaxis)
        _dots(right, arms, "redundant_mean", "redundant_ci", lambda v: f"{v:.2f}")
        right.set(title="Redundant calls a trial")
        right.set_xlim(left=0)
        style.caption(figure, results.subject)
    return figure


def _dots(axes: Axes, arms: dict[str, Any], value: str, ci: str, show: Callable[[float], str]) -> None:
    style.rows(axes, list(arms))
    style.grid(axes)
    for y, arm in enumerate(arms.values()):
        if arm[value] is None:
            axes.annotate("not measured: no trial ran on", (0, y), (6, -4), textcoords="offset points", color=GREY)
            continue
        colour = RED if _is_refused(arm) else BLUE if y == 0 else ORANGE
        style.interval(axes, y, arm[value], arm[ci], colour, show(arm[value]))


def _is_refused(arm: dict[str, Any]) -> bool:
    """Tell whether most of an arm's trials were refused: then its numbers speak of the API, not the model."""
    return bool(2 * arm["outcomes"]["refused"] > arm["trials"])


def outcomes(results: Results) -> Figure:
    """Return the share of each outcome by arm as stacked bars, each piece labelled with its count."""
    from matplotlib.patches import Patch

    with style.sheet(8.6, 1.4 + 0.45 * len(results.arms)) as figure:
        axes = figure.subplots()
        shown = [o for o in OUTCOMES if (results.rows.outcome == o).any()]
        for y, arm in enumerate(results.arms):
            rows, start = results.of(arm), 0.0
            for outcome in shown:
                count = int((rows.outcome == outcome).sum())
                share = count / len(rows)
                axes.barh(y, share, left=start, color=OUTCOME_COLOURS[outcome], height=0.62)
                if share > 0.04:
                    ink = INK if outcome in ("wrong", "unfinished") else "white"
                    axes.text(start + share / 2, y, str(count), ha="center", va="center", color=ink)
                start += share
        style.rows(axes, results.arms)
        axes.set(xlim=(0, 1), ylim=(len(results.arms) - 0.5, -0.6), title="Outcomes (trials)")
        style.percent(axes.xaxis)
        handles = [Patch(color=OUTCOME_COLOURS[o], label=o) for o in shown]
        axes.legend(handles=handles, ncols=len(shown), loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
        style.caption(figure, results.subject, intervals="counts")
    return figure


def differences(results: Results) -> Figure:
    """Return every arm's difference from the control with its interval, over the region of equivalence."""
    titles = {"completed": "Completion, points against ", "redundant": "Redundant calls against "}
    refused = {name for name, arm in results.summarised.items() if _is_refused(arm)}
    with style.sheet(8.6, 1.7 + 0.42 * max(1, len(results.arms) - 1)) as figure:
        for axes, (metric, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
            compared = [c for c in results.comparisons if c["metric"] == metric]
            _forest(axes, compared, 100 if metric == "completed" else 1, refused)
            axes.set_title(title + results.arms[0])
        intervals = "95% intervals: Newcombe for rates, BCa bootstrap for means"
        extra = "p adjusted for the arms of a panel; grey band: practical equivalence"
        style.caption(figure, results.subject, intervals, extra)
    return figure


def _forest(axes: Axes, compared: Sequence[dict[str, Any]], scale: float, refused: set[str]) -> None:
    if not compared:
        style.blank(axes, "nothing to compare:\nno trial ran on, or no other arm")
        return
    axes.axvline(0, color=INK, linewidth=0.8)
    style.rows(axes, [c["arm"] for c in compared])
    region = compared[0]["equivalence"] * scale
    axes.axvspan(-region, region, color=FAINT, alpha=0.6, linewidth=0)
    for y, c in enumerate(compared):
        value, ci = scale * c["difference"], [scale * v for v in c["ci"]]
        label = f"{value:+.0f}" if scale == 100 else f"{value:+.2f}"
        label += ", refused" if c["arm"] in refused else f", {tables.p_text(c['p_adjusted'])}"
        style.interval(axes, y, value, ci, RED if c["arm"] in refused else ORANGE, label)
    axes.margins(x=0.25)


def signatures(results: Results) -> Figure:
    """Return, by arm, how many of the received signatures went back and what they cost as prompt tokens."""
    arms = results.summarised
    panels = (
        ("Signatures sent back", "signatures_returned", "{:.0%}"),
        ("Prompt tokens a request", "prompt_tokens_per_request", "{:.0f}"),
    )
    with style.sheet(8.6, 1.5 + 0.42 * len(arms)) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, (title, key, show) in zip((left, right), panels, strict=True):
            values = [arm[key] for arm in arms.values()]
            colours = [BLUE, *[ORANGE] * len(values)][: len(values)]
            bars = axes.barh(range(len(values)), [v or 0.0 for v in values], color=colours, height=0.5)
            axes.bar_label(bars, ["–" if v is None else show.format(v) for v in values], padding=4)
            axes.set_title(title)
            style.rows(axes, list(arms))
            axes.margins(x=0.15)
        style.percent(left.xaxis)
        style.caption(figure, results.subject, intervals="means")
    return figure


def timeline(trace: Trace) -> Figure:
    """Return one trace as a strip: a column a step, its calls stacked, signatures sent back above, guards below."""
    from matplotlib.patches import Patch

    steps = strips.steps(trace)
    tall = max([len(s.calls) for s in steps], default=1) or 1
    with style.sheet(max(6.4, 1.5 + 1.25 * len(steps)), 2.4 + 0.4 * tall) as figure:
        axes = figure.subplots()
        for s in steps:
            for row, call in enumerate(s.calls):
                axes.barh(-row, 0.92, left=s.number - 0.46, height=0.8, color=CALL_COLOURS[call.kind])
                axes.text(s.number, -row, call.name, ha="center", va="center", color="white", fontsize=7)
            if not s.calls:
                label = "text" if s.end is None else s.end.split(":")[0]
                axes.text(s.number, 0, label, ha="center", va="center", fontsize=9, style="italic")
            whole = s.sent == s.due
            colour = GREEN if s.due and whole else RED if s.due else GREY
            back = f"{s.sent}/{s.due}" if s.due else "–"
            axes.text(s.number, 1.0, back, ha="center", color=colour, weight="bold", fontsize=9)
            notes = [*s.verdicts, *([f"resent {s.resent}×"] if s.resent else [])]
            axes.text(s.number, -tall - 0.05, "\n".join(notes), ha="center", va="top", fontsize=7, color=RED)
        axes.set(xlim=(0.3, len(steps) + 0.7), ylim=(-tall - 0.6, 1.5), title=f"{trace.trial}: {trace.outcome}")
        axes.set_xticks(range(1, len(steps) + 1))
        axes.set_yticks([1.1, 0], ["signatures\nsent back", "calls"])
        axes.tick_params(left=False)
        kinds = {c.kind for s in steps for c in s.calls}
        handles = [Patch(color=CALL_COLOURS[k], label=k) for k in CALL_COLOURS if k in kinds]
        if handles:
            axes.legend(handles=handles, ncols=len(handles), loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
        axes.set_xlabel("step (request and answer)")
        style.caption(figure, of_traces([trace], trace.source, f"instance {trace.instance}"), "one trial")
    return figure
