"""One request of a trial: derived from the steps before it, sent, resent as it was, or handed to another model."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any, Literal

from .. import registry
from ..backends import ApiFailure, Backend, Exchange, Refused, Settings
from ..tasks import Task
from ..wire import families, interaction_steps
from ..wire.contents import Content
from . import history, history_faults, interacting, pruning, retry, summaries
from . import step as views
from .arm import fallback
from .step import Step
from .summaries import Due, Summarise
from .trial import End, Spec, Trial


async def ask(
    backend: Backend, trial: Trial, task: Task, messages: tuple[Content, ...] = (), final: bool = False
) -> Step:
    """Send the request that the arm makes of the trial's steps and the new `messages`; return its step once answered.

    Every request is kept as a step, a summary's that is due first and one that another model is asked again after.
    `final`: a text is asked for, without calls. Raises End where the API refuses or stays away, and where an answer is
    not whole, other than by being malformed.
    """
    draft = Step(trial.model, messages)
    while True:
        step, failure = await _sent(backend, trial, task, draft, final)
        trial.steps.append(step)
        if failure is not None:
            draft = _fallen_back(trial, backend.service, failure)
            continue
        _check_end(step)
        if step.purpose == "answer":
            return step
        _check_summary(step)
        draft = Step(step.model)


def _check_end(step: Step) -> None:
    """End the trial where an answer did not end by itself: nothing in it is the model's word, a call least of all."""
    if step.answer is None or step.fault in (None, "malformed"):
        return
    outcome = "refused" if step.fault == "missing_signature" else "unfinished"
    raise End(outcome, step.fault, step.answer.ending)


def _check_summary(step: Step) -> None:
    if step.answer and step.empty == "malformed":
        raise End("unfinished", "malformed", step.answer.ending)
    try:
        summaries.of(step)
    except ValueError as error:
        raise End("unfinished", "empty", str(error)) from None


async def _sent(backend: Backend, trial: Trial, task: Task, draft: Step, final: bool) -> tuple[Step, ApiFailure | None]:
    """Send what a draft (model and messages) becomes; return its step and, where nobody answered, why."""
    arm, steps = trial.spec.arm, views.conversation([*trial.steps, draft])
    due = _due(trial, steps)
    settings = _settings(task, trial.spec, len(trial.steps), final or due is not None)
    started = time.perf_counter()
    first = _handed(trial, steps, due, settings)

    def handed(attempt: int) -> dict[str, Any]:
        rebuilds = attempt > 0 and arm.retry == "rebuild" and due is None
        return {"contents": view(trial, steps, again=True)} if rebuilds else first

    def send(attempt: int) -> Awaitable[Exchange]:
        body = handed(attempt)
        if "input" in body:
            return backend.interact(body)
        return backend.send(draft.model, body["contents"], settings, arm.transport == "stream")

    exchange, failures = await retry.resend(send)
    request = exchange.request if exchange else failures[-1].sent
    last = len(failures) - (exchange is None)
    request, contents = _carried(request, handed(last))
    step = replace(
        draft,
        contents=contents,
        request=request,
        response=exchange.response if exchange else None,
        failures=[retry.describe(f) for f in failures],
        seconds=time.perf_counter() - started,
        covers=due.steps if due else 0,
        final=settings.mode == "NONE",
    )
    return step, None if exchange else failures[-1]


def _handed(trial: Trial, steps: Sequence[Step], due: Due | None, settings: Settings) -> dict[str, Any]:
    """Return what the client gets: a whole interaction, or the contents of a request."""
    if trial.spec.arm.history in history.BY_INTERACTIONS:
        return interacting.body(steps, trial.spec.arm, settings)
    return {"contents": due.contents if due else view(trial, steps)}


def _carried(request: dict[str, Any] | None, handed: dict[str, Any]) -> tuple[dict[str, Any] | None, list[Content]]:
    """Return a request's body and the contents in it, as on the wire; where nothing went out, the contents handed over.

    What is on the wire just as it was handed over is kept as the same objects, not once more for every request.
    """
    key = "input" if "input" in handed else "contents"
    if request is not None and request.get(key) == handed[key]:
        request = {**request, key: handed[key]}
    body = request or handed
    return request, interaction_steps.contents_of(body) if key == "input" else body.get("contents", [])


# --- what goes out ------------------------------------------------------------------------------------------


def view(trial: Trial, steps: Sequence[Step], again: bool = False) -> list[Content]:
    """Return the contents to send for the newest of a conversation's steps, as the arm's strategy and pruning show it.

    `again`: after a failure, by an arm that then rebuilds all that it has.
    """
    shown, summarise = _shown(trial, steps, again), _summariser(trial)
    if summarise:
        return summarise.apply(shown, _summaries(steps))
    return pruning.get(trial.spec.arm.pruning)(shown)


def _shown(trial: Trial, steps: Sequence[Step], again: bool = False) -> list[Content]:
    contents = views.received(steps)
    if trial.spec.arm.retry == "rebuild":
        contents = _rebuilt(contents, steps, again)
    # A call that a guard left unanswered is to be seen by the API so.
    closed = contents if any(step.unanswered for step in steps) else history.closed(contents)
    return history.get(trial.spec.arm.history, trial.donor)(closed)


def _rebuilt(contents: list[Content], steps: Sequence[Step], again: bool) -> list[Content]:
    """Rebuild all that stood in the history when a request was sent again the last time."""
    newest = next((i for i in reversed(range(len(steps))) if steps[i].resent), None)
    if again:
        newest = len(steps) - 1
    if newest is None:
        return contents
    cut = len(views.received(steps[:newest])) + len(steps[newest].messages)
    return [*history_faults.rebuild(contents[:cut]), *contents[cut:]]


def _due(trial: Trial, steps: Sequence[Step]) -> Due | None:
    """Return the summary that the arm's pruning wants first, if any."""
    summarise = _summariser(trial)
    return summarise.request(_shown(trial, steps), _summaries(steps)) if summarise else None


def _summaries(steps: Sequence[Step]) -> list[summaries.Summary]:
    return [summaries.of(s) for s in steps if s.purpose == "summary" and s.answer]


def _summariser(trial: Trial) -> Summarise | None:
    name = registry.parse(trial.spec.arm.pruning)
    return Summarise(int(name.args[0])) if name.base == "summarise" else None


# --- falling back -------------------------------------------------------------------------------------------


def _fallen_back(trial: Trial, service: str, failure: ApiFailure) -> Step:
    """Return the next request's draft, to the arm's other model; raises End where there is none.

    `same_family` takes the conversation along only within family and service; else it begins a new one with the
    newest message. `any` takes it along whatever that does to the signatures in it.
    """
    if isinstance(failure, Refused):
        raise End("refused", None, str(failure))
    rule, other = fallback(trial.spec.arm.fallback)
    if not other or trial.model == other:
        raise End("failed", None, str(failure))
    if rule == "same_family" and not families.same_issuer(trial.model, other, service):
        return Step(other, (views.user(views.question(trial.steps)),), anew=True)
    return Step(other)


# --- the request's settings ---------------------------------------------------------------------------------


def _settings(task: Task, spec: Spec, request: int, final: bool) -> Settings:
    """Return the settings of one request: a seed of its own (int32), mode NONE for a forced final answer.

    The seed depends on instance, repeat and request number alone, so that all arms get the same ones.
    """
    seed = (spec.seed * 1_000_003 + spec.repeat * 15_485_863 + request * 7_919) % 2**31
    mode: Literal["AUTO", "NONE"] = "NONE" if final else "AUTO"
    return Settings(task.system, task.declarations, seed, spec.arm.thinking != "off", mode)
