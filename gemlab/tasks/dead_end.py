"""An archive that has nothing: every search is insufficient and suggests the search that was just made.

The right course is to follow the suggestion once and to say that it is not known. Whoever trusts the tool goes
round for ever.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

from .base import Called, Facts, Instance, Plan, PlanStep, Task, declare, matched

_ASK = (
    "In which year was the {thing} of {town} built? Search the archive. If it holds nothing sufficient, say that "
    "the year is not known."
)
_THINGS = ("bridge", "lighthouse", "granary", "observatory", "ferry house", "town gate")
_TOWNS = ("Hallvik", "Ostrava Mill", "Penmarrow", "Sankt Veit", "Torrelobos", "Wexcombe", "Ylivarra")

DECLARATIONS = (
    declare(
        "search_archive",
        "Search the town archives; says whether the results suffice and what to search next if not.",
        query={"type": "string"},
    ),
)


def search_archive(query: str) -> dict[str, Any]:
    """Return nothing, and as a suggestion the query itself in the archive's order of words."""
    words = sorted(set(re.findall(r"\w+", query.lower())) - {"the", "of", "in", "year", "was", "built"})
    return {"results": [], "total_found": 0, "status": "insufficient", "next_suggestion": " ".join(words)}


def _asked(facts: Facts) -> list[dict[str, Any]]:
    return [{"query": matched(r"year was the (.+) built", facts.text)}]


def _suggested(facts: Facts) -> list[dict[str, Any]]:
    return [{"query": facts.results[0][0]["next_suggestion"]}]


def _answer(facts: Facts) -> str:
    if any(r["total_found"] for r in facts.results[1]):
        raise ValueError("the archive has found something")
    return "The archive holds nothing sufficient: the year is not known."


def _instance(seed: int) -> Instance:
    rng = random.Random(f"dead-end {seed}")
    question = _ASK.format(thing=rng.choice(_THINGS), town=rng.choice(_TOWNS))

    def check(answer: str, calls: Sequence[Called]) -> str | None:
        if not any(c.ok for c in calls):
            return "the archive was not searched"
        return None if "not known" in answer else "the answer does not say that the year is not known"

    return Instance((question,), {"search_archive": search_archive}, check)


TASK = Task(
    "dead-end",
    "You answer questions about the past of towns from their archives.",
    DECLARATIONS,
    Plan(
        (
            PlanStep("search_archive", "look for the building", _asked),
            PlanStep("search_archive", "follow the archive's suggestion once", _suggested),
        ),
        lambda turns: (2, _answer),
    ),
    _instance,
    doc="An archive that has nothing: every search is insufficient, and models loop.",
)
