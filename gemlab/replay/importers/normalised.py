"""The normalised form: one run a line, `{id, source, model, success, end, segs: [[{r, name, args, result, err}]]}`.

A seg is a user turn, calls with one `r` are one answer's; `args` is canonical JSON text, `result` text.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

from ...guards.rounds import Round
from .base import Broken, Run, need


def is_mine(record: Any) -> bool:
    """Tell whether a record is of this form."""
    return isinstance(record, dict) and "segs" in record


def run(record: dict[str, Any]) -> Run:
    """Return the run; raises Broken."""
    success = record.get("success")
    if success is not None:
        need(success, bool, "success")
    turns = tuple(_turn(need(seg, list, "seg")) for seg in need(record["segs"], list, "segs"))
    source, model = str(record.get("source") or "unknown"), str(record.get("model") or "unknown")
    return Run(str(record.get("id")), source, model, success, record.get("end"), turns)


def _turn(calls: list[Any]) -> tuple[Round, ...]:
    for call in calls:
        need(call, dict, "call")
        need(call.get("name"), str, "name of a call")
    return tuple(_round(list(group)) for _, group in itertools.groupby(calls, key=lambda c: c.get("r")))


def _round(calls: list[dict[str, Any]]) -> Round:
    return Round(
        tuple((call["name"], arguments(call.get("args"))) for call in calls),
        tuple(value(call.get("result")) for call in calls),
        failed=tuple(bool(call.get("err")) for call in calls),
    )


def arguments(text: Any) -> Any:
    """Return the arguments of a call from their JSON text; text that is no JSON stays what it is."""
    return {} if text is None else value(text) if isinstance(text, str) else text


def value(text: Any) -> Any:
    """Return the JSON object or list that a text holds as a whole, else the text."""
    if not isinstance(text, str) or not text.startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


__all__ = ["Broken", "arguments", "is_mine", "run", "value"]
