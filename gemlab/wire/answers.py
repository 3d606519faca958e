"""Reading responses: one body, a stream folded into what an unary answer would have been, or an interaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from . import contents as wire
from . import interaction_steps
from .contents import Content, Part


@dataclass(frozen=True)
class Answer:
    """One GenerateContentResponse (or a whole stream of them) as read: nothing in it was rebuilt."""

    content: Content | None
    finish_reason: str | None
    served: str | None
    usage: dict[str, Any] = field(default_factory=dict)
    message: str | None = None

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the request, cached ones included."""
        return int(self.usage.get("promptTokenCount") or 0)

    @property
    def output_tokens(self) -> int:
        """Tokens of the answer: candidates and thoughts."""
        return int(self.usage.get("candidatesTokenCount") or 0) + int(self.usage.get("thoughtsTokenCount") or 0)


def read(body: dict[str, Any]) -> Answer:
    """Read one response body, an interaction too; a body without candidates gives content None."""
    if body.get("object") == "interaction" or "steps" in body:
        return _interaction(body)
    candidate = (body.get("candidates") or [{}])[0]
    content = candidate.get("content")
    return Answer(
        content=content if content and wire.parts(content) else None,
        finish_reason=candidate.get("finishReason"),
        served=body.get("modelVersion"),
        usage=body.get("usageMetadata") or {},
        message=candidate.get("finishMessage"),
    )


_FINISHED = {"completed": "STOP", "requires_action": "STOP", "incomplete": "MAX_TOKENS"}
_USAGE = {
    "total_input_tokens": "promptTokenCount", "total_cached_tokens": "cachedContentTokenCount",
    "total_output_tokens": "candidatesTokenCount", "total_thought_tokens": "thoughtsTokenCount",
    "total_tool_use_tokens": "toolUsePromptTokenCount", "total_tokens": "totalTokenCount",
}  # fmt: skip


def _interaction(body: dict[str, Any]) -> Answer:
    """Read an interaction; who served it is unknown, as its `model` is the one that was asked for (inferred)."""
    made = interaction_steps.contents(s for s in body.get("steps") or [] if s.get("type") != "user_input")
    error = (body.get("errors") or [{}])[0]
    status = str(body.get("status"))
    usage = body.get("usage") or {}
    return Answer(
        content=next((c for c in made if wire.is_model(c)), None),
        finish_reason=_FINISHED.get(status) or str(error.get("code") or status).upper(),
        served=None,
        usage={to: usage[name] for name, to in _USAGE.items() if name in usage},
        message=error.get("message"),
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
