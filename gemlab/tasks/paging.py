"""An order on a late page: the same tool again and again, each time with the cursor that the last page gave."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

from .base import Called, Facts, Instance, Plan, PlanStep, Task, declare, matched

_ASK = "What is the total of order {order}? Orders are listed in no particular order; page through until you find it."
_ON_A_PAGE, _PAGES = 3, 15

DECLARATIONS = (
    declare(
        "list_orders",
        "Return one page of orders and the cursor of the next; the first page has the cursor 'start'.",
        cursor={"type": "string"},
    ),
)


def _instance(seed: int) -> Instance:
    rng = random.Random(f"paging {seed}")
    numbers = rng.sample(range(10_000, 100_000), _ON_A_PAGE * _PAGES)
    orders = [{"order": f"A{n}", "total": rng.randrange(100, 10_000)} for n in numbers]
    cursors = ["start", *(f"p{rng.randrange(10**6):06d}" for _ in range(_PAGES - 1))]
    wanted = orders[rng.randrange(5 * _ON_A_PAGE, 12 * _ON_A_PAGE)]

    def list_orders(cursor: str) -> dict[str, Any]:
        if cursor not in cursors:
            return {"error": f"unknown cursor {cursor!r}"}
        page = cursors.index(cursor)
        following = cursors[page + 1] if page + 1 < _PAGES else None
        return {
            "cursor": cursor,
            "orders": orders[page * _ON_A_PAGE : (page + 1) * _ON_A_PAGE],
            "next_cursor": following,
        }

    def check(answer: str, calls: Sequence[Called]) -> str | None:
        return None if str(wanted["total"]) in re.findall(r"\d+", answer) else f"the total is {wanted['total']}"

    return Instance((_ASK.format(order=wanted["order"]),), {"list_orders": list_orders}, check)


def _cursor(facts: Facts) -> list[dict[str, Any]]:
    if 0 not in facts.results:
        return [{"cursor": "start"}]
    # Whoever looks again once the order is found looks at its page.
    return [{"cursor": facts.results[0][0]["cursor" if _is_found(facts) else "next_cursor"]}]


def _answer(facts: Facts) -> str:
    found = _found(facts.text, facts.results[0])
    if found is None:
        raise KeyError(0)
    return f"Its total is {found['total']}."


def _found(text: str, results: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    wanted = matched(r"order (A\d+)", text)
    return next((o for o in results[0]["orders"] if o["order"] == wanted), None)


def _is_found(facts: Facts) -> bool:
    return _found(facts.text, facts.results[0]) is not None


TASK = Task(
    "paging",
    "You look up orders.",
    DECLARATIONS,
    Plan((PlanStep("list_orders", "the order may be on this page", _cursor, _is_found),), lambda turns: (1, _answer)),
    _instance,
    doc="An order on a late page: the same tool again, each time with the next cursor.",
)
