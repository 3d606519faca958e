"""History strategies: what of the model's answers goes back.

Each is a pure function from the contents as received to the contents to send. None changes what it is given;
what a strategy leaves alone it passes on as the very same object. The right one is here, the wrong ones are in
`history_faults`, all of them go by name; one with arguments of its own is written `name(argument)`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..registry import Kind, bind
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

STRATEGIES: Kind[Callable[..., list[Content]]] = Kind("history strategy", "gemlab.strategies", skip=1)


@STRATEGIES.register
def preserve(contents: Sequence[Content]) -> list[Content]:
    """Send everything back exactly as received."""
    return list(contents)


for _fault in (
    strip, rebuild, first_only, dummy, strip_past_turns, reorder, split, merge_text, text_only,
    copy_to_siblings, json_text, nested, sdk_chat,
):  # fmt: skip
    STRATEGIES.register(_fault)


# --- with a donor's signatures in the place of one's own: both are `swap`, they differ in whose (runs.donors) -------


@STRATEGIES.register
def placebo(contents: Sequence[Content], *, donor: Sequence[str] = ()) -> list[Content]:
    """Send the signatures of another trial in the place of those received."""
    return swap(contents, donor)


@STRATEGIES.register
def neutral(contents: Sequence[Content], *, donor: Sequence[str] = ()) -> list[Content]:
    """Send signatures of thoughts that say nothing in the place of those received."""
    return swap(contents, donor)


DONATED = ("placebo", "neutral")


# --- where the server keeps the history (agent.interacting) ---------------------------------------------------


@STRATEGIES.register
def server_state(contents: Sequence[Content]) -> list[Content]:
    """Leave the history to the server (Interactions API): only what is new goes up."""
    return list(contents)


@STRATEGIES.register
def server_state_stateless(contents: Sequence[Content]) -> list[Content]:
    """Send every step back unchanged by the Interactions API, with nothing stored there."""
    return list(contents)


STATEFUL, STATELESS = server_state.__name__, server_state_stateless.__name__
BY_INTERACTIONS = (STATEFUL, STATELESS)


def get(text: str, donor: Sequence[str] = ()) -> Strategy:
    """Return a strategy by its text, one that swaps with the `donor`'s signatures; raises BadInput."""
    strategy, name = STRATEGIES.find(text)
    if name.text in DONATED:
        return functools.partial(strategy, donor=donor)
    arguments = bind(strategy, name, skip=1)
    return functools.partial(strategy, **arguments) if arguments else strategy


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


def response_part(call: dict[str, Any], response: dict[str, Any]) -> Part:
    """Return the functionResponse part that answers a call: its name, and its id where it has one."""
    ident = {"id": call["id"]} if call.get("id") else {}
    return {"functionResponse": {"name": call.get("name"), **ident, "response": response}}
