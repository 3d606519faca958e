"""An export that finishes late: its state has to be asked for again and again, often with the same answer.

The tool declares that it polls. A guard that does not know this stops a healthy run.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

from ..guards.fingerprints import Identity
from .base import Called, Facts, Instance, Plan, PlanStep, Task, declare, matched

_ASK = "Export the table {table} and tell me how many rows the export has. It may take a while: wait for it."

DECLARATIONS = (
    declare("start_export", "Start an export; returns its job id.", table={"type": "string"}),
    declare("get_export_state", "Return the state of an export: running or done.", job={"type": "string"}),
)


def _instance(seed: int) -> Instance:
    rng = random.Random(f"polling {seed}")
    table, rows = rng.choice(("orders", "sessions", "invoices", "events")), rng.randrange(10_000, 100_000)
    needed = rng.randint(5, 14)
    asked: dict[str, int] = {}

    def start_export(table: str) -> dict[str, Any]:
        job = f"{table}-{len(asked) + 1}"
        asked[job] = 0
        return {"job": job, "state": "running"}

    def get_export_state(job: str) -> dict[str, Any]:
        if job not in asked:
            return {"error": f"no job {job!r}"}
        asked[job] += 1
        if asked[job] >= needed:
            return {"state": "done", "rows": rows}
        # In steps of a quarter, so that several answers in a row are the same.
        return {"state": "running", "percent": 25 * (4 * asked[job] // needed)}

    def check(answer: str, calls: Sequence[Called]) -> str | None:
        return None if str(rows) in re.findall(r"\d+", answer) else f"the export has {rows} rows"

    functions = {"start_export": start_export, "get_export_state": get_export_state}
    return Instance((_ASK.format(table=table),), functions, check)


def _table(facts: Facts) -> list[dict[str, Any]]:
    return [{"table": matched(r"the table (\w+)", facts.text)}]


def _job(facts: Facts) -> list[dict[str, Any]]:
    return [{"job": facts.results[0][0]["job"]}]


def _is_done(facts: Facts) -> bool:
    return facts.results[1][0]["state"] == "done"


def _answer(facts: Facts) -> str:
    return f"The export has {facts.results[1][0]['rows']} rows."


TASK = Task(
    "polling",
    "You export tables. An export runs for a while after it was started.",
    DECLARATIONS,
    Plan(
        (
            PlanStep("start_export", "it has to run before it can finish", _table),
            PlanStep("get_export_state", "the export may be done by now", _job, _is_done),
        ),
        lambda turns: (2, _answer),
    ),
    _instance,
    {"get_export_state": Identity(polling=True)},
    doc="An export that finishes late: its state is asked for again and again, as it should be.",
)
