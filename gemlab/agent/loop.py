"""One trial: send, run the calls, send again, until there is an answer or a reason why not.

The steps are the truth; every request is derived from them anew by the arm's history strategy and pruning. What
fails on the way is resent as it was.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import guards, tasks
from ..backends import Backend
from ..guards.fingerprints import Identity
from ..guards.rounds import Round, Verdict, blocked
from ..tasks import Task
from ..wire.contents import Content
from . import request
from .step import Step, noticed, user
from .trial import End, Spec, Trial


async def run(backend: Backend, spec: Spec, donor: Sequence[str] = ()) -> Trial:
    """Run one trial to its outcome; infrastructure trouble is an outcome too, never an exception.

    `donor`: the signatures for a history strategy that swaps them; raises ValueError where such a one has none.
    """
    task = tasks.get(spec.task)
    instance = task.instance(spec.seed)
    trial = Trial(spec, donor)
    started = time.perf_counter()
    try:
        for message in instance.messages:
            trial.answer = await _turn(backend, trial, task, instance.functions, message)
        trial.detail = instance.check(trial.answer or "", trial.called)
        trial.outcome = "wrong" if trial.detail else "completed"
    except End as end:
        trial.outcome, trial.reason, trial.detail = end.outcome, end.reason, end.detail
    trial.seconds = time.perf_counter() - started
    return trial


async def _turn(backend: Backend, trial: Trial, task: Task, functions: Mapping[str, Any], message: str) -> str:
    """Run one user turn to its final text."""
    watch = guards.get(trial.spec.arm.guard)
    identities = task.identities if watch.declared else {}
    messages: tuple[Content, ...] = (user(message),)
    rounds: list[Round] = []
    ending: Verdict | None = None
    while True:
        if len(rounds) >= guards.HARD_CAP:
            raise End("unfinished", "max_steps", f"{guards.HARD_CAP} rounds")
        step = await request.ask(backend, trial, task, messages, final=ending is not None)
        messages = ()
        if step.empty and ending is None:
            rounds.append(step.round(identities))
            if watch.asks_again(rounds):
                continue
        _judge(step, ending)
        step = trial.steps[-1] = _answered(step, rounds, watch, functions, identities, message)
        if not step.calls:
            return step.text
        rounds.append(step.round(identities))
        ending = _ending(step)


def _judge(step: Step, ending: Verdict | None) -> None:
    """End the trial where an answer is neither calls nor a text, whatever came beside a malformed call."""
    answer = step.answer
    reason = None if ending is None else "max_steps" if ending.reason == "max_steps" else "guard"
    if answer is None or step.empty == "malformed":
        raise End("unfinished", reason or "malformed", (answer.message or answer.finish_reason) if answer else None)
    if step.calls and ending is not None:
        raise End("unfinished", reason, f"forced final answer after {ending.reason}: a call instead of a text")
    if step.empty:
        raise End("unfinished", reason or "empty", f"no call and no text ({answer.finish_reason})")


def _ending(step: Step) -> Verdict | None:
    """Return the verdict after which only a final text is asked for, if any; End where it stops the run at once."""
    end = next((v for v in reversed(step.verdicts) if v.kind in ("finish", "stop")), None)
    if end is not None and end.kind == "stop":
        raise End("unfinished", "max_steps" if end.reason == "max_steps" else "guard", end.reason)
    return end


# --- calling ------------------------------------------------------------------------------------------------


def _answered(
    step: Step,
    rounds: Sequence[Round],
    watch: guards.Guards,
    functions: Mapping[str, Any],
    identities: Mapping[str, Identity],
    question: str,
) -> Step:
    """Return the step as it stands in the history: each call answered in order, by its tool or by a guard, and judged.

    `rounds`: those of the turn before it. `question`: what the turn has to answer.
    """
    step = replace(step, kept=True)
    if not step.calls:
        return step
    before = tuple(watch.before([*rounds, step.round(identities)]).values())
    stopped = blocked(before)
    gave = [guards.BLOCKED if i in stopped else call_tool(functions, c.name, c.args) for i, c in enumerate(step.calls)]
    ran = replace(step, results=tuple(gave), verdicts=before)
    verdicts = (*before, *(_asking(v, question) for v in watch.after([*rounds, ran.round(identities)])))
    return replace(step, results=noticed(gave, verdicts), verdicts=verdicts)


def _asking(verdict: Verdict, question: str) -> Verdict:
    """Say what is wanted where a final answer is: the question may lie far back, or be pruned away."""
    return replace(verdict, text=f"{verdict.text} The question: {question}") if verdict.kind == "finish" else verdict


def call_tool(functions: Mapping[str, Any], name: str, args: Any) -> dict[str, Any]:
    """Run one tool; whatever goes wrong becomes an error that the model can read."""
    if name not in functions:
        return {"error": f"unknown function {name!r}; known: {', '.join(functions)}"}
    try:  # copies: what a tool does to its arguments or its result later must not reach the history
        result = copy.deepcopy(functions[name](**copy.deepcopy(args)))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return result if isinstance(result, dict) else {"result": result}
