"""Four dependent steps on ad revenue: fetch the eCPM, estimate the range, find outliers, look up settings.

eCPM is revenue per thousand impressions, here in US dollars. Each instance is seven days of one app whose
eCPM follows a weekly pattern with noise, one or two days of which were disturbed by a mediation change.
"""

from __future__ import annotations

import random
import re
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from .base import Called, Facts, Instance, Plan, PlanStep, Task, Tool, declare, matched, steps_in_order

_NUMBERS = {"type": "array", "items": {"type": "number"}}
_NETWORKS = ("admob", "applovin", "unity", "ironsource", "vungle")
# Of the estimate_range tool: the centre is the median, the half width this many median absolute deviations.
RANGE_WIDTH = 5.0

_ASK = (
    "Look at the eCPM of the app {app} for the last 7 days: fetch it, estimate the normal range, find the days "
    "outside of it, and look up the mediation settings of each of these days. "
    "Answer with each day outside of the range (ISO date), its waterfall and its floor price."
)
_ASK_RANGE = (
    "Look at the eCPM of the app {app} for the last 7 days: fetch it and estimate the normal range. "
    "Answer with the range."
)
_ASK_DAYS = (
    "Now find the days outside of that range, look up the mediation settings of each of these days, and answer "
    "with each day (ISO date), its waterfall and its floor price."
)
_SYSTEM = "You analyse ad revenue with the tools given. Call each tool once, in order, and answer at the end."

DECLARATIONS = (
    declare(
        "fetch_ecpm",
        "Daily eCPM of an app over the last days, oldest first.",
        app={"type": "string", "description": "app id"},
        days={"type": "integer", "description": "how many days"},
    ),
    declare(
        "estimate_range",
        "Normal range of a series: median plus or minus five median absolute deviations.",
        values={**_NUMBERS, "description": "daily eCPM in US dollars"},
    ),
    declare(
        "find_outliers",
        "Days whose value lies outside of the range.",
        dates={"type": "array", "items": {"type": "string"}},
        values=_NUMBERS,
        low={"type": "number"},
        high={"type": "number"},
    ),
    declare(
        "lookup_mediation",
        "Mediation settings of an app on one day.",
        app={"type": "string"},
        date={"type": "string", "description": "ISO date"},
    ),
)


# --- the tools ----------------------------------------------------------------------------------------------


def estimate_range(values: list[float]) -> dict[str, Any]:
    """Return the normal range of the values; US dollars per thousand impressions."""
    centre = statistics.median(values)
    spread = statistics.median(abs(v - centre) for v in values)
    return {"low": round(centre - RANGE_WIDTH * spread, 2), "high": round(centre + RANGE_WIDTH * spread, 2)}


def find_outliers(dates: list[str], values: list[float], low: float, high: float) -> dict[str, Any]:
    """Return the dates whose value lies outside of [low, high]."""
    if len(dates) != len(values):
        return {"error": f"{len(dates)} dates but {len(values)} values"}
    return {"days": [d for d, v in zip(dates, values, strict=True) if not low <= v <= high]}


def _generate(seed: int) -> tuple[str, dict[str, float], dict[str, dict[str, Any]]]:
    rng = random.Random(f"ecpm {seed}")
    app = f"app-{rng.randrange(1000, 10000)}"
    first = rng.randrange(1, 22)
    dates = [f"2026-11-{first + day:02d}" for day in range(7)]
    base = rng.uniform(2, 9)
    # Seven different deviations keep the median absolute deviation near 2%, far from zero.
    percent = rng.sample((-3, -2, -1, 0, 1, 2, 3), 7)
    disturbed = rng.sample(range(7), rng.choice((1, 2)))
    series, settings = {}, {}
    for day, date in enumerate(dates):
        value = base * (1 + 0.01 * percent[day])
        if day in disturbed:
            value = base * rng.choice((0.45, 0.6, 1.5, 1.8))
        series[date] = round(value, 2)
        settings[date] = {
            "waterfall": rng.sample(_NETWORKS, 3),
            "floor": round(rng.uniform(0.5, 4), 2),
            "changed": day in disturbed,
        }
    return app, series, settings


# --- the checker --------------------------------------------------------------------------------------------


def _expected(seed: int) -> tuple[list[tuple[str, dict[str, Any]]], list[str], dict[str, dict[str, Any]]]:
    """Return the calls that a right run makes in order, the outlying days, and all settings."""
    app, series, settings = _generate(seed)
    values, dates = list(series.values()), list(series)
    bounds = estimate_range(values)
    days = find_outliers(dates, values, **bounds)["days"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("fetch_ecpm", {"app": app, "days": 7}),
        ("estimate_range", {"values": values}),
        ("find_outliers", {"dates": dates, "values": values, **bounds}),
        *(("lookup_mediation", {"app": app, "date": day}) for day in days),
    ]
    return calls, days, settings


def _names_days(answer: str, days: list[str], settings: dict[str, dict[str, Any]]) -> str | None:
    first, last = min(settings), max(settings)
    if not {first, last} <= set(days):  # "2026-11-01 to 2026-11-07" names the period, not two days of it
        answer = re.sub(rf"{first}\W{{1,4}}(to|and|until|through)?\W{{0,2}}{last}", "", answer)
    named = re.findall(r"\d{4}-\d{2}-\d{2}", answer)
    if sorted(set(named)) != sorted(days):
        return f"names the days {sorted(set(named))}, right are {days}"
    pieces = re.split(r"(?=\d{4}-\d{2}-\d{2})", answer)
    for day in days:
        about = " ".join(p.removeprefix(day) for p in pieces if p.startswith(day))
        gone = [network for network in settings[day]["waterfall"] if network not in about.lower()]
        prices = [float(n) for n in re.findall(r"\d+(?:\.\d+)?", about)]
        if not any(abs(price - settings[day]["floor"]) < 0.005 for price in prices):
            gone.append("floor")
        if gone:
            return f"{day}: settings not named: {', '.join(gone)}"
    return None


# --- the plan -----------------------------------------------------------------------------------------------


def _app(facts: Facts) -> str:
    return matched(r"app (app-\d+)", facts.text)


def _fetch_args(facts: Facts) -> list[dict[str, Any]]:
    return [{"app": _app(facts), "days": 7}]


def _range_args(facts: Facts) -> list[dict[str, Any]]:
    return [{"values": facts.results[0][0]["ecpm"]}]


def _outlier_args(facts: Facts) -> list[dict[str, Any]]:
    fetched, bounds = facts.results[0][0], facts.results[1][0]
    return [{"dates": fetched["dates"], "values": fetched["ecpm"], **bounds}]


def _mediation_args(facts: Facts) -> list[dict[str, Any]]:
    return [{"app": _app(facts), "date": day} for day in facts.results[2][0]["days"]]


def _answer_range(facts: Facts) -> str:
    bounds = facts.results[1][0]
    return f"The normal range is {bounds['low']:.2f} to {bounds['high']:.2f} US dollars."


def _answer_days(facts: Facts) -> str:
    lines = [
        f"{found['date']}: waterfall {', '.join(found['waterfall'])}; floor {found['floor']:.2f}"
        for found in facts.results[3]
    ]
    return f"Outside of the normal range ({len(facts.results[2][0]['days'])} found):\n" + "\n".join(lines)


def _goal(turns: Sequence[str]) -> tuple[int, Callable[[Facts], str]]:
    return (4, _answer_days) if any("mediation" in turn for turn in turns) else (2, _answer_range)


_STEPS = (
    PlanStep("fetch_ecpm", "the seven daily values come first", _fetch_args),
    PlanStep("estimate_range", "the range comes from the values just fetched", _range_args),
    PlanStep("find_outliers", "compare each day with the range", _outlier_args),
    PlanStep("lookup_mediation", "one lookup for each outlying day", _mediation_args),
)
_PLAN = Plan(_STEPS, _goal)


def _instance(seed: int, messages: tuple[str, ...]) -> Instance:
    app, series, settings = _generate(seed)
    expected, days, _ = _expected(seed)

    def fetch_ecpm(app: str, days: int) -> dict[str, Any]:
        if app != name:
            return {"error": f"unknown app {app}"}
        return {"dates": list(series)[-days:], "ecpm": list(series.values())[-days:]}

    def lookup_mediation(app: str, date: str) -> dict[str, Any]:
        if app != name or date not in settings:
            return {"error": f"no settings for {app} on {date}"}
        return {"date": date, **settings[date]}

    def check(answer: str, calls: Sequence[Called]) -> str | None:
        return steps_in_order(expected, calls) or _names_days(answer, days, settings)

    name = app
    functions: dict[str, Tool] = {
        "fetch_ecpm": fetch_ecpm,
        "estimate_range": estimate_range,
        "find_outliers": find_outliers,
        "lookup_mediation": lookup_mediation,
    }
    return Instance(tuple(m.format(app=app) for m in messages), functions, check)


TASK = Task(
    "ecpm",
    _SYSTEM,
    DECLARATIONS,
    _PLAN,
    lambda seed: _instance(seed, (_ASK,)),
    doc="Four dependent steps on ad revenue: fetch, estimate the range, find outliers, look up settings.",
)
TWO_TURNS = Task(
    "ecpm-two-turns",
    _SYSTEM,
    DECLARATIONS,
    _PLAN,
    lambda seed: _instance(seed, (_ASK_RANGE, _ASK_DAYS)),
    doc="The four steps of `ecpm` in two user turns.",
)
