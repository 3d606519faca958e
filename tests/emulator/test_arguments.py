"""Arguments made from a schema: they fit it by the validator's own word, and come out the same each time."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
import urllib.request

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemlab.emulator.minds import arguments as module
from gemlab.emulator.minds.arguments import NoArguments, arguments, json_schema

SEEDS = ("1", "2", "3")


def obj(required=None, **properties):
    """Return an object's schema; all its properties are required unless told."""
    required = sorted(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": required}


def make(schema, seed="1"):
    return arguments({"name": "f", "parametersJsonSchema": schema}, seed)


def value(schema, seed="1"):
    return make(obj(v=schema), seed)["v"]


def fits(schema, instance):
    return jsonschema.Draft202012Validator(schema).is_valid(instance)


STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
VALUES = {
    "string": STRING,
    "no type": {},
    "true": True,
    "list of types": {"type": ["null", "integer"]},
    "enum": {"enum": ["a", 1, None]},
    "enum narrowed by a type": {"type": "integer", "enum": ["a", "b", "c", 4]},
    "const": {"const": {"a": [1]}},
    "const false": {"const": False},
    "default": {"type": "integer", "default": 700},
    "default that does not fit": {"type": "integer", "default": "x"},
    "boolean": {"type": "boolean"},
    "null": NULL,
    "integer range": {"type": "integer", "minimum": -3, "maximum": -3},
    "integer exclusive": {"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 7},
    "integer far out": {"type": "integer", "minimum": 10**18},
    "integer far below": {"type": "integer", "maximum": -(10**18)},
    "int64": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    "integer multiple": {"type": "integer", "minimum": 8, "maximum": 20, "multipleOf": 7},
    "integer fractional multiple": {"type": "integer", "multipleOf": 1.5},
    "float bounds of integer": {"type": "integer", "minimum": 1.5, "maximum": 2.5},
    "number narrow": {"type": "number", "minimum": 0.1, "maximum": 0.1001},
    "number exclusive": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "number one value": {"type": "number", "minimum": 0.3, "maximum": 0.3},
    "number negative": {"type": "number", "maximum": -0.5},
    "number multiple": {"type": "number", "multipleOf": 0.01, "minimum": 1, "maximum": 2},
    "minLength": {"type": "string", "minLength": 300},
    "maxLength": {"type": "string", "maxLength": 2},
    "maxLength 0": {"type": "string", "maxLength": 0},
    "format too short": {"type": "string", "format": "email", "maxLength": 4},
    "counts as floats": {"type": "array", "minItems": 2.0, "items": {"type": "string", "maxLength": 3.0}},
    "unknown format": {"type": "string", "format": "moon-phase"},
    "array": {"type": "array"},
    "array of no items": {"type": "array", "items": False},
    "array of two": {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 2},
    "array of none": {"type": "array", "items": STRING, "maxItems": 0},
    "tuple": {"type": "array", "prefixItems": [STRING, INTEGER], "items": False, "minItems": 2},
    "tuple and more": {"type": "array", "prefixItems": [STRING], "items": INTEGER, "minItems": 3},
    "tuples merged": {"allOf": [{"prefixItems": [STRING]}, {"prefixItems": [{"minLength": 50}, NULL], "minItems": 2}]},
    "unique of few": {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True, "minItems": 3},
    "unique booleans": {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 2},
    "unique integers": {"type": "array", "items": INTEGER, "uniqueItems": True, "minItems": 60},
    "unique strings": {"type": "array", "items": STRING, "uniqueItems": True, "minItems": 60},
    "unique objects": {"type": "array", "items": obj(a={"enum": [1, 2]}), "uniqueItems": True, "minItems": 2},
    "contains": {"type": "array", "items": {"type": ["string", "integer"]}, "contains": INTEGER, "minContains": 2},
    "contains no more": {"type": "array", "contains": {"const": 5}, "maxContains": 1, "minItems": 3},
    "contains alone": {"contains": {"const": 5}},
    "optional": obj([], a=STRING, b=INTEGER),
    "optional impossible": obj([], a=False, b=INTEGER),
    "required undeclared": {"type": "object", "required": ["a", "b"]},
    "required by additional": {"type": "object", "required": ["a"], "additionalProperties": INTEGER},
    "maxProperties": {**obj(["c"], a=STRING, b=STRING, c=STRING), "maxProperties": 2},
    "maxProperties 0": {"type": "object", "additionalProperties": STRING, "maxProperties": 0},
    "minProperties of declared": {**obj([], a=STRING, b=STRING), "minProperties": 2, "additionalProperties": False},
    "minProperties of others": {"type": "object", "minProperties": 15},
    "map": {"type": "object", "additionalProperties": obj(a=INTEGER)},
    "pattern names": {
        "type": "object",
        "patternProperties": {"^x-[a-z]{2}$": INTEGER, "^y$": False},
        "additionalProperties": False,
        "minProperties": 3,
    },
    "pattern for a declared name": {**obj(ab={"minimum": 3}), "patternProperties": {"^a": INTEGER}},
    "propertyNames": {"type": "object", "propertyNames": {"pattern": "^[A-Z]{3}$"}, "minProperties": 2},
    "propertyNames keep optional out": {**obj(["ab"], ab=STRING, abc=STRING), "propertyNames": {"maxLength": 2}},
    "propertyNames enum": {"type": "object", "propertyNames": {"enum": ["p", "q"]}, "minProperties": 2},
    "dependentRequired": {**obj(["a"], a=STRING, b=STRING), "dependentRequired": {"a": ["b"], "b": ["c"]}},
    "dependentRequired or neither": {
        **obj([], a=STRING, b=STRING), "dependentRequired": {"a": ["b"]}, "maxProperties": 1
    },
    "dependentSchemas": {**obj(["a"], a=STRING), "dependentSchemas": {"a": {"minProperties": 3}}},
    "unevaluated": {"allOf": [obj(a=STRING)], "properties": {"b": STRING}, "unevaluatedProperties": False},
    "anyOf": {"anyOf": [STRING, NULL]},
    "anyOf with a dead branch": {"anyOf": [False, {"type": "string", "minLength": 5, "maxLength": 4}, INTEGER]},
    "anyOf of required": {**obj([], a=STRING, b=STRING), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "oneOf of required": {**obj([], a=STRING, b=STRING), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "oneOf overlapping": {"oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 2}]},
    "oneOf with a tag": {"oneOf": [obj(k={"const": "a"}, x=INTEGER), obj(k={"const": "b"}, y=STRING)]},
    "allOf": {"allOf": [{"type": "number", "minimum": 3}, {"type": "integer", "maximum": 4}, {"not": {"const": 3}}]},
    "allOf of objects": {"allOf": [obj(a=INTEGER), obj(a={"minimum": 50}, b=STRING)]},
    "allOf with a closed part": {"allOf": [{**obj(["a"], a=STRING), "additionalProperties": False}, obj([], b=STRING)]},
    "allOf of multiples": {"type": "integer", "allOf": [{"multipleOf": 4}, {"multipleOf": 6}]},
    "anyOf and oneOf": {
        "anyOf": [STRING, INTEGER], "oneOf": [{"type": ["integer", "null"]}, {"type": "array"}, {"type": "object"}]
    },
    "one branch of many": {"type": "integer", "anyOf": [*({"const": str(i)} for i in range(60)), {"const": 7}]},
    "not a type": {"not": {"type": ["string", "array", "object", "null"]}},
    "not a value": {"type": "integer", "minimum": 1, "maximum": 2, "not": {"const": 1}},
    "if then": {
        **obj(["k"], k={"enum": ["a", "b"]}, n=STRING),
        "if": {"properties": {"k": {"const": "a"}}},
        "then": {"required": ["n"]},
        "else": {"properties": {"n": False}},
    },
    "if without then": {"if": STRING, "else": INTEGER},
    "then without if": {"type": "integer", "then": False},
    "several ifs": {
        **obj(k={"enum": ["a", "b"]}),
        "allOf": [
            {"if": {"properties": {"k": {"const": k}}}, "then": {"required": [k + "1"]}} for k in ("a", "b", "c")
        ],
    },
    "example of a part": {"type": "integer", "examples": [41]},
}  # fmt: skip


@pytest.mark.parametrize("schema", VALUES.values(), ids=VALUES.keys())
def test_values_fit(schema):
    for seed in SEEDS:
        assert fits(schema, value(schema, seed))


PATTERNS = [
    "^[a-z]+$", "^a{200}$", r"^\d{3}-\d{4}$", r"^[^a-z\s]{6}$", r"^(?=.*\d)(?=.*[A-Z]).{8,}$", r"^\W\D\S$",
    "^(foo|bar)(-[0-9]+)*$", r"^(?P<q>['\"])x(?P=q)$", r"^#(?:[0-9a-fA-F]{3}){1,2}$", "x", "", r"^[\u4e00-\u9fff]{2}$",
    r"^[^\x00-\x7f]$", r"^(?!a)[ab]$", r"^\$\{.*?\}$", r"^[\w.+-]+@[\w-]+\.[\w.-]+$", r"\bword\b",
    r"^[\u0000-\U0010ffff]$", r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$", "^([a-z0-9]|[a-z0-9][a-z0-9-]*[a-z0-9])$",
    "((a*)*)*",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_are_met(pattern):
    for seed in SEEDS:
        assert re.search(pattern, value({"type": "string", "pattern": pattern}, seed))


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [("^[a-z]+$", 30, 40), ("^[a-z]+$", 1, 1), ("^[a-z]+-[a-z]+$", 20, 25), ("[A-Z]", 9, 9)],
)
def test_patterns_keep_to_a_length(pattern, least, most):
    for seed in SEEDS:
        text = value({"type": "string", "pattern": pattern, "minLength": least, "maxLength": most}, seed)
        assert least <= len(text) <= most and re.search(pattern, text)


FORMATS = {
    "date": r"\d{4}-\d\d-\d\d",
    "date-time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "time": r"\d\d:\d\d:\d\dZ",
    "duration": r"PT\d+M",
    "email": r"\w+@example\.com",
    "uri": r"https://example\.com/\w+",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    "ipv4": r"192\.0\.2\.\d+",
    "ipv6": r"2001:db8::\d+",
    "hostname": r"\w+\.example\.com",
    "byte": "[A-Za-z0-9+/]+=*",
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_met(name):
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    for seed in SEEDS:
        text = value({"type": "string", "format": name}, seed)
        assert re.fullmatch(FORMATS[name], text) and checker.conforms(text, name)


def test_what_is_free_looks_plausible():
    schema = obj(cityName=STRING, q={"type": "string", "description": "The song to play."}, count=INTEGER)
    got = make(schema)
    assert got["cityName"].endswith("city name") and got["q"].endswith("song play") and 1 <= got["count"] <= 101


def test_optional_properties_come_too_and_in_the_declared_order():
    assert list(make(obj(["b"], a=STRING, b=STRING, c=STRING))) == ["a", "b", "c"]


def test_a_type_other_than_null_is_preferred():
    values = [value(s, seed) for s in ({"anyOf": [NULL, STRING]}, {"type": ["null", "string"]}) for seed in SEEDS]
    assert all(isinstance(v, str) for v in values)


# --- the contract -------------------------------------------------------------------------------------------


def test_the_schemas_own_examples_come_first_and_where_none_fits_one_is_made():
    city = obj(city=STRING)
    assert make({**city, "examples": [{"city": 5}, {"city": "Oslo"}]}) == {"city": "Oslo"}
    assert make({**city, "example": {"city": "Oslo"}}) == {"city": "Oslo"}
    assert fits(city, make({**city, "examples": [{"city": 5}, "x"]}))


def test_what_is_returned_shares_nothing_with_the_schema():
    schema = {"type": "object", "examples": [{"a": []}], "properties": {"v": {"const": [1]}}}
    make(schema)["a"].append(1)
    assert schema["examples"] == [{"a": []}]


def test_the_same_seed_gives_the_same_arguments():
    schema = obj(**{str(i): s for i, s in enumerate(VALUES.values())})
    assert make(schema) == make(schema)
    assert any(make(obj(city=STRING)) != make(obj(city=STRING), seed) for seed in SEEDS)


def test_the_same_seed_gives_the_same_arguments_in_another_process():
    letters = {"type": "string", "pattern": r"^[^a-z]{9}\w$"}
    schema = obj(v=letters, w={"allOf": [INTEGER, {"minimum": 1}], "maximum": 9}, x={"type": ["string", "integer"]})
    declaration = {"name": "f", "parametersJsonSchema": schema}
    code = f"import json; from {module.__name__} import arguments; print(json.dumps(arguments({declaration}, '1')))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-W", "error", "-c", code]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == make(schema)


def test_the_global_random_state_is_neither_read_nor_changed():
    schema = obj(**{str(i): s for i, s in enumerate(VALUES.values())}, p={"type": "string", "pattern": "^[a-z]+$"})
    random.seed(1)
    before, first = random.getstate(), make(schema)
    assert random.getstate() == before
    random.seed(2)
    assert make(schema) == first


@pytest.mark.parametrize("spelled", [{}, {"parameters": None}, {"parametersJsonSchema": 5}])
def test_without_a_schema_the_arguments_are_empty(spelled):
    assert arguments({"name": "f", **spelled}, "1") == {}


def test_the_apis_spelling_is_translated():
    parameters = {
        "type": "OBJECT",
        "properties": {
            "type": {"type": "STRING", "nullable": True},
            "tags": {"type": "ARRAY", "items": {"type": "STRING"}, "minItems": "2", "maxItems": "2"},
            "free": {"type": "OBJECT", "minProperties": "1"},
            "either": {"anyOf": [{"type": "INTEGER"}, {"type": "NULL"}]},
        },
        "required": ["type", "tags", "free", "either"],
        "propertyOrdering": ["tags", "type", "free", "either"],
    }
    schema = json_schema({"parameters": parameters})
    assert schema["properties"]["type"] == {"type": ["string", "null"]} and "propertyOrdering" not in schema
    for seed in SEEDS:
        got = arguments({"name": "f", "parameters": parameters}, seed)
        assert fits(schema, got) and len(got["tags"]) == 2 and len(got["free"]) == 1


def test_the_apis_types_may_be_numbers():
    parameters = {"type": 6, "properties": {"e": {"type": 1}, "n": {"type": 3}}, "required": ["e", "n"]}
    assert json_schema({"parameters": parameters}) == obj(e=STRING, n=INTEGER)


# --- references ---------------------------------------------------------------------------------------------

BASE = {"$ref": "#/$defs/Base"}
NODE = {"type": "object", "properties": {"name": STRING, "children": {"type": "array", "items": {"$ref": "#/$defs/N"}}}}
EXPRESSION = {
    "oneOf": [
        *(obj(op={"const": op}, l={"$ref": "#/definitions/E"}, r={"$ref": "#/definitions/E"}) for op in "+-*/^%&|"),
        {"$ref": "#/definitions/Literal"},
    ]
}
REFERENCES = {
    "$defs": {**obj(c={"$ref": "#/$defs/City"}), "$defs": {"City": obj(name=STRING)}},
    "definitions": {**obj(c={"$ref": "#/definitions/City"}), "definitions": {"City": obj(name=STRING)}},
    "escaped": {**obj(c={"$ref": "#/$defs/a~1b~0c%20d/anyOf/1"}), "$defs": {"a/b~c d": {"anyOf": [STRING, INTEGER]}}},
    "beside others": {**obj(c={"$ref": "#/$defs/n", "minimum": 4}), "$defs": {"n": {"type": "integer", "maximum": 5}}},
    "root": obj([], name=STRING, inner={"$ref": "#"}),
    "tree": {**obj(root={"$ref": "#/$defs/N"}), "$defs": {"N": {**NODE, "required": ["name", "children"]}}},
    "linked list": {
        **obj(n={"$ref": "#/$defs/L"}),
        "$defs": {"L": obj(v=INTEGER, next={"anyOf": [{"$ref": "#/$defs/L"}, NULL]})},
    },
    "nullable list": {
        **obj(n={"$ref": "#/$defs/L"}),
        "$defs": {"L": {**obj(v=INTEGER, next={"$ref": "#/$defs/L"}), "type": ["object", "null"]}},
    },
    "grammar": {**obj(e={"$ref": "#/definitions/E"}), "definitions": {"E": EXPRESSION, "Literal": obj(value=INTEGER)}},
    "mutual": {
        **obj(a={"$ref": "#/$defs/A"}),
        "$defs": {"A": obj([], b={"$ref": "#/$defs/B"}), "B": obj(a={"$ref": "#/$defs/A"}, c={"$ref": "#/$defs/A"})},
    },
    "the same base on each level": {
        **obj(a={"allOf": [BASE, obj(b={"allOf": [BASE, obj(c=BASE)]})]}),
        "$defs": {"Base": obj(id=INTEGER)},
    },
    "optional to nowhere": obj(["a"], a=STRING, b={"$ref": "#/$defs/none"}),
    "optional to an anchor": obj(["a"], a=STRING, b={"$ref": "#none"}),
}  # fmt: skip


@pytest.mark.parametrize("schema", REFERENCES.values(), ids=REFERENCES.keys())
def test_references_are_followed_and_recursion_ends(schema):
    for seed in SEEDS:
        got = make(schema, seed)
        assert fits(schema, got) and len(json.dumps(got)) < 5000


def test_nothing_is_fetched_for_a_reference_to_elsewhere(monkeypatch):
    asked = []
    monkeypatch.setattr(urllib.request, "urlopen", lambda *a, **k: asked.append(a))
    remote = {"$ref": "https://example.com/schema.json"}
    assert make(obj(["a"], a=STRING, b=remote))["a"]
    with pytest.raises(NoArguments, match=r"^f: "):
        make(obj(a=remote))
    assert asked == []


# --- what cannot be met -------------------------------------------------------------------------------------

IMPOSSIBLE = {
    "false": obj(x=False),
    "no object": {"type": "string"},
    "closed": {"type": "object", "required": ["x"], "additionalProperties": False},
    "types apart": obj(x={"allOf": [STRING, INTEGER]}),
    "range": obj(x={"type": "integer", "minimum": 2, "maximum": 1}),
    "no integer between": obj(x={"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}),
    "unique": obj(x={"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 3}),
    "not": obj(x={"not": {}}),
    "enum": obj(x={"type": "string", "enum": [1, 2]}),
    "empty enum": obj(x={"enum": []}),
    "pattern": obj(x={"type": "string", "pattern": "a^"}),
    "length": obj(x={"type": "string", "minLength": 10**9}),
    "long pattern": obj(x={"type": "string", "pattern": "^(a{1000}){1000}$"}),
    "empty repeats": obj(x={"type": "string", "pattern": "^((){60000}){60000}a^"}),
    "items": obj(x={"type": "array", "minItems": 10**9}),
    "properties": obj(x={"type": "object", "minProperties": 10**9}),
    "endless": {**obj(a={"$ref": "#/$defs/A"}), "$defs": {"A": obj(a={"$ref": "#/$defs/A"}, b={"$ref": "#/$defs/A"})}},
    "wide and deep": {
        **obj(a={"$ref": "#/$defs/0"}),
        "$defs": {str(i): obj(**{n: {"$ref": f"#/$defs/{i + 1}"} for n in "abc"}) for i in range(30)} | {"30": STRING},
    },
    "many ways, all wrong": obj(x={"allOf": [{"anyOf": [{"minimum": i} for i in range(20)]}] * 6, "const": -1}),
}  # fmt: skip


@pytest.mark.parametrize("schema", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_where_nothing_fits_there_are_no_arguments(schema):
    with pytest.raises(NoArguments, match=r"^f: no arguments found that fit its schema$"):
        make(schema)


def nested(depth, wrap):
    schema = STRING
    for _ in range(depth):
        schema = wrap(schema)
    return schema


BROKEN = {
    "type": {"type": 5},
    "type of a part": obj(x={"type": "text"}),
    "properties": {"properties": 5},
    "required": {"required": 5},
    "bound": obj(x={"type": "integer", "minimum": "3"}),
    "pattern": obj(x={"type": "string", "pattern": "["}),
    "reference": obj(x={"$ref": "#/$defs/none"}),
    "reference in a circle": {**obj(x={"$ref": "#/$defs/a"}), "$defs": {"a": {"$ref": "#/$defs/a"}}},
    "part": obj(x=5),
    "infinite": obj(x={"type": "number", "minimum": float("inf")}),
    "no multiple": obj(x={"type": "integer", "multipleOf": 0}),
    "deep in objects": nested(3000, lambda s: obj(a=s)),
    "deep in arrays": obj(x=nested(3000, lambda s: {"type": "array", "items": s, "minItems": 1})),
    "deep in combinations": nested(3000, lambda s: {"allOf": [s]}),
}


@pytest.mark.parametrize("schema", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("spelling", ["parameters", "parametersJsonSchema"])
def test_a_broken_or_bottomless_schema_is_told(schema, spelling):
    started = time.perf_counter()
    with pytest.raises(NoArguments, match=r"^f: (no arguments found that fit its schema|its schema cannot be used \()"):
        arguments({"name": "f", spelling: schema}, "1")
    assert time.perf_counter() - started < 5


def test_large_schemas_are_kept_to_what_has_to_be_there():
    wide = obj(["p7", "p999"], **{f"p{i}": {"type": "array", "items": obj(a=STRING, b=STRING)} for i in range(1000)})
    got = make(wide)
    assert fits(wide, got) and {"p7", "p999"} <= got.keys() and len(json.dumps(got)) < 30_000
    assert make(obj(x={"enum": [f"e{i}" for i in range(5000)]}))
    deep = nested(30, lambda s: obj(a=s))
    assert fits(deep, make(deep))


# --- any schema ---------------------------------------------------------------------------------------------

SMALL = st.integers(-5, 5)
LEAF = st.one_of(
    st.sampled_from(list(VALUES.values())),
    st.sampled_from(PATTERNS).map(lambda p: {"type": "string", "pattern": p}),
    st.tuples(SMALL, st.integers(0, 9)).map(lambda b: {"type": "integer", "minimum": b[0], "maximum": sum(b)}),
    st.tuples(SMALL, st.integers(1, 9)).map(
        lambda b: {"type": "number", "exclusiveMinimum": b[0], "exclusiveMaximum": sum(b)}
    ),
    st.tuples(st.integers(0, 30), st.integers(0, 9)).map(
        lambda b: {"type": "string", "minLength": b[0], "maxLength": sum(b)}
    ),
)


@st.composite
def objects(draw, inner):
    properties = draw(st.dictionaries(st.sampled_from(["a", "b", "userName", "x-y"]), inner, max_size=3))
    schema = obj(sorted(draw(st.sets(st.sampled_from(sorted(properties))))) if properties else [], **properties)
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(st.one_of(st.booleans(), inner))
    if draw(st.booleans()):
        schema["maxProperties"] = draw(st.integers(len(schema["required"]), 4))
    return schema


SCHEMA = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        objects(inner),
        st.tuples(inner, st.integers(0, 3)).map(lambda p: {"type": "array", "items": p[0], "minItems": p[1]}),
        st.lists(inner, max_size=3).map(lambda p: {"type": "array", "prefixItems": p, "minItems": len(p)}),
        st.lists(inner, min_size=1, max_size=3).map(lambda p: {"anyOf": p}),
        inner.map(lambda s: {"allOf": [s, True]}),
        inner.map(lambda s: {"if": {"const": 1}, "else": s}),
        inner.map(lambda s: {"anyOf": [s, {"$ref": "#"}]}),
    ),
    max_leaves=5,
)


@settings(max_examples=80, deadline=None)
@given(objects(SCHEMA), st.text(max_size=3))
def test_arguments_for_any_schema_fit_it_and_are_plain_json(schema, seed):
    got = make(schema, seed)
    assert fits(schema, got) and got == make(schema, seed)
    assert json.loads(json.dumps(got, allow_nan=False)) == got
