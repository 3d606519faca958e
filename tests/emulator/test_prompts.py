"""What a language model is shown and may decode, and how its text is read; expected texts are written by hand."""

from __future__ import annotations

import dataclasses
import json

import hypothesis
import hypothesis.strategies as st
import jsonschema
import pytest

from gemlab.emulator import signatures
from gemlab.emulator.minds import prompts, view
from gemlab.emulator.minds.prompts import Design
from gemlab.tasks.base import Worked, WorkedStep
from gemlab.wire import families
from gemlab.wire.contents import encode_signature

G25 = families.profile("gemini-2.5-flash")
TOOLS = [
    {
        "functionDeclarations": [
            {
                "name": "find",
                "description": "Find a thing.",
                "parametersJsonSchema": {
                    "type": "object",
                    "properties": {
                        "kind": {"enum": ["a", "b"]},
                        "many": {"type": "array", "items": {"type": "integer"}},
                    },
                    "required": ["kind"],
                },
            },
            {"name": "stop", "parameters": {"type": "OBJECT", "properties": {"why": {"type": "STRING"}}}},
        ]
    }
]
WORKED = Worked(
    frozenset({"find", "stop"}),
    "Find an a.",
    (WorkedStep("It is an a.", (("find", {"kind": "a"}),), ({"at": "x-1"},)),),
    "It is found.",
    "It is at x-1.",
)
BARE = prompts.design("bare")


def signed(thought):
    return encode_signature(signatures.seal(thought, G25))


def call(name, args, **beside):
    return {"functionCall": {"name": name, "args": args}, **beside}


def response(name, body):
    return {"functionResponse": {"name": name, "response": body}}


def seen(*contents, mode=None, thinking=True, **config):
    body = {
        "contents": list(contents),
        "tools": TOOLS,
        "systemInstruction": {"parts": [{"text": "Be quick."}]},
        "generationConfig": {**config, **({} if thinking else {"thinkingConfig": {"thinkingBudget": 0}})},
        **({"toolConfig": {"functionCallingConfig": {"mode": mode}}} if mode else {}),
    }
    return view.read(body, G25)


def user(text):
    return {"role": "user", "parts": [{"text": text}]}


HISTORY = (
    user("Find a b."),
    {"role": "model", "parts": [call("find", {"kind": "b"}, thoughtSignature=signed("A b, then."))]},
    {"role": "user", "parts": [response("find", {"at": "y-2"})]},
    {"role": "model", "parts": [call("find", {"kind": "a"})]},
    {"role": "user", "parts": [response("find", {"at": "y-3"})]},
)


# --- the prompt ---------------------------------------------------------------------------------------------


def test_the_whole_prompt_of_a_history():
    chat = prompts.messages(seen(*HISTORY), BARE, [WORKED])
    form = (
        "Reply with one JSON object on one line. Its keys: thought (one short sentence: what is known, what "
        "comes next), call (with name and args) to use a tool, or answer (a sentence) when all is done."
    )
    assert chat == [
        {
            "role": "system",
            "content": "Be quick.\n\nTools:\n- find(kind: a|b, many?: integer[]): Find a thing.\n- stop(why?: string): "
            f"\n\n{form}",
        },
        {"role": "user", "content": "Find a b."},
        {"role": "assistant", "content": '{"thought":"A b, then.","call":{"name":"find","args":{"kind":"b"}}}'},
        {"role": "user", "content": 'Result: {"at":"y-2"}'},
        # Its signature did not come back, so its thought is nowhere.
        {"role": "assistant", "content": '{"call":{"name":"find","args":{"kind":"a"}}}'},
        {"role": "user", "content": 'Result: {"at":"y-3"}'},
    ]


def test_examples_stand_before_the_conversation_as_turns_or_as_text_with_their_thoughts_or_without():
    def shown(name):
        return prompts.messages(seen(user("Find a b.")), prompts.design(name), [WORKED, WORKED])

    worked = shown("worked")
    assert worked[1:5] == [
        {"role": "user", "content": "Find an a."},
        {"role": "assistant", "content": '{"thought":"It is an a.","call":{"name":"find","args":{"kind":"a"}}}'},
        {"role": "user", "content": 'Result: {"at":"x-1"}'},
        {"role": "assistant", "content": '{"thought":"It is found.","answer":"It is at x-1."}'},
    ]
    assert worked[5:9] == worked[1:5] and worked[9:] == [user_message("Find a b.")]
    silent = shown("silent")
    assert [m["content"] for m in silent[1:5]] == [
        "Find an a.",
        '{"call":{"name":"find","args":{"kind":"a"}}}',
        'Result: {"at":"x-1"}',
        '{"answer":"It is at x-1."}',
    ]
    transcript = shown("transcript")
    assert transcript[1:] == [user_message("Find a b.")]
    assert (
        "Example 2:\nFind an a.\n"
        'You: {"thought":"It is an a.","call":{"name":"find","args":{"kind":"a"}}}\nResult: {"at":"x-1"}\n'
        'You: {"thought":"It is found.","answer":"It is at x-1."}'
    ) in transcript[0]["content"]
    assert "thought" not in shown("transcript-silent")[0]["content"].split("Example 1:")[1]


def test_examples_do_not_think_where_thinking_is_off():
    chat = prompts.messages(seen(user("Find a b."), thinking=False), prompts.design("worked"), [WORKED])
    assert chat[2]["content"] == '{"call":{"name":"find","args":{"kind":"a"}}}' and "thought" not in str(chat)


def user_message(text):
    return {"role": "user", "content": text}


def test_examples_of_other_tools_are_not_shown():
    other = dataclasses.replace(WORKED, tools=frozenset({"find", "elsewhere"}))
    assert prompts.messages(seen(user("Hi")), prompts.design("worked"), [other])[1:] == [user_message("Hi")]


def test_messages_of_one_role_are_joined_and_unanswered_calls_are_told():
    history = (
        user("One."),
        user("Two."),
        {"role": "model", "parts": [call("find", {"kind": "a"}), call("find", {"kind": "b"})]},
        {"role": "user", "parts": [response("find", {"at": "x-1"}), response("find", {"at": "x-2"})]},
        user("Hurry."),
    )
    chat = prompts.messages(seen(*history), BARE, [])
    assert [m["role"] for m in chat] == ["system", "user", "assistant", "user"]
    assert chat[1]["content"] == "One.\nTwo."
    assert json.loads(chat[2]["content"]) == {
        "call": [{"name": "find", "args": {"kind": "a"}}, {"name": "find", "args": {"kind": "b"}}]
    }
    assert chat[3]["content"] == 'Result: {"at":"x-1"}\nResult: {"at":"x-2"}\nHurry.'


def test_a_mode_without_calls_and_thinking_switched_off_show_in_the_prompt():
    text = prompts.messages(seen(user("Hi"), mode="NONE", thinking=False), BARE, [])[0]["content"]
    assert text.endswith("Reply with one JSON object on one line. Its keys: answer (a sentence).")
    assert "answer" not in prompts.messages(seen(user("Hi"), mode="ANY"), BARE, [])[0]["content"]


# --- what may be decoded ------------------------------------------------------------------------------------

RIGHT = [
    {"thought": "t", "call": {"name": "find", "args": {"kind": "a", "many": [1]}}},
    {"thought": "t", "call": {"name": "stop", "args": {}}},
    {"thought": "t", "call": [{"name": "find", "args": {"kind": "a"}}, {"name": "stop", "args": {"why": "x"}}]},
    {"thought": "t", "answer": "x"},
]
WRONG = [
    {"thought": "t"},
    {"call": {"name": "find", "args": {"kind": "a"}}},
    {"thought": "t", "call": {"name": "find", "args": {"kind": "c"}}},
    {"thought": "t", "call": {"name": "find", "args": {"kind": "a", "else": 1}}},
    {"thought": "t", "call": {"name": "other", "args": {}}},
    {"thought": "t", "call": [{"name": "stop", "args": {}}]},
    {"thought": "t" * 201, "answer": "x"},
]


def valid(value, **options):
    return jsonschema.Draft202012Validator(prompts.schema(seen(user("Hi"), **options), BARE)).is_valid(value)


@pytest.mark.parametrize("value", RIGHT)
def test_calls_one_or_several_and_answers_may_be_decoded(value):
    assert valid(value)
    assert valid(value, mode="NONE") == ("answer" in value)
    assert valid(value, mode="ANY") == ("call" in value)
    assert not valid(value, thinking=False)
    assert valid({k: v for k, v in value.items() if k != "thought"}, thinking=False)


@pytest.mark.parametrize("value", WRONG)
def test_what_the_tools_do_not_take_may_not_be_decoded(value):
    assert not valid(value)


def test_only_the_functions_that_a_request_allows_may_be_called():
    calling = {"mode": "ANY", "allowedFunctionNames": ["stop"]}
    body = {"contents": [user("Hi")], "tools": TOOLS, "toolConfig": {"functionCallingConfig": calling}}
    validator = jsonschema.Draft202012Validator(prompts.schema(view.read(body, G25), BARE))
    assert [validator.is_valid(value) for value in RIGHT] == [False, True, False, False]


def test_definitions_are_put_in_place_and_recursive_ones_end():
    declared = {
        "name": "tree",
        "parametersJsonSchema": {
            "type": "object",
            "properties": {"root": {"$ref": "#/$defs/node"}, "size": {"$ref": "#/$defs/size"}},
            "required": ["root"],
            "$defs": {
                "size": {"type": "integer"},
                "node": {"type": "object", "properties": {"left": {"$ref": "#/$defs/node"}}},
            },
        },
    }
    body = {"contents": [user("Hi")], "tools": [{"functionDeclarations": [declared]}]}
    schema = prompts.schema(view.read(body, G25), BARE)
    assert "$ref" not in json.dumps(schema)
    validator = jsonschema.Draft202012Validator(schema)
    made = {"thought": "", "call": {"name": "tree", "args": {"root": {"left": {"left": {}}}, "size": 1}}}
    assert validator.is_valid(made)
    made["call"]["args"]["size"] = "large"
    assert not validator.is_valid(made)


# --- reading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", RIGHT)
def test_what_may_be_decoded_is_read(value):
    reply = prompts.read(json.dumps(value), seen(user("Hi")))
    made = value.get("call", [])
    expected = tuple((c["name"], c["args"]) for c in (made if isinstance(made, list) else [made]))
    assert (reply.thought, reply.calls, reply.text) == ("t", expected, value.get("answer"))
    assert reply.finish == "STOP"


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"thought": "t", "call": {"name": "stop", "args": {"why": "x"}}}\n```',
        'Sure: {"thought": "t", "tool_calls": [{"function": {"name": "stop", "arguments": "{\\"why\\": \\"x\\"}"}}]}.',
        '<think>{"thought": "no"}</think> {"thought": "t", "tool": "stop", "parameters": {"why": "x"}}',
    ],
)
def test_other_spellings_of_a_call_are_understood(text):
    reply = prompts.read(text, seen(user("Hi")))
    assert (reply.thought, reply.calls) == ("t", (("stop", {"why": "x"}),))


@pytest.mark.parametrize(
    "text",
    [
        '{"thought": "t", "call": {"name": "find", "args"',
        '{"thought": "t", "call": {"name": "other", "args": {}}}',
        '{"thought": "t", "call": ["find"]}',
        '{"thought": "t", "call": {"name": "find", "args": "{broken"}}',
    ],
)
def test_a_call_that_is_cut_or_not_declared_is_malformed_in_the_words_of_the_api(text):
    reply = prompts.read(text, seen(user("Hi")))
    assert (reply.finish, reply.calls, reply.text) == ("MALFORMED_FUNCTION_CALL", (), None)
    assert reply.message.startswith("Malformed function call: ")


def test_words_without_an_object_are_the_answer():
    reply = prompts.read(" All is done. ", seen(user("Hi")))
    assert (reply.thought, reply.text, reply.calls) == (None, "All is done.", ())


def test_a_thought_is_dropped_where_thinking_is_off_and_a_call_where_none_may_be_made():
    assert prompts.read(json.dumps(RIGHT[3]), seen(user("Hi"), thinking=False)).thought is None
    assert prompts.read(json.dumps(RIGHT[0]), seen(user("Hi"), mode="NONE")).calls == ()


@hypothesis.given(st.text(alphabet='{}[]",:abc \\"callthought', max_size=60))
def test_no_text_breaks_the_reader(text):
    reply = prompts.read(text, seen(user("Hi")))
    assert reply.finish in ("STOP", "MALFORMED_FUNCTION_CALL")


def test_an_unknown_design_is_named():
    with pytest.raises(ValueError, match="unknown prompt 'x'; known: worked"):
        prompts.design("x")
    assert all(isinstance(one, Design) for one in prompts.DESIGNS.values())
