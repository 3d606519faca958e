"""What a notebook needs: run arms, open a study, and register parts of one's own, each in a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..agent.arm import ArmForm, arm
from ..agent.history import STRATEGIES
from ..agent.pruning import PRUNINGS
from ..backends import BACKENDS, find
from ..backends.minds import MINDS
from ..guards import GUARDS
from ..guards.fingerprints import Identity
from ..measure.findings import Findings
from ..registry import BadInput
from ..replay.firing import RULES
from ..replay.importers import IMPORTERS
from ..runs import trials
from ..studies.session import start as study
from ..tasks import TASKS, Instance, Task, instance
from ..tasks import task as task_of
from . import costs

__all__ = [
    "backend", "guard", "importer", "instance", "mind", "pruning", "rule", "run", "strategy", "study", "task",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


def run(
    arms: Sequence[ArmForm],
    task: str | Task = "ecpm",
    instances: int = 40,
    *,
    model: str = "gemini-2.5-flash",
    backend: str = "sim",
    repeats: int = 1,
    seed: int = 1,
    out: str = "",
    name: str = "run",
    yes: bool = False,
) -> Findings:
    """Run arms on the same instances of a task and return what was found; the first arm is the control.

    `arms`: names of strategies, strategies themselves, or objects of an arm's fields. `task`: a name, or the task
    itself. Traces go to `out` (empty: runs/<name>/<time>), where an interrupted run goes on. `yes`: spend what a
    backend that costs money takes. Raises BadInput.
    """
    if isinstance(task, Task):
        TASKS.register(task)
    forms = [dict(vars(arm(form))) for form in arms]
    chosen: dict[str, Any] = {"arms": forms, "task": task if isinstance(task, str) else task.name, "model": model}
    counts: dict[str, Any] = {"instances": instances, "repeats": repeats, "seed": seed}
    if find(backend)[0].spends and not yes:
        estimate = costs.estimate(trials.plan(**chosen, **counts))
        raise BadInput(f"{estimate}: this spends money on the real API, say yes=True to go on")
    return study("signature_ab", name=name, backend=backend, out=out, **chosen, **counts).run()


# --- parts of one's own -----------------------------------------------------------------------------------------


def strategy(function: F) -> F:
    """Register a history strategy: a function from the contents as received to those to send, contents first.

    Further parameters are arguments of its name: `def newest(contents, n: int)` is asked for as `newest(3)`. Raises
    BadInput where another part has the name; so do all below.
    """
    STRATEGIES.register(function)
    return function


def pruning(function: F) -> F:
    """Register a pruning: a function from contents to those that stay, with arguments as a strategy has them."""
    PRUNINGS.register(function)
    return function


def guard(function: F) -> F:
    """Register a guard: a function of its name's arguments that returns one or several guards (`gemlab.guards`)."""
    GUARDS.register(function)
    return function


def rule(part: F) -> F:
    """Register a rule for sweeps over recorded runs: a subclass of `gemlab.guards.Watch`, or a function to one."""
    RULES.register(part)
    return part


def task(
    make: Callable[[int], Instance] | Task | None = None,
    *,
    name: str = "",
    system: str = "Use the tools given. Answer when you know.",
    identities: Mapping[str, Identity] | None = None,
) -> Any:
    """Register a task, made from a function that returns the instance of a seed (`gemlab.instance`); returns it.

    As a decorator, or with a Task that is made already. `system`: the system instruction; `identities`: what its tools
    declare about their calls, for guards and metrics.
    """
    if make is None:
        return lambda function: task(function, name=name, system=system, identities=identities)
    made = make if isinstance(make, Task) else task_of(make, name=name, system=system, identities=identities)
    TASKS.register(made)
    return made


def backend(function: F) -> F:
    """Register a backend: a function of its name's arguments that returns one (`gemlab.backends.Backend`)."""
    BACKENDS.register(function)
    return function


def mind(part: F) -> F:
    """Register a mind behind the emulator: a class, or a function, that gives an object with `respond(view)`."""
    MINDS.register(part)
    return part


def importer(function: F) -> F:
    """Register an importer: a function of a record and its place, to recorded runs, or None for another form."""
    IMPORTERS.register(function)
    return function
