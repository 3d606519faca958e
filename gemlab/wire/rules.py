"""What the API refuses in a history and what the model silently loses: the only judge of contents.

One engine for three readers: the emulator refuses by it, an auditor reports by it, and a client tells by it whether
a 400 refuses the history.

Checks run in the order in which the API is taken to make them (inferred: parsing before validation, form
before meaning): base64 and unknown names, empty parts and names, roles, pairing, signatures, ids, last turn.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from . import contents as wire
from .contents import Content, Part
from .families import VERTEX, Profile
from .messages import (
    ALTERED_DEVELOPER,
    ALTERED_VERTEX,
    BASE64,
    CALL_ORDER,
    COUNT,
    EMPTY_NAME,
    EMPTY_PARTS,
    ID_MISMATCH,
    INSIDE_CALL,
    LAST_REFUSED,
    LAST_UNLESS_RESPONSE,
    MISSING_DEVELOPER,
    MISSING_VERTEX,
    NEW_ROLE,
    NO_DATA,
    OLD_ROLE,
    RESPONSE_ORDER,
    is_of_history,
)

Verdict = Literal["refused", "lost", "suspect"]
Opens = Callable[[bytes], bool]


@dataclass(frozen=True)
class Finding:
    """One thing found in a history.

    `verdict`: `refused`, the API answers 400 with `message`; `lost`, it answers 200 but a thought is gone;
    `suspect`, legal but costly or of unknown effect. `content` and `part` are 0-based indices.
    """

    rule: str
    verdict: Verdict
    content: int
    part: int | None
    message: str

    @property
    def where(self) -> str:
        at = f"contents[{self.content}]"
        return at if self.part is None else f"{at}.parts[{self.part}]"


# --- the check ----------------------------------------------------------------------------------------------


def check(contents: Sequence[Content], profile: Profile, opens: Opens | None = None) -> list[Finding]:
    """Return everything found in the contents of one request, in the order of the API's checks.

    `opens` tells whether a signature's decoded bytes open for this profile's family and service; without it
    (an auditor has no key) altered signatures can only be told by their form.
    """
    history = wire.normalise(list(contents))
    altered = functools.partial(_altered, opens=opens)
    rules: tuple[Callable[[list[Content], Profile], Iterator[Finding]], ...] = (
        _encoding, _emptiness, _roles, _pairing, _unsigned, altered, _duplicated, _ids, _last_turn,
    )  # fmt: skip
    return [finding for rule in rules for finding in rule(history, profile)]


def refusal(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that one 400 answer reports: the first refused, with those of its rule.

    The parser and the validator list all of their violations at once; every other rule stops at its first.
    """
    first = next((f for f in findings if f.verdict == "refused"), None)
    if first is None:
        return []
    listing = ("base64", "inside_call"), ("empty_parts", "no_data", "empty_name")
    together = next((rules for rules in listing if first.rule in rules), ())
    return [f for f in findings if f.verdict == "refused" and f.rule in together] or [first]


def refuses_history(body: Any) -> bool:
    """Tell whether the body of a 400 says that the API refuses this history, and not a setting, a key, a size, a place.

    The body is Google's: an object with `error`, alone or in a list, as JSON or as the text of it. What says so in
    another form, an empty body or a page is a proxy's, and no refusal.
    """
    error = _error(body)
    message = error.get("message")
    # The Interactions API has words for a code, generateContent the HTTP status.
    return isinstance(message, str) and is_of_history(message, interactions=isinstance(error.get("code"), str))


# Recorded with a comma too many, so it is not read as JSON.
_IN_TEXT = re.compile(r'"error"\s*:\s*\{.*?"message"\s*:\s*("(?:[^"\\]|\\.)*")', re.DOTALL)


def _error(body: Any) -> dict[str, Any]:
    """Return the innermost error: clients and proxies put the text of a body into a message."""
    if isinstance(body, list):
        body = body[0] if body else None
    if not isinstance(body, dict):
        return _in_text(body)
    error = body.get("error")
    if not isinstance(error, dict):
        return _in_text(body.get("message"))
    return _in_text(error.get("message")) or error


def _in_text(text: Any) -> dict[str, Any]:
    found = _IN_TEXT.search(text) if isinstance(text, str) else None
    try:
        return {"message": json.loads(found[1], strict=False)} if found else {}
    except ValueError:
        return {}


def _encoding(history: list[Content], profile: Profile) -> Iterator[Finding]:
    for i, j, part in wire.walk(history):
        call = wire.call_of(part) or {}
        for name in ("thoughtSignature", "thought_signature"):
            if name in call:
                message = INSIDE_CALL.format(name=name, content=i, part=j)
                yield Finding("inside_call", "refused", i, j, message)
        try:
            wire.signature(part)
        except wire.NotBase64:
            message = BASE64.format(content=i, part=j, value=part.get("thoughtSignature"))
            yield Finding("base64", "refused", i, j, message)


def _emptiness(history: list[Content], profile: Profile) -> Iterator[Finding]:
    for i, content in enumerate(history):
        if not wire.parts(content):
            yield Finding("empty_parts", "refused", i, None, EMPTY_PARTS.format(content=i))
        for j, part in enumerate(wire.parts(content)):
            # A blank text part is accepted (recorded); a blank thought, or nothing at all, is not.
            if wire.is_blank(part) and ("text" not in part or wire.is_thought(part)):
                yield Finding("no_data", "refused", i, j, NO_DATA.format(content=i, part=j))
            response = wire.response_of(part)
            if response is not None and not response.get("name"):
                yield Finding("empty_name", "refused", i, j, EMPTY_NAME.format(content=i, part=j))


def _roles(history: list[Content], profile: Profile) -> Iterator[Finding]:
    for i, content in enumerate(history):
        role = content.get("role") or "user"
        if role in ("user", "model") or (role == "function" and profile.role_names == "old"):
            continue
        message = OLD_ROLE if profile.role_names == "old" else NEW_ROLE.format(role=role)
        yield Finding("role", "refused", i, None, message)


def _pairing(history: list[Content], profile: Profile) -> Iterator[Finding]:
    """Pair each run of model contents with the one content that answers it.

    The count goes over the whole run: two model contents in a row answered by one content with both
    responses is recorded as accepted.
    """
    index = 0
    while index < len(history):
        end = index
        while end < len(history) and wire.is_model(history[end]):
            end += 1
        if end == index:
            if wire.responses(history[index]):
                yield Finding("response_order", "refused", index, None, RESPONSE_ORDER)
            index += 1
            continue
        if profile.consecutive_model == "refuse":
            after_model = (i for i in range(index + 1, end) if wire.calls(history[i]))
            yield from (Finding("call_order", "refused", i, None, CALL_ORDER) for i in after_model)
        yield from _pair(history, profile, index, end)
        answered = end < len(history) and bool(wire.responses(history[end])) and _calls(history, index, end)
        index = end + 1 if answered else end


def _calls(history: list[Content], start: int, end: int) -> list[dict[str, Any]]:
    return [call for content in history[start:end] for call in wire.calls(content)]


def _pair(history: list[Content], profile: Profile, start: int, end: int) -> Iterator[Finding]:
    asked = _calls(history, start, end)
    if not asked:
        return
    if start == 0:
        yield Finding("call_order", "refused", start, None, CALL_ORDER)
    given = wire.responses(history[end]) if end < len(history) else []
    if len(given) != len(asked):
        yield Finding("count", "refused", min(end, len(history) - 1), None, COUNT)
        return
    if len(given) < len(wire.parts(history[end])):
        # Where it is refused, the text is that of a model turn at the end (reported for Vertex, 3.7 and 3.8).
        if profile.text_beside_response == "refuse":
            yield Finding("text_beside_response", "refused", end, None, LAST_REFUSED)
        else:
            text = "parts beside a function response: the answer may be empty or continue the text"
            yield Finding("text_beside_response", "suspect", end, None, text)
    names = sorted(str(c.get("name")) for c in asked), sorted(str(r.get("name")) for r in given)
    if names[0] != names[1]:
        yield Finding("names_differ", "suspect", end, None, "function response names differ from the calls'")


def _first_call(content: Content) -> tuple[int, Part] | None:
    return next(((j, p) for j, p in enumerate(wire.parts(content)) if wire.call_of(p) is not None), None)


def _signed(part: Part) -> bool:
    return bool(part.get("thoughtSignature"))


def _unsigned(history: list[Content], profile: Profile) -> Iterator[Finding]:
    """Judge the first call of every model content: its siblings carry no signature of their own."""
    turn = wire.current_turn(history)
    for i, content in enumerate(history):
        first = _first_call(content) if wire.is_model(content) else None
        if first is None or not profile.thinks:
            continue
        j, part = first
        if _signed(part):
            if wire.dummy_name(wire.readable_signature(part)):
                yield Finding("dummy", "lost", i, j, "a dummy stands in the place of a thought signature")
            continue
        if not (profile.strict and i >= turn):
            yield Finding("unsigned", "lost", i, j, "function call without a signature: its thought is gone")
        elif _thought_signed_before(content, j) and profile.thought_before_call == "accept":
            yield Finding("thought_signed", "suspect", i, j, "the thought before the call is signed, not the call")
        else:
            yield Finding("unsigned", "refused", i, j, missing_message(profile, wire.calls(content)[0], i))


def missing_message(profile: Profile, call: dict[str, Any], content: int) -> str:
    """Return the service's text for an unsigned call in contents[content] (positions count from 1)."""
    text = MISSING_VERTEX if profile.service == VERTEX else MISSING_DEVELOPER
    return text.format(name=call.get("name"), position=content + 1)


def _thought_signed_before(content: Content, call_part: int) -> bool:
    return any(wire.is_thought(p) and _signed(p) for p in wire.parts(content)[:call_part])


def _altered(history: list[Content], profile: Profile, opens: Opens | None) -> Iterator[Finding]:
    """Judge call signatures that the model would open: of the current turn, or of all turns.

    Signatures on text are never checked. One that will not open is refused where it would be read and lost
    where it would not.
    """
    since = 0 if profile.thoughts == "all" else wire.current_turn(history)
    message = ALTERED_VERTEX if profile.service == VERTEX else ALTERED_DEVELOPER
    for i, j, part in wire.walk(history):
        raw = wire.readable_signature(part)
        if raw is None or (wire.dummy_name(raw) and _dummy_known(raw, profile)):
            continue
        if opens(raw) if opens else not (wire.encoded_twice(raw) or wire.dummy_name(raw)):
            continue
        checked = wire.call_of(part) is not None and i >= since and profile.altered == "refuse"
        text = message if checked else "a signature that does not open: its thought is gone"
        yield Finding("altered", "refused" if checked else "lost", i, j, text)


def _dummy_known(raw: bytes, profile: Profile) -> bool:
    return profile.service != VERTEX or wire.dummy_name(raw) == wire.DUMMY_SIGNATURES[0]


def _duplicated(history: list[Content], profile: Profile) -> Iterator[Finding]:
    seen: set[bytes] = set()
    for i, j, part in wire.walk(history):
        raw = wire.readable_signature(part)
        if raw is None or wire.dummy_name(raw):
            continue
        if raw in seen:
            yield Finding("duplicated", "suspect", i, j, "duplicated signature: billed again as prompt tokens")
        seen.add(raw)


def _ids(history: list[Content], profile: Profile) -> Iterator[Finding]:
    if profile.id_mismatch == "ignore":
        return
    for group in wire.groups(history):
        asked = {c.get("id") for content in group.contents for c in wire.calls(content)}
        for offset, content in enumerate(group.contents):
            for j, part in enumerate(wire.parts(content)):
                response = wire.response_of(part)
                if response and response.get("id") and response["id"] not in asked and asked != {None}:
                    refused = profile.id_mismatch == "refuse"
                    verdict: Verdict = "refused" if refused else "suspect"
                    yield Finding("id_mismatch", verdict, group.start + offset, j, ID_MISMATCH)


def _last_turn(history: list[Content], profile: Profile) -> Iterator[Finding]:
    if not history or not wire.is_model(history[-1]) or profile.last_model_turn == "accept":
        return
    message = LAST_REFUSED
    if profile.last_model_turn == "unless_response":
        message = LAST_UNLESS_RESPONSE
        if wire.parts(history[-1]) and wire.response_of(wire.parts(history[-1])[-1]) is not None:
            return
    yield Finding("last_model_turn", "refused", len(history) - 1, None, message)
