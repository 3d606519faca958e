"""Runs on tasks that loop or seem to, and a scripted model that is prone to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .. import backends
from ..agent.trial import Spec
from ..backends import SCRIPTED, Backend, Source
from ..emulator.minds.scripted import Parameters
from . import trials
from .trace import Trace

# What of the numbers is an assumption, where the scripted model below answers.
PUT_IN = "That it loops, and how often it heeds a notice (the same in either place),"


def backend(name: str, loop: float, repeat: float = 0.15) -> Backend:
    """Return a backend; behind `sim` a scripted model that repeats a step with probability `repeat` and goes on
    repeating it with `loop`, and that never answers too early: what ends a loop is the guard alone.
    """
    if name != "sim":
        return backends.get(name)
    prone = _prone(loop, repeat)
    return backends.simulated(backends.emulator(parameters=prone), source=source(loop, repeat))


def _prone(loop: float, repeat: float) -> Parameters:
    return Parameters(repeat=repeat, quit=0.0, lose_thread=0.0, loop=loop)


def source(loop: float, repeat: float = 0.15) -> Source:
    """Return who answers behind `sim`: the scripted model with its settings."""
    return replace(SCRIPTED, settings=asdict(_prone(loop, repeat)))


def jobs(
    tasks: Sequence[str], arms: Sequence[Any], model: str, instances: int, repeats: int, seed: int
) -> list[tuple[list[Spec], str]]:
    """Return the trials of each task with the name of their file: the first task's is trials.jsonl."""
    names = list(dict.fromkeys(tasks))
    files = ["trials.jsonl", *(f"trials-{task}.jsonl" for task in names[1:])]
    plans = [trials.plan(arms, task, model, instances, repeats, seed) for task in names]
    return list(zip(plans, files, strict=True))


def run(planned: Sequence[tuple[list[Spec], str]], api: Backend, folder: Path) -> list[Trace]:
    """Run the trials of each task, or go on with them; return all traces."""
    return [t for specs, file in planned for t in trials.run(specs, api, folder / file)]
