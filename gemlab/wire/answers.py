"""Reading responses: one body, a stream folded into what an unary answer would have been, or an interaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from . import contents as wire
from . import interaction_steps, streamed_calls
from .contents import Content, Part
from .streamed_calls import GrowingCall

Fault = Literal["truncated", "blocked", "malformed", "missing_signature", "cut", "other"]

# What the finish reasons other than STOP mean, those of the Interactions API and its statuses included; one that is not
# here, of those that are still to come too, is `other`.
FAULTS: dict[str, Fault] = {
    **dict.fromkeys(("MAX_TOKENS", "CONTINUATION", "TOO_MANY_TOOL_CALLS", "BUDGET_EXCEEDED"), "truncated"),
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "JAILBREAK", "IMAGE_SAFETY",
         "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR", "ESCALATION", "PUP_LIMITED_DISABLED"),
        "blocked",
    ),
    **dict.fromkeys(("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"), "malformed"),
    "MISSING_THOUGHT_SIGNATURE": "missing_signature",
    **dict.fromkeys(("CANCELLED", "IN_PROGRESS", "QUEUED", "IDLE"), "cut"),
}  # fmt: skip
# Where enumerations travel as numbers: those that are the same in both services.
_NUMBERS = {"1": "STOP", "2": "MAX_TOKENS", "3": "SAFETY", "4": "RECITATION"}
_NOT_YET = (None, "", 0, "0", "FINISH_REASON_UNSPECIFIED")


@dataclass(frozen=True)
class Answer:
    """One GenerateContentResponse (or a whole stream of them) as read: nothing in it was rebuilt.

    `finish_reason`: None where it has none. `message`: what the API says to it. `blocked_for`: why the prompt itself
    was blocked.
    """

    content: Content | None
    finish_reason: str | None
    served: str | None
    usage: dict[str, Any] = field(default_factory=dict)
    message: str | None = None
    blocked_for: str | None = None

    @property
    def fault(self) -> Fault | None:
        """Why the answer is not whole, so that nothing in it may be used; None where it ended by itself.

        `cut`: it has parts and no end, or a call whose arguments have none.
        """
        if self.blocked_for:
            return "blocked"
        if self.finish_reason is None:
            return "cut" if self.content else None
        if self.finish_reason != "STOP":
            return FAULTS.get(self.finish_reason, "other")
        calls = wire.calls(self.content) if self.content else []
        return None if all(map(streamed_calls.is_whole, calls)) else "cut"

    @property
    def ending(self) -> str:
        """How the answer ended, in the API's words where it has some."""
        if self.blocked_for:
            words = f"the prompt was blocked: {self.blocked_for}"
        elif self.finish_reason is None:
            words = "it ended without a finish reason"
        elif self.finish_reason == "STOP" and self.fault:
            words = "it ended before a call's arguments did"
        else:
            words = self.finish_reason
        return f"{words}: {self.message}" if self.message else words

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
    feedback = body.get("promptFeedback") or {}
    return Answer(
        content=content if content and wire.parts(content) else None,
        finish_reason=_finish_reason(candidate.get("finishReason")),
        served=body.get("modelVersion"),
        usage=body.get("usageMetadata") or {},
        message=candidate.get("finishMessage") or feedback.get("blockReasonMessage"),
        blocked_for=str(feedback["blockReason"]) if feedback.get("blockReason") else None,
    )


def _finish_reason(value: Any) -> str | None:
    if value in _NOT_YET:
        return None
    name = str(value).upper()
    return _NUMBERS.get(name, name)


# --- interactions -------------------------------------------------------------------------------------------

# Another status is the reason itself, `failed` where no error tells more.
_FINISHED = {
    "completed": "STOP", "requires_action": "STOP", "incomplete": "MAX_TOKENS", "requires_continuation": "CONTINUATION",
}  # fmt: skip
_USAGE = {
    "total_input_tokens": "promptTokenCount", "total_cached_tokens": "cachedContentTokenCount",
    "total_output_tokens": "candidatesTokenCount", "total_thought_tokens": "thoughtsTokenCount",
    "total_tool_use_tokens": "toolUsePromptTokenCount", "total_tokens": "totalTokenCount",
}  # fmt: skip


def _interaction(body: dict[str, Any]) -> Answer:
    """Read an interaction; who served it is unknown, as its `model` is the one that was asked for (inferred)."""
    steps = [s for s in body.get("steps") or [] if s.get("type") != "user_input"]
    made = interaction_steps.contents(steps)
    status, usage = str(body.get("status") or "in_progress"), body.get("usage") or {}
    reason = _FINISHED.get(status) or status.upper()
    # An interaction's own errors may be about what it got over; a step's says that the step failed.
    failed = [s["error"] for s in steps if s.get("error")] + (body.get("errors") or [] if reason == "FAILED" else [])
    if failed:
        reason = str(failed[0].get("code") or "FAILED").upper()
    return Answer(
        content=next((c for c in made if wire.is_model(c)), None),
        finish_reason=reason,
        served=None,
        usage={to: usage[name] for name, to in _USAGE.items() if name in usage},
        message=failed[0].get("message") if failed else None,
    )


# --- streams ------------------------------------------------------------------------------------------------


def of(response: dict[str, Any] | list[dict[str, Any]]) -> Answer:
    """Read a response as a trace keeps it: one body, or the chunks of a stream."""
    return fold(response) if isinstance(response, list) else read(response)


def fold(chunks: Iterable[dict[str, Any]]) -> Answer:
    """Fold a stream's chunks into one answer: parts in order with every key, none merged with a signed one.

    Neighbouring unsigned text parts of one kind are joined; a blank unsigned part is dropped; an empty part
    that carries a signature stays on its own. A call that comes in pieces becomes one, which says `willContinue` as
    long as it is not whole. Usage is cumulative in a stream, so the last one counts.
    """
    kept: list[Part] = []
    growing: GrowingCall | None = None
    role, last = "model", Answer(None, None, None)
    for body in chunks:
        one = read(body)
        candidate = (body.get("candidates") or [{}])[0]
        for part in wire.parts(candidate.get("content") or {}):
            growing = _append(kept, part, growing)
        role = (candidate.get("content") or {}).get("role", role)
        last = Answer(
            None,
            one.finish_reason or last.finish_reason,
            one.served or last.served,
            one.usage or last.usage,
            one.message or last.message,
            one.blocked_for or last.blocked_for,
        )
    return replace(last, content={"parts": kept, "role": role} if kept else None)


def _append(kept: list[Part], part: Part, growing: GrowingCall | None) -> GrowingCall | None:
    """Append a part to those before it; return the call that goes on after it, if one does."""
    call = wire.call_of(part)
    if call is None:
        _append_other(kept, part)
        return growing
    if growing is not None and not call.get("name"):
        growing.add(part)
    elif streamed_calls.begins(call):
        growing = GrowingCall(part)
        kept.append(growing.part)
    else:
        kept.append(part)
        return None
    return None if growing.is_over else growing


def _append_other(kept: list[Part], part: Part) -> None:
    if wire.is_blank(part):
        return
    if kept and _plain_text(part) and _plain_text(kept[-1]) and wire.is_thought(part) == wire.is_thought(kept[-1]):
        kept[-1] = {**kept[-1], "text": kept[-1]["text"] + part["text"]}
    else:
        kept.append(part)


def _plain_text(part: Part) -> bool:
    return set(part) <= {"text", "thought"} and isinstance(part.get("text"), str)
