"""One request of a trial: derived from what was received, sent, resent as it was, or handed to another model."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from .. import registry
from ..backends import ApiFailure, Backend, Exchange, Refused, Settings
from ..tasks import Task
from ..wire import answers, families, interaction_steps
from ..wire import contents as wire
from ..wire.answers import Answer
from ..wire.contents import Content
from ..wire.families import Pin
from . import history, interacting, pruning, retry
from .arm import fallback
from .summaries import Summarise
from .trial import End, Spec, Trial


async def ask(backend: Backend, trial: Trial, task: Task, final: bool = False) -> Answer:
    """Send the request that the arm makes of the history, resending and falling back as it says; keep the step.

    Raises End where the API refuses or stays away.
    """
    await _summarise(backend, trial, task)
    trial.forced |= final
    return await _answered(backend, trial, task, lambda: view(trial), final)


async def _answered(
    backend: Backend, trial: Trial, task: Task, contents: Callable[[], list[Content]], final: bool
) -> Answer:
    while True:
        try:
            return await _ask(backend, trial, task, contents, final)
        except Refused as error:
            raise End("refused", None, str(error)) from None
        except ApiFailure as error:
            if not _fall_back(trial, backend.service):
                raise End("failed", None, str(error)) from None


async def _ask(
    backend: Backend, trial: Trial, task: Task, contents: Callable[[], list[Content]], final: bool
) -> Answer:
    arm, model = trial.spec.arm, trial.model
    settings = _settings(task, trial.spec, len(trial.steps), final)
    started = time.perf_counter()
    interaction = interacting.body(trial, settings) if arm.history in history.BY_INTERACTIONS else None
    held = contents() if interaction is None else interaction_steps.contents_of(interaction)
    step: dict[str, Any] = {"contents": held, "request": None, "response": None, "failures": [], "model": model}
    trial.steps.append(step)

    def send() -> Awaitable[Exchange]:
        if interaction is not None:
            return backend.interact(interaction)
        return backend.send(model, step["contents"], settings, arm.transport == "stream")

    def again() -> None:
        if arm.retry == "rebuild":
            trial.rebuilt = len(trial.received)
            step["contents"] = contents()

    try:
        exchange, step["failures"] = await retry.resend(send, again)
    except ApiFailure as error:
        step["request"], step["failures"] = error.sent, error.failures
        raise
    finally:
        step["seconds"] = time.perf_counter() - started
    step["request"], step["response"] = exchange.request, exchange.response
    answer = answers.of(exchange.response)
    step["pin"] = Pin(model, answer.served)
    return answer


def view(trial: Trial) -> list[Content]:
    """Return the contents to send now: what was received, as the arm's strategy and pruning show it."""
    shown, summarise = _shown(trial), _summariser(trial)
    if summarise:
        return summarise.apply(shown, trial.summaries)
    return pruning.get(trial.spec.arm.pruning)(shown)


def _shown(trial: Trial) -> list[Content]:
    cut = max(trial.rebuilt - trial.since, 0)
    received = trial.received[trial.since :]
    received = history.closed([*history.rebuild(received[:cut]), *received[cut:]])
    return history.get(trial.spec.arm.history, trial.donor)(received)


def _summariser(trial: Trial) -> Summarise | None:
    name = registry.parse(trial.spec.arm.pruning)
    return Summarise(int(name.args[0])) if name.base == "summarise" else None


async def _summarise(backend: Backend, trial: Trial, task: Task) -> None:
    """Ask for a summary where the arm's pruning wants one: a request like any other, kept as a step."""
    summarise = _summariser(trial)
    due = summarise.request(_shown(trial), trial.summaries) if summarise else None
    if due is None:
        return
    answer = await _answered(backend, trial, task, lambda: due.contents, True)
    try:
        trial.summaries.append(due.answered(wire.answer_text(answer.content) if answer.content else ""))
    except ValueError as error:
        raise End("unfinished", "empty", str(error)) from None


# --- falling back -------------------------------------------------------------------------------------------


def _fall_back(trial: Trial, service: str) -> bool:
    """Turn to the arm's other model, once; tell whether there is one.

    `same_family` takes the conversation along only within family and service; else it begins a new one with the
    newest message. `any` takes it along whatever that does to the signatures in it.
    """
    rule, other = fallback(trial.spec.arm.fallback)
    if not other or trial.model == other:
        return False
    if rule == "same_family" and not families.same_issuer(trial.model, other, service):
        trial.since, trial.summaries = len(trial.received), []
        trial.received.append({"role": "user", "parts": [{"text": trial.question}]})
    trial.model = other
    return True


# --- the request's settings ---------------------------------------------------------------------------------


def _settings(task: Task, spec: Spec, request: int, final: bool) -> Settings:
    """Return the settings of one request: a seed of its own (int32), mode NONE for a forced final answer.

    The seed depends on instance, repeat and request number alone, so that all arms get the same ones.
    """
    seed = (spec.seed * 1_000_003 + spec.repeat * 15_485_863 + request * 7_919) % 2**31
    mode: Literal["AUTO", "NONE"] = "NONE" if final else "AUTO"
    return Settings(task.system, task.declarations, seed, spec.arm.thinking != "off", mode)
