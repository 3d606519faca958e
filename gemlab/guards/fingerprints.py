"""What makes two calls, or two results, the same: canonical, as their tool declares it, never by the call id."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..wire import contents as wire


@dataclass(frozen=True)
class Identity:
    """What a tool declares about its calls, for the guards.

    `volatile_args`, `volatile_results`: fields that change although nothing else does (request ids, durations),
    as dotted paths; lists on the way are entered. `polling`: repeating a call is how the tool is used, so its
    repetitions do not count. `of_args`, `of_result`: fingerprints of its own, any JSON value.
    """

    volatile_args: tuple[str, ...] = ()
    volatile_results: tuple[str, ...] = ()
    polling: bool = False
    of_args: Callable[[Any], Any] | None = None
    of_result: Callable[[Any], Any] | None = None


Identities = Mapping[str, Identity]
_PLAIN = Identity()


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
