"""A report from a service that is down at first: the same call has to be made again, with the same error each time.

One to four tries fail. A guard that cannot tell a retry from a loop stops the later ones.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

from .base import Called, Facts, Instance, Plan, PlanStep, Task, declare, matched

_ASK = "How many units did store {store} sell? The report service is unreliable: try again where it fails."
_MOST_FAILURES = 4

DECLARATIONS = (
    declare(
        "get_sales_report", "Return a store's sales report; fails while it is out of service.", store={"type": "string"}
    ),
)


def _instance(seed: int) -> Instance:
    rng = random.Random(f"flaky {seed}")
    store, units = f"S{rng.randrange(100, 1000)}", rng.randrange(1_000, 10_000)
    failures = rng.randint(1, _MOST_FAILURES)
    tries = 0

    def get_sales_report(store: str) -> dict[str, Any]:
        nonlocal tries
        tries += 1
        if tries <= failures:
            return {"error": "503: the report service is not available, try again"}
        return {"store": store, "units_sold": units}

    def check(answer: str, calls: Sequence[Called]) -> str | None:
        return None if str(units) in re.findall(r"\d+", answer) else f"{units} units were sold"

    return Instance((_ASK.format(store=store),), {"get_sales_report": get_sales_report}, check)


def _store(facts: Facts) -> list[dict[str, Any]]:
    return [{"store": matched(r"store (S\d+)", facts.text)}]


def _answer(facts: Facts) -> str:
    return f"It sold {facts.results[0][0]['units_sold']} units."


TASK = Task(
    "flaky",
    "You answer questions about sales from the report service.",
    DECLARATIONS,
    Plan((PlanStep("get_sales_report", "the report has the number", _store),), lambda turns: (1, _answer)),
    _instance,
    doc="A report from a service that is down at first: the same call again, as it should be.",
)
