"""Guards on tasks that loop: the runs, and what became of those that a guard spoke to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import backends, stats
from ..backends import Backend
from ..measure import metrics, tables
from ..runs import trials
from ..runs.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

TASKS = ("dead-end", "flaky", "polling", "paging")


def backend(name: str, loop: float, repeat: float = 0.15) -> Backend:
    """Return a backend; behind `sim` a scripted model that repeats a step with probability `repeat` and goes on
    repeating it with `loop`, and that never answers too early: what ends a loop is the guard alone.
    """
    if name != "sim":
        return backends.get(name)
    from ..emulator.minds.scripted import Parameters

    prone = Parameters(repeat=repeat, quit=0.0, lose_thread=0.0, loop=loop)
    return backends.simulated(backends.emulator(parameters=prone))


def run(
    tasks: Sequence[str],
    arms: Sequence[str | dict[str, str]],
    model: str,
    instances: int,
    repeats: int,
    seed: int,
    api: Backend,
    folder: Path,
) -> list[Trace]:
    """Run the arms on every task; the first task's traces are in trials.jsonl, each other's in a file of its own."""
    traces = []
    for i, task in enumerate(dict.fromkeys(tasks)):
        specs = trials.plan(arms, task, model, instances, repeats, seed)
        traces += trials.run(specs, api, folder / ("trials.jsonl" if i == 0 else f"trials-{task}.jsonl"))
    return traces


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
    made = metrics.frame(group)
    completed = stats.rate(made.groupby("instance").completed.mean().astype(float).to_numpy())
    nudged = [(t, left) for t in group if (left := _after_nudge(t)) is not None]
    return {
        "trials": len(group),
        "completed": completed.value,
        "completed_low": completed.ci[0],
        "completed_high": completed.ci[1],
        "requests": float(made.requests.mean()),
        "nudged": len(nudged),
        "left": sum(left for _, left in nudged),
        "recovered": sum(t.outcome == "completed" and not t.forced for t, _ in nudged),
        "forced": sum(t.forced for t in group),
        "stopped": sum(t.outcome == "unfinished" for t in group),
    }


def shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `recovery` as cells for people."""
    import pandas as pd

    return pd.DataFrame(
        {
            "task": r.task,
            "arm": r.arm,
            "trials": r.trials,
            "completed": tables.percent(r.completed, (r.completed_low, r.completed_high)),
            "requests": f"{r.requests:.1f}",
            "nudged": r.nudged,
            "left the loop": _of(r.left, r.nudged),
            "recovered": _of(r.recovered, r.nudged),
            "forced": r.forced,
            "stopped": r.stopped,
        }
        for r in rows.itertuples()
    )


def _of(k: int, n: int) -> str:
    return f"{k} of {n}, {tables.percent(k / n, stats.wilson(k, n))}" if n else "–"


def reading(rows: pd.DataFrame, source: backends.Source) -> list[str]:
    """Return one sentence a task, and what the numbers stand on."""
    lines = []
    for task, group in rows.groupby("task", sort=False):
        parts = [f"{r.arm} {r.completed:.0%} in {r.requests:.1f} requests" for r in group.itertuples()]
        lines.append(f"{task}: " + ", ".join(parts) + ".")
    if source.kind == "scripted":
        lines.append(
            f"{source.sentence} That it loops, and how often it heeds a notice (the same in "
            "either place), was put in; what a guard costs the healthy and saves the looping follows from it."
        )
    return lines


def write(path: Path, notes: Sequence[str], **parts: Any) -> dict[str, Any]:
    """Write a summary (tables as records) next to its final name and move it there: whole or not there."""
    import pandas as pd

    made = {k: json.loads(v.to_json(orient="records")) if isinstance(v, pd.DataFrame) else v for k, v in parts.items()}
    summary = {**made, "notes": list(notes)}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
    partial.replace(path)
    return summary


def _after_nudge(trace: Trace) -> bool | None:
    """Tell whether the answer to a trial's first nudge left the nudged call alone; None where none was given."""
    answered = [step for step in trace.steps if step.answer]
    for i, step in enumerate(answered):
        nudged = {step.calls[v.call or 0].key for v in step.verdicts if v.kind == "nudge"}
        if nudged:
            following = answered[i + 1].calls if i + 1 < len(answered) else ()
            return nudged.isdisjoint(call.key for call in following)
    return None
