"""Three hosts, one of which is down: steps that look alike, so that what is done has to be kept in mind.

The tools keep no state: a host that was restarted comes up later, and whoever asks again is told the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

from .base import Called, Facts, Instance, Plan, PlanStep, Task, declare, steps_in_order, told, unknown

_KINDS = ("app", "auth", "cache", "db", "mail", "web")
_HOSTS = 3

_ASK = (
    "One of the hosts {}, {} and {} is down. Probe all three, then restart the one that is down. "
    "Answer with that host and the receipt of its restart."
)
_SYSTEM = "You look after hosts. Probe every host before a restart, one call at a time, and answer at the end."
_TEXT = {"type": "string"}

DECLARATIONS = (
    declare("probe", "Tell whether a host is up or down.", host=_TEXT),
    declare("restart", "Restart a host that is down; it comes up minutes later.", host=_TEXT),
)


def _generate(seed: int) -> tuple[list[str], str, str]:
    """Return the hosts, the one that is down, and the receipt of its restart."""
    rng = random.Random(f"triage {seed}")
    numbers = rng.sample(range(10, 100), _HOSTS)
    hosts = [f"{kind}-{number}" for kind, number in zip(rng.sample(_KINDS, _HOSTS), numbers, strict=True)]
    # In turns, so that every place is as frequent as the others and neighbouring seeds differ in it.
    return hosts, hosts[seed % _HOSTS], f"k-{rng.randrange(100, 1000)}"


def _instance(seed: int) -> Instance:
    hosts, down, receipt = _generate(seed)

    def probe(host: str) -> dict[str, Any]:
        if host not in hosts:
            return unknown("host", host)
        return {"host": host, "status": "down" if host == down else "up"}

    def restart(host: str) -> dict[str, Any]:
        if host not in hosts:
            return unknown("host", host)
        return {"receipt": receipt} if host == down else {"error": f"{host} is up"}

    def check(answer: str, calls: Sequence[Called]) -> str | None:
        others = [c.args["host"] for c in calls if c.ok and c.name == "restart" and c.args["host"] != down]
        if others:
            return f"{others[0]} was restarted, {down} is down"
        return steps_in_order(expected, calls) or _names_restart(answer, down, receipt)

    expected = [*(("probe", {"host": host}) for host in hosts), ("restart", {"host": down})]
    return Instance((_ASK.format(*hosts),), {"probe": probe, "restart": restart}, check)


def _names_restart(answer: str, down: str, receipt: str) -> str | None:
    named = set(re.findall(r"[a-z]+-\d+", answer.lower()))
    receipts = sorted(name for name in named if name.startswith("k-"))
    if receipts != [receipt]:
        return f"names the receipts {receipts}, right is {receipt}"
    return None if down in named else f"does not name {down}"


# --- the plan -----------------------------------------------------------------------------------------------


def _hosts(facts: Facts) -> list[str]:
    return re.findall(r"[a-z]+-\d+", facts.text)[:_HOSTS]


def _down(facts: Facts) -> str:
    """Return the host that is down; raises KeyError with the step of the first probe whose result is not there."""
    probed = [facts.results[i][0] for i in range(_HOSTS) if facts.results.get(i)]
    down = [result["host"] for result in probed if result.get("status") == "down"]
    if down:
        return down[0]
    for i in range(_HOSTS):
        told(facts, i, "status")
    raise ValueError("all hosts are up")


def _probe(number: int) -> PlanStep:
    """Return the step that probes the host of this place in the question, 0 being the first."""

    def host(facts: Facts) -> str:
        return _hosts(facts)[number]

    def think(facts: Facts) -> str:
        return f"{_states(facts, number)}{host(facts)} unknown: probe it."

    return PlanStep("probe", "each host has to be probed", lambda facts: [{"host": host(facts)}], think=think)


def _states(facts: Facts, probed: int) -> str:
    """Return what the probes so far have found, to be said in a thought."""
    return "".join(f"{told(facts, i, 'host')} {told(facts, i, 'status')}, " for i in range(probed))


def _answer(facts: Facts) -> str:
    return f"{_down(facts)} was down, receipt {told(facts, _HOSTS, 'receipt')}."


_STEPS = (
    *map(_probe, range(_HOSTS)),
    PlanStep(
        "restart",
        "the host that is down has to come up",
        lambda facts: [{"host": _down(facts)}],
        think=lambda facts: f"{_states(facts, _HOSTS)}all known: restart {_down(facts)}.",
    ),
)
TASK = Task(
    "triage",
    _SYSTEM,
    DECLARATIONS,
    Plan(
        _STEPS,
        lambda turns: (_HOSTS + 1, _answer),
        conclude=lambda facts: f"{_down(facts)} restarted, all done: answer.",
    ),
    _instance,
    doc="Three hosts, one of which is down: steps that look alike.",
)
