"""Pruning: which contents are left out. Pure functions over contents; what stays is the same object.

By name each is written with its arguments after the contents: `steps(3)`.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge

from ..registry import Kind, bind
from ..wire import contents as wire
from ..wire.contents import Content, Group
from .history_faults import strip_past_turns

Pruning = Callable[[Sequence[Content]], list[Content]]
AtLeast0: TypeAlias = Annotated[int, Ge(0)]
AtLeast1: TypeAlias = Annotated[int, Ge(1)]

PRUNINGS: Kind[Callable[..., list[Content]]] = Kind("pruning", "gemlab.prunings", skip=1)

# Recorded signatures run to 5 to 7 characters a thought token.
_SIGNATURE_CHARS_PER_TOKEN = 6
# What stands in the place of a cleared result.
CLEARED = {"result": "cleared to save space; call again if it is needed"}


# --- leaving contents out -----------------------------------------------------------------------------------


@PRUNINGS.register
def none(contents: Sequence[Content]) -> list[Content]:
    """Leave nothing out."""
    return list(contents)


@PRUNINGS.register
def window(contents: Sequence[Content], n: AtLeast1) -> list[Content]:
    """Keep the newest n contents, wherever that cuts.

    It orphans calls and responses as it falls; the article's "drop the oldest six" is of this kind.
    """
    return list(contents[-n:])


@PRUNINGS.register
def steps(contents: Sequence[Content], n: AtLeast0) -> list[Content]:
    """Keep the newest n whole steps, the first user message, and those that the steps answer.

    A step is a model answer with the responses to its calls: no budget leaves half of one. The newest step
    stays even at n = 0 while its calls' results have not been answered. Nothing is dropped from a history
    that has no user message to keep (`cannot_prune` tells).
    """
    if cannot_prune(contents):
        return list(contents)
    groups = wire.groups(contents)
    whole = [i for i, g in enumerate(groups) if g.is_step]
    kept = set(whole[-n:] if n else [])
    if whole and whole[-1] == len(groups) - 1:
        kept.add(whole[-1])
    messages = [i for i, g in enumerate(groups) if not g.is_step]
    since = min(kept, default=len(groups))
    asked = max(i for i in messages if i < since)
    kept |= {i for i in messages if i == messages[0] or i >= asked}
    return [c for i, g in enumerate(groups) if i in kept for c in g.contents]


@PRUNINGS.register
def tokens(contents: Sequence[Content], n: AtLeast0) -> list[Content]:
    """Keep as many of the newest whole steps as fit into n estimated tokens, messages included.

    What `steps` always keeps stays even where it alone is over the budget. See `estimate` for the count.
    """
    most = sum(group.is_step for group in wire.groups(contents))
    fitting = bisect.bisect_right(range(most + 1), n, key=lambda k: estimate(steps(contents, k)))
    return steps(contents, max(fitting - 1, 0))


def estimate(contents: Sequence[Content]) -> int:
    """Return the estimated prompt tokens of contents: four characters a token, signatures six (see above).

    A signature is billed as the thought it holds, which only the API can read. Media are not counted.
    """
    signed = [str(part["thoughtSignature"]) for _, _, part in wire.walk(contents) if part.get("thoughtSignature")]
    return wire.content_tokens(contents) + sum(-(-len(text) // _SIGNATURE_CHARS_PER_TOKEN) for text in signed)


def past_steps(contents: Sequence[Content]) -> list[Content]:
    """Leave out the calls of past turns with their signatures and responses; the current turn stays whole.

    What the user said and how each turn ended stays. A history that cannot be cut comes back as it is.
    """
    if cannot_prune(contents):
        return list(contents)
    current = wire.current_turn(contents)
    return [c for g in wire.groups(contents) if g.start >= current or not _calls(g) for c in g.contents]


def cannot_prune(contents: Sequence[Content]) -> str | None:
    """Return why whole steps cannot be cut from a history, or None where they can."""
    groups = wire.groups(contents)
    if not groups or groups[0].is_step:
        return "no user message at the start: every cut would leave a call or a response without its partner"
    for group in groups:
        made = sum(len(wire.calls(c)) for c in group.contents)
        given = sum(len(wire.responses(c)) for c in group.contents)
        if made != given:
            return f"contents[{group.start}]: {made} calls but {given} responses"
    return None


# --- leaving out what is inside of them ---------------------------------------------------------------------


def past_thoughts(contents: Sequence[Content]) -> list[Content]:
    """Leave out the thought summaries of past turns, with a signature where one carries it."""
    current = wire.current_turn(contents)
    out = []
    for i, content in enumerate(contents):
        kept = [part for part in wire.parts(content) if i >= current or not wire.is_thought(part)]
        if len(kept) == len(wire.parts(content)):
            out.append(content)
        elif kept:
            out.append({**content, "parts": kept})
    return out


@PRUNINGS.register
def clear_results(contents: Sequence[Content], n: AtLeast0) -> list[Content]:
    """Blank the results of all but the newest n steps with calls.

    Calls, signatures, names and ids stay, so nothing is orphaned. The newest results stay even at n = 0 while
    the model has not answered them.
    """
    groups = wire.groups(contents)
    calling = [g.start for g in groups if _calls(g)]
    kept = set(calling[-n:] if n else [])
    if groups and _calls(groups[-1]):
        kept.add(groups[-1].start)
    return [c if g.start in kept else _cleared(c) for g in groups for c in g.contents]


def _cleared(content: Content) -> Content:
    if not wire.responses(content):
        return content
    parts = []
    for part in wire.parts(content):
        response = wire.response_of(part)
        if response is not None:
            named = {key: response[key] for key in ("id", "name") if key in response}
            part = {**part, "functionResponse": {**named, "response": CLEARED}}
        parts.append(part)
    return {**content, "parts": parts}


def _calls(group: Group) -> int:
    return sum(len(wire.calls(content)) for content in group.contents)


@PRUNINGS.register
def strip_past(contents: Sequence[Content], what: Literal["signatures", "thoughts", "both", "steps"]) -> list[Content]:
    """Leave signatures, thoughts, both or whole steps out of past turns; the current turn stays whole."""
    if what == "steps":
        return past_steps(contents)
    kept = list(contents) if what == "thoughts" else strip_past_turns(contents)
    return kept if what == "signatures" else past_thoughts(kept)


# Asked for in a request of its own, which only a trial can make: see summaries.
PRUNINGS.offer("summarise", "gemlab.agent.summaries:summarise")


def get(text: str) -> Pruning:
    """Return a pruning by its text, such as `steps(3)` or `strip_past(steps)`; raises BadInput for any other."""
    pruning, name = PRUNINGS.find(text)
    arguments = bind(pruning, name, skip=1)
    return functools.partial(pruning, **arguments) if arguments else pruning
