"""The tasks by name."""

from __future__ import annotations

from .base import Called, Facts, Instance, Plan, PlanStep, Task

__all__ = ["Called", "Facts", "Instance", "Plan", "PlanStep", "Task", "get", "names", "plans"]


def _all() -> dict[str, Task]:
    from . import chain, dead_end, ecpm, flaky, paging, polling, search

    chains = chain.task(20), chain.task(20, turns=4)
    looping = dead_end.TASK, flaky.TASK, polling.TASK, paging.TASK
    return {task.name: task for task in (ecpm.TASK, ecpm.TWO_TURNS, search.TASK, *chains, *looping)}


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
