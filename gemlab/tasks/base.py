"""What a task is: messages, tools, a checker, and the plan that a competent agent would follow."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..guards.fingerprints import Identity
from ..wire.contents import call_key, is_error

Tool = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Called:
    """One executed call of a trial: name, arguments, and the response's body as the model got it."""

    name: str
    args: dict[str, Any]
    response: dict[str, Any]

    @property
    def ok(self) -> bool:
        return not is_error(self.response)

    @property
    def key(self) -> tuple[str, str]:
        return call_key({"name": self.name, "args": self.args})


@dataclass(frozen=True)
class Facts:
    """What a plan may build on: the user's first text and the results seen, by plan step.

    Asking for a result that is not there raises KeyError: whoever follows the plan has to fetch it again.
    """

    text: str
    results: Mapping[int, Sequence[dict[str, Any]]]


@dataclass(frozen=True)
class PlanStep:
    """One step: the tool, its reason in words, and the arguments of its calls (several: in parallel).

    `until`: whether the step is done by its newest results (polling, paging); None: any good result will do.
    `think`: what a model would think before the step, in a sentence that names the values at hand; None: `why`.
    """

    tool: str
    why: str
    args: Callable[[Facts], list[dict[str, Any]]]
    until: Callable[[Facts], bool] | None = None
    think: Callable[[Facts], str] | None = None


@dataclass(frozen=True)
class Plan:
    """A course of action. `goal` takes the user's texts and returns how many steps they ask for by now, and
    the answer to give then. `place`, where a call's name and arguments alone tell: the step that it belongs to
    (0-based, or None); a step so placed was possible only after all steps before it. `conclude`: the thought
    before the answer, as a step's `think`."""

    steps: tuple[PlanStep, ...]
    goal: Callable[[Sequence[str]], tuple[int, Callable[[Facts], str]]]
    place: Callable[[str, Mapping[str, Any]], int | None] | None = None
    conclude: Callable[[Facts], str] | None = None

    @property
    def tools(self) -> frozenset[str]:
        return frozenset(step.tool for step in self.steps)


@dataclass(frozen=True)
class Instance:
    """One data set of a task: the user's messages, the tools over its data, and the checker of an answer.

    `check` takes the answer's text and all executed calls in order; it returns None or what is wrong.
    """

    messages: tuple[str, ...]
    functions: Mapping[str, Tool]
    check: Callable[[str, Sequence[Called]], str | None]


@dataclass(frozen=True)
class Task:
    """A task: its name, function declarations (JSON schema), plan, and instances by seed.

    `plan`: what a competent agent would do, which the scripted model follows; without one the tour, a language model
    or the real API runs the task. `identities`: what its tools declare about their calls, for the guards. `doc`: what
    it is about, in one line.
    """

    name: str
    system: str
    declarations: tuple[dict[str, Any], ...]
    plan: Plan | None
    instance: Callable[[int], Instance]
    identities: Mapping[str, Identity] = field(default_factory=dict)
    doc: str = ""

    @property
    def first_tool(self) -> str:
        """The tool whose repeated calls count as refetches: the plan's first, else the one declared first."""
        return self.plan.steps[0].tool if self.plan is not None else str(self.declarations[0]["name"])


def declare(name: str, description: str, /, **properties: dict[str, Any]) -> dict[str, Any]:
    """Return a function declaration whose arguments are all required."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": description, "parametersJsonSchema": schema}


def unknown(kind: str, given: Any) -> dict[str, Any]:
    """Return the error of a tool that was given a reference it does not know, in one short line."""
    return {"error": f"unknown {kind} {' '.join(str(given).split())[:20]}"}


def told(facts: Facts, step: int, key: str) -> Any:
    """Return a value of a plan step's first result; raises KeyError with the step where it is not there."""
    found = facts.results.get(step)
    if not found or key not in found[0]:
        raise KeyError(step)
    return found[0][key]


def matched(pattern: str, text: str) -> str:
    """Return what a pattern matches first in a text: its first group, or the whole match where it has none.

    Raises LookupError where nothing matches, as a plan's functions may: whoever follows the plan goes on without.
    """
    match = re.search(pattern, text)
    if match is None:
        raise LookupError(f"nothing matches {pattern!r}")
    return str(match[1 if match.re.groups else 0])


def steps_in_order(expected: Sequence[tuple[str, dict[str, Any]]], calls: Sequence[Called]) -> str | None:
    """Return None if every expected call succeeded with the right values and none before its turn, else what is wrong.

    Calls of one tool may come in any order.
    """
    wanted = [Called(name, args, {}).key for name, args in expected]
    tools = list(dict.fromkeys(name for name, _ in expected))
    first: dict[tuple[str, str], int] = {}
    for position, call in enumerate(calls):
        if call.ok:
            first.setdefault(call.key, position)
    missing = [name for (name, _), key in zip(expected, wanted, strict=True) if key not in first]
    if missing:
        return f"not done on the right values: {', '.join(dict.fromkeys(missing))}"
    at = {tool: [first[k] for k in wanted if k[0] == tool] for tool in tools}
    for before, after in itertools.pairwise(tools):
        if max(at[before]) > min(at[after]):
            return f"{after} before {before}"
    return None


# --- worked examples ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WorkedStep:
    """One step of a worked example: the thought before it, its calls (name, arguments), and their results."""

    thought: str
    calls: tuple[tuple[str, dict[str, Any]], ...]
    results: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Worked:
    """A run that went right, for models that need an example: `thought` is the one before the answer."""

    tools: frozenset[str]
    question: str
    steps: tuple[WorkedStep, ...]
    thought: str
    answer: str
