"""The tasks by name."""

from __future__ import annotations

from .base import Called, Facts, Instance, Plan, PlanStep, Task, Worked, WorkedStep

__all__ = [
    "Called", "Facts", "Instance", "Plan", "PlanStep", "Task", "Worked", "WorkedStep",
    "get", "names", "plans", "worked",
]  # fmt: skip
# Tasks without worked examples: so few instances that an example would be one of a trial's.
_FEW = ("search", "dead-end")


def _all() -> dict[str, Task]:
    from . import chain, dead_end, ecpm, ecpm_handles, flaky, paging, polling, relay, search, triage

    chains = chain.task(20), chain.task(20, turns=4)
    looping = dead_end.TASK, flaky.TASK, polling.TASK, paging.TASK
    handles = ecpm_handles.TASK, triage.TASK, relay.TASK
    return {task.name: task for task in (ecpm.TASK, ecpm.TWO_TURNS, *handles, search.TASK, *chains, *looping)}


def names() -> list[str]:
    """Return the names of all tasks; `get` takes chains of other lengths as well."""
    return list(_all())


def get(name: str) -> Task:
    """Return a task, by a name of `names` or a chain's; raises ValueError that names the known ones."""
    from . import chain

    found = chain.named(name) or _all().get(name)
    if found is None:
        raise ValueError(f"unknown task {name!r}; known: {', '.join(names())}; any {chain.NAMES}")
    return found


def plans() -> list[Plan]:
    """Return the plans of all tasks; tasks over the same tools share one."""
    return list({id(task.plan): task.plan for task in _all().values()}.values())


def worked(count: int) -> list[Worked]:
    """Return so many worked examples for each set of tools, from instances that no trial has (seeds below zero).

    Tasks of one user message only; those over the same tools share theirs, chains are shown by a short one.
    """
    from . import chain, examples

    short = chain.task(4)
    chosen = {}
    for task in (short, *_all().values()):
        if task.name not in _FEW and len(task.instance(-1).messages) == 1:
            chosen.setdefault(task.plan.tools, task)
    return [examples.of(task, -seed) for task in chosen.values() for seed in range(1, count + 1)]
