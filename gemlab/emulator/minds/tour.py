"""The tour model: for any agent with any tools, one walk through all forms of calling.

It calls each declared function at least once, with arguments made from its JSON schema: one alone, then two in
parallel, then the rest one after the other, then answers in text. The text says how many of its thoughts came
back, so that a client sees what its handling of the history does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...wire import contents as wire
from .arguments import NoArguments, arguments
from .view import Reply, View


class TourModel:
    """Answers a View by the next stop of the tour; where it stands, it reads from the history."""

    def respond(self, view: View) -> Reply:
        current = [s for s in view.steps if s.turn == len(view.turns) and s.calls]
        stops = _stops([d for d in view.declared if d.get("name")])
        if view.mode == "NONE" or len(current) >= len(stops):
            return Reply(thought="The tour is over: report.", text=_report(view))
        stop = stops[len(current)]
        try:
            calls = tuple((str(d["name"]), arguments(d, f"{view.seed} {len(current)} {i}")) for i, d in enumerate(stop))
        except NoArguments as error:
            return Reply(thought="A schema cannot be met.", text=str(error))
        names = ", ".join(name for name, _ in calls)
        return Reply(thought=f"Stop {len(current) + 1} of {len(stops)}: call {names}, as planned.", calls=calls)


def _stops(declared: list[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the functions to call at each step: single, parallel, then sequential."""
    if not declared:
        return []
    first, *rest = declared
    pair = [*rest, first, first][:2]
    return [[first], pair, *([d] for d in rest[2:] or [first])]


def _report(view: View) -> str:
    steps = [s for s in view.steps if s.calls]
    if not steps:
        return "The tour is over before it began: no function to call."
    calls = [c for s in steps for c in s.calls]
    back = sum(s.thought is not None for s in steps)
    unanswered = sum(c.response is None for c in calls)
    failed = sum(wire.is_error(c.response) for c in calls)
    return (
        f"The tour is over: {len(calls)} calls in {len(steps)} steps, {failed} of them failed, {unanswered} "
        f"unanswered. The thoughts of {back} of {len(steps)} steps came back."
    )
