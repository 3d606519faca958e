"""Bodies of the Interactions API: a request's `input`, and the `steps` that an answered interaction adds to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...wire import interaction_steps
from . import gemini
from .base import Broken, Run, need
from .chat import outcome

_TYPES = frozenset({"user_input", "thought", "model_output", "function_call", "function_result"})


def is_mine(record: Any) -> bool:
    """Tell whether a record is such a body."""
    return isinstance(record, dict) and any(s.get("type") in _TYPES for s in _steps(record) if isinstance(s, dict))


def run(record: dict[str, Any], name: str) -> Run:
    """Return the run of a body; raises Broken for one that holds only what it adds to another."""
    if record.get("previous_interaction_id"):
        raise Broken("an interaction that goes on from another, whose steps the server keeps")
    steps = [_plain(need(step, dict, "step")) for step in _steps(record)]
    found = gemini.turns(interaction_steps.contents(steps), _declared(record))
    source, model = str(record.get("source") or "interactions"), str(record.get("model") or "unknown")
    return Run(str(record.get("id") or name), source, model, outcome(record), record.get("end"), found)


def _steps(record: Mapping[str, Any]) -> list[Any]:
    """Return the steps of a body in order; an input that is a text is the user's."""
    given = record.get("input")
    first = [{"type": "user_input", "content": given}] if isinstance(given, str) else given
    return [step for part in (first, record.get("steps")) if isinstance(part, list) for step in part]


def _plain(step: dict[str, Any]) -> dict[str, Any]:
    """Return a result's step with what it says as an object: an error as one, media by a hash of their bytes."""
    if step.get("type") != "function_result":
        return step
    result = step.get("result")
    blocks = [b for b in result if isinstance(b, dict)] if isinstance(result, list) else []
    said = "".join(str(b.get("text") or "") for b in blocks) if isinstance(result, list) else result
    failed = step.get("is_error") and not (isinstance(said, dict) and said.get("error"))
    body = {"error": said} if failed else said if isinstance(said, dict) else {"result": said}
    media = [_media(b) for b in blocks if b.get("type") != "text"]
    return {**step, "result": {**body, **({gemini.MEDIA: media} if media else {})}}


def _media(block: Mapping[str, Any]) -> str:
    if "data" not in block:
        return gemini.media_print(block)
    return gemini.media_print({"inlineData": {"mimeType": block.get("mime_type"), "data": block["data"]}})


def _declared(record: Mapping[str, Any]) -> set[str] | None:
    tools = record.get("tools")
    if not isinstance(tools, list):
        return None
    return {str(tool.get("name")) for tool in tools if isinstance(tool, dict) and tool.get("type") == "function"}
