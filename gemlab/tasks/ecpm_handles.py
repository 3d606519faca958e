"""Four dependent steps on ad revenue where tools return short references, each of which the next call copies.

The steps of `ecpm` for models too small to copy lists of numbers. What a reference stands for is never shown.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

from .base import Called, Facts, Instance, Plan, PlanStep, Task, declare, matched, steps_in_order, told, unknown

NETWORKS = ("admob", "applovin", "ironsource", "mintegral", "unity", "vungle")

_ASK = (
    "For {app}: fetch its series, get the series' normal range, find the outlying days, then look up the mediation "
    "of those days. Answer with the network and the floor price."
)
_SYSTEM = "You look up ad revenue with the tools given. Copy references exactly and call each tool once, in order."
_TEXT = {"type": "string"}

DECLARATIONS = (
    declare("fetch_series", "Fetch the revenue series of an app.", app=_TEXT),
    declare("normal_range", "Get the normal range of a series.", series=_TEXT),
    declare("outlying_days", "Find the days of a series outside of a range.", series=_TEXT, range=_TEXT),
    declare("mediation_of", "Look up the network and the floor price of days.", days=_TEXT),
)


def _generate(seed: int) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the references by kind, and the mediation: network and floor price in US dollars."""
    rng = random.Random(f"ecpm-handles {seed}")
    series, bounds, days = rng.sample(range(100, 1000), 3)
    handles = {
        "app": f"app-{rng.randrange(1000, 10000)}",
        "series": f"s-{series}",
        "range": f"r-{bounds}",
        "days": f"d-{days}",
    }
    # The last digit is never 0: no count or other whole number in an answer can pass for the price.
    floor = (10 * rng.randrange(5, 40) + rng.randrange(1, 10)) / 100
    return handles, {"network": rng.choice(NETWORKS), "floor": floor}


def _instance(seed: int) -> Instance:
    handles, mediation = _generate(seed)

    def given(result: dict[str, Any], **handed: Any) -> dict[str, Any]:
        wrong = [kind for kind in handed if handed[kind] != handles[kind]]
        return unknown(wrong[0], handed[wrong[0]]) if wrong else {**result}

    def fetch_series(app: str) -> dict[str, Any]:
        return given({"series": handles["series"]}, app=app)

    def normal_range(series: str) -> dict[str, Any]:
        return given({"range": handles["range"]}, series=series)

    def outlying_days(series: str, range: str) -> dict[str, Any]:
        return given({"days": handles["days"]}, series=series, range=range)

    def mediation_of(days: str) -> dict[str, Any]:
        return given(mediation, days=days)

    def check(answer: str, calls: Sequence[Called]) -> str | None:
        return steps_in_order(expected, calls) or _names_mediation(answer, mediation)

    functions = {f.__name__: f for f in (fetch_series, normal_range, outlying_days, mediation_of)}
    expected = [(d["name"], {k: handles[k] for k in d["parametersJsonSchema"]["required"]}) for d in DECLARATIONS]
    return Instance((_ASK.format(app=handles["app"]),), functions, check)


def _names_mediation(answer: str, mediation: dict[str, Any]) -> str | None:
    named = sorted(set(re.findall(r"[a-z]+", answer.lower())) & set(NETWORKS))
    if named != [mediation["network"]]:
        return f"names the networks {named}, right is {mediation['network']}"
    prices = [float(n) for n in re.findall(r"\d+(?:\.\d+)?", answer)]
    if not any(abs(price - mediation["floor"]) < 0.005 for price in prices):
        return f"the floor price is {mediation['floor']}"
    return None


# --- the plan -----------------------------------------------------------------------------------------------


def _app(facts: Facts) -> str:
    return matched(r"app-\d+", facts.text)


def _series(facts: Facts) -> str:
    return told(facts, 0, "series")


def _range(facts: Facts) -> str:
    return told(facts, 1, "range")


def _days(facts: Facts) -> str:
    return told(facts, 2, "days")


def _answer(facts: Facts) -> str:
    return f"Network {told(facts, 3, 'network')}, floor {told(facts, 3, 'floor'):.2f}."


_STEPS = (
    PlanStep(
        "fetch_series",
        "the series comes first",
        lambda facts: [{"app": _app(facts)}],
        think=lambda facts: f"1 of 4: the series of {_app(facts)}.",
    ),
    PlanStep(
        "normal_range",
        "the range comes from the series",
        lambda facts: [{"series": _series(facts)}],
        think=lambda facts: f"2 of 4: the range of {_series(facts)}.",
    ),
    PlanStep(
        "outlying_days",
        "compare the series with its range",
        lambda facts: [{"series": _series(facts), "range": _range(facts)}],
        think=lambda facts: f"3 of 4: the days of {_series(facts)} outside {_range(facts)}.",
    ),
    PlanStep(
        "mediation_of",
        "the outlying days have their settings",
        lambda facts: [{"days": _days(facts)}],
        think=lambda facts: f"4 of 4: the mediation of {_days(facts)}.",
    ),
)
TASK = Task(
    "ecpm-handles",
    _SYSTEM,
    DECLARATIONS,
    Plan(_STEPS, lambda turns: (4, _answer), conclude=lambda facts: "All 4 done: answer."),
    _instance,
    doc="The four steps of `ecpm` with short references in place of lists, for small models.",
)
