"""The tour model: every declared function is called with fitting arguments, in all forms of calling."""

from __future__ import annotations

import asyncio

import httpx2
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemlab import backends
from gemlab.agent import history
from gemlab.emulator.minds import arguments
from gemlab.wire import contents as wire

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def take(names, model="gemini-3.6-flash", strategy="preserve", schema=CITY):
    """Run the tour over functions of these names; return the calls of each step and the final text."""

    async def go():
        app = backends.emulator(mind="tour")
        contents = [{"role": "user", "parts": [{"text": "go"}]}]
        tools = [{"functionDeclarations": [{"name": n, "parametersJsonSchema": schema} for n in names]}]
        steps = []
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://e") as client:
            while True:
                body = {"contents": history.get(strategy)(contents), "tools": tools}
                answer = (await client.post(f"/v1/models/{model}:generateContent", json=body)).json()
                content = answer["candidates"][0]["content"]
                calls = wire.calls(content)
                if not calls:
                    return steps, wire.answer_text(content)
                steps.append(calls)
                contents.append(content)
                contents.append({"role": "user", "parts": [history.response_part(c, {"ok": 1}) for c in calls]})

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("names", "shape"),
    [
        (["a"], [["a"], ["a", "a"], ["a"]]),
        (["a", "b"], [["a"], ["b", "a"], ["a"]]),
        (["a", "b", "c"], [["a"], ["b", "c"], ["a"]]),
        (["a", "b", "c", "d", "e"], [["a"], ["b", "c"], ["d"], ["e"]]),
    ],
)
def test_single_then_parallel_then_sequential_then_a_text(names, shape):
    steps, text = take(names)
    assert [[c["name"] for c in calls] for calls in steps] == shape
    count = sum(map(len, shape))
    assert f"{count} calls in {len(shape)} steps" in text and f"{len(shape)} of {len(shape)} steps came back" in text
    assert all(jsonschema.Draft202012Validator(CITY).is_valid(c["args"]) for calls in steps for c in calls)


def test_without_any_function_there_is_a_text():
    assert take([])[0] == []


def test_the_text_tells_how_many_thoughts_came_back():
    assert "0 of 3 steps came back" in take(["a", "b"], "gemini-2.5-flash", "strip")[1]
    assert "1 of 3 steps came back" in take(["a", "b"], "gemini-2.5-flash", "first_only")[1]


def test_tools_that_no_task_knows_get_the_tour_by_default():
    app = backends.emulator()
    body = {"contents": [{"parts": [{"text": "q"}]}], "tools": [{"functionDeclarations": [{"name": "own"}]}]}

    async def ask():
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://e") as client:
            return (await client.post("/v1/models/gemini-3.6-flash:generateContent", json=body)).json()

    assert wire.calls(asyncio.run(ask())["candidates"][0]["content"])[0]["name"] == "own"


SCHEMAS = [
    {"type": "OBJECT", "properties": {"n": {"type": "INTEGER", "minimum": 2, "maximum": 4}}, "required": ["n"]},
    {"type": "OBJECT", "properties": {"l": {"type": "ARRAY", "items": {"type": "STRING"}, "minItems": "2"}},
     "required": ["l"]},
    {"type": "OBJECT", "properties": {"e": {"type": "STRING", "enum": ["x", "y"]}}, "required": ["e"]},
    {"type": "OBJECT", "properties": {"o": {"type": "STRING", "nullable": True}}, "required": ["o"]},
]  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS, ids=["integer", "array", "enum", "nullable"])
def test_the_apis_own_schema_spelling_is_understood(schema):
    made = arguments.arguments({"name": "f", "parameters": schema}, "1")
    assert jsonschema.Draft202012Validator(arguments.json_schema({"parameters": schema})).is_valid(made)
    assert set(made) == set(schema["required"])


def test_the_schemas_own_example_comes_first():
    schema = {**CITY, "examples": [{"city": 5}, {"city": "Oslo"}]}
    assert arguments.arguments({"name": "f", "parametersJsonSchema": schema}, "1") == {"city": "Oslo"}


def test_the_same_seed_gives_the_same_arguments():
    made = [
        arguments.arguments({"name": "f", "parametersJsonSchema": CITY}, seed) for seed in ("1", "1", "2", "3", "4")
    ]
    assert made[0] == made[1] and any(m != made[0] for m in made)


@pytest.mark.parametrize("schema", [{"type": "object", "properties": {"x": False}, "required": ["x"]}, {"type": 5}])
def test_a_schema_that_nothing_fits_is_told_in_a_text(schema):
    steps, text = take(["a"], schema=schema)
    assert steps == [] and text.startswith("a: ")


LEAF = st.sampled_from(
    [
        {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "number"}, {"type": "boolean"},
        {"enum": ["a", 1, None]}, {"const": 7}, {"anyOf": [{"type": "string"}, {"type": "null"}]},
    ]
)  # fmt: skip
SCHEMA = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        inner.map(lambda s: {"type": "array", "items": s, "minItems": 1}),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(
            lambda p: {"type": "object", "properties": p, "required": sorted(p)}
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from("xyz"), SCHEMA, max_size=3))
def test_made_arguments_fit_their_schema(properties):
    schema = {"type": "object", "properties": properties, "required": sorted(properties)}
    made = arguments.arguments({"name": "f", "parametersJsonSchema": schema}, "1")
    assert jsonschema.Draft202012Validator(schema).is_valid(made)
