"""N dependent steps: each record tells how to open the next one, some need what a much earlier record told.

A long task on purpose: what pruning leaves out is missed here. To open a record takes the code that stands in
the record before it and the seal of some earlier one: mostly the same, now and then one from far back.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from annotated_types import Ge

from ..registry import BadInput
from .base import Called, Facts, Instance, Plan, PlanStep, Task, declare, matched

MOST = 60
# Share of the records that ask for the seal of any earlier record, all being equally likely.
RECALL = 0.2

_ASK = (
    "Records form a chain: each tells the code of the next one and whose seal that one asks for. Record 1 opens "
    "with the code {code} and the seal {seal}. Open them one after the other up to record {last}. Answer with the "
    "amount that stands in record {last}."
)
_ASK_ON = "Go on up to record {last}. Answer with the amount that stands in record {last}."
_SYSTEM = "You follow a chain of records with the tool given. Open each record once, in order, and answer at the end."
_LETTERS = "abcdefghjkmnpqrstuvwxyz"
# What fills a record beside what matters: results are long, as those of real tools are.
_FILLER = (
    "account address archive balance branch charge claim clerk copy credit customer date debit delivery deposit "
    "desk entry file folder form index invoice ledger letter line mail margin minute note office order page paper "
    "payment post receipt refund register remark report return sheet shelf stamp stock sum table term transfer"
)
_WORDS_A_RECORD = 60

DECLARATIONS = (
    declare(
        "open_record",
        "Open a record of the chain: its amount, its seal, what the next record asks for, and its text.",
        number={"type": "integer", "description": "the record's number"},
        code={"type": "string", "description": "next_code of the record before it"},
        seal={"type": "string", "description": "seal of the record that next_seal_of names"},
    ),
)


def _generate(seed: int) -> tuple[str, str, list[dict[str, Any]]]:
    """Return what opens record 1 (code, seal) and all records in order; a shorter chain is the start of it."""
    rng = random.Random(f"chain {seed}")
    amounts = rng.sample(range(1000, 10000), MOST)
    filler = _FILLER.split()
    words = ["".join(rng.choices(_LETTERS, k=6)) for _ in range(2 * MOST + 2)]
    records = []
    for number in range(1, MOST + 1):
        far = rng.random() < RECALL
        records.append(
            {
                "number": number,
                "amount": amounts[number - 1],
                "seal": words[2 * number],
                "next_code": words[2 * number + 1],
                "next_seal_of": rng.randint(1, number) if far else number,
                "text": " ".join(rng.choices(filler, k=_WORDS_A_RECORD)),
            }
        )
    return words[0], words[1], records


# --- the plan -----------------------------------------------------------------------------------------------


def _record(facts: Facts, number: int) -> dict[str, Any]:
    """Return a record that was opened; raises KeyError with its step where its content is not there."""
    found = facts.results.get(number - 1)
    if not found or found[0].get("number") != number:
        raise KeyError(number - 1)
    return found[0]


def _open(number: int) -> Callable[[Facts], list[dict[str, Any]]]:
    def args(facts: Facts) -> list[dict[str, Any]]:
        if number == 1:
            code = matched(r"the code (\w+) and the seal \w+", facts.text)
            seal = matched(r"the code \w+ and the seal (\w+)", facts.text)
        else:
            before = _record(facts, number - 1)
            code, seal = before["next_code"], _record(facts, before["next_seal_of"])["seal"]
        return [{"number": number, "code": code, "seal": seal}]

    return args


def _goal(turns: Sequence[str]) -> tuple[int, Callable[[Facts], str]]:
    """Read how far to go from the newest text that says so; none does: nothing to do, nothing to tell."""
    asked = [int(found[-1]) for text in turns if (found := re.findall(r"up to record (\d+)", text))]
    last = min(asked[-1], MOST) if asked else 0
    return last, lambda facts: f"The amount in record {last} is {_record(facts, last)['amount']}."


def _place(name: str, args: Mapping[str, Any]) -> int | None:
    number = args.get("number")
    return int(number) - 1 if isinstance(number, int | float) and 1 <= number <= MOST else None


_PLAN = Plan(
    tuple(PlanStep("open_record", "the record before it tells how", _open(number)) for number in range(1, MOST + 1)),
    _goal,
    _place,
)


# --- one data set -------------------------------------------------------------------------------------------


def _instance(seed: int, stops: Sequence[int]) -> Instance:
    code, seal, records = _generate(seed)
    known = records[: stops[-1]]

    def open_record(number: int, code: str, seal: str) -> dict[str, Any]:
        if not 1 <= number <= len(known):
            return {"error": f"there is no record {number}"}
        if (code, seal) != keys[number - 1]:
            return {"error": f"wrong code or seal for record {number}"}
        return known[number - 1]

    def check(answer: str, calls: Sequence[Called]) -> str | None:
        opened = {c.response.get("number") for c in calls if c.ok}
        missing = [r["number"] for r in known if r["number"] not in opened]
        if missing:
            return f"records not opened: {', '.join(map(str, missing))}"
        numbers = {int(n) for n in re.findall(r"\d+", re.sub(r"(?<=\d),(?=\d{3})", "", answer))}
        named = sorted(r["amount"] for r in known if r["amount"] in numbers)
        right = known[-1]["amount"]
        return None if named == [right] else f"names the amounts {named}, right is {right}"

    keys = [(code, seal), *((r["next_code"], records[r["next_seal_of"] - 1]["seal"]) for r in records)]
    first, *later = stops
    messages = (_ASK.format(code=code, seal=seal, last=first), *(_ASK_ON.format(last=last) for last in later))
    return Instance(messages, {"open_record": open_record}, check)


def chain(steps: Annotated[int, Ge(1)], turns: Annotated[int, Ge(1)] = 1) -> Task:
    """N dependent records, each telling how to open the next, spread evenly over user turns.

    Raises BadInput where there are fewer steps than turns, or more than the longest chain has.
    """
    if not turns <= steps <= MOST:
        raise BadInput(f"chain({steps},turns={turns}): from 1 to {MOST} steps, and at least one a turn")
    return _chain(steps, turns)


@functools.cache
def _chain(steps: int, turns: int) -> Task:
    stops = [steps * turn // turns for turn in range(1, turns + 1)]
    name = f"chain({steps})" if turns == 1 else f"chain({steps},turns={turns})"
    return Task(name, _SYSTEM, DECLARATIONS, _PLAN, lambda seed: _instance(seed, stops))
