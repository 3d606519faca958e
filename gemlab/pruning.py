"""Pruning: which contents are left out. Pure functions over contents; what stays is the same object."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from . import contents as wire
from .contents import Content

Pruning = Callable[[Sequence[Content]], list[Content]]


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


def get(name: str) -> Pruning:
    """Return a pruning by its text: `none`, `window(n)` or `steps(n)`; raises ValueError for any other."""
    if name == "none":
        return none
    found = re.fullmatch(r"(window|steps)\((\d+)\)", name.strip())
    if not found:
        raise ValueError(f"unknown pruning {name!r}; known: none, window(n), steps(n)")
    return {"window": window, "steps": steps}[found[1]](int(found[2]))


def _at_least(n: int, least: int) -> None:
    if n < least:
        raise ValueError(f"a budget of {n} keeps nothing: at least {least}")
