"""The ways in which clients are reported to damage a history, each a strategy that an arm can name.

`swap` is no such way but the control for them. Pure functions like all strategies: none changes what it is given,
and what one leaves alone stays the very same object. Which of them the API refuses, and which it takes in silence,
is for `rules.check` to say.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from ..wire import contents as wire
from ..wire.contents import Content, Part

# --- signatures left out or replaced ------------------------------------------------------------------------


def strip(contents: Sequence[Content]) -> list[Content]:
    """Drop every signature, keep the parts."""
    return _each_part(contents, lambda i, part: _unsigned(part))


def rebuild(contents: Sequence[Content]) -> list[Content]:
    """Rebuild calls and responses from name and arguments, text from its characters: no signature, no id."""
    out = []
    for content in contents:
        parts = [rebuilt for part in wire.parts(content) if (rebuilt := _rebuilt(part)) is not None]
        if parts:
            out.append({"role": content.get("role", "user"), "parts": parts})
    return out


def first_only(contents: Sequence[Content]) -> list[Content]:
    """Keep the first signature of each turn, drop those of its later steps."""
    seen: set[int] = set()
    turn, turns = 0, []
    for content in contents:
        turn += wire.opens_turn(content)
        turns.append(turn)

    def keep(i: int, part: Part) -> Part | None:
        if "thoughtSignature" not in part:
            return part
        if turns[i] in seen:
            return _unsigned(part)
        seen.add(turns[i])
        return part

    return _each_part(contents, keep)


def dummy(contents: Sequence[Content]) -> list[Content]:
    """Replace every signature on a call by the documented dummy, drop those on other parts."""
    value = wire.DUMMY_SIGNATURES[0]

    def replace(i: int, part: Part) -> Part | None:
        if "thoughtSignature" in part and wire.call_of(part) is not None:
            return {**part, "thoughtSignature": value}
        return _unsigned(part)

    return _each_part(contents, replace)


def swap(contents: Sequence[Content], donor: Sequence[str]) -> list[Content]:
    """Put a donor's signatures (base64) in the place of those received: the form right, the content wrong.

    The n-th content with a signature gets the donor's n-th, or its last where it has fewer, on the part that
    carried the content's first one; the others in that content are dropped. None is put where none was. Raises
    ValueError for a donor without signatures.
    """
    if not donor:
        raise ValueError("no signatures of a donor to put in the place of those received")
    left = itertools.chain(donor, itertools.repeat(donor[-1]))

    def swapped(_: int, parts: list[Part]) -> list[list[Part]]:
        first = next((i for i, part in enumerate(parts) if part.get("thoughtSignature")), None)
        if first is None:
            return [parts]
        kept = [_unsigned(part) for part in parts]
        kept[first] = _signed(parts[first], next(left))
        return [[part for part in kept if part is not None]]

    return _each_content(contents, swapped)


def strip_past_turns(contents: Sequence[Content]) -> list[Content]:
    """Drop the signatures of all turns but the current one."""
    current = wire.current_turn(contents)
    return _each_part(contents, lambda i, part: part if i >= current else _unsigned(part))


# --- signatures in another place or form --------------------------------------------------------------------


def copy_to_siblings(contents: Sequence[Content]) -> list[Content]:
    """Copy the first signature among a content's calls to those of its calls that have none."""

    def copied(_: int, parts: list[Part]) -> list[list[Part]]:
        signed = [p["thoughtSignature"] for p in parts if wire.call_of(p) is not None and p.get("thoughtSignature")]
        if not signed:
            return [parts]
        bare = [wire.call_of(p) is not None and not p.get("thoughtSignature") for p in parts]
        return [[{**p, "thoughtSignature": signed[0]} if b else p for p, b in zip(parts, bare, strict=True)]]

    return _each_content(contents, copied)


def json_text(contents: Sequence[Content]) -> list[Content]:
    """Encode every signature twice: saved as base64 text, loaded as if that text were the bytes."""

    def twice(i: int, part: Part) -> Part:
        saved = part.get("thoughtSignature")
        return {**part, "thoughtSignature": wire.encode_signature(str(saved).encode())} if saved else part

    return _each_part(contents, twice)


def nested(contents: Sequence[Content]) -> list[Content]:
    """Put a call's signature inside its functionCall, where the API knows no such field."""

    def inside(i: int, part: Part) -> Part:
        call = wire.call_of(part)
        if call is None or "thoughtSignature" not in part:
            return part
        return {**_bare(part), "functionCall": {**call, "thoughtSignature": part["thoughtSignature"]}}

    return _each_part(contents, inside)


# --- parts in another order or other contents ---------------------------------------------------------------


def reorder(contents: Sequence[Content]) -> list[Content]:
    """Pick the calls out and put them behind the other parts, sorted as a store keyed by call id returns them.

    Calls without an id are sorted by name and arguments. Each keeps its signature, so the first call is no longer
    always the signed one.
    """

    def resorted(_: int, parts: list[Part]) -> list[list[Part]]:
        made = [p for p in parts if wire.call_of(p) is not None]
        others = [p for p in parts if wire.call_of(p) is None]
        return [
            [
                *others,
                *sorted(made, key=lambda p: (p["functionCall"].get("id") or "", *wire.call_key(p["functionCall"]))),
            ]
        ]

    return _each_content(contents, resorted)


def split(contents: Sequence[Content]) -> list[Content]:
    """Give each call of a batch a model content of its own; their responses stay together in one."""

    def apart(_: int, parts: list[Part]) -> list[list[Part]]:
        made: list[list[Part]] = [[]]
        for part in parts:
            if wire.call_of(part) is not None and any(wire.call_of(p) is not None for p in made[-1]):
                made.append([])
            made[-1].append(part)
        return made

    return _each_content(contents, apart)


def merge_text(contents: Sequence[Content]) -> list[Content]:
    """Join neighbouring texts as a client does that appends to the last one: later signatures are gone.

    The first text's fields stay; thoughts join thoughts only. An answer whose text came in one part is left alone.
    """

    def merged(_: int, parts: list[Part]) -> list[list[Part]]:
        out: list[Part] = []
        for part in parts:
            words, last = _words(part), _words(out[-1]) if out else None
            if words is not None and last is not None and wire.is_thought(part) == wire.is_thought(out[-1]):
                out[-1] = {**out[-1], "text": last + words}
            else:
                out.append(part)
        return [out]

    return _each_content(contents, merged)


def text_only(contents: Sequence[Content]) -> list[Content]:
    """Keep of each answer its text alone, as a client does that adds up `chunk.text` of a stream.

    Calls go with their signatures, and an answer without text altogether; what the client executed it still
    sends, so the responses are orphans. (A client that keeps the calls and drops signatures is `strip`.)
    """

    def text(_: int, parts: list[Part]) -> list[list[Part]]:
        words = wire.answer_text({"parts": parts})
        return [parts] if parts == [{"text": words}] else [[{"text": words}] if words else []]

    return _each_content(contents, text)


def sdk_chat(contents: Sequence[Content]) -> list[Content]:
    """Store each chunk of a stream as a content of its own, as google-genai's streaming chat does.

    In the form in which 3.x streams: a call or a text a chunk, an unsigned empty text behind calls, a text's
    signature on an empty last part. Where a text was cut into chunks cannot be told from it: it stays whole.
    """

    def chunks(_: int, parts: list[Part]) -> list[list[Part]]:
        made: list[list[Part]] = []
        for part in parts:
            if _words(part) and part.get("thoughtSignature") and not wire.is_thought(part):
                made += [[_bare(part)], [{"text": "", "thoughtSignature": part["thoughtSignature"]}]]
            else:
                made.append([part])
        if any(wire.call_of(p) is not None for p in parts):
            made.append([{"text": ""}])
        return made or [parts]

    return _each_content(contents, chunks)


# --- pieces -------------------------------------------------------------------------------------------------


def _each_content(contents: Sequence[Content], change: Callable[[int, list[Part]], list[list[Part]]]) -> list[Content]:
    """Put contents of the changed parts in the place of each of the model's; one left without parts goes."""
    out = []
    for i, content in enumerate(contents):
        before = wire.parts(content) if wire.is_model(content) else []
        after = change(i, before) if before else [before]
        if len(after) == 1 and _same(after[0], before):
            out.append(content)
        else:
            out += [{**content, "parts": parts} for parts in after if parts]
    return out


def _same(after: Sequence[Part], before: Sequence[Part]) -> bool:
    return len(after) == len(before) and all(a is b for a, b in zip(after, before, strict=True))


def _each_part(contents: Sequence[Content], change: Callable[[int, Part], Part | None]) -> list[Content]:
    """Change each of the model's parts, given the index of its content; None leaves the part out."""
    return _each_content(contents, lambda i, parts: [[new for part in parts if (new := change(i, part)) is not None]])


def _signed(part: Part, signature: str) -> Part:
    return part if part.get("thoughtSignature") == signature else {**part, "thoughtSignature": signature}


def _unsigned(part: Part) -> Part | None:
    """Return the part without its signature; None where nothing would be left."""
    if "thoughtSignature" not in part:
        return part
    rest = _bare(part)
    return None if wire.is_blank(rest) else rest


def _bare(part: Part) -> Part:
    return {k: v for k, v in part.items() if k != "thoughtSignature"}


def _words(part: Part) -> str | None:
    """Return a text part's text, empty for a part that holds nothing but a signature; None for other parts."""
    text = part.get("text", "" if set(part) == {"thoughtSignature"} else None)
    return text if isinstance(text, str) else None


def _rebuilt(part: Part) -> Part | None:
    call, response = wire.call_of(part), wire.response_of(part)
    if call is not None:
        return {"functionCall": {"name": call.get("name"), "args": call.get("args") or {}}}
    if response is not None:
        return {"functionResponse": {"name": response.get("name"), "response": response.get("response")}}
    if part.get("text") and not wire.is_thought(part):
        return {"text": part["text"]}
    return None
