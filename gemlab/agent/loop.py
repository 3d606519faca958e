"""One trial: send, run the calls, send again, until there is an answer or a reason why not.

The contents as received are the truth; every request is derived from them anew by the arm's history strategy
and pruning. What fails on the way is resent as it was.
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
from ..guards.rounds import Round, Verdict
from ..tasks import Called, Task
from ..wire import contents as wire
from ..wire.answers import Answer
from . import history, request
from .trial import End, Spec, Trial

_MALFORMED = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")


async def run(backend: Backend, spec: Spec, donor: Sequence[str] = ()) -> Trial:
    """Run one trial to its outcome; infrastructure trouble is an outcome too, never an exception.

    `donor`: the signatures for a history strategy that swaps them; raises ValueError where such a one has none.
    """
    task = tasks.get(spec.task)
    instance = task.instance(spec.seed)
    trial = Trial(spec, donor=donor)
    started = time.perf_counter()
    try:
        for message in instance.messages:
            trial.received.append({"role": "user", "parts": [{"text": message}]})
            trial.rounds, trial.question = [], message
            trial.answer = await _turn(backend, trial, task, instance.functions)
        trial.detail = instance.check(trial.answer or "", trial.called)
        trial.outcome = "wrong" if trial.detail else "completed"
    except End as end:
        trial.outcome, trial.reason, trial.detail = end.outcome, end.reason, end.detail
    trial.seconds = time.perf_counter() - started
    return trial


async def _turn(backend: Backend, trial: Trial, task: Task, functions: Mapping[str, Any]) -> str:
    """Run one user turn to its final text."""
    watch = guards.get(trial.spec.arm.guard)
    finish: Verdict | None = None
    while True:
        if len(trial.rounds) >= guards.HARD_CAP:
            raise End("unfinished", "max_steps", f"{guards.HARD_CAP} rounds")
        answer = await request.ask(backend, trial, task, final=finish is not None)
        made = wire.calls(answer.content) if answer.content else []
        if finish is None and (kind := _emptiness(answer, made)):
            trial.rounds.append(Round((), empty=kind))
            if watch.asks_again(trial.rounds):
                continue
        _judge(answer, made, finish)
        trial.received.append(answer.content)
        if not made:
            return wire.answer_text(answer.content)
        finish = _run_calls(trial, answer, functions, watch, task.identities if watch.declared else {})


def _emptiness(answer: Answer, made: list[dict]) -> str:
    """Return why an answer is neither calls nor a text: malformed, no parts, thoughts only; empty if it is."""
    if answer.finish_reason in _MALFORMED:
        return "malformed"
    if made or (answer.content is not None and wire.answer_text(answer.content).strip()):
        return ""
    return "no parts" if answer.content is None else "thoughts only"


def _judge(answer: Answer, made: list[dict], finish: Verdict | None) -> None:
    """End the trial where an answer is neither calls nor a text: the finish reason wins over what came."""
    reason = None if finish is None else "max_steps" if finish.reason == "max_steps" else "guard"
    if answer.finish_reason in _MALFORMED:
        raise End("unfinished", reason or "malformed", answer.message or answer.finish_reason)
    if made and finish is not None:
        raise End("unfinished", reason, f"forced final answer after {finish.reason}: a call instead of a text")
    if _emptiness(answer, made):
        raise End("unfinished", reason or "empty", f"no call and no text ({answer.finish_reason})")


# --- calling ------------------------------------------------------------------------------------------------


def _run_calls(
    trial: Trial,
    answer: Answer,
    functions: Mapping[str, Any],
    watch: guards.Guards,
    identities: Mapping[str, Identity],
) -> Verdict | None:
    """Answer every call of one round in order, in one content; return the verdict that ends the turn, if any."""
    made = wire.calls(answer.content)
    asked = tuple((str(c.get("name")), c.get("args") or {}) for c in made)
    now = Round(asked, identities=identities, unknown=tuple(i for i, c in enumerate(asked) if c[0] not in functions))
    before = watch.before([*trial.rounds, now])
    results = [_execute(trial, call, functions, before.get(i)) for i, call in enumerate(asked)]
    usage = answer.usage
    output = usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0)
    tokens = {"prompt_tokens": usage.get("promptTokenCount", 0), "output_tokens": output}
    now = replace(now, results=tuple(results), verdicts=tuple(before.values()), **tokens)
    after = [_asking(v, trial.question) for v in watch.after([*trial.rounds, now])]
    for verdict in after:
        if verdict.place == "response":
            results[verdict.call or 0] = _noticed(results[verdict.call or 0], verdict)
    trial.rounds.append(replace(now, results=tuple(results), verdicts=(*before.values(), *after)))
    trial.steps[-1]["verdicts"] = list(trial.rounds[-1].verdicts)
    parts = [history.response_part(c, r) for c, r in zip(made, results, strict=True)]
    trial.received.append({"role": "user", "parts": parts})
    said = [v.text for v in after if v.kind == "nudge" and v.place == "user_text"]
    if said:
        trial.received.append({"role": "user", "parts": [{"text": " ".join(said)}]})
    end = after[-1] if after and after[-1].kind in ("finish", "stop") else None
    if end is not None and end.kind == "stop":
        raise End("unfinished", "max_steps" if end.reason == "max_steps" else "guard", end.reason)
    return end


def _asking(verdict: Verdict, question: str) -> Verdict:
    """Say what is wanted where a final answer is: the question may lie far back, or be pruned away."""
    return replace(verdict, text=f"{verdict.text} The question: {question}") if verdict.kind == "finish" else verdict


def _execute(
    trial: Trial, call: tuple[str, Any], functions: Mapping[str, Any], verdict: Verdict | None
) -> dict[str, Any]:
    """Return the response's body: the tool's result, its error, or what a guard says in its place."""
    if verdict is not None and verdict.kind == "block":
        return _noticed(guards.BLOCKED, verdict)
    result = call_tool(functions, *call)
    trial.called.append(Called(*call, result))
    return _noticed(result, verdict) if verdict is not None else result


def _noticed(result: dict[str, Any], verdict: Verdict) -> dict[str, Any]:
    """Return the response's body with the guard's words added to those already there."""
    said = [text for text in (result.get(wire.NOTICE), verdict.text) if text]
    return {**result, wire.NOTICE: " ".join(map(str, said))}


def call_tool(functions: Mapping[str, Any], name: str, args: Any) -> dict[str, Any]:
    """Run one tool; whatever goes wrong becomes an error that the model can read."""
    if name not in functions:
        return {"error": f"unknown function {name!r}; known: {', '.join(functions)}"}
    try:  # copies: what a tool does to its arguments or its result later must not reach the history
        result = copy.deepcopy(functions[name](**copy.deepcopy(args)))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return result if isinstance(result, dict) else {"result": result}
