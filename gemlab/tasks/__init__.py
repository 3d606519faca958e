"""The tasks by name."""

from __future__ import annotations

from .base import Called, Facts, Instance, Plan, PlanStep, Task

__all__ = ["Called", "Facts", "Instance", "Plan", "PlanStep", "Task", "get", "names", "plans"]


def _all() -> dict[str, Task]:
    from . import ecpm, search

    return {task.name: task for task in (ecpm.TASK, ecpm.TWO_TURNS, search.TASK)}


def names() -> list[str]:
    """Return the names of all tasks."""
    return list(_all())


def get(name: str) -> Task:
    """Return a task; raises ValueError that names the known ones."""
    known = _all()
    if name not in known:
        raise ValueError(f"unknown task {name!r}; known: {', '.join(known)}")
    return known[name]


def plans() -> list[Plan]:
    """Return the plans of all tasks; tasks over the same tools share one."""
    return list({id(task.plan): task.plan for task in _all().values()}.values())
