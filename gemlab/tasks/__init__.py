"""Tasks by name: tools, a plan, a checker; ours and those that users register."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..registry import BadInput, Kind, bind
from .base import Called, Facts, Instance, Plan, PlanStep, Task, Worked, WorkedStep
from .functions import instance, task

__all__ = [
    "TASKS", "Called", "Facts", "Instance", "Plan", "PlanStep", "Task", "Worked", "WorkedStep",
    "get", "instance", "names", "plans", "register", "task", "worked",
]  # fmt: skip

# A task, or a function of a name's arguments that returns one.
TASKS: Kind[Task | Callable[..., Task]] = Kind("task", "gemlab.tasks")
for _name, _target in (
    ("ecpm", "ecpm:TASK"),
    ("ecpm-two-turns", "ecpm:TWO_TURNS"),
    ("ecpm-handles", "ecpm_handles:TASK"),
    ("triage", "triage:TASK"),
    ("relay", "relay:TASK"),
    ("search", "search:TASK"),
    ("chain", "chain:chain"),
    ("dead-end", "dead_end:TASK"),
    ("flaky", "flaky:TASK"),
    ("polling", "polling:TASK"),
    ("paging", "paging:TASK"),
):
    TASKS.offer(_name, f"gemlab.tasks.{_target}")

# Of a task with arguments, those that stand for all in lists and tests.
_LENGTHS = {"chain": ("chain(20)", "chain(20,turns=4)")}
# Tasks without worked examples: so few instances that an example would be one of a trial's.
_FEW = ("search", "dead-end")


def register(part: Task | Callable[..., Task]) -> Task | Callable[..., Task]:
    """Register a task under its name, or a function of a name's arguments that returns one; returns it.

    Raises BadInput where another task has the name.
    """
    TASKS.register(part)
    return part


def names() -> list[str]:
    """Return the names of all tasks; of one with arguments some, `get` takes any."""
    return [text for name in TASKS.names() for text in _LENGTHS.get(name, (name,))]


def get(text: str) -> Task:
    """Return a task by its text, such as `ecpm` or `chain(20,turns=4)`; raises BadInput that names the known ones."""
    part, name = TASKS.find(text)
    if isinstance(part, Task):
        if name.args or name.kwargs:
            raise BadInput(f"{text}: the task {name.base} takes no arguments")
        return part
    return part(**bind(part, name))


def _all() -> Iterator[Task]:
    """Yield every task once; one whose arguments have no default is left out."""
    for text in names():
        try:
            yield get(text)
        except BadInput:
            continue


def plans() -> list[Plan]:
    """Return the plans of all tasks that have one; tasks over the same tools share one."""
    return list({id(task.plan): task.plan for task in _all() if task.plan is not None}.values())


def worked(count: int) -> list[Worked]:
    """Return so many worked examples for each set of tools, from instances that no trial has (seeds below zero).

    Tasks with a plan and one user message only; those over the same tools share theirs, chains are shown by a short
    one.
    """
    from . import examples

    chosen: dict[frozenset[str], Task] = {}
    for shown in (get("chain(4)"), *_all()):
        if shown.plan is not None and shown.name not in _FEW and len(shown.instance(-1).messages) == 1:
            chosen.setdefault(shown.plan.tools, shown)
    return [examples.of(shown, -seed) for shown in chosen.values() for seed in range(1, count + 1)]
