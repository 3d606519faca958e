"""How fast a language model's runtime is by itself, to hold the speed of trials against."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ...emulator.minds.runtimes import Completion, Runtime
from ...runs import trials

_WORDS = (
    "river",
    "stone",
    "lamp",
    "winter",
    "paper",
    "garden",
    "copper",
    "window",
    "market",
    "engine",
    "silver",
    "bridge",
    "candle",
    "forest",
    "harbour",
)
# About as many tokens as the prompts of the tasks for small models: a long context makes every token slower.
_PROMPT_WORDS, _TOKENS = 450, 48


@dataclass(frozen=True)
class Rates:
    """Tokens a second over all slots: read anew from prompts, and made."""

    read: float
    made: float

    def share(self, speed: Mapping[str, float]) -> float:
        """Return how much of these rates trials reached (`report.speed`): 1 is all of it.

        Reading and making share the machine, so it is the time that their tokens take at these rates, in a second.
        """
        return speed["read_a_second"] / self.read + speed["made_a_second"] / self.made


def measure(runtime: Runtime, slots: int) -> Rates:
    """Measure a runtime with all slots busy: prompts that no cache knows, then free text after the same prompts.

    Raises RuntimeUnavailable.
    """
    return trials.outside_of_loops(_measured(runtime, slots))


async def _measured(runtime: Runtime, slots: int) -> Rates:
    try:
        return await _measure(runtime, slots)
    finally:
        await runtime.aclose()


async def _measure(runtime: Runtime, slots: int) -> Rates:
    rng = random.Random(time.time_ns())
    prompts = [" ".join(rng.choices(_WORDS, k=_PROMPT_WORDS)) for _ in range(slots)]
    first, read_in = await _all(runtime, prompts, 1)
    again, made_in = await _all(runtime, prompts, _TOKENS)
    read = sum(one.prompt - one.cached for one in first)
    made = sum(one.made for one in again)
    return Rates(read / read_in, made / made_in)


async def _all(runtime: Runtime, prompts: list[str], most: int) -> tuple[list[Completion], float]:
    started = time.perf_counter()
    asked = [[{"role": "user", "content": f"Go on with this list of words, at length: {text}"}] for text in prompts]
    made = await asyncio.gather(*(runtime.complete(chat, None, i, 1.0, most) for i, chat in enumerate(asked)))
    return made, time.perf_counter() - started
