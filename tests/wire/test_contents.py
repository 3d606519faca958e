"""Reading wire contents: spellings, signatures as bytes, turns, steps, pairing, streams folded into one."""

from __future__ import annotations

import base64
import json

import pytest

from gemlab.wire import contents as wire


def user(*parts, role="user"):
    return {"role": role, "parts": [{"text": p} if isinstance(p, str) else p for p in parts]}


def model(*parts):
    return user(*parts, role="model")


def fc(name, **more):
    return {"functionCall": {"name": name, "args": {}, **more}}


def fr(name, **more):
    return {"functionResponse": {"name": name, "response": {}, **more}}


# --- spellings ----------------------------------------------------------------------------------------------


def test_normalise_reads_both_spellings_alike():
    snake = {"parts": [{"function_call": {"name": "a", "args": {}}, "thought_signature": "Uw=="}]}
    camel = {"parts": [{"functionCall": {"name": "a", "args": {}}, "thoughtSignature": "Uw=="}]}
    assert wire.normalise(snake) == camel
    assert wire.normalise(camel) == camel


@pytest.mark.parametrize(
    ("owner", "key"),
    [("function_call", "args"), ("function_response", "response"), ("tool", "parameters_json_schema")],
)
def test_normalise_leaves_data_of_the_user_alone(owner, key):
    data = {"user_id": 1, "nested": [{"thought_signature": "mine"}]}
    out = wire.normalise({owner: {key: data}})
    (inner,) = out.values()
    assert next(iter(inner.values())) is data


def test_normalise_shares_what_is_camel_case_and_never_changes_its_argument():
    body = {"contents": [model(fc("a")), {"role": "user", "parts": [{"function_response": {"name": "a"}}]}]}
    before = json.dumps(body)
    out = wire.normalise(body)
    assert out["contents"][0] is body["contents"][0]
    assert out["contents"][1] == {"role": "user", "parts": [{"functionResponse": {"name": "a"}}]}
    assert json.dumps(body) == before
    assert wire.normalise(out) is out


# --- signatures ---------------------------------------------------------------------------------------------

RAW = b"\xfb\xff\xbf"


@pytest.mark.parametrize("text", ["+/+/", "-_-_", "+_-/"])
def test_both_base64_alphabets_are_the_same_signature(text):
    assert wire.decode_signature(text) == RAW


@pytest.mark.parametrize("text", ["-w==", "+w==", "-w", "+w", "-w="])
def test_padding_does_not_matter(text):
    assert wire.decode_signature(text) == b"\xfb"


@pytest.mark.parametrize(
    "text",
    ["Ky8rLw==", "LV8tXw==", "+/+", "-_-", "+/+/+/+/"],
    ids=["text encoded twice", "url text encoded twice", "cut", "url cut", "doubled"],
)
def test_other_text_is_not_the_same_signature(text):
    assert wire.decode_signature(text) != RAW


@pytest.mark.parametrize("empty", ["", None, b""])
def test_an_empty_signature_is_a_missing_one(empty):
    assert wire.decode_signature(empty) is None
    assert wire.signature({"text": "x", "thoughtSignature": empty}) is None


@pytest.mark.parametrize("text", ["***", "a", "ab cd", "+/=+/", "=", "ä", "\ud800", "<stripped: 9 chars>", b"+/+/"])
def test_what_is_not_base64_text_is_said_to_be_not(text):
    with pytest.raises(wire.NotBase64):
        wire.decode_signature(text)


def test_encoding_is_standard_padded_base64():
    assert wire.encode_signature(RAW) == "+/+/"
    assert wire.encode_signature(b"\xfb") == "+w=="


def test_a_signature_encoded_twice_or_base64_text_as_bytes_is_detected():
    raw = bytes(range(200, 248))
    once = base64.b64encode(raw)
    assert wire.encoded_twice(once)
    assert wire.encoded_twice(base64.urlsafe_b64encode(raw))
    assert wire.encoded_twice(base64.b64encode(once))
    assert not wire.encoded_twice(raw)
    assert not wire.encoded_twice(b"skip_thought_signature_validator")


@pytest.mark.parametrize("name", ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"])
def test_dummies_are_known_raw_and_as_base64_of_their_ascii(name):
    encoded = base64.b64encode(name.encode()).decode()
    for text in (name, encoded, encoded.rstrip("=")):
        assert wire.dummy_name(wire.decode_signature(text)) == name
    assert wire.dummy_name(wire.decode_signature(name[:-4])) is None
    assert wire.dummy_name(None) is None


# --- turns and steps ----------------------------------------------------------------------------------------

STEP = (model(fc("a")), user(fr("a")))


@pytest.mark.parametrize(
    ("history", "start"),
    [
        ([], 0),
        ([user("q")], 1),
        ([user("q"), *STEP], 1),
        ([user("q"), *STEP, model("done"), user("more"), *STEP], 5),
        ([user("q"), user("and"), *STEP], 2),
        ([user("q"), model(fc("a")), user(fr("a"), "beside it"), *STEP], 1),
        ([user("q"), model(fc("a")), user("before it", fr("a"))], 1),
        ([user("q"), *STEP, user({"inlineData": {"mimeType": "image/png", "data": ""}}), *STEP], 4),
        ([user("q"), *STEP, user({"thoughtSignature": "Uw=="}), *STEP], 1),
        ([{"parts": [{"text": "q"}]}, *STEP], 1),
        ([*STEP, *STEP], 0),
    ],
    ids=[
        "nothing", "just asked", "one step", "second turn", "two user contents", "text beside a response",
        "text before a response", "media opens a turn", "a bare signature does not", "role left out",
        "tools only",
    ],
)  # fmt: skip
def test_the_current_turn_starts_after_the_newest_user_text_or_media(history, start):
    assert wire.current_turn(history) == start


def test_groups_are_user_messages_and_whole_steps():
    history = [user("q"), user("and"), *STEP, model(fc("a")), model(fc("b")), user(fr("a"), fr("b")), model("x")]
    found = wire.groups(history)
    assert [(g.start, len(g.contents), g.is_step) for g in found] == [
        (0, 1, False),
        (1, 1, False),
        (2, 2, True),
        (4, 3, True),
        (7, 1, True),
    ]
    assert [c for g in found for c in g.contents] == history


def test_responses_in_two_contents_belong_to_one_step():
    found = wire.groups([user("q"), model(fc("a"), fc("b")), user(fr("a")), user(fr("b"))])
    assert [len(g.contents) for g in found] == [1, 3]


@pytest.mark.parametrize(
    ("made", "given", "paired"),
    [
        ([("a", "1"), ("a", "2")], [("a", "2"), ("a", "1")], [1, 0]),
        ([("a", None), ("b", None), ("a", None)], [("a", None), ("a", None), ("b", None)], [0, 2, 1]),
        ([("a", "1"), ("a", "2")], [("a", None), ("a", None)], [0, 1]),
        ([("a", None)], [("a", "9")], [0]),
        ([("a", "1")], [("a", "9")], [None]),
        ([("a", "1"), ("b", "2")], [("b", "2")], [None, 0]),
    ],
    ids=["by id", "in order within the name", "ids left out", "id only in the response", "another id", "one open"],
)
def test_pairing_is_by_id_else_in_order_within_the_name(made, given, paired):
    def entry(name, ident, n):
        return {"name": name, "n": n} | ({"id": ident} if ident else {})

    calls = [entry(*m, n) for n, m in enumerate(made)]
    responses = [entry(*g, n) for n, g in enumerate(given)]
    pairs = wire.pair(calls, responses)
    assert [c for c, _ in pairs] == calls
    assert [r and r["n"] for _, r in pairs] == paired


def test_call_keys_ignore_key_order_and_ids_but_not_array_order():
    one = {"name": "a", "args": {"x": [1, 2], "y": {"b": 1, "a": 2}}, "id": "1"}
    same = {"name": "a", "args": {"y": {"a": 2, "b": 1}, "x": [1, 2]}, "id": "2"}
    other = {"name": "a", "args": {"x": [2, 1], "y": {"b": 1, "a": 2}}}
    assert wire.call_key(one) == wire.call_key(same) != wire.call_key(other)
    assert wire.call_key({"name": "a", "args": None}) == wire.call_key({"name": "a"})


def test_a_history_saved_as_json_and_loaded_sends_the_same_bytes(tmp_path):
    history = [
        user("q"),
        model({**fc("a", id="1"), "thoughtSignature": "+/+/"}, fc("b")),
        user(fr("a", id="1"), fr("b")),
        model({"text": "", "thoughtSignature": "-_-_"}),
    ]
    file = tmp_path / "history.json"
    file.write_text(json.dumps(history), "utf-8")
    loaded = json.loads(file.read_text("utf-8"))
    assert json.dumps(loaded) == json.dumps(history)
    assert [wire.signatures(c) for c in loaded] == [[], [RAW], [], [RAW]]


@pytest.mark.parametrize(
    ("response", "given"),
    [
        ({"output": {"a": 1}}, {"a": 1}),
        ({"result": {"a": 1}}, {"a": 1}),
        ({"result": {"a": 1}, "notice": "stop"}, {"a": 1, "notice": "stop"}),
        ({"result": 5}, {"result": 5}),
        ({"result": {"a": 1}, "more": 2}, {"result": {"a": 1}, "more": 2}),
        ({"error": "no"}, {"error": "no"}),
        (None, None),
    ],
)
def test_what_a_function_gave_back_may_stand_under_a_key_of_its_own(response, given):
    """By the API's documentation under `output`; google-genai's automatic calling puts it under `result`."""
    assert wire.output(response) == given
