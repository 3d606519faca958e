"""The form of an answer: parts and their signatures by family, unary body and stream chunks."""

from __future__ import annotations

import base64
import random
import re
import string
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ...wire import contents as wire
from ...wire.contents import Part
from ...wire.families import VERTEX, Profile
from .. import signatures
from ..minds import scripted
from ..minds.view import Reply, View
from . import usage

CALLS_MESSAGE = "Model generated function call(s)."


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
    """Return the parts of an unary answer: the first call, or the last text, carries the signature.

    An empty thought (not None) signs as well: recorded answers without a thoughtsTokenCount are signed so.
    """
    thought = _thought(reply, view)
    parts: list[Part] = []
    rng = view.rng("ids")
    for name, args in reply.calls:
        call: dict[str, Any] = {"name": name, "args": args}
        if ident := call_id(profile, rng):
            call["id"] = ident
        parts.append({"functionCall": call})
    if reply.text is not None or not reply.calls:
        parts.insert(0, {"text": reply.text or ""})
    if thought is not None and (reply.calls or _signs_text(view, profile)):
        signed = next((i for i, p in enumerate(parts) if wire.call_of(p)), len(parts) - 1)
        sealed = wire.encode_signature(signatures.seal(thought, profile))
        parts[signed] = {**parts[signed], "thoughtSignature": sealed}
    if thought and view.summaries:
        parts.insert(0, {"text": scripted.note(thought), "thought": True})
    return parts


def _thought(reply: Reply, view: View) -> str | None:
    return reply.thought if view.thinking else None


def _signs_text(view: View, profile: Profile) -> bool:
    """3.x signs every text it thought about; 2.5 only where functions were declared."""
    return profile.strict or bool(view.declared)


# --- bodies -------------------------------------------------------------------------------------------------


def unary(reply: Reply, body: dict[str, Any], view: View, profile: Profile) -> dict[str, Any]:
    """Return the body of a generateContent answer."""
    if reply.finish != "STOP":
        return _without_output(reply, body, view, profile)
    parts = answer_parts(reply, view, profile)
    end: dict[str, Any] = {"finishReason": "STOP"}
    if usage.plain(profile) and not profile.strict:
        # Drawn: no probabilities stand behind an emulated answer.
        end["avgLogprobs"] = -view.rng("logprobs").expovariate(1)
    message = CALLS_MESSAGE if reply.calls else None
    counts = _counts(reply, body, view, profile, _made(parts))
    return _body(_candidate(parts, profile, end, message), counts, profile, _origin(view, profile))


def _counts(reply: Reply, body: dict[str, Any], view: View, profile: Profile, made: int) -> dict[str, Any]:
    """Return the usage of a whole answer: as the runtime counted it, else estimated, with `made` tokens of output."""
    prompt, thoughts = _taken(reply, body, view, profile)
    if reply.spent is not None:
        return usage.metadata(profile, prompt, reply.spent.output, thoughts, reply.spent.cached)
    return usage.metadata(profile, prompt, made, thoughts)


def _taken(reply: Reply, body: dict[str, Any], view: View, profile: Profile) -> tuple[dict[str, int], int]:
    """Return the tokens of the prompt by modality, and those of the thought."""
    if reply.spent is not None:
        return {"TEXT": reply.spent.prompt}, reply.spent.thoughts
    return usage.prompt_details(body, view, profile), usage.thought_tokens(_thought(reply, view))


def _without_output(reply: Reply, body: dict[str, Any], view: View, profile: Profile) -> dict[str, Any]:
    """Return the body of an answer that ended without output; what was decoded in vain is counted all the same."""
    candidate: dict[str, Any] = {"content": {}, "finishReason": reply.finish}
    if not usage.plain(profile):
        candidate["index"] = 0
    if reply.message:
        candidate["finishMessage"] = reply.message
    return _body(candidate, _counts(reply, body, view, profile, 0), profile, _origin(view, profile))


def stream(reply: Reply, body: dict[str, Any], view: View, profile: Profile) -> list[dict[str, Any]]:
    """Return the chunks of a streamGenerateContent answer: usage cumulative, responseId constant."""
    if reply.finish != "STOP":
        return [_without_output(reply, body, view, profile)]
    groups = _stream_parts(answer_parts(reply, view, profile), profile)
    prompt, thoughts = _taken(reply, body, view, profile)
    origin = _origin(view, profile)
    chunks: list[dict[str, Any]] = []
    sent: list[Part] = []
    made = 0
    for number, group in enumerate(groups):
        sent += group
        made += _made(group)
        last = number == len(groups) - 1
        message = CALLS_MESSAGE if last and reply.calls and not profile.strict else None
        candidate = _candidate(group, profile, {"finishReason": "STOP"} if last else {}, message)
        if last:
            counts = _counts(reply, body, view, profile, made)
        else:
            counts = _counts_so_far(sent, made, groups, prompt, thoughts, profile)
        chunks.append(_body(candidate, counts, profile, origin))
    return chunks


def _made(parts: Sequence[Part]) -> int:
    return wire.content_tokens([{"parts": [p for p in parts if not wire.is_thought(p)]}])


def _candidate(parts: list[Part], profile: Profile, end: dict[str, Any], message: str | None) -> dict[str, Any]:
    if profile.service == VERTEX:
        content = {"role": "model", "parts": parts}
    else:
        content = {"parts": parts, "role": "model"}
    candidate: dict[str, Any] = {"content": content, **end}
    if not usage.plain(profile):
        candidate["index"] = 0
        if message:
            candidate["finishMessage"] = message
    return candidate


def _body(
    candidate: dict[str, Any], counts: dict[str, Any], profile: Profile, origin: dict[str, str]
) -> dict[str, Any]:
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": profile.model, **origin}


def _counts_so_far(
    sent: Sequence[Part],
    made: int,
    groups: Sequence[Sequence[Part]],
    prompt: dict[str, int],
    thoughts: int,
    profile: Profile,
) -> dict[str, Any]:
    """Return the usage of a chunk that is not the last: 2.5 counts thoughts as they come, 3.x when they are over.

    Vertex counts nothing before the last chunk, 2.0 only the prompt.
    """
    if profile.service == VERTEX:
        return dict(usage.TRAFFIC)
    if profile.family == "gemini-2":
        return usage.metadata(profile, prompt, 0, 0)
    if not wire.is_thought(sent[-1]):
        return usage.metadata(profile, prompt, made, thoughts)
    if profile.strict:
        return usage.metadata(profile, prompt, 0, 0)
    said = sum(len(p["text"]) for p in sent)
    whole = sum(len(p["text"]) for group in groups for p in group if wire.is_thought(p))
    return usage.metadata(profile, prompt, 0, -(-thoughts * said // whole))


# --- chunks -------------------------------------------------------------------------------------------------


def _stream_parts(parts: list[Part], profile: Profile) -> list[list[Part]]:
    """Group the parts into chunks in the family's form: thought summaries, text, calls.

    3.x: one call a chunk; an empty last part, which carries the signature of a text and none after calls.
    2.5: all calls in one chunk, the signature on the first text chunk.
    """
    thoughts = [p for p in parts if wire.is_thought(p)]
    calls = [p for p in parts if wire.call_of(p) is not None]
    texts = [p for p in parts if wire.call_of(p) is None and not wire.is_thought(p)]
    groups: list[list[Part]] = [[{**p, "text": text}] for p in thoughts for text in _sections(p["text"])]
    trailer: Part = {"text": ""}
    for part in texts:
        signature = {k: v for k, v in part.items() if k == "thoughtSignature"}
        pieces: list[Part] = [{"text": piece} for piece in _pieces(part["text"])]
        if profile.strict:
            trailer |= signature
        else:
            pieces = pieces or [{"text": ""}]
            pieces[0] |= signature
        groups += [[piece] for piece in pieces]
    if profile.strict:
        return [*groups, *([call] for call in calls), [trailer]]
    return [*groups, calls] if calls else groups


def _sections(text: str) -> list[str]:
    """Thought summaries come a section a chunk, each under a heading in bold."""
    return [section for section in re.split(r"^(?=\*\*[^*\n]+\*\*\n\n)", text, flags=re.MULTILINE) if section]


def _pieces(text: str, size: int = 24) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


# --- where an answer comes from -----------------------------------------------------------------------------


def _origin(view: View, profile: Profile) -> dict[str, str]:
    """Return responseId, and on Vertex createTime before it, both of now."""
    now = time.time_ns() // 1000
    ident = response_id(now, view.rng("response"))
    if profile.service != VERTEX:
        return {"responseId": ident}
    seconds, micros = divmod(now, 1_000_000)
    created = datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)
    return {"createTime": f"{created:%Y-%m-%dT%H:%M:%S.%fZ}", "responseId": ident}


def response_id(micros: int, rng: random.Random) -> str:
    """Return a response id for a unix time in microseconds, as base64url without padding.

    As in all recorded ones: the seconds in four little-endian bytes, then three varints: the microseconds and
    two numbers of 32 bits, of which nothing is known.
    """
    seconds, rest = divmod(micros, 1_000_000)
    numbers = (rest, rng.getrandbits(32), rng.getrandbits(32))
    raw = seconds.to_bytes(4, "little") + b"".join(_varint(number) for number in numbers)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
