"""Arguments for any declared function, made by rule from its JSON schema and checked against it.

Making is a search within bounds: one of a schema's alternatives is drawn, a value of it made, and the value checked.
Where the check fails, a plainer value or the next alternative is tried. The same seed gives the same arguments, in
any process.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import random
import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .argument_schemas import examples
from .argument_search import Place, Search

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

_ATTEMPTS, _MOST_STEPS_IN_ALL = 20, 16_000  # steps: see argument_search
_API_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")  # as its enum counts them


class NoArguments(ValueError):
    """No arguments that fit a function's schema could be made."""


def arguments(declaration: Mapping[str, Any], seed: str) -> dict[str, Any]:
    """Return arguments that fit a declaration's schema, the same for the same seed; raises NoArguments without any.

    The schema's own examples come first, then some made by rule.
    """
    import referencing

    fault: Exception | None = None
    try:
        schema = {key: value for key, value in json_schema(declaration).items() if key != "$schema"}
        # With a registry of its own the validator does not fetch a remote $ref from the network.
        validator = _jsonschema().Draft202012Validator(schema, registry=referencing.Registry())
        for candidate in _candidates(schema, seed, validator):
            try:
                if isinstance(candidate, dict) and validator.is_valid(candidate):
                    return copy.deepcopy(candidate)
            except Exception as error:  # a schema can be broken in ways that only using it shows
                fault = error
    except Exception as error:
        fault = error
    if fault is None:
        raise NoArguments(f"{declaration['name']}: no arguments found that fit its schema")
    raise NoArguments(f"{declaration['name']}: its schema cannot be used ({type(fault).__name__})")


@functools.cache
def _jsonschema() -> Any:
    """Import jsonschema without the library for formats of addresses, which JupyterLab brings along.

    Its grammar alone takes 1.5 s to load, and no format is checked here.
    """
    name = "rfc3987_syntax"
    if name in sys.modules:
        return importlib.import_module("jsonschema")
    sys.modules[name] = None  # type: ignore[assignment]  # the documented way to say that there is none
    try:
        return importlib.import_module("jsonschema")
    finally:
        del sys.modules[name]


def json_schema(declaration: Mapping[str, Any]) -> dict[str, Any]:
    """Return a declaration's parameters as JSON schema, from either of the API's two spellings of it."""
    schema = declaration.get("parametersJsonSchema") or _from_openapi(declaration.get("parameters")) or {}
    return {"type": "object", **schema} if isinstance(schema, dict) else {"type": "object"}


def _from_openapi(schema: Any) -> Any:
    """Return the API's OpenAPI subset as JSON schema: types in lower case, `nullable` as a null type."""
    if isinstance(schema, list):
        return [_from_openapi(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type" and isinstance(value, str):
            out[key] = value.lower()
        elif key == "type" and isinstance(value, int) and 0 < value <= len(_API_TYPES):
            out[key] = _API_TYPES[value - 1]
        elif key in ("properties", "patternProperties", "$defs", "definitions") and isinstance(value, dict):
            out[key] = {name: _from_openapi(s) for name, s in value.items()}
        elif key in ("enum", "const", "example", "examples", "default"):
            out[key] = value
        elif isinstance(value, str) and re.fullmatch("(min|max)(Items|Length|Properties)", key):
            out[key] = int(value)  # int64 travels as text
        elif key not in ("nullable", "propertyOrdering"):
            out[key] = _from_openapi(value)
    if schema.get("nullable") and "type" in out:
        out["type"] = [out["type"], "null"]
    return out


def _candidates(schema: dict[str, Any], seed: str, validator: Draft202012Validator) -> Iterator[Any]:
    yield from examples(schema)
    left = _MOST_STEPS_IN_ALL
    for attempt in range(_ATTEMPTS):
        search = Search(schema, random.Random(f"{seed} {attempt}"), validator, is_lean=attempt % 3 == 2)
        with contextlib.suppress(Exception):  # also where the schema is broken: that, the last check tells
            yield search.value(schema, Place("", 0, ()))
        left -= search.steps
        if left <= 0:
            break
    yield {}
