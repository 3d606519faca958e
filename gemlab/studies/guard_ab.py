"""Guards on tasks that loop or seem to: what became of the runs, and of those that a guard spoke to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from .. import stats
from ..backends import Backend
from ..measure import metrics, style, tables
from ..measure.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY
from ..measure.subject import Subject
from ..registry import BadInput
from ..runs import looping
from ..runs.trace import Trace
from . import base
from .parameters import TrialParameters

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..agent.trial import Spec
    from ..measure.findings import Findings

# The first arm is the one without a guard.
_COLOURS = (GREY, RED, BLUE, SKY, GREEN, ORANGE, PURPLE)


def _arms() -> list[Any]:
    return [
        {"name": "off", "guard": "cap_20"},
        {"name": "article", "guard": "article"},
        {"name": "default", "guard": "default"},
        {"name": "nudge as user text", "guard": "nudge_text"},
    ]


@dataclass(frozen=True, kw_only=True)
class Parameters(TrialParameters):
    """`loop`: how prone to loops the scripted model is: once in one, the probability to stay."""

    task: str = "dead-end"
    more_tasks: list[str] = field(default_factory=lambda: ["flaky", "polling", "paging"])
    arms: list[Any] = field(default_factory=_arms)
    loop: Annotated[float, Ge(0)] = 0.95


class GuardAB(base.Study):
    """Arms by their guard, on every task; the first is the control."""

    name = "guard_ab"
    question = "What does a guard save, what does it cost, and where should its nudge stand?"
    Parameters = Parameters

    def check(self, parameters: Any) -> None:
        if parameters.loop > 1:
            raise BadInput(f"loop is a probability, not {parameters.loop}")
        source = looping.source(parameters.loop) if parameters.backend == "sim" else None
        for specs, file in _jobs(parameters):
            base.check_folder(specs, parameters, file, source=source)

    def plan(self, parameters: Any) -> list[Spec]:
        return [spec for specs, _ in _jobs(parameters) for spec in specs]

    def open(self, parameters: Any) -> Backend:
        return looping.backend(parameters.backend, parameters.loop)

    def run(self, parameters: Any, folder: Path, backend: Backend) -> Findings:
        from ..measure.findings import Table
        from ..measure.results import Results
        from ..measure.subject import of_source

        traces = looping.run(_jobs(parameters), backend, folder)
        names = base.arm_names(parameters.arms)
        results = Results(traces, names, backend.source)
        rows = recovery(traces, names)
        return base.of_tables(
            self,
            parameters,
            subject=results.subject,
            rows=results.rows,
            tables={"recovery": Table(rows, cells=shown(rows))},
            figures={"arms": lambda: figure(rows, results.subject)},
            sentences=reading(rows),
            remarks=[of_source(results.subject, looping.PUT_IN), *results.notes()[1:]],
            folder=folder,
        )


def _jobs(p: Parameters) -> list[tuple[list[Spec], str]]:
    return looping.jobs([p.task, *p.more_tasks], p.arms, p.model, p.instances, p.repeats, p.seed)


# --- recovery -----------------------------------------------------------------------------------------------


def recovery(traces: Sequence[Trace], arms: Sequence[str]) -> pd.DataFrame:
    """Return one row a task and arm, in the order of the tasks' traces and of `arms`.

    `completed` with its interval `…_low`, `…_high`: per instance. `nudged`: trials with a nudge; of these, `left`:
    the next answer did not make the nudged call again, `recovered`: completed without a forced answer. `forced`:
    trials with a forced final answer; `stopped`: trials that came to no answer.
    """
    import pandas as pd

    rows = []
    for task in dict.fromkeys(t.task for t in traces):
        for arm in arms:
            group = [t for t in traces if (t.task, t.arm.name) == (task, arm)]
            if group:
                rows.append({"task": task, "arm": arm, **_counts(group)})
    return pd.DataFrame(rows)


def _counts(group: Sequence[Trace]) -> dict[str, Any]:
    rows = metrics.frame(group)
    completed = stats.rate(rows.groupby("instance").completed.mean().astype(float).to_numpy())
    nudged = [(t, left) for t in group if (left := _after_nudge(t)) is not None]
    return {
        "trials": len(group),
        "completed": completed.value,
        "completed_low": completed.ci[0],
        "completed_high": completed.ci[1],
        "requests": float(rows.requests.mean()),
        "nudged": len(nudged),
        "left": sum(left for _, left in nudged),
        "recovered": sum(t.outcome == "completed" and not t.forced for t, _ in nudged),
        "forced": sum(t.forced for t in group),
        "stopped": sum(t.outcome == "unfinished" for t in group),
    }


def _after_nudge(trace: Trace) -> bool | None:
    """Tell whether the answer to a trial's first nudge left the nudged call alone; None where none was given."""
    answered = [step for step in trace.steps if step.answer]
    for i, step in enumerate(answered):
        nudged = {step.calls[v.call or 0].key for v in step.verdicts if v.kind == "nudge"}
        if nudged:
            following = answered[i + 1].calls if i + 1 < len(answered) else ()
            return nudged.isdisjoint(call.key for call in following)
    return None


# --- for people ---------------------------------------------------------------------------------------------


def shown(rows: pd.DataFrame) -> list[tables.Cells]:
    """Return the rows of `recovery` as cells."""
    return [
        {
            "task": r.task,
            "arm": r.arm,
            "trials": str(r.trials),
            "completed": tables.percent(r.completed, (r.completed_low, r.completed_high)),
            "requests": f"{r.requests:.1f}",
            "nudged": str(r.nudged),
            "left the loop": _of(r.left, r.nudged),
            "recovered": _of(r.recovered, r.nudged),
            "forced": str(r.forced),
            "stopped": str(r.stopped),
        }
        for r in tables.each(rows)
    ]


def _of(k: int, n: int) -> str:
    return f"{k} of {n}, {tables.percent(k / n, stats.wilson(k, n))}" if n else "–"


def figure(rows: pd.DataFrame, subject: Subject) -> Figure:
    """Return what became of the trials of each task by arm: completed with its interval, and requests a trial."""
    names, tasks = list(dict.fromkeys(rows.arm)), list(dict.fromkeys(rows.task))
    palette = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}
    with style.sheet(8.6, 1.7 + (0.25 + 0.17 * len(names)) * len(tasks)) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for row in tables.each(rows):
            at = tasks.index(row.task) + (names.index(row.arm) - (len(names) - 1) / 2) * 0.75 / len(names)
            style.interval(left, at, row.completed, (row.completed_low, row.completed_high), palette[row.arm])
            right.barh(at, row.requests, height=0.6 / len(names), color=palette[row.arm])
            right.annotate(f"{row.requests:.1f}", (row.requests, at), (3, -3), textcoords="offset points", fontsize=8)
        left.set(title="Completed trials", xlim=(-0.03, 1.03), ylim=(len(tasks) - 0.5, -0.5))
        style.percent(left.xaxis)
        style.grid(left)
        left.set_yticks(range(len(tasks)), tasks)
        right.set_title("Requests a trial")
        style.legend(figure, palette, "outside upper right")
        style.caption(figure, subject)
    return figure


def reading(rows: pd.DataFrame) -> list[str]:
    """Return one sentence a task."""
    lines = []
    for task, group in rows.groupby("task", sort=False):
        parts = [f"{r.arm} {r.completed:.0%} in {r.requests:.1f} requests" for r in tables.each(group)]
        lines.append(f"{task} (n = {group.trials.iloc[0]} an arm): " + ", ".join(parts) + ".")
    return lines


STUDY = GuardAB()
