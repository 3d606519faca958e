"""A parcel followed for so many stops: every result tells the next call, but how many are done has to be counted.

The way goes on beyond the last stop asked for, so nothing but the count tells when to answer.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

from .base import Called, Facts, Instance, Plan, PlanStep, Task, declare, matched, told, unknown

_FEWEST, _MOST = 3, 5
# So far the way goes on: a run that does not stop in time finds no end that would stop it.
_BEYOND = 4

_ASK = (
    "A parcel is at {start}. Follow it for {stops} stops, one call of next_stop for each, then answer with the place "
    "where it is."
)
_SYSTEM = "You follow parcels with the tool given: so many calls as there are stops, then answer."

DECLARATIONS = (declare("next_stop", "Tell where a parcel goes next from a place.", place={"type": "string"}),)


def _generate(seed: int) -> tuple[list[str], int]:
    """Return the places of the way, the first being where it starts, and how many stops are asked for."""
    rng = random.Random(f"relay {seed}")
    numbers = rng.sample(range(10, 100), _MOST + _BEYOND + 1)
    # In turns, so that every count is as frequent as the others and neighbouring seeds differ in it.
    return [f"d-{number}" for number in numbers], _FEWEST + seed % (_MOST - _FEWEST + 1)


def _instance(seed: int) -> Instance:
    places, stops = _generate(seed)
    following = dict(itertools.pairwise(places))

    def next_stop(place: str) -> dict[str, Any]:
        return {"next": following[place]} if place in following else unknown("place", place)

    def check(answer: str, calls: Sequence[Called]) -> str | None:
        made = {c.args["place"] for c in calls if c.ok}
        short = [place for place in places[:stops] if place not in made]
        if short:
            return f"not asked for: {', '.join(short)}"
        named = sorted(set(re.findall(r"d-\d+", answer.lower())))
        return None if named == [places[stops]] else f"names the places {named}, right is {places[stops]}"

    return Instance((_ASK.format(start=places[0], stops=stops),), {"next_stop": next_stop}, check)


# --- the plan -----------------------------------------------------------------------------------------------


def _place(facts: Facts, number: int) -> str:
    """Return where the parcel is after so many stops."""
    return matched(r"d-\d+", facts.text) if number == 0 else told(facts, number - 1, "next")


def _stops(text: str) -> int:
    found = re.search(r"for (\d+) stops", text)
    return int(found[1]) if found else 0


def _follow(number: int) -> PlanStep:
    def args(facts: Facts) -> list[dict[str, Any]]:
        return [{"place": _place(facts, number)}]

    def think(facts: Facts) -> str:
        return f"Stop {number + 1} of {_stops(facts.text)}: from {_place(facts, number)}."

    return PlanStep("next_stop", "the parcel goes on from here", args, think=think)


def _goal(turns: Sequence[str]) -> tuple[int, Callable[[Facts], str]]:
    stops = max(map(_stops, turns), default=0)
    return min(stops, _MOST), lambda facts: f"It is at {_place(facts, stops)}."


TASK = Task(
    "relay",
    _SYSTEM,
    DECLARATIONS,
    Plan(
        tuple(_follow(number) for number in range(_MOST)),
        _goal,
        conclude=lambda facts: f"All {_stops(facts.text)} stops done: answer.",
    ),
    _instance,
    doc="A parcel followed stop by stop: only the count of steps tells when it is over.",
)
