"""History by the Interactions API, as arms beside the strategies of `history`.

`server_state`: the server keeps the history, only what is new goes up, with the id of the interaction before.
`server_state_stateless`: nothing is stored, and every step goes back unchanged. What a trial keeps as received are
the contents that the steps stand for, so that metrics and checkers read it like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..backends import Settings
from ..wire import answers, interaction_steps
from ..wire import contents as wire
from .history import STATEFUL
from .trial import Trial


def body(trial: Trial, settings: Settings) -> dict[str, Any]:
    """Return the interaction to create now, with the settings of a generateContent request.

    All settings go out every time: they hold for one interaction.
    """
    before = dict(_answered(trial))
    newest = max(before, default=None)
    chained = trial.spec.arm.history == STATEFUL
    start = newest + 1 if chained and newest is not None else trial.since
    steps = [
        step
        for index, content in enumerate(trial.received[start:], start)
        for step in (before[index]["steps"] if index in before else interaction_steps.steps([content]))
    ]
    previous = {"previous_interaction_id": before[newest]["id"]} if chained and newest is not None else {}
    return {"model": trial.model, "input": steps, "store": chained, **_settings(settings), **previous}


def _answered(trial: Trial) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the index of each answer of the conversation with the interaction that it came in, newest first.

    Not every answer is in the history: an empty one that was asked for again is not.
    """
    came = iter([step["response"] for step in reversed(trial.steps) if step["response"]])
    for index in range(len(trial.received) - 1, trial.since - 1, -1):
        content = trial.received[index]
        if wire.is_model(content):
            yield index, next(one for one in came if answers.of(one).content == content)


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
