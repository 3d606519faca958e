"""History by the Interactions API, as arms beside the strategies of `history`.

`server_state`: the server keeps the history, only what is new goes up, with the id of the interaction before.
`server_state_stateless`: nothing is stored, and every step goes back unchanged. What a trial keeps as received are
the contents that the steps stand for, so that metrics and checkers read it like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backends import Settings
from ..wire import interaction_steps
from .arm import Arm
from .history import STATEFUL
from .step import Step


def body(steps: Sequence[Step], arm: Arm, settings: Settings) -> dict[str, Any]:
    """Return the interaction to create now: the newest of a conversation's steps, which has no answer yet.

    All settings go out every time: they hold for one interaction.
    """
    model = steps[-1].model
    chained = arm.history == STATEFUL
    newest = max((i for i, step in enumerate(steps) if step.kept), default=None)
    sent: list[dict[str, Any]] = []
    previous: dict[str, Any] = {}
    if chained and newest is not None:
        previous = {"previous_interaction_id": _interaction(steps[newest])["id"]}
        sent += interaction_steps.steps(steps[newest].after)
        steps = steps[newest + 1 :]
    for step in steps:
        sent += interaction_steps.steps(step.messages)
        sent += [*_interaction(step)["steps"], *interaction_steps.steps(step.after)] if step.kept else []
    return {"model": model, "input": sent, "store": chained, **_settings(settings), **previous}


def _interaction(step: Step) -> dict[str, Any]:
    """Return the body of a step's interaction: it comes as one, never as a stream."""
    assert isinstance(step.response, dict)
    return step.response


def _settings(settings: Settings) -> dict[str, Any]:
    choice = {"tool_choice": settings.mode.lower()} if settings.mode != "AUTO" else {}
    return {
        "system_instruction": settings.system,
        "tools": [
            {
                "type": "function",
                "name": d["name"],
                "description": d["description"],
                "parameters": d["parametersJsonSchema"],
            }
            for d in settings.declarations
        ],
        "generation_config": {"seed": settings.seed, **choice},
    }
