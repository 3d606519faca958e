"""Worked examples: runs that follow a task's plan over the real tools, for models that need to see one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..wire.contents import is_error
from .base import Called, Facts, Instance, Plan, PlanStep, Task, Worked, WorkedStep

# What each plan step gave.
_Results = dict[int, list[dict[str, Any]]]
# More than any step of a task needs that has to be done again and again.
_MOST_TRIES = 30
# What a plan's functions raise where results are not what they expect.
_UNUSABLE = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)
_CONCLUSION = "everything asked for is there"


def of(task: Task, seed: int) -> Worked:
    """Return the run that follows the plan on the instance of this seed, checked by the instance itself.

    Raises ValueError for an instance of several user messages, a plan that leads nowhere, and a wrong run.
    """
    instance = task.instance(seed)
    if task.plan is None:
        raise ValueError(f"{task.name} has no plan to follow")
    if len(instance.messages) != 1:
        raise ValueError(f"{task.name}: an example has one user message, not {len(instance.messages)}")
    results: _Results = {}
    facts = Facts(instance.messages[0], results)
    try:
        end, answer = task.plan.goal(instance.messages)
        steps = [s for i in range(end) for s in _tries(task.plan.steps[i], i, instance, facts, results)]
        thought, text = _conclusion(task.plan, facts), answer(facts)
    except _UNUSABLE as error:
        raise ValueError(f"{task.name}, seed {seed}: the plan cannot be followed: {error}") from error
    called = [Called(*call, r) for s in steps for call, r in zip(s.calls, s.results, strict=True)]
    wrong = instance.check(text, called)
    if wrong:
        raise ValueError(f"{task.name}, seed {seed}: the plan leads to a wrong run: {wrong}")
    return Worked(task.plan.tools, instance.messages[0], tuple(steps), thought, text)


def _tries(step: PlanStep, at: int, instance: Instance, facts: Facts, results: _Results) -> Iterator[WorkedStep]:
    """Do one plan step until it is done; only good results become facts."""
    for _ in range(_MOST_TRIES):
        thought = step.why if step.think is None else step.think(facts)
        calls = tuple((step.tool, args) for args in step.args(facts))
        found = tuple(instance.functions[name](**args) for name, args in calls)
        yield WorkedStep(thought, calls, found)
        if not any(map(is_error, found)):
            results[at] = list(found)
            if step.until is None or step.until(facts):
                return
    raise ValueError(f"{step.tool} is not done after {_MOST_TRIES} tries")


def _conclusion(plan: Plan, facts: Facts) -> str:
    return _CONCLUSION if plan.conclude is None else plan.conclude(facts)
