"""Traces of version 1: four logs of one conversation, lined up here by their values into steps. For reading alone."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..agent.step import Step
from ..agent.summaries import ASK
from ..backends import API, SCRIPTED, Source
from ..guards.rounds import Verdict
from ..wire import contents as wire
from ..wire import interaction_steps
from ..wire.contents import Content


def source(backend: str) -> Source:
    """Return who answered as far as a backend's name tells."""
    if backend in ("sim", "gemini"):
        return {"sim": SCRIPTED, "gemini": API}[backend]
    return Source("language", f"answered by {backend}")


def steps(record: Mapping[str, Any]) -> list[Step]:
    """Return a trial's steps; raises what a broken line makes of it, ValueError for logs that do not line up."""
    left = collections.deque(record["contents"][i] for i in record["received"])
    found: list[Step] = []
    opening = True
    for packed in record["steps"]:
        step = _sent(packed, record)
        before = found[-1] if found else None
        if opening:
            step = replace(step, messages=(left.popleft(),))
        elif before and step.model != before.model and left and left[0] == _question(found):
            step = replace(step, messages=(left.popleft(),), anew=True)
        if _asks_for_summary(step):
            summed = [s for s in found if s.covers and s.answer]
            shown = sum(group.is_step for group in wire.groups(step.contents))
            step = replace(step, covers=shown + (summed[-1].covers if summed else 0))
        elif step.content is not None and not step.empty and left and left[0] == step.content:
            left.popleft()
            step = replace(step, kept=True, results=_results(left) if step.calls else ())
            if step.nudge:
                left.popleft()
        opening = step.kept and not step.calls
        found.append(step)
    if left:
        raise ValueError(f"{len(left)} of the contents received belong to no step")
    return found


def _sent(packed: Mapping[str, Any], record: Mapping[str, Any]) -> Step:
    """Return a step as it was before its answer was judged."""
    contents = [record["contents"][i] for i in packed["contents"]]
    carried: dict[str, Any] = {"contents": contents}
    if "input" in packed:
        carried = {"input": [record["contents"][i] for i in packed["input"]]}
        contents = interaction_steps.contents_of(carried)
    settings = {**record["config"], **packed["changed"]}
    # Every request has a seed of its own: without a change it is the first one, or none that went out.
    went_out = bool(packed["changed"]) or (bool(settings) and packed is record["steps"][0])
    choice = (settings.get("toolConfig") or {}).get("functionCallingConfig") or {}
    forced = choice.get("mode") == "NONE" or (settings.get("generation_config") or {}).get("tool_choice") == "none"
    return Step(
        packed.get("model") or record["model"],
        contents=contents,
        request={**settings, **carried} if went_out or packed["response"] is not None else None,
        response=packed["response"],
        failures=packed["failures"],
        seconds=packed["seconds"],
        final=forced and went_out,
        verdicts=tuple(Verdict(**v) for v in packed["verdicts"]),
    )


def _asks_for_summary(step: Step) -> bool:
    return step.final and bool(step.contents) and wire.answer_text(step.contents[-1]) == ASK


def _results(left: collections.deque[Content]) -> tuple[dict[str, Any], ...]:
    """Take the responses to a step's calls off those received: a trial always answers all, in order."""
    return tuple(r["response"] for r in wire.responses(left.popleft()))


def _question(steps: Sequence[Step]) -> Content | None:
    return next((s.messages[-1] for s in reversed(steps) if s.messages), None)
