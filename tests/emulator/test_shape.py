"""The parser of requests: its words for what is no request, and that it knows every field a client can send.

The words are those of recorded answers and public reports, and of protobuf's JSON reader.
"""

from __future__ import annotations

import json

import pytest
from google.genai import types

from gemlab.emulator.errors import ApiError
from gemlab.emulator.parse import fields, shape

RECEIVED = "Invalid JSON payload received. "
ASK = {"contents": [{"parts": [{"text": "q"}]}]}
PREFIX = "type.googleapis.com/google.ai.generativelanguage.v1beta."


def refusal(raw):
    """The error's body of a request that is refused."""
    with pytest.raises(ApiError) as raised:
        shape.parse(raw if isinstance(raw, bytes) else json.dumps(raw).encode())
    assert raised.value.code == 400
    return raised.value.body()["error"]


# --- JSON ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"contents":', "Unexpected end of string. Expected a value.\n\n^"),
        (b'{"contents": [1', "Unexpected end of string. Expected , or ] after array value.\n\n^"),
        (b'{"contents": 1', "Unexpected end of string. Expected , or } after key:value pair.\n\n^"),
        (b"not json", "Unexpected token.\nnot json\n^"),
        (b'{"a": NaN, "b": "NaN"}', 'Unexpected token.\n{"a": NaN, "b": "NaN"}\n      ^'),
        (b'{"a": "NaN", "b": -Infinity}', 'Unexpected token.\n{"a": "NaN", "b": -Infinity}\n                  ^'),
        (b'{"a" 1}', 'Expected : between key:value pair.\n{"a" 1}\n     ^'),
        (b'{"a": 1 "b": 2}', 'Expected , or } after key:value pair.\n{"a": 1 "b": 2}\n        ^'),
        (b'{"a": [1 2]}', 'Expected , or ] after array value.\n{"a": [1 2]}\n         ^'),
        (b'{"a": ["[", 1 2]}', 'Expected , or ] after array value.\n{"a": ["[", 1 2]}\n              ^'),
        (b"{1: 2}", "Expected an object key or }.\n{1: 2}\n ^"),
        (b"{} {}", "Parsing terminated before end of input.\n{} {}\n   ^"),
        (b'{"a": 1.9e308}', 'Number exceeds the range of double.\n{"a": 1.9e308}\n      ^'),
        (b'{"a": ' + b"9" * 400 + b"}", 'Number exceeds the range of double.\n{"a": ' + "9" * 20 + "\n      ^"),
        (b'{"a": "\\ud83d"}', "Missing low surrogate."),
        (b'{"a": "\\ude00"}', "Invalid unicode code point."),
        (b'{"a": "\xff"}', "Encountered non UTF-8 code points."),
    ],
)
def test_what_is_no_json_is_refused_in_the_words_of_the_reader(raw, message):
    error = refusal(raw)
    assert error["message"] == RECEIVED + message
    assert list(error) == ["code", "message", "status"]


@pytest.mark.parametrize("raw", [b"[]", b"1", b"null", b'"x"'])
def test_the_root_is_a_message(raw):
    text = RECEIVED + 'Unknown name "": Root element must be a message.'
    error = refusal(raw)
    assert error["message"] == text
    assert error["details"][0]["fieldViolations"] == [{"description": text}]


def test_no_bytes_are_a_request_without_contents():
    assert refusal(b"")["message"] == "* GenerateContentRequest.contents: contents is not specified\n"


def test_what_protobuf_reads_is_read():
    """Pairs of surrogates, control characters in strings, whole numbers beyond 64 bits (as doubles)."""
    args = '{"n": 18446744073709551616, "m": 18446744073709551615, "least": -9223372036854775808}'
    text = '{"text": "\\ud83d\\ude00\n"}'
    raw = f'{{"contents": [{{"parts": [{text}, {{"functionCall": {{"name": "a", "args": {args}}}}}]}}]}}'
    text, called = shape.parse(raw.encode())["contents"][0]["parts"]
    assert text == {"text": "😀\n"}
    args = called["functionCall"]["args"]
    assert [repr(n) for n in args.values()] == [
        "1.8446744073709552e+19",
        "18446744073709551615",
        "-9223372036854775808",
    ]


def nested(depth, kind):
    open_, close = {"objects": ('{"a": ', "}"), "lists": ("[", "]")}[kind]
    part = {"functionCall": {"name": "a", "args": {"x": "MARK"}}}
    request = {"contents": [{"parts": [{"text": "q"}, part]}]}
    del request["contents"][0]["parts"][0]
    return json.dumps(request).replace('"MARK"', open_ * depth + "1" + close * depth).encode()


@pytest.mark.parametrize(("kind", "key"), [("objects", "a"), ("lists", "x")])
def test_nesting_is_bounded(kind, key):
    """A hundred levels in all; seven of them are the request's own, from its contents to the arguments."""
    assert shape.parse(nested(93, kind))
    for depth in (94, 500):
        message = RECEIVED + f"Message too deep. Max recursion depth reached for key '{key}'"
        assert refusal(nested(depth, kind))["message"] == message


# --- fields -------------------------------------------------------------------------------------------------


def with_part(**part):
    return {"contents": [{"parts": [part]}]}


def declaring(**parameters):
    declaration = {"name": "a", "parameters": {"type": "OBJECT", **parameters}}
    return {**ASK, "tools": [{"functionDeclarations": [declaration]}]}


AT = "contents[0].parts[0]"
SCHEMA = "tools[0].function_declarations[0].parameters"


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({**ASK, "google": 1}, None, RECEIVED + 'Unknown name "google": Cannot find field.'),
        (
            with_part(text="q", thought_sig="x"), AT,
            RECEIVED + f'Unknown name "thought_sig" at \'{AT}\': Cannot find field.',
        ),
        (
            with_part(functionResponse={"name": "a", "response": [1]}), f"{AT}.function_response",
            RECEIVED + f'Unknown name "response" at \'{AT}.function_response\': '
            "Proto field is not repeating, cannot start list.",
        ),
        (
            with_part(text="q", functionCall={"name": "a"}), AT,
            f"Invalid value at '{AT}' (oneof), oneof field 'data' is already set. Cannot set 'functionCall'",
        ),
        (
            with_part(functionCall={"name": "a", "args": 5}), f"{AT}.function_call.args",
            f"Invalid value at '{AT}.function_call.args' (type.googleapis.com/google.protobuf.Struct), 5",
        ),
        (with_part(text=5), f"{AT}.text", f"Invalid value at '{AT}.text' (TYPE_STRING), 5"),
        (with_part(text={"a": 1}), AT, f"Invalid value at '{AT}' (text), Starting an object on a scalar field"),
        ({"contents": "q"}, "contents", f"Invalid value at 'contents' ({PREFIX}Content), \"q\""),
        (
            {**ASK, "system_instruction": "be brief"}, "system_instruction",
            f"Invalid value at 'system_instruction' ({PREFIX}Content), \"be brief\"",
        ),
        (
            {**ASK, "generationConfig": {"thinkingConfig": {"thinkingLevel": "BOGUS"}}},
            "generation_config.thinking_config.thinking_level",
            "Invalid value at 'generation_config.thinking_config.thinking_level' "
            f"({PREFIX}ThinkingConfig.ThinkingLevel), \"BOGUS\"",
        ),
        (
            {**ASK, "generationConfig": {"seed": 2**31}}, "generation_config.seed",
            "Invalid value at 'generation_config.seed' (TYPE_INT32), 2147483648",
        ),
        (
            declaring(properties={"a": {"type": ["STRING", "NULL"]}}), f"{SCHEMA}.properties[0].value",
            RECEIVED + f'Unknown name "type" at \'{SCHEMA}.properties[0].value\': '
            "Proto field is not repeating, cannot start list.",
        ),
        (
            declaring(properties={"a": {"const": 1}}), f"{SCHEMA}.properties[0].value",
            RECEIVED + f'Unknown name "const" at \'{SCHEMA}.properties[0].value\': Cannot find field.',
        ),
        (declaring(enum=[5]), f"{SCHEMA}.enum[0]", f"Invalid value at '{SCHEMA}.enum[0]' (TYPE_STRING), 5"),
        (declaring(minItems=1.5), f"{SCHEMA}.min_items", f"Invalid value at '{SCHEMA}.min_items' (TYPE_INT64), 1.5"),
        (
            declaring(properties={"a": {"type": "any"}}), f"{SCHEMA}.properties[0].value.type",
            f"Invalid value at '{SCHEMA}.properties[0].value.type' ({PREFIX}Type), \"any\"",
        ),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_its_place(body, field, message):
    error = refusal(body)
    assert error["message"] == message
    (detail,) = error["details"]
    assert detail["fieldViolations"] == [{**({"field": field} if field else {}), "description": message}]


def test_all_violations_are_listed_up_to_a_limit():
    parts = [{"text": n} for n in range(3)]
    message = refusal({"contents": [{"parts": parts}]})["message"]
    assert message.split("\n") == [
        f"Invalid value at 'contents[0].parts[{n}].text' (TYPE_STRING), {n}" for n in range(3)
    ]
    assert len(refusal({f"field{n}": 1 for n in range(1000)})["message"].split("\n")) == 100


@pytest.mark.parametrize(
    ("given", "read"),
    [("7", 7), (7.0, 7), ("7.0", 7), (-(2**31), -(2**31)), ("1e3", 1000)],
)
def test_whole_numbers_travel_as_numbers_or_text(given, read):
    seed = shape.parse(json.dumps({**ASK, "generationConfig": {"seed": given}}).encode())["generationConfig"]["seed"]
    assert (seed, type(seed)) == (read, int)


@pytest.mark.parametrize("given", ["", "x", "0x7", "1e999", "NaN", "7.5", True, 2**31, -(2**31) - 1, 1e300])
def test_what_is_no_whole_number_of_32_bits_is_refused(given):
    assert "(TYPE_INT32)" in refusal({**ASK, "generationConfig": {"seed": given}})["message"]


def test_counting_takes_contents_or_a_whole_request():
    assert shape.parse(json.dumps(ASK).encode(), counting=True) == ASK
    assert shape.parse(json.dumps({"generateContentRequest": ASK}).encode(), counting=True) == ASK


# --- the tables ---------------------------------------------------------------------------------------------

MESSAGES = (
    "Blob", "Content", "FileData", "FunctionCall", "FunctionCallingConfig", "FunctionDeclaration", "FunctionResponse",
    "FunctionResponsePart", "GenerationConfig", "Part", "SafetySetting", "Schema", "ThinkingConfig", "Tool",
    "ToolConfig",
)  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES)
def test_every_field_of_the_client_is_known(message):
    client = {field.alias or name for name, field in getattr(types, message).model_fields.items()}
    assert client <= set(fields.of(message))
    for name in client:
        assert fields.of(message)[name] is fields.of(message)[fields.snake(name)]


def test_every_kind_in_the_tables_exists():
    for message in fields._MESSAGES:
        for field in fields.of(message).values():
            kind = field.kind.lstrip("{")
            known = kind in shape._SCALARS or kind in ("struct", "value") or kind in fields.ENUMS
            assert known or fields.is_message(kind) or kind.startswith("="), (message, field)


def test_enumerations_are_the_clients():
    assert {e.value for e in types.ThinkingLevel} == fields.ENUMS["ThinkingConfig.ThinkingLevel"]
    assert {e.value for e in types.FunctionCallingConfigMode} == fields.ENUMS["FunctionCallingConfig.Mode"]
    assert {e.value for e in types.Type} == fields.ENUMS["Type"]
