"""Reading responses: one body, or a stream folded into what an unary answer would have been."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from . import contents as wire
from .contents import Content, Part


@dataclass(frozen=True)
class Answer:
    """One GenerateContentResponse (or a whole stream of them) as read: nothing in it was rebuilt."""

    content: Content | None
    finish_reason: str | None
    served: str | None
    usage: dict[str, Any] = field(default_factory=dict)
    message: str | None = None


def read(body: dict[str, Any]) -> Answer:
    """Read one response body; a body without candidates gives content None."""
    candidate = (body.get("candidates") or [{}])[0]
    content = candidate.get("content")
    return Answer(
        content=content if content and wire.parts(content) else None,
        finish_reason=candidate.get("finishReason"),
        served=body.get("modelVersion"),
        usage=body.get("usageMetadata") or {},
        message=candidate.get("finishMessage"),
    )


def of(response: dict[str, Any] | list[dict[str, Any]]) -> Answer:
    """Read a response as a trace keeps it: one body, or the chunks of a stream."""
    return fold(response) if isinstance(response, list) else read(response)


def fold(chunks: Iterable[dict[str, Any]]) -> Answer:
    """Fold a stream's chunks into one answer: parts in order with every key, none merged with a signed one.

    Neighbouring unsigned text parts of one kind are joined; a blank unsigned part is dropped; an empty part
    that carries a signature stays on its own. Usage is cumulative in a stream, so the last one counts.
    """
    kept: list[Part] = []
    role, last = "model", Answer(None, None, None)
    for body in chunks:
        one = read(body)
        candidate = (body.get("candidates") or [{}])[0]
        for part in wire.parts(candidate.get("content") or {}):
            _append(kept, part)
        role = (candidate.get("content") or {}).get("role", role)
        last = Answer(
            None,
            one.finish_reason or last.finish_reason,
            one.served or last.served,
            one.usage or last.usage,
            one.message or last.message,
        )
    content = {"parts": kept, "role": role} if kept else None
    return Answer(content, last.finish_reason, last.served, last.usage, last.message)


def _append(kept: list[Part], part: Part) -> None:
    if wire.is_blank(part):
        return
    if kept and _plain_text(part) and _plain_text(kept[-1]) and wire.is_thought(part) == wire.is_thought(kept[-1]):
        kept[-1] = {**kept[-1], "text": kept[-1]["text"] + part["text"]}
    else:
        kept.append(part)


def _plain_text(part: Part) -> bool:
    return set(part) <= {"text", "thought"} and isinstance(part.get("text"), str)
