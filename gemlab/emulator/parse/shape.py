"""The shape of a request: what Google's JSON parser refuses before anything is judged.

Field by field by the tables of `fields`, in either spelling; all violations are listed in one answer, as the
API does. The wording is recorded or reported for this API, or that of protobuf's JSON reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ...wire import contents as wire
from ...wire.families import Profile
from ..errors import MOST_LISTED, ApiError, bad_request
from . import fields, syntax
from .fields import Field

_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1beta."
_STRUCT = "type.googleapis.com/google.protobuf.Struct"
_UNKNOWN = 'Invalid JSON payload received. Unknown name "{}"{}: {}'
_BAD = object()

Found = list[tuple[str, str]]


def parse(raw: bytes, counting: bool = False) -> dict[str, Any]:
    """Return the request body with camelCase field names; raises ApiError 400 for what is not one.

    A null is a field that is not there, and one value stands for a list of one, as in proto JSON. `counting`:
    of countTokens, which takes contents or a whole generateContentRequest.
    """
    found: Found = []
    body = _message(syntax.load(raw), "CountTokensRequest" if counting else "GenerateContentRequest", "", found)
    if found:
        raise bad_request(found)
    if counting:
        body = body.get("generateContentRequest") or body
    if not body.get("contents"):
        raise ApiError(400, "* GenerateContentRequest.contents: contents is not specified\n")
    return body


def thinking(body: dict[str, Any], profile: Profile) -> None:
    """Refuse a thinkingConfig that the served model does not take; raises ApiError 400."""
    config = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    level = config.get("thinkingLevel")
    if level is not None and config.get("thinkingBudget") is not None:
        raise ApiError(400, "You can only set only one of thinking budget and thinking level.")
    if level is None or level.upper() == "THINKING_LEVEL_UNSPECIFIED":
        return
    if not profile.levels:
        raise ApiError(400, "Thinking level is not supported for this model.")
    if level.upper() not in profile.levels:
        raise ApiError(
            400,
            f"Thinking level {level.upper()} is not supported for this model. Please retry with other thinking level.",
        )


# --- messages -----------------------------------------------------------------------------------------------


def _message(value: dict[str, Any], message: str, at: str, found: Found) -> dict[str, Any]:
    known = fields.of(message)
    oneof, members = fields.ONEOF.get(message, ("", frozenset()))
    out: dict[str, Any] = {}
    chosen = None
    for name, item in value.items():
        if len(found) >= MOST_LISTED:
            break
        field = known.get(name)
        if field is None:
            found.append(_unknown(name, at, "Cannot find field."))
        elif item is not None:
            if field.name in members and chosen not in (None, field.name):
                text = f"oneof field '{oneof}' is already set. Cannot set '{name}'"
                found.append((at, f"Invalid value{_quoted(at)} (oneof), {text}"))
            chosen = field.name if field.name in members else chosen
            read = _list(item, field, name, at, found) if field.repeated else _single(item, field, name, at, found)
            if read is not _BAD:
                out[field.name] = read
    return out


def _list(value: Any, field: Field, name: str, at: str, found: Found) -> list[Any]:
    here = f"{at}.{field.snake}" if at else field.snake
    if not isinstance(value, list):
        return [_read(value, field.kind, here, name, at, found)]
    out = []
    for i, item in enumerate(value):
        if len(found) >= MOST_LISTED:
            break
        out.append(_read(item, field.kind, f"{here}[{i}]", name, at, found))
    return out


def _single(value: Any, field: Field, name: str, at: str, found: Found) -> Any:
    if isinstance(value, list) and field.kind != "value":
        found.append(_unknown(name, at, "Proto field is not repeating, cannot start list."))
        return _BAD
    return _read(value, field.kind, f"{at}.{field.snake}" if at else field.snake, name, at, found)


def _read(value: Any, kind: str, here: str, name: str, at: str, found: Found) -> Any:
    """Return one value of a kind as the API takes it; append what is wrong with it."""
    if kind == "value":
        return value
    read = _SCALARS.get(kind) or (_enum(kind) if kind in fields.ENUMS else None)
    if read is not None:
        if isinstance(value, dict):
            found.append(
                (at, f"Invalid value{_quoted(at)} ({fields.snake(name)}), Starting an object on a scalar field")
            )
            return _BAD
        given = read(value)
        if given is _BAD:
            found.append(_invalid(here, _NAMES.get(kind, _TYPE + kind), value))
        return given
    if not isinstance(value, dict):
        found.append(_invalid(here, _STRUCT if kind == "struct" else _TYPE + kind.lstrip("={"), value))
        return _BAD
    if fields.is_message(kind):
        return _message(value, kind, here, found)
    if kind.startswith("{"):
        return {
            key: _read(item, kind[1:], f"{here}[{i}].value", name, at, found)
            for i, (key, item) in enumerate(value.items())
        }
    return wire.normalise(value) if kind.startswith("=") else value


# --- scalars ------------------------------------------------------------------------------------------------


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else _BAD


def _bool(value: Any) -> Any:
    given = {"true": True, "false": False}.get(value) if isinstance(value, str) else value
    return given if isinstance(given, bool) else _BAD


def _number(value: Any) -> Any:
    """Numbers travel as such or as text; a truth value is none."""
    number = syntax.number(value) if isinstance(value, str) else value
    return number if isinstance(number, int | float) and not isinstance(number, bool) else _BAD


def _whole(bits: int) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        number = _number(value)
        fits = number is not _BAD and -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) and number == int(number)
        return int(number) if fits else _BAD

    return read


def _enum(kind: str) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, str) and value.upper() in fields.ENUMS[kind] else _BAD


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "string": _text, "bytes": _text, "bool": _bool, "double": _number, "int32": _whole(32), "int64": _whole(64),
}  # fmt: skip
_NAMES = {kind: f"TYPE_{kind.upper()}" for kind in _SCALARS}


# --- words --------------------------------------------------------------------------------------------------


def _quoted(at: str) -> str:
    return f" at '{at}'" if at else ""


def _unknown(name: str, at: str, why: str) -> tuple[str, str]:
    return at, _UNKNOWN.format(name, _quoted(at), why)


def _invalid(field: str, kind: str, value: Any) -> tuple[str, str]:
    return field, f"Invalid value at '{field}' ({kind}), {json.dumps(value, ensure_ascii=False)[:200]}"
