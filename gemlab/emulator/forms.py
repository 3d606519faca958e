"""The form of an answer: parts and their signatures by family, unary body and stream chunks, usage."""

from __future__ import annotations

import base64
import random
import string
import time
from collections.abc import Sequence
from typing import Any

from .. import contents as wire
from ..contents import Content, Part
from ..models import Profile
from . import scripted, signatures
from .view import Reply, View

CALLS_MESSAGE = "Model generated function call(s)."
_CHARS_PER_TOKEN = 4


def tokens(text: str) -> int:
    """Return the token count of a text: a quarter of its characters, rounded up."""
    return -(-len(text) // _CHARS_PER_TOKEN)


# --- parts --------------------------------------------------------------------------------------------------


def call_id(profile: Profile, rng: random.Random) -> str | None:
    """Return a fresh call id in the family's form, None where it gives none."""
    lower = string.ascii_lowercase + string.digits
    if profile.ids == "lower8":
        return "".join(rng.choices(lower, k=8))
    if profile.ids == "mixed8":
        return "".join(rng.choices(string.ascii_letters + string.digits, k=8))
    if profile.ids == "digits":
        return f"call_{rng.randrange(10**18, 10**19)}"
    return None


def answer_parts(reply: Reply, view: View, profile: Profile) -> list[Part]:
    """Return the parts of an unary answer: the first call, or the last text, carries the signature."""
    thought = reply.thought if view.thinking else None
    parts: list[Part] = []
    rng = view.rng("ids")
    for name, args in reply.calls:
        call: dict[str, Any] = {"name": name, "args": args}
        if ident := call_id(profile, rng):
            call["id"] = ident
        parts.append({"functionCall": call})
    if reply.text is not None or not reply.calls:
        parts.insert(0, {"text": reply.text or ""})
    if thought and (reply.calls or _signs_text(view, profile)):
        signed = next((i for i, p in enumerate(parts) if wire.call_of(p)), len(parts) - 1)
        sealed = wire.encode_signature(signatures.seal(thought, profile))
        parts[signed] = {**parts[signed], "thoughtSignature": sealed}
    if thought and view.summaries:
        parts.insert(0, {"text": scripted.note(thought), "thought": True})
    return parts


def _signs_text(view: View, profile: Profile) -> bool:
    """3.x signs every text it thought about; 2.5 only where functions were declared."""
    return profile.strict or bool(view.declared)


# --- usage --------------------------------------------------------------------------------------------------


def _content_tokens(contents: Sequence[Content]) -> int:
    total = 0
    for _, _, part in wire.walk(contents):
        data = {k: v for k, v in part.items() if k not in ("thoughtSignature", "thought")}
        total += tokens(part["text"] if set(data) == {"text"} else wire.canonical(data)) if data else 0
    return total


def prompt_tokens(body: dict[str, Any], view: View) -> int:
    """Return the prompt's tokens: system text, declarations, contents, and the thoughts that came back."""
    declared = tokens(wire.canonical(list(view.declared))) if view.declared else 0
    system = _content_tokens([body.get("systemInstruction") or {}])
    thoughts = sum(tokens(scripted.note(s.thought)) for s in view.steps if s.thought)
    return system + declared + _content_tokens(body["contents"]) + thoughts


def usage(body: dict[str, Any], view: View, parts: Sequence[Part], thought: str | None) -> dict[str, Any]:
    """Return usageMetadata; a key is absent where its count is zero."""
    prompt = prompt_tokens(body, view)
    made = _content_tokens([{"parts": [p for p in parts if not wire.is_thought(p)]}])
    thoughts = tokens(scripted.note(thought)) if thought else 0
    return _usage(prompt, made, thoughts)


def _usage(prompt: int, made: int, thoughts: int) -> dict[str, Any]:
    counts: dict[str, Any] = {"promptTokenCount": prompt}
    if made:
        counts["candidatesTokenCount"] = made
    counts["totalTokenCount"] = prompt + made + thoughts
    counts["promptTokensDetails"] = [{"modality": "TEXT", "tokenCount": prompt}]
    if thoughts:
        counts["thoughtsTokenCount"] = thoughts
    counts["serviceTier"] = "standard"
    return counts


# --- bodies -------------------------------------------------------------------------------------------------


def response_id(rng: random.Random) -> str:
    """Return a response id: 17 bytes as base64url, the first four the unix time in little-endian order."""
    raw = int(time.time()).to_bytes(4, "little") + rng.randbytes(13)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def unary(reply: Reply, body: dict[str, Any], view: View, profile: Profile) -> dict[str, Any]:
    """Return the body of a generateContent answer."""
    parts = answer_parts(reply, view, profile)
    candidate: dict[str, Any] = {
        "content": {"parts": parts, "role": "model"},
        "finishReason": "STOP",
        "index": 0,
    }
    if reply.calls:
        candidate["finishMessage"] = CALLS_MESSAGE
    thought = reply.thought if view.thinking else None
    return {
        "candidates": [candidate],
        "usageMetadata": usage(body, view, parts, thought),
        "modelVersion": profile.model,
        "responseId": response_id(view.rng("response")),
    }


def stream(reply: Reply, body: dict[str, Any], view: View, profile: Profile) -> list[dict[str, Any]]:
    """Return the chunks of a streamGenerateContent answer: usage cumulative, responseId constant."""
    parts = answer_parts(reply, view, profile)
    thought = reply.thought if view.thinking else None
    full = usage(body, view, parts, thought)
    ident = response_id(view.rng("response"))
    groups = _stream_parts(parts, profile)
    chunks, sent = [], []
    for number, group in enumerate(groups):
        sent += [p for p in group if not wire.is_thought(p)]
        last = number == len(groups) - 1
        candidate: dict[str, Any] = {"content": {"parts": group, "role": "model"}}
        if last:
            candidate["finishReason"] = "STOP"
        candidate["index"] = 0
        if last and reply.calls and not profile.strict:
            candidate["finishMessage"] = CALLS_MESSAGE
        made = _content_tokens([{"parts": sent}])
        counts = _usage(full["promptTokenCount"], made, full.get("thoughtsTokenCount", 0))
        chunks.append(
            {
                "candidates": [candidate],
                "usageMetadata": full if last else counts,
                "modelVersion": profile.model,
                "responseId": ident,
            }
        )
    return chunks


def _stream_parts(parts: list[Part], profile: Profile) -> list[list[Part]]:
    """Group the parts into chunks in the family's form.

    3.x: one call a chunk and an unsigned empty trailer; a text's signature on an empty last part. 2.5: all
    calls in one chunk, the signature on the first text chunk.
    """
    thoughts = [[p] for p in parts if wire.is_thought(p)]
    calls = [p for p in parts if wire.call_of(p) is not None]
    texts = [p for p in parts if wire.call_of(p) is None and not wire.is_thought(p)]
    groups = thoughts
    for part in texts:
        pieces = [{"text": piece} for piece in _pieces(part["text"])]
        if "thoughtSignature" in part and profile.strict:
            pieces.append({"text": "", "thoughtSignature": part["thoughtSignature"]})
        elif "thoughtSignature" in part:
            pieces[0]["thoughtSignature"] = part["thoughtSignature"]
        groups += [[piece] for piece in pieces]
    if calls and profile.strict:
        groups += [*([c] for c in calls), [{"text": ""}]]
    elif calls:
        groups.append(calls)
    return groups


def _pieces(text: str, size: int = 24) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)] or [""]
