"""Pruning: which contents are left out. Pure functions over contents; what stays is the same object."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Sequence

from ..wire import contents as wire
from ..wire.contents import Content, Group
from . import history

Pruning = Callable[[Sequence[Content]], list[Content]]

# Recorded signatures run to 5 to 7 characters a thought token.
_SIGNATURE_CHARS_PER_TOKEN = 6
# What stands in the place of a cleared result.
CLEARED = {"result": "cleared to save space; call again if it is needed"}


# --- leaving contents out -----------------------------------------------------------------------------------


def none(contents: Sequence[Content]) -> list[Content]:
    """Leave nothing out."""
    return list(contents)


def window(n: int) -> Pruning:
    """Return the naive window: the newest n contents, wherever that cuts.

    It orphans calls and responses as it falls; the article's "drop the oldest six" is of this kind.
    """
    _at_least(n, 1)
    return lambda contents: list(contents[-n:])


def steps(n: int) -> Pruning:
    """Return the pruning to the newest n whole steps; the first user message stays, and those the steps answer.

    A step is a model answer with the responses to its calls: no budget leaves half of one. The newest step
    stays even at n = 0 while its calls' results have not been answered. Nothing is dropped from a history
    that has no user message to keep (`cannot_prune` tells).
    """
    _at_least(n, 0)

    def prune(contents: Sequence[Content]) -> list[Content]:
        groups = wire.groups(contents)
        if cannot_prune(contents):
            return list(contents)
        found = [i for i, g in enumerate(groups) if g.is_step]
        kept = set(found[-n:] if n else [])
        if found and found[-1] == len(groups) - 1:
            kept.add(found[-1])
        messages = [i for i, g in enumerate(groups) if not g.is_step]
        since = min(kept, default=len(groups))
        asked = max(i for i in messages if i < since)
        kept |= {i for i in messages if i == messages[0] or i >= asked}
        return [c for i, g in enumerate(groups) if i in kept for c in g.contents]

    return prune


def tokens(n: int) -> Pruning:
    """Return the pruning to as many of the newest whole steps as fit into n estimated tokens, messages included.

    What `steps` always keeps stays even where it alone is over the budget. See `estimate` for the count.
    """
    _at_least(n, 0)

    def prune(contents: Sequence[Content]) -> list[Content]:
        most = sum(group.is_step for group in wire.groups(contents))
        fitting = bisect.bisect_right(range(most + 1), n, key=lambda k: estimate(steps(k)(contents)))
        return steps(max(fitting - 1, 0))(contents)

    return prune


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
    return [c for g in wire.groups(contents) if g.start >= current or not _made(g) for c in g.contents]


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


def clear_results(n: int) -> Pruning:
    """Return the pruning that blanks the results of all but the newest n steps with calls.

    Calls, signatures, names and ids stay, so nothing is orphaned. The newest results stay even at n = 0 while
    the model has not answered them.
    """
    _at_least(n, 0)

    def prune(contents: Sequence[Content]) -> list[Content]:
        groups = wire.groups(contents)
        made = [g.start for g in groups if _made(g)]
        kept = set(made[-n:] if n else [])
        if groups and _made(groups[-1]):
            kept.add(groups[-1].start)
        return [c if g.start in kept else _cleared(c) for g in groups for c in g.contents]

    return prune


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


def _made(group: Group) -> int:
    return sum(len(wire.calls(content)) for content in group.contents)


# --- by name ------------------------------------------------------------------------------------------------

BUDGETED: dict[str, Callable[[int], Pruning]] = {f.__name__: f for f in (window, steps, tokens, clear_results)}
# Of past turns alone, by what is left out of them.
PAST: dict[str, Pruning] = {
    "signatures": history.strip_past_turns,
    "thoughts": past_thoughts,
    "both": lambda contents: past_thoughts(history.strip_past_turns(contents)),
    "steps": past_steps,
}


def get(name: str) -> Pruning:
    """Return a pruning by its text, such as `steps(3)` or `strip_past(steps)`; raises ValueError for any other."""
    if name == "none":
        return none
    variant, argument = parse(name)
    if variant in BUDGETED and argument.isdecimal():
        return BUDGETED[variant](int(argument))
    if variant == "strip_past" and argument in PAST:
        return PAST[argument]
    known = [*(f"{variant}(n)" for variant in BUDGETED), *(f"strip_past({what})" for what in PAST)]
    raise ValueError(f"unknown pruning {name!r}; known: none, {', '.join(known)}")


def parse(name: str) -> tuple[str, str]:
    """Return a pruning's variant and argument as texts, the argument empty where it has none."""
    found = re.fullmatch(r"(\w+)\((\w+)\)", name.strip())
    return (found[1], found[2]) if found else (name.strip(), "")


def _at_least(n: int, least: int) -> None:
    if n < least:
        raise ValueError(f"a budget of {n} keeps nothing: at least {least}")
