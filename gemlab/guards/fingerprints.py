"""What makes two calls, or two results, the same: canonical, as their tool declares it, never by the call id."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..wire import contents as wire


@dataclass(frozen=True)
class Identity:
    """What a tool declares about its calls, for the guards.

    `volatile_args`, `volatile_results`: fields that change although nothing else does (request ids, durations),
    as dotted paths; lists on the way are entered. `polling`: repeating a call is how the tool is used, so its
    repetitions do not count. `acknowledges`: its results only say that a call was done, so that different calls with
    the same one are progress, however long it is. `of_args`, `of_result`: fingerprints of its own, any JSON value.
    """

    volatile_args: tuple[str, ...] = ()
    volatile_results: tuple[str, ...] = ()
    polling: bool = False
    acknowledges: bool = False
    of_args: Callable[[Any], Any] | None = None
    of_result: Callable[[Any], Any] | None = None


Identities = Mapping[str, Identity]
_PLAIN = Identity()
# Up to so many characters a result is no evidence that different calls are stuck. Measured over all recorded sets: the
# usual acknowledgements fit in, and with more room `default` would lose runs that fail on a short "did not pass".
BRIEF = 40


def call_print(name: str, args: Any, identities: Identities) -> tuple[str, str]:
    """Return (name, canonical arguments as the tool declares them)."""
    identity = identities.get(name, _PLAIN)
    kept = _without(args or {}, identity.volatile_args)
    return name, wire.canonical(identity.of_args(kept) if identity.of_args else kept)


def result_print(name: str, result: Any, identities: Identities) -> str | None:
    """Return the canonical result as the tool declares it, a guard's notice left out; None where there is none."""
    if result is None:
        return None
    identity = identities.get(name, _PLAIN)
    if isinstance(result, str) and identity is _PLAIN:
        return f'"{result}'  # no canonical JSON of anything else begins like this; results can be very long
    kept = _without(wire.without_notice(result), identity.volatile_results)
    return wire.canonical(identity.of_result(kept) if identity.of_result else kept)


def is_polling(name: str, identities: Identities) -> bool:
    """Tell whether the tool declares that its calls repeat by design."""
    return identities.get(name, _PLAIN).polling


def is_brief(name: str, result: Any, identities: Identities) -> bool:
    """Tell whether different calls may well give this result in turn: an acknowledgement, a count, yes or no.

    So it is where the tool declares that it acknowledges, or where the result is short and lists nothing: what it says
    is then little against what the calls' own arguments say. A list, however short, is what a call asked for.
    """
    return identities.get(name, _PLAIN).acknowledges or _length(result) <= BRIEF


def _length(value: Any) -> float:
    """Return the characters of all values in a result; infinite where a list in it has items."""
    if isinstance(value, dict):
        return sum(map(_length, value.values()))
    if isinstance(value, list | tuple):
        return math.inf if value else 0
    return 0 if value is None else len(value.strip() if isinstance(value, str) else str(value))


def is_trivial(result: Any) -> bool:
    """Tell whether a result carries no evidence of a stall: nothing, an empty one, or a bare "ok"."""
    if isinstance(result, dict):
        return not result or (len(result) == 1 and is_trivial(next(iter(result.values()))))
    return result is None or result is True or result in ("", [], "ok", "OK")


def _without(value: Any, paths: Sequence[str]) -> Any:
    for path in paths:
        value = _dropped(value, path.split("."))
    return value


def _dropped(value: Any, path: list[str]) -> Any:
    if isinstance(value, list | tuple):
        return [_dropped(item, path) for item in value]
    if not isinstance(value, dict) or path[0] not in value:
        return value
    if len(path) == 1:
        return {k: v for k, v in value.items() if k != path[0]}
    return {k: _dropped(v, path[1:]) if k == path[0] else v for k, v in value.items()}
