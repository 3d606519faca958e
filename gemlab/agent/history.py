"""History strategies: what of the model's answers goes back.

Each is a pure function from the contents as received to the contents to send. None changes what it is given;
what a strategy leaves alone it passes on as the very same object. The right one is here, the wrong ones are in
`history_faults`, all of them go by name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from ..wire import contents as wire
from ..wire.contents import Content, Part
from .history_faults import (
    copy_to_siblings,
    dummy,
    first_only,
    json_text,
    merge_text,
    nested,
    rebuild,
    reorder,
    sdk_chat,
    split,
    strip,
    strip_past_turns,
    swap,
    text_only,
)

Strategy = Callable[[Sequence[Content]], list[Content]]


def preserve(contents: Sequence[Content]) -> list[Content]:
    """Send everything back exactly as received."""
    return list(contents)


_ALL: tuple[Strategy, ...] = (
    preserve, strip, rebuild, first_only, dummy, strip_past_turns, reorder, split, merge_text, text_only,
    copy_to_siblings, json_text, nested, sdk_chat,
)  # fmt: skip
STRATEGIES: dict[str, Strategy] = {f.__name__: f for f in _ALL}
# Both are `swap`: they differ in whose signatures the run supplies (`donors`).
DONATED = ("placebo", "neutral")


def get(name: str, donor: Sequence[str] = ()) -> Strategy:
    """Return a strategy by name, one that swaps with the `donor`'s signatures; raises ValueError for unknown names."""
    if name in DONATED:
        return functools.partial(swap, donor=donor)
    if name not in STRATEGIES:
        raise ValueError(f"unknown history strategy {name!r}; known: {', '.join((*STRATEGIES, *DONATED))}")
    return STRATEGIES[name]


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
