"""Figures in one house style: labelled directly, intervals shown, safe for colour-blind eyes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from IPython.display import Image
from matplotlib.figure import Figure

from ..agent.trial import OUTCOMES
from ..runs.trace import Trace
from . import timeline as strips
from .report import Results
from .tables import p_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette; outcomes keep their colour in every figure.
BLUE, ORANGE, GREEN, RED, GREY, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#8A8A8A", "#56B4E9"
OUTCOME_COLOURS = dict(zip(OUTCOMES, (BLUE, ORANGE, SKY, RED, GREY), strict=True))
INK, _FAINT = "#222222", "#D9D9D9"
STYLE: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": INK,
    "ytick.left": False,
    "xtick.color": INK,
    "text.color": INK,
    "axes.labelcolor": INK,
    "svg.hashsalt": "gemlab",
    "savefig.dpi": 150,
}


def _figure(width: float, height: float) -> Figure:
    # Not pyplot: figures are values here, nothing keeps them alive or shows them twice.
    return Figure(figsize=(width, height), layout="constrained")


def estimates(results: Results) -> Figure:
    """Return completion and redundant calls of every arm with 95% intervals, one row an arm."""
    summary = results.summary()["arms"]
    with mpl.rc_context(STYLE):
        figure = _figure(8.6, 1.5 + 0.42 * len(results.arms))
        left, right = figure.subplots(1, 2, sharey=True)
        _dots(left, summary, "completion_rate", "completion_ci", lambda v: f"{100 * v:.0f}%")
        left.set(xlim=(-0.04, 1.08), title="Completed trials")
        left.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
        _dots(right, summary, "redundant_mean", "redundant_ci", lambda v: f"{v:.2f}")
        right.set(title="Redundant calls a trial")
        right.set_xlim(left=0)
        caption(figure, results)
    return figure


def _dots(axes: Axes, summary: dict[str, Any], value: str, ci: str, show: Any) -> None:
    arms = list(summary)
    axes.set_ylim(len(arms) - 0.4, -0.7)
    axes.set_yticks(range(len(arms)), arms)
    axes.grid(axis="x", color=_FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    for y, arm in enumerate(arms):
        one, span = summary[arm][value], summary[arm][ci]
        if one is None:
            axes.annotate("not measured: no trial ran on", (0, y), (6, -4), textcoords="offset points", color=GREY)
            continue
        colour = RED if _refused(summary[arm]) else BLUE if y == 0 else ORANGE
        axes.plot(span, [y, y], color=colour, linewidth=2, solid_capstyle="round")
        axes.plot([one], [y], "o", color=colour, markersize=7)
        axes.annotate(show(one), (one, y), (0, 8), textcoords="offset points", ha="center", color=INK)


def _refused(arm: dict[str, Any]) -> bool:
    """Tell whether most of an arm's trials were refused: then its numbers speak of the API, not the model."""
    return 2 * arm["outcomes"]["refused"] > arm["trials"]


def outcomes(results: Results) -> Figure:
    """Return the share of each outcome by arm as stacked bars, each piece labelled with its count."""
    with mpl.rc_context(STYLE):
        figure = _figure(8.6, 1.3 + 0.45 * len(results.arms))
        axes = figure.subplots()
        shown = [o for o in OUTCOMES if (results.rows.outcome == o).any()]
        for y, arm in enumerate(results.arms):
            rows, start = results.of(arm), 0.0
            for outcome in shown:
                count = int((rows.outcome == outcome).sum())
                share = count / len(rows)
                axes.barh(y, share, left=start, color=OUTCOME_COLOURS[outcome], height=0.62)
                if share > 0.04:
                    light = outcome in ("wrong", "unfinished")
                    axes.text(
                        start + share / 2, y, str(count), ha="center", va="center", color=INK if light else "white"
                    )
                start += share
        axes.set(ylim=(len(results.arms) - 0.5, -0.6), xlim=(0, 1), title="Outcomes (trials)")
        axes.set_yticks(range(len(results.arms)), results.arms)
        axes.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
        handles = [mpl.patches.Patch(color=OUTCOME_COLOURS[o], label=o) for o in shown]
        axes.legend(handles=handles, ncols=len(shown), loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
        caption(figure, results)
    return figure


def differences(results: Results) -> Figure:
    """Return every arm's difference from the control with its interval, over the region of equivalence."""
    comparisons = results.comparisons()
    titles = {"completed": "Completion, points against ", "redundant": "Redundant calls against "}
    with mpl.rc_context(STYLE):
        figure = _figure(8.6, 1.6 + 0.42 * max(1, len(results.arms) - 1))
        for axes, (metric, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
            made = [c for c in comparisons if c["metric"] == metric]
            refused = {arm for arm, one in results.summary()["arms"].items() if _refused(one)}
            _forest(axes, made, 100 if metric == "completed" else 1, refused)
            axes.set_title(title + results.arms[0])
        caption(figure, results, "grey band: practical equivalence")
    return figure


def _forest(axes: Axes, made: Sequence[dict[str, Any]], scale: float, refused: set[str]) -> None:
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_ylim(max(len(made), 1) - 0.4, -0.7)
    axes.set_yticks(range(len(made)), [c["arm"] for c in made])
    if not made:
        axes.text(0, 0, "nothing to compare: no trial ran on", ha="center", color=GREY)
        axes.set_yticks([])
        return
    region = made[0]["equivalence"] * scale
    axes.axvspan(-region, region, color=_FAINT, alpha=0.6, linewidth=0)
    for y, c in enumerate(made):
        value, (low, high) = scale * c["difference"], (scale * v for v in c["ci"])
        colour = RED if c["arm"] in refused else ORANGE
        axes.plot([low, high], [y, y], color=colour, linewidth=2, solid_capstyle="round")
        axes.plot([value], [y], "o", color=colour, markersize=7)
        label = f"{value:+.0f}" if scale == 100 else f"{value:+.2f}"
        label += ", refused" if c["arm"] in refused else f", {p_text(c['p'])}"
        axes.annotate(label, (value, y), (0, 8), textcoords="offset points", ha="center")
    axes.margins(x=0.25)


def signatures(results: Results) -> Figure:
    """Return, by arm, how many of the received signatures went back and what they cost as prompt tokens."""
    summary = results.summary()["arms"]
    with mpl.rc_context(STYLE):
        figure = _figure(8.6, 1.4 + 0.42 * len(results.arms))
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, title, values, show in (
            (left, "Signatures sent back", [a["signatures_returned"] for a in summary.values()], "{:.0%}"),
            (
                right,
                "Prompt tokens a request",
                [a["prompt_tokens_per_request"] for a in summary.values()],
                "{:.0f}",
            ),
        ):
            lengths = [v or 0.0 for v in values]
            bars = axes.barh(
                range(len(values)), lengths, color=[BLUE, *[ORANGE] * len(values)][: len(values)], height=0.5
            )
            axes.bar_label(bars, ["–" if v is None else show.format(v) for v in values], padding=4)
            axes.set(title=title, ylim=(len(values) - 0.5, -0.6))
            axes.set_yticks(range(len(values)), list(summary))
            axes.margins(x=0.15)
        left.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
        caption(figure, results)
    return figure


def caption(figure: Figure, results: Results, extra: str = "") -> None:
    """Write below a figure what every one has to say: whose numbers these are, and how to read them."""
    first = results.traces[0]
    served = ", ".join(sorted({s for t in results.traces for s in t.served})) or "unknown"
    text = f"{results.source.label}\nmodel {first.model}, served {served} · task {first.task} · 95% intervals"
    figure.supxlabel(text + (f" · {extra}" if extra else ""), fontsize=8, color=GREY, x=0.01, ha="left")


def save(figure: Figure, path: Path) -> Image:
    """Write the figure as PNG and return it as a picture, so that a notebook's cell shows it."""
    with mpl.rc_context(STYLE):
        figure.savefig(path)
    return Image(data=path.read_bytes(), width=round(100 * figure.get_figwidth()))


CALL_COLOURS = {"new": BLUE, "repeated": ORANGE, "failed": RED, "blocked": INK, "open": GREY}


def timeline(trace: Trace) -> Figure:
    """Return one trace as a strip: a column a step, its calls stacked, signatures sent back above, guards below."""
    steps = strips.steps(trace)
    tall = max([len(s.calls) for s in steps], default=1) or 1
    with mpl.rc_context(STYLE):
        figure = _figure(max(6.4, 1.5 + 1.25 * len(steps)), 2.4 + 0.4 * tall)
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
        handles = [mpl.patches.Patch(color=CALL_COLOURS[k], label=k) for k in CALL_COLOURS if k in kinds]
        if handles:
            axes.legend(handles=handles, ncols=len(handles), loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
        axes.set_xlabel("step (request and answer)")
    return figure
