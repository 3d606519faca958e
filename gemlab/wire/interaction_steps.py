"""Steps of the Interactions API and the contents that they stand for.

A step is a dict as it travels in JSON (`{"type": …}`), snake_case. A model's signature sits on a `thought` step of
its own, in contents on a part: the first function call up to the next thought, else the last text (inferred from
where generateContent puts it). Steps without a counterpart in contents, those of built-in tools, are passed over.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import contents as wire
from .contents import Content, Part

Step = dict[str, Any]

_SIDES = {
    "thought": "model", "function_call": "model", "model_output": "model",
    "function_result": "results", "user_input": "user",
}  # fmt: skip
_MEDIA = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "document": "application/pdf"}


# --- from steps to contents ---------------------------------------------------------------------------------


def contents_of(request: Mapping[str, Any]) -> list[Content]:
    """Return what the `input` of an interaction's request holds, as contents."""
    given = request.get("input")
    if isinstance(given, str):
        return [{"role": "user", "parts": [{"text": given}]}]
    return contents(given if isinstance(given, list) else [])


def contents(steps: Iterable[Step]) -> list[Content]:
    """Return the contents that steps stand for: a model's steps in a row are one, results in a row are one."""
    known = [s for s in steps if s.get("type") in _SIDES]
    found: list[Content] = []
    for side, run in itertools.groupby(known, lambda s: _SIDES[s["type"]]):
        if side == "model":
            parts = [p for segment in _segments(run) for p in _model_parts(segment)]
            found += [{"parts": parts, "role": "model"}] if parts else []
        elif side == "results":
            found.append({"role": "user", "parts": [_response(step) for step in run]})
        else:
            found += [{"role": "user", "parts": _blocks(step)} for step in run]
    return found


def _segments(run: Iterable[Step]) -> list[list[Step]]:
    """Split a model's steps before each thought."""
    found: list[list[Step]] = []
    for step in run:
        if step["type"] == "thought" or not found:
            found.append([])
        found[-1].append(step)
    return found


def _model_parts(segment: Sequence[Step]) -> list[Part]:
    thought = segment[0] if segment[0]["type"] == "thought" else {}
    said = [p for step in segment if step is not thought for p in _said(step)]
    if thought.get("signature"):
        said = said or [{}]
        at = next((i for i, p in enumerate(said) if wire.call_of(p) is not None), len(said) - 1)
        said[at] = {**said[at], "thoughtSignature": thought["signature"]}
    return [*({**_block(b), "thought": True} for b in thought.get("summary") or []), *said]


def _said(step: Step) -> list[Part]:
    if step["type"] == "model_output":
        return _blocks(step)
    call = {"name": step.get("name"), "args": step.get("arguments") or {}}
    return [{"functionCall": {**call, **({"id": step["id"]} if step.get("id") else {})}}]


def _blocks(step: Step) -> list[Part]:
    content = step.get("content") or []
    return [{"text": content}] if isinstance(content, str) else [_block(b) for b in content]


def _block(block: Mapping[str, Any]) -> Part:
    kind = block.get("type")
    if kind not in _MEDIA:
        return {"text": block.get("text") or ""}
    mime = {"mimeType": block.get("mime_type") or _MEDIA[kind]}
    if block.get("uri"):
        return {"fileData": {**mime, "fileUri": block["uri"]}}
    return {"inlineData": {**mime, "data": block.get("data") or ""}}


def _response(step: Step) -> Part:
    result = step.get("result")
    if isinstance(result, list):
        result = "".join(block.get("text") or "" for block in result)
    if not isinstance(result, dict):
        result = {"error" if step.get("is_error") else "result": result}
    return {"functionResponse": {"name": step.get("name"), "id": step.get("call_id"), "response": result}}


# --- from contents to steps ---------------------------------------------------------------------------------


def steps(given: Iterable[Content]) -> list[Step]:
    """Return the steps that contents stand for; raises ValueError for a user's part that is no text or response."""
    return [s for c in given for s in (_model_steps(c) if wire.is_model(c) else _user_steps(c))]


def _model_steps(content: Content) -> list[Step]:
    """Put each signature before what it signs and before the text that leads there."""
    found: list[Step] = []
    texts: list[Part] = []
    summary: list[Part] = []

    def thought(signature: str | None) -> None:
        if signature or summary:
            signed = {"signature": signature} if signature else {}
            found.append({"type": "thought", **signed, **({"summary": _texts(summary)} if summary else {})})
        if texts:
            found.append({"type": "model_output", "content": _texts(texts)})
        summary.clear()
        texts.clear()

    for part in wire.parts(content):
        call = wire.call_of(part)
        if wire.is_thought(part):
            summary.append(part)
        elif call is None:
            texts += [part] if "text" in part else []
            if part.get("thoughtSignature"):
                thought(part["thoughtSignature"])
        else:
            thought(part.get("thoughtSignature"))
            ident = {"id": call["id"]} if call.get("id") else {}
            name, args = call.get("name"), call.get("args") or {}
            found.append({"type": "function_call", **ident, "name": name, "arguments": args})
    thought(None)
    return found


def _user_steps(content: Content) -> list[Step]:
    found: list[Step] = []
    for responses, run in itertools.groupby(wire.parts(content), lambda p: wire.response_of(p) is not None):
        if responses:
            found += [_result(wire.response_of(part) or {}) for part in run]
        else:
            found.append({"type": "user_input", "content": _texts(run)})
    return found


def _result(response: dict[str, Any]) -> Step:
    return {
        "type": "function_result",
        "name": response.get("name"),
        "call_id": response.get("id"),
        "result": response.get("response"),
    }


def _texts(parts: Iterable[Part]) -> list[dict[str, str]]:
    found = list(parts)
    if not all(isinstance(part.get("text"), str) for part in found):
        raise ValueError("only texts and function responses can be sent as an interaction's input")
    return [{"type": "text", "text": part["text"]} for part in found]
