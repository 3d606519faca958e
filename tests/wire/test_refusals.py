"""Which 400s refuse the history: recorded ones, reported ones, the emulator's, and some made by hand."""

from __future__ import annotations

import json

import httpx2
import pytest

from gemlab import backends
from gemlab.wire import rules


def body(message, code=400):
    return {"error": {"code": code, "message": message, "status": "INVALID_ARGUMENT"}}


# --- recorded and reported ------------------------------------------------------------------------------------

# Of the kinds of errors.json with status 400, those that no other history would meet with. NOT-GOOGLE is a proxy's.
OTHERS = {"builtin+functions", "api-key", "context-length", "penalty", "NOT-GOOGLE"}


def test_reported_errors(shared):
    errors = json.loads((shared / "data" / "exchanges" / "errors.json").read_text("utf-8"))["errors"]
    bad = [e for e in errors if e["http_status"] == 400]
    assert len(bad) == 24
    for e in bad:
        assert rules.refuses_history(e["body"]) is (e["kind"] not in OTHERS), e["kind"]


def test_recorded_settings_are_refused_without_the_history_and_a_role_with_it(shared):
    recorded = json.loads((shared / "data" / "settings_refused.json").read_text("utf-8"))
    roles = 0
    for e in recorded:
        has_role = "invalid_role" in json.dumps(e["request"])
        roles += has_role
        assert rules.refuses_history(e["response"]["body"]) is has_role, e["origin"]["path"]
    # One body has a comma too many and is kept as text.
    assert roles == 3 and len(recorded) > 20


# Files of exchanges whose 400 names a place in the contents.
OF_HISTORY = {"pydantic__pydantic-ai/test_google_model_binary_image_detail.json"}


def test_recorded_exchanges(shared):
    folder = shared / "data" / "exchanges"
    told = {}
    for entry in json.loads((folder / "index.json").read_text("utf-8"))["files"]:
        for e in json.loads((folder / entry["file"]).read_text("utf-8"))["exchanges"]:
            if e["response"]["status"] == 400:
                told[entry["file"]] = told.get(entry["file"], False) or rules.refuses_history(e["response"]["body"])
    assert {file for file, refused in told.items() if refused} == OF_HISTORY and len(told) > 15


# --- by hand --------------------------------------------------------------------------------------------------

ABOUT_THE_HISTORY = [
    "Please ensure that multiturn requests alternate between user and model.",
    "Please ensure that single turn requests end with a user role or the role field is empty.",
    "Please ensure that function call turn contains at least one function_call part which can not be mixed with "
    "function_response parts.",
    "Please ensure that function response turn comes immediately after a function call turn. And the number of "
    "function response parts should be equal to number of function call parts of the function call turn.",
    "Content with system role is not supported.",
    "Role 'tool' is not supported. Please use a valid role: SYSTEM, USER.",
    "Unable to submit request because Thought signature is not valid.. Learn more: https://cloud.google.com/x",
    "Unable to submit request because it must include at least one parts field, which describes the prompt input.",
    "Unable to submit request because `function_response.parts` is not supported for this model.",
    "* GenerateContentRequest.contents: contents is not specified\n",
    "* GenerateContentRequest.contents[3].role: something new\n",
    "contents[4].parts[1]: Tool call part is missing thought_signature",
    "Invalid value at 'contents' (type.googleapis.com/google.ai.generativelanguage.v1beta.Content), 5",
    "Invalid value at 'contents[0].role' (TYPE_STRING), 5",
    "Invalid JSON payload received. Unknown name \"id\" at 'contents[1].parts[0].function_call': Cannot find field.",
    "Invalid JSON payload received. Unknown name \"x\" at 'generation_config': Cannot find field.\n"
    "Invalid JSON payload received. Unknown name \"y\" at 'contents[0]': Cannot find field.",
    "A rule of next year: functionResponse.id names no functionCall.id.",
    "The thought_signature has expired.",
]
ABOUT_OTHER_THINGS = [
    "",
    "User location is not supported for the API use.",
    "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).",
    "Request contains an invalid argument.",
    "Request payload size exceeds the limit: 20971520 bytes.",
    "Function calling is not enabled for models/gemini-3.6-flash",
    "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with Function calling.",
    "streaming function call is not supported in unary API.",
    "Thinking level MINIMAL is not supported for this model. Please retry with other thinking level.",
    "You can only set only one of thinking budget and thinking level.",
    "Invalid CachedContent name: 1234567890.",
    "Cannot fetch content from the provided URL. Please ensure the URL is valid and accessible by Vertex AI.",
    "A rule of next year that nobody has read yet, about turns and calls.",
    # What a message repeats is the user's, not the API's.
    "Invalid value at 'generation_config.response_mime_type' (TYPE_STRING), \"contents[0].parts[0]\"",
    'Invalid value at \'system_instruction\' (x), {"parts": "Corrupted thought signature. contents[0].ro',
    "Invalid JSON payload received. Unknown name \"contents[0].parts\" at 'generation_config': Cannot find field.",
    'Invalid JSON payload received. Unexpected token.\n{contents[0].role: "x"}\n ^',
    "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties[function_call].type: bad\n",
    "* GenerateContentRequest.generation_config.response_schema.properties[contents].items: missing field.\n",
    "* GenerateContentRequest.system_instruction.parts[0].data: required oneof field 'data'\n",
    "Unable to submit request because `role` functionDeclaration `parameters.parts` schema has no type field.",
    "Unable to submit request because one thing. Learn more: https://example.com/docs/contents[0].parts",
]


@pytest.mark.parametrize("message", ABOUT_THE_HISTORY)
def test_texts_about_the_history(message):
    assert rules.refuses_history(body(message))


@pytest.mark.parametrize("message", ABOUT_OTHER_THINGS)
def test_texts_about_other_things(message):
    assert not rules.refuses_history(body(message))


ALTERED = body("Corrupted thought signature.")
HTML = "<!DOCTYPE html><html><body>400 Bad Request: contents[0].parts, Corrupted thought signature.</body></html>"


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        (ALTERED, True),
        ([ALTERED], True),
        (json.dumps(ALTERED), True),
        # As google-genai hands over what it cannot read, and as a proxy wraps what it was told.
        ({"message": json.dumps([ALTERED]), "status": "Bad Request"}, True),
        ({"error": {"code": 400, "message": json.dumps(ALTERED, indent=2), "status": "Bad Request"}}, True),
        ({"error": {"code": 400, "message": json.dumps(body("API key not valid.")), "status": "x"}}, False),
        *(({"message": text, "status": "Bad Request"}, False) for text in ("", HTML)),
        *((given, False) for given in (None, "", HTML, [], {}, [None], {"error": None}, {"error": "no"})),
        *((body(message), False) for message in (None, 5, ["contents[0]"])),
        ({"message": "functionResponse.id does not match functionCall.id"}, False),
    ],
)
def test_forms_of_a_body(given, refused):
    assert rules.refuses_history(given) is refused


def test_the_interactions_api_says_less_and_only_of_its_own_words_that_is_enough():
    generic = "Request contains an invalid argument."
    assert rules.refuses_history({"error": {"message": generic, "code": "invalid_request"}})
    assert not rules.refuses_history(body(generic))


# --- the emulator ---------------------------------------------------------------------------------------------

ASK = [{"role": "user", "parts": [{"text": "q"}]}]
SETTINGS = {
    "no JSON": b'{"contents": [{"parts": [}',
    "no object": b"[]",
    "an unknown field": {"contents": ASK, "role": "user"},
    "an unknown setting": {"contents": ASK, "generationConfig": {"contents": 1}},
    "a setting of another type": {"contents": ASK, "generationConfig": {"seed": "contents[0]"}},
    "a system instruction of another type": {"contents": ASK, "systemInstruction": {"parts": [{"text": 5}]}},
    "an unknown field of a tool": {"contents": ASK, "tools": [{"functionCall": 1}]},
    "a declaration that is none": {"contents": ASK, "tools": [{"functionDeclarations": [{"name": ["function_call"]}]}]},
    "an unknown mode": {"contents": ASK, "toolConfig": {"functionCallingConfig": {"mode": "function_call"}}},
    "level and budget": {
        "contents": ASK, "generationConfig": {"thinkingConfig": {"thinkingBudget": 1, "thinkingLevel": "LOW"}}
    },
    "a level that is not the model's": {
        "contents": ASK, "generationConfig": {"thinkingConfig": {"thinkingLevel": "MINIMAL"}}
    },
}  # fmt: skip
HISTORIES = {
    "no contents": {},
    "contents of another type": {"contents": 5},
    "an unknown field of a content": {"contents": [{**ASK[0], "name": "x"}]},
    "an unknown field of a part": {"contents": [{"parts": [{"text": "q", "signature": "x"}]}]},
    "two kinds of data in a part": {"contents": [{"parts": [{"text": "q", "functionCall": {"name": "a"}}]}]},
    "arguments that are no object": {"contents": [{"parts": [{"functionCall": {"name": "a", "args": 5}}]}]},
    "and a setting": {"contents": [{"role": 5, "parts": [{"text": "q"}]}], "generationConfig": {"seed": "x"}},
}


@pytest.mark.parametrize("path", ["/v1beta/models/", "/v1/publishers/google/models/"])
@pytest.mark.parametrize("name", [*SETTINGS, *HISTORIES])
async def test_what_the_emulator_refuses(name, path):
    """The rules of a history are in test_rules, those of interactions in test_interactions."""
    given = {**SETTINGS, **HISTORIES}[name]
    raw = given if isinstance(given, bytes) else json.dumps(given).encode()
    transport = httpx2.ASGITransport(backends.emulator(routes={}))
    async with httpx2.AsyncClient(transport=transport, base_url="http://emulator") as client:
        response = await client.post(f"{path}gemini-3.8-flash:generateContent", content=raw)
    assert response.status_code == 400, response.text
    assert rules.refuses_history(response.json()) is (name in HISTORIES), response.text
