"""Reading JSON schemas for the search: what a property may be, schemas merged, examples."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any


def property_of(flat: dict[str, Any], key: str) -> Any:
    declared = flat.get("properties", {})
    schemas = [declared[key]] if key in declared else []
    schemas += [schema for pattern, schema in flat.get("patternProperties", {}).items() if re.search(pattern, key)]
    if not schemas:
        return flat.get("additionalProperties", flat.get("unevaluatedProperties", True))
    return schemas[0] if len(schemas) == 1 else {"allOf": schemas}


def with_dependents(names: Iterable[str], flat: dict[str, Any]) -> list[str]:
    out = list(dict.fromkeys(names))
    for name in out:  # grows while it is read
        out += [d for d in flat.get("dependentRequired", {}).get(name, ()) if d not in out]
    return out


def merged(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Return a schema for what fits both, as far as one schema can say it; the rest is left to the check."""
    out = {**a, **b}
    for key in a.keys() & b.keys():
        x, y = a[key], b[key]
        if key == "type":
            xs, ys = ([kinds] if isinstance(kinds, str) else kinds for kinds in (x, y))
            out[key] = [t for t in xs if t in ys or (t == "integer" and "number" in ys)]
            out[key] += [t for t in ys if t == "integer" and "number" in xs and t not in xs]
        elif key == "required":
            out[key] = [*x, *y]
        elif key == "prefixItems":
            out[key] = [{"allOf": pair} for pair in itertools.zip_longest(x, y, fillvalue=True)]
        elif key in ("patternProperties", "dependentRequired"):
            out[key] = {**x, **y}
        elif key == "properties":
            out[key] = {**x, **{name: {"allOf": [x[name], y[name]]} if name in x else y[name] for name in y}}
        elif key in ("items", "additionalProperties", "unevaluatedProperties", "contains", "propertyNames"):
            out[key] = {"allOf": [x, y]}
        elif re.match("min|exclusiveMin", key):
            out[key] = max(x, y)
        elif re.match("max|exclusiveMax", key):
            out[key] = min(x, y)
    return out


def subject(*texts: str | None) -> str:
    """Return one or two words that say what a value is about."""
    for text in texts:
        words = re.findall("[A-Z]?[a-z]+|[A-Z]+", text or "")
        telling = [w.lower() for w in words if len(w) > 2 and w.lower() not in ("the", "and", "for")]
        if telling:
            return " ".join(telling[:2])
    return "text"


def examples(schema: Mapping[str, Any]) -> list[Any]:
    listed = schema.get("examples")
    return [*(listed if isinstance(listed, list) else []), *([schema["example"]] if "example" in schema else [])]
