"""Calls whose arguments come in pieces, as Vertex AI streams them where a request asks for it, put together again.

A first part names the function, later ones bring `partialArgs`: each a value for one path in the arguments, a string
in several pieces while its `willContinue` is set. The call goes on while the part's own `willContinue` is set.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

from .contents import Part

_STEPS = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_VALUES = ("stringValue", "numberValue", "boolValue")


def begins(call: dict[str, Any]) -> bool:
    """Tell whether a functionCall is the first piece of one, not a whole call."""
    return bool(call.get("willContinue")) or "partialArgs" in call


class GrowingCall:
    """A call as far as its pieces have come.

    `part`: what stands for it; its call says `willContinue` until it is whole, and then has the keys that an unary
    answer's has. Where pieces do not fit together it never gets whole. `is_over`: no piece follows.
    """

    def __init__(self, first: Part):
        call = first["functionCall"]
        whole = {k: v for k, v in call.items() if k not in ("partialArgs", "willContinue", "args")}
        self.args: dict[str, Any] = dict(call.get("args") or {})
        self.part: Part = {**first, "functionCall": {**whole, "args": self.args, "willContinue": True}}
        self.is_over = False
        self._unfinished: set[str] = set()
        self._is_broken = False
        self._take(call)

    def add(self, piece: Part) -> None:
        """Add the next part of the same call."""
        if piece.get("thoughtSignature"):
            self.part.setdefault("thoughtSignature", piece["thoughtSignature"])
        self._take(piece["functionCall"])

    def _take(self, call: dict[str, Any]) -> None:
        for value in call.get("partialArgs") or []:
            try:
                self._put(value)
            except (ValueError, LookupError, TypeError, AttributeError):
                self._is_broken = True
        self.is_over = not call.get("willContinue")
        if self.is_over and not self._unfinished and not self._is_broken:
            del self.part["functionCall"]["willContinue"]

    def _put(self, piece: dict[str, Any]) -> None:
        path, goes_on = piece["jsonPath"], bool(piece.get("willContinue"))
        holder, key = _place(self.args, _keys(path))
        value = next((piece[name] for name in _VALUES if name in piece), "" if goes_on else None)
        if path in self._unfinished:
            value = holder[key] + (value or "")
        holder[key] = value
        (self._unfinished.add if goes_on else self._unfinished.discard)(path)


def _keys(path: str) -> list[str | int]:
    """Return the keys of a JSON path (RFC 9535) to one place; raises ValueError for what is none."""
    found: list[str | int] = []
    at = 1
    while at < len(path):
        step = _STEPS.match(path, at)
        if step is None:
            break
        name, index, single, double = step.groups()
        quoted = single if double is None else double
        found.append(int(index) if index else name if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        at = step.end()
    if not found or not path.startswith("$") or at < len(path):
        raise ValueError(f"not a path to one argument: {path}")
    return found


def _place(args: dict[str, Any], keys: Sequence[str | int]) -> tuple[Any, str | int]:
    """Return what holds the last of the keys, with objects and lists made on the way; a list grows by one at a time."""
    holder: Any = args
    for key, following in itertools.pairwise(keys):
        inner = _at(holder, key)
        if inner is None:
            inner = holder[key] = [] if isinstance(following, int) else {}
        holder = inner
    _at(holder, keys[-1])
    return holder, keys[-1]


def _at(holder: Any, key: str | int) -> Any:
    """Return what is there, None where nothing is yet; raises TypeError or IndexError where nothing can be."""
    if isinstance(key, str) and isinstance(holder, dict):
        return holder.get(key)
    if isinstance(key, int) and isinstance(holder, list):
        holder += [None] * (key == len(holder))
        return holder[key]
    raise TypeError(f"no {key!r} in {type(holder).__name__}")


def is_whole(call: dict[str, Any]) -> bool:
    """Tell whether a functionCall, folded or as it came, is one to run: all of its arguments are there."""
    return not call.get("willContinue")
