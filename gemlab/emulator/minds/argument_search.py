"""The search for a value that fits a JSON schema: within bounds, the same for the same random stream."""

from __future__ import annotations

import base64
import importlib
import math
import random
import re
import uuid
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from .argument_schemas import examples, merged, property_of, subject, with_dependents

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

_ATTEMPTS = 20
_MOST_STEPS = 4000  # of an attempt: alternatives, checks and parts of patterns
_LEAN_AFTER = 300  # steps: the rest of a large schema is kept to what has to be there
_DEEPEST, _LEAN_BELOW, _MOST_RECURSION, _LONGEST = 40, 4, 4, 100_000
_SHARES = (1.0, 1.0, 0.5, 0.0)  # of the optional parts, in the values tried one after the other
_WORDS = ("amber", "blue", "cedar", "delta", "east", "green", "lunar", "maple", "north", "river", "silver", "winter")
_PLAIN, _FOREIGN = [chr(i) for i in range(0x20, 0x7F)], "éλЖאع中あ한😀"
_FORMATS = {
    "date": "2026-{month:02}-{number}",
    "time": "{month:02}:{number}:00Z",
    "date-time": "2026-{month:02}-{number}T{month:02}:{number}:00Z",
    "duration": "PT{number}M",
    "email": "{word}@example.com",
    "uri": "https://example.com/{word}",
    "hostname": "{word}.example.com",
    "ipv4": "192.0.2.{number}",
    "ipv6": "2001:db8::{number}",
    "uuid": "{uuid}",
    "byte": "{base64}",
}
_NUMERIC = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"}
_IMPLIED_TYPES = {
    "object": {"properties", "required", "additionalProperties", "patternProperties", "minProperties"},
    "array": {"items", "prefixItems", "minItems", "contains", "uniqueItems"},
    "number": _NUMERIC,
}


# --- the search ---------------------------------------------------------------------------------------------


class Impossible(Exception):
    """Nothing fits this part of the schema; another alternative may do."""


class TooMuch(Exception):
    """The attempt has used up its steps."""


class Place(NamedTuple):
    """Where in the arguments a value stands: its property's name, and the references followed down to it."""

    name: str
    depth: int
    refs: tuple[str, ...]

    def below(self, name: str) -> Place:
        return Place(name, self.depth + 1, self.refs)

    @property
    def is_recursion(self) -> bool:
        return len(set(self.refs)) < len(self.refs)


class Search:
    """One attempt to make a value."""

    def __init__(self, root: Any, rng: random.Random, validator: Draft202012Validator, is_lean: bool) -> None:
        self._root, self._rng, self._validator, self._is_lean = root, rng, validator, is_lean
        self.steps = 0
        self._matched: dict[str, list[str]] = {}  # the characters of a pattern's classes

    def value(self, schema: Any, place: Place) -> Any:
        """Return a value that fits; raises Impossible or TooMuch."""
        if place.depth > _DEEPEST:
            raise Impossible
        for flat, followed in self._alternatives(schema, place):
            for candidate in self._values(flat, place._replace(refs=followed)):
                if self._fits(schema, candidate):
                    return candidate
        raise Impossible

    def _step(self) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise TooMuch

    def _fits(self, schema: Any, value: Any) -> bool:
        self._step()
        return self._validator.evolve(schema=schema).is_valid(value)

    def _drawn(self, options: Sequence[Any], is_recursion: bool = False) -> list[Any]:
        """Return the options in a drawn order: null last, for it says least; in a recursion what ends it first."""

        def rank(option: Any) -> int:
            if not is_recursion:
                return 1 if option in ("null", {"type": "null"}) else 0
            target = self._target(option["$ref"]) if isinstance(option, dict) and "$ref" in option else option
            return -1 if option == "null" else str(target).count("$ref")

        return sorted(self._rng.sample(options, len(options)), key=rank)

    def _alternatives(self, schema: Any, place: Place) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
        """Yield the schemas without reference, combination and condition that this one stands for."""
        self._step()
        if schema is False:
            return
        rest: dict[str, Any] = {} if schema is True else dict(schema)
        rest |= {k: int(v) for k, v in rest.items() if isinstance(v, float) and v.is_integer()}  # a count, as 2.0
        parts = [[part] for part in rest.pop("allOf", ())]
        parts += [[part, True] for part in rest.pop("dependentSchemas", {}).values()]
        for key in ("anyOf", "oneOf"):
            if key in rest:
                parts.append(self._drawn(rest.pop(key), place.is_recursion))
        met, then, otherwise = rest.pop("if", None), rest.pop("then", True), rest.pop("else", True)
        if met is not None:
            parts.append(self._drawn([{"allOf": [met, then]}, otherwise]))
        if (ref := rest.pop("$ref", None)) is not None:
            if place.refs.count(ref) >= _MOST_RECURSION:
                return
            place = place._replace(refs=(*place.refs, ref))
            parts.append([self._target(ref)])
        yield from self._combined(rest, parts, place, place.refs)

    def _combined(
        self, base: dict[str, Any], parts: list[list[Any]], place: Place, followed: tuple[str, ...]
    ) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
        if not parts:
            yield base, followed
            return
        for option in parts[0]:
            for flat, refs in self._alternatives(option, place):
                both = merged(base, flat)
                if both.get("type") != []:
                    yield from self._combined(both, parts[1:], place, followed + refs[len(place.refs) :])

    def _target(self, ref: str) -> Any:
        if not re.match("#(/|$)", ref):
            raise Impossible
        here = self._root
        for token in ref.split("/")[1:]:
            key = unquote(token).replace("~1", "/").replace("~0", "~")
            here = here[int(key)] if isinstance(here, list) else here[key]
        return here

    def _values(self, flat: dict[str, Any], place: Place) -> Iterator[Any]:
        """Yield values to check: those that the schema names, else drawn ones of each type, from rich to plain."""
        if "const" in flat or "enum" in flat:
            yield from [flat["const"]] if "const" in flat else self._drawn(flat["enum"])
            return
        named = [*examples(flat), flat.get("default")]
        yield from self._drawn([value for value in named if value not in (None, "", [], {})])
        is_lean = self._is_lean or place.is_recursion or place.depth > _LEAN_BELOW or self.steps > _LEAN_AFTER
        implied = [kind for kind, keys in _IMPLIED_TYPES.items() if flat.keys() & keys]
        kinds = flat.get("type", [*implied, "string", "integer", "boolean", "array", "object", "null"])
        if "type" in flat:
            kinds = [kinds] if isinstance(kinds, str) else self._drawn(kinds, place.is_recursion)
        for kind in kinds:
            for effort, share in enumerate(_SHARES):
                try:
                    candidate = self._typed(kind, flat, effort, 0.0 if is_lean else share, place)
                except Impossible:
                    break
                yield candidate

    def _typed(self, kind: Any, flat: dict[str, Any], effort: int, share: float, place: Place) -> Any:
        match kind:
            case "object":
                return self._object(flat, share, place)
            case "array":
                return self._array(flat, share, place)
            case "string":
                return self._string(flat, effort, place.name)
            case "integer" | "number":
                return self._number(flat, effort, kind == "integer")
            case "boolean":
                return self._rng.random() < 0.5
            case "null":
                return None
        raise Impossible

    # --- objects and arrays ---------------------------------------------------------------------------------

    def _object(self, flat: dict[str, Any], share: float, place: Place) -> dict[str, Any]:
        declared = flat.get("properties", {})
        least, most = flat.get("minProperties", 0), flat.get("maxProperties", math.inf)
        needed = with_dependents(flat.get("required", ()), flat)
        chosen = needed
        for key in declared:
            more = [k for k in with_dependents([key], flat) if k not in chosen]
            is_wanted = len(chosen) < least or self._rng.random() < share
            if is_wanted and len(chosen + more) <= most and self._fits(flat.get("propertyNames", True), key):
                chosen = chosen + more
        out: dict[str, Any] = {}
        for key in [*(k for k in declared if k in chosen), *(k for k in chosen if k not in declared)]:
            try:
                out[key] = self.value(property_of(flat, key), place.below(key))
            except Impossible:
                if key in needed:
                    raise
        is_map = not declared and ("patternProperties" in flat or isinstance(flat.get("additionalProperties"), dict))
        wanted = max(least, 1 if is_map and share == 1 and most else 0)
        for _ in range(10 * wanted):
            if len(out) >= wanted:
                break
            try:
                key = self._new_key(flat, len(out), place)
                out.setdefault(key, self.value(property_of(flat, key), place.below(key)))
            except Impossible:
                if len(out) < least:
                    raise
        return out

    def _new_key(self, flat: dict[str, Any], count: int, place: Place) -> str:
        if "propertyNames" in flat:
            return str(self.value({"allOf": [{"type": "string"}, flat["propertyNames"]]}, place.below("")))
        if patterns := list(flat.get("patternProperties", ())):
            return self._matching(self._rng.choice(patterns), 0, math.inf)
        return f"{self._rng.choice(_WORDS)}{count or ''}"

    def _array(self, flat: dict[str, Any], share: float, place: Place) -> list[Any]:
        prefix, items = flat.get("prefixItems", []), flat.get("items", flat.get("unevaluatedItems", True))
        containing = flat.get("minContains", 1) if "contains" in flat else 0
        least = max(flat.get("minItems", 0), containing)
        count = max(least, min(flat.get("maxItems", math.inf), len(prefix) or self._rng.randint(1, 3)) if share else 0)
        out: list[Any] = []
        for index in range(count):
            schemas = [prefix[index] if index < len(prefix) else items]
            if index >= count - containing:
                schemas.append(flat["contains"])
            if flat.get("uniqueItems") and out:
                schemas.append({"not": {"enum": list(out)}})
            try:
                out.append(self.value({"allOf": schemas}, place.below(place.name)))
            except Impossible:
                if len(out) < least:
                    raise
                break
        return out

    # --- numbers and strings --------------------------------------------------------------------------------

    def _number(self, flat: dict[str, Any], effort: int, is_integer: bool) -> int | float:
        """Return a small multiple of a step, reckoned in fractions; the check keeps an exclusive bound."""
        exact = {key: Fraction(str(v) if isinstance(v, float) else v) for key, v in flat.items() if key in _NUMERIC}
        low = max((exact[key] for key in ("minimum", "exclusiveMinimum") if key in exact), default=None)
        high = min((exact[key] for key in ("maximum", "exclusiveMaximum") if key in exact), default=None)
        step = exact.get("multipleOf", Fraction(1, 1 if is_integer else 4))
        step *= step.denominator if is_integer else 1
        if low is not None and high is not None and not is_integer and "multipleOf" not in exact:
            step = min(step, (high - low) / 8) or abs(low) or step
        span = 100 * 10**effort
        last = 10**30 if high is None else high // step
        first = min(1, last - span) if low is None else math.ceil(low / step)
        first = max(first, min(last, 0) - span)
        last = min(last, max(first, 0) + span)
        if first > last:
            raise Impossible
        drawn = self._rng.randint(first, last) * step
        return int(drawn) if is_integer else float(drawn)

    def _string(self, flat: dict[str, Any], effort: int, name: str) -> str:
        least, most = flat.get("minLength", 0), flat.get("maxLength", math.inf)
        if least > _LONGEST:
            raise Impossible
        if "pattern" in flat:
            return self._matching(flat["pattern"], least, most)
        word, number = self._rng.choice(_WORDS), self._rng.randint(10, 28)
        form = "byte" if flat.get("contentEncoding") == "base64" else flat.get("format")
        if form in _FORMATS and effort < 2:
            encoded = base64.b64encode(word.encode()).decode()
            drawn = uuid.UUID(int=self._rng.getrandbits(128), version=4)
            month = self._rng.randint(1, 12)
            return _FORMATS[form].format(word=word, number=number, month=month, uuid=drawn, base64=encoded)
        text = f"{word} {subject(name, flat.get('title'), flat.get('description'))}" + f" {number}" * (effort > 0)
        text = " ".join([text] * (1 + least // len(text)))
        return text[: min(most, len(text))]

    def _matching(self, pattern: str, least: int, most: float) -> str:
        # The parser has no public name; what is read of its tree is the same in Python 3.11 to 3.13.
        parsed = importlib.import_module("re._parser").parse(pattern)
        for attempt in range(_ATTEMPTS):
            text = self._written(parsed, self._rng.randint(1, 4 if attempt < 10 else 12), {})
            text = text.ljust(least, text[-1:] or "x")
            if len(text) <= most and re.search(pattern, text):
                return text
        raise Impossible

    def _written(self, parsed: Any, most_more: int, groups: dict[Any, str]) -> str:
        """Return a text for a parsed pattern, with few repeats; what looks around is met by chance."""
        text = ""
        for index, (operation, value) in enumerate(parsed):
            inner: Any = ()
            times = 1
            match operation.name:
                case "LITERAL":
                    text += chr(value)
                case "IN" | "ANY" | "NOT_LITERAL":
                    text += self._rng.choice(self._characters(parsed[index : index + 1]))
                case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                    low, high, inner = value
                    times = self._rng.randint(low, min(high, low + most_more))
                case "BRANCH":
                    inner = self._rng.choice(value[1])
                case "SUBPATTERN":
                    inner = value[3]
                case "GROUPREF":
                    text += groups.get(value, "")
                case "ASSERT":  # standing before what takes anything, its own text will do
                    inner = value[1] if self._rng.random() < 0.5 else ()
            for _ in range(times):
                self._step()
                part = self._written(inner, most_more, groups)
                text += part
                if operation.name == "SUBPATTERN":
                    groups[value[0]] = part
        return text

    def _characters(self, single: Any) -> list[str]:
        key = str(single)
        if key not in self._matched:
            fits = importlib.import_module("re._compiler").compile(single).match
            self._matched[key] = [*filter(fits, _PLAIN)] or [*filter(fits, _FOREIGN)]
        if not self._matched[key]:
            raise Impossible
        return self._matched[key]
