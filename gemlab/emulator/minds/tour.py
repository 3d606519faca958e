"""The tour model: for any agent with any tools, one walk through all forms of calling.

It calls each declared function at least once, with arguments made from its JSON schema: one alone, then two in
parallel, then the rest one after the other, then answers in text. The text says how many of its thoughts came
back, so that a client sees what its handling of the history does.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from ...wire import contents as wire
from .view import Reply, View


class NoArguments(ValueError):
    """No arguments that fit a function's schema could be made."""


class TourModel:
    """Answers a View by the next stop of the tour; where it stands, it reads from the history."""

    def respond(self, view: View) -> Reply:
        current = [s for s in view.steps if s.turn == len(view.turns) and s.calls]
        stops = _stops([d for d in view.declared if d.get("name")])
        if view.mode == "NONE" or len(current) >= len(stops):
            return Reply(thought="The tour is over: report.", text=_report(view))
        stop = stops[len(current)]
        try:
            calls = tuple((str(d["name"]), arguments(d, f"{view.seed} {len(current)} {i}")) for i, d in enumerate(stop))
        except NoArguments as error:
            return Reply(thought="A schema cannot be met.", text=str(error))
        names = ", ".join(name for name, _ in calls)
        return Reply(thought=f"Stop {len(current) + 1} of {len(stops)}: call {names}, as planned.", calls=calls)


def _stops(declared: list[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the functions to call at each step: single, parallel, then sequential."""
    if not declared:
        return []
    first, *rest = declared
    pair = [*rest, first, first][:2]
    return [[first], pair, *([d] for d in rest[2:] or [first])]


def _report(view: View) -> str:
    steps = [s for s in view.steps if s.calls]
    if not steps:
        return "The tour is over before it began: no function to call."
    calls = [c for s in steps for c in s.calls]
    back = sum(s.thought is not None for s in steps)
    unanswered = sum(c.response is None for c in calls)
    failed = sum(wire.is_error(c.response) for c in calls)
    return (
        f"The tour is over: {len(calls)} calls in {len(steps)} steps, {failed} of them failed, {unanswered} "
        f"unanswered. The thoughts of {back} of {len(steps)} steps came back."
    )


# --- arguments ----------------------------------------------------------------------------------------------


def arguments(declaration: Mapping[str, Any], seed: str) -> dict[str, Any]:
    """Return arguments that fit a declaration's schema, the same for the same seed.

    The schema's own example comes first, then one made by rule. Raises NoArguments where neither fits.
    """
    import jsonschema

    schema = json_schema(declaration)
    made = [e for e in _examples(schema) if isinstance(e, dict)] or [_generated(schema, seed)]
    try:
        validator = jsonschema.Draft202012Validator(schema)
        fitting = next((e for e in made if e is not None and validator.is_valid(e)), None)
    except Exception as error:  # a schema can be broken in ways that only using it shows
        raise NoArguments(f"{declaration['name']}: its schema cannot be used ({type(error).__name__})") from None
    if fitting is None:
        raise NoArguments(f"{declaration['name']}: no arguments found that fit its schema")
    return fitting


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
    out = {}
    for key, value in schema.items():
        if key == "type" and isinstance(value, str):
            out[key] = value.lower()
        elif key in ("properties", "$defs") and isinstance(value, dict):
            out[key] = {name: _from_openapi(s) for name, s in value.items()}
        elif key in ("enum", "example", "default"):
            out[key] = value
        elif key in ("minItems", "maxItems", "minLength", "maxLength") and isinstance(value, str):
            out[key] = int(value)  # int64 travels as text
        elif key not in ("nullable", "propertyOrdering"):
            out[key] = _from_openapi(value)
    if schema.get("nullable") and "type" in out:
        out["type"] = [out["type"], "null"]
    return out


def _examples(schema: Mapping[str, Any]) -> list[Any]:
    found = schema.get("examples")
    return [*(found if isinstance(found, list) else []), *([schema["example"]] if "example" in schema else [])]


def _generated(schema: dict[str, Any], seed: str) -> dict[str, Any] | None:
    from jsf import JSF

    kept = random.getstate()  # the generator draws from the module's own stream
    try:
        random.seed(seed)
        return JSF(schema).generate()
    except Exception:  # it covers most of JSON schema, not all; what it cannot make is told, not guessed
        return None
    finally:
        random.setstate(kept)
