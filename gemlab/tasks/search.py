"""Web search over a small offline corpus: the first query finds a lead, only a second one finds the fact.

The tool's contract: `results`, `total_found`, `status` (sufficient or insufficient) and `next_suggestion`, so
that a model is told when to go on and with what, and when to stop.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

from .base import Called, Facts, Instance, Plan, PlanStep, Task, declare, matched

_ASK = (
    "What is the diameter, in metres, of the main telescope's mirror at the observatory founded by "
    "{founder}? Search until a result is sufficient, then answer with the number."
)
_SYSTEM = "You answer questions by searching. Follow the tool's suggestion while its status is insufficient."
_SHOWN = 3

DECLARATIONS = (
    declare(
        "web_search",
        "Search the web; says whether the results suffice and what to search next if not.",
        query={"type": "string"},
    ),
)


@functools.cache
def corpus() -> list[dict[str, Any]]:
    """Return the documents shipped with the package; persons, places and numbers in them are invented."""
    text = resources.files(__package__).joinpath("data/corpus.json").read_text("utf-8")
    return json.loads(text)["documents"]


def _words(text: str) -> set[str]:
    stop = {"a", "an", "and", "at", "by", "in", "is", "it", "its", "of", "or", "the", "to", "what"}
    return set(re.findall(r"\w+", text.lower())) - stop


def web_search(query: str) -> dict[str, Any]:
    """Return the best documents for the query by shared words, title words counting twice.

    Sufficient: the best one is a page of facts whose title the query names in full. Otherwise the best
    result's lead, where it has one, is the next suggestion.
    """
    asked = _words(query)
    scored = []
    for document in corpus():
        title, text = _words(document["title"]), _words(document["text"])
        score = 2 * len(asked & title) + len(asked & text)
        if score:
            scored.append((-score, document["id"], document))
    found = [document for _, _, document in sorted(scored, key=lambda s: s[:2])]
    best = found[0] if found else None
    sufficient = best is not None and best["kind"] == "facts" and _words(best["title"]) <= asked
    return {
        "results": [{"title": d["title"], "snippet": d["text"]} for d in found[:_SHOWN]],
        "total_found": len(found),
        "status": "sufficient" if sufficient else "insufficient",
        "next_suggestion": None if sufficient else _suggest(best),
    }


def _suggest(best: dict[str, Any] | None) -> str:
    if best is None:
        return "name the person or the place"
    return best.get("see_also") or best["title"]


def _founder(facts: Facts) -> str:
    return matched(r"founded by ([^?]+)\?", facts.text)


def _first_query(facts: Facts) -> list[dict[str, Any]]:
    return [{"query": f"observatory founded by {_founder(facts)}"}]


def _next_query(facts: Facts) -> list[dict[str, Any]]:
    return [{"query": facts.results[0][0]["next_suggestion"]}]


def _answer(facts: Facts) -> str:
    snippet = facts.results[1][0]["results"][0]["snippet"]
    return f"The mirror has a diameter of {matched(r'diameter of ([0-9.]+) metres', snippet)} metres."


def _instance(seed: int) -> Instance:
    pages = [d for d in corpus() if d["kind"] == "facts"]
    page = pages[seed % len(pages)]

    def check(answer: str, calls: Sequence[Called]) -> str | None:
        read = any(c.ok and c.response.get("status") == "sufficient" for c in calls)
        if not read:
            return "no sufficient result was read"
        named = re.findall(r"\d+(?:\.\d+)?", answer)
        right = float(page["facts"]["mirror"])
        return None if any(abs(float(n) - right) < 0.005 for n in named) else f"the diameter is {right}"

    return Instance(
        (_ASK.format(founder=page["facts"]["founder"]),),
        {"web_search": web_search},
        check,
    )


TASK = Task(
    "search",
    _SYSTEM,
    DECLARATIONS,
    Plan(
        (
            PlanStep("web_search", "find who and where", _first_query),
            PlanStep("web_search", "follow the suggestion to the page of facts", _next_query),
        ),
        lambda turns: (2, _answer),
    ),
    _instance,
    doc="Web search over a small offline corpus: a second query finds the fact.",
)
