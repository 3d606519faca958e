"""History strategies: what of the model's answers goes back.

Each is a pure function from the contents as received to the contents to send. None changes what it is given;
what a strategy leaves alone it passes on as the very same object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import contents as wire
from .contents import Content, Part

Strategy = Callable[[Sequence[Content]], list[Content]]


def preserve(contents: Sequence[Content]) -> list[Content]:
    """Send everything back exactly as received."""
    return list(contents)


def strip(contents: Sequence[Content]) -> list[Content]:
    """Drop every signature, keep the parts."""
    return _model_parts(contents, lambda i, j, part: _unsigned(part))


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

    def keep(i: int, j: int, part: Part) -> Part:
        if "thoughtSignature" not in part:
            return part
        if turns[i] in seen:
            return _unsigned(part)
        seen.add(turns[i])
        return part

    return _model_parts(contents, keep)


def dummy(contents: Sequence[Content]) -> list[Content]:
    """Replace every signature on a call by the documented dummy, drop those on other parts."""
    value = wire.DUMMY_SIGNATURES[0]

    def replace(i: int, j: int, part: Part) -> Part:
        if "thoughtSignature" in part and wire.call_of(part) is not None:
            return {**part, "thoughtSignature": value}
        return _unsigned(part)

    return _model_parts(contents, replace)


def strip_past_turns(contents: Sequence[Content]) -> list[Content]:
    """Drop the signatures of all turns but the current one."""
    current = wire.current_turn(contents)
    return _model_parts(contents, lambda i, j, part: part if i >= current else _unsigned(part))


STRATEGIES: dict[str, Strategy] = {
    f.__name__: f for f in (preserve, strip, rebuild, first_only, dummy, strip_past_turns)
}


def get(name: str) -> Strategy:
    """Return a strategy by name; raises ValueError that names the known ones."""
    if name not in STRATEGIES:
        raise ValueError(f"unknown history strategy {name!r}; known: {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


# --- pieces -------------------------------------------------------------------------------------------------


def _model_parts(contents: Sequence[Content], change: Callable[[int, int, Part], Part | None]) -> list[Content]:
    """Apply `change` to each part of the model's contents; untouched contents stay the same objects."""
    out = []
    for i, content in enumerate(contents):
        if not wire.is_model(content):
            out.append(content)
            continue
        before = wire.parts(content)
        after = [p for j, part in enumerate(before) if (p := change(i, j, part)) is not None]
        same = len(after) == len(before) and all(a is b for a, b in zip(after, before, strict=True))
        if same:
            out.append(content)
        elif after:
            out.append({**content, "parts": after})
    return out


def _unsigned(part: Part) -> Part | None:
    """Return the part without its signature; None where nothing would be left."""
    if "thoughtSignature" not in part:
        return part
    rest = {k: v for k, v in part.items() if k != "thoughtSignature"}
    return None if wire.is_blank(rest) else rest


def _rebuilt(part: Part) -> Part | None:
    call, response = wire.call_of(part), wire.response_of(part)
    if call is not None:
        return {"functionCall": {"name": call.get("name"), "args": call.get("args") or {}}}
    if response is not None:
        return {"functionResponse": {"name": response.get("name"), "response": response.get("response")}}
    if part.get("text") and not wire.is_thought(part):
        return {"text": part["text"]}
    return None


# --- keeping a history answerable ---------------------------------------------------------------------------


def closed(contents: Sequence[Content]) -> list[Content]:
    """Answer calls that an interruption left open with a synthetic "cancelled" response, ids kept.

    In a half-answered batch it joins the responses that are there. A history without open calls comes back
    with the same objects.
    """
    out: list[Content] = []
    for group in wire.groups(contents):
        out += group.contents
        answered = wire.answered_calls(group)
        given = sum(len(wire.responses(content)) for content in group.contents)
        short = max(len(answered) - given, 0)
        parts = [response_part(c, {"error": "cancelled"}) for c, r in answered if r is None][:short]
        if parts and given:
            out[-1] = {**out[-1], "parts": [*out[-1]["parts"], *parts]}
        elif parts:
            out.append({"role": "user", "parts": parts})
    return out


def response_part(call: dict, response: dict) -> Part:
    """Return the functionResponse part that answers a call: its name, and its id where it has one."""
    ident = {"id": call["id"]} if call.get("id") else {}
    return {"functionResponse": {"name": call.get("name"), **ident, "response": response}}
