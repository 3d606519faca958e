"""Steps of the Interactions API against contents written by hand, in both directions."""

from __future__ import annotations

import copy

import pytest

from gemlab.wire import interaction_steps as steps


def thought(signature, *summary):
    said = {"summary": [{"type": "text", "text": text} for text in summary]} if summary else {}
    return {"type": "thought", **({"signature": signature} if signature else {}), **said}


def call(ident, name="f", **arguments):
    return {"type": "function_call", "id": ident, "name": name, "arguments": arguments}


def output(*texts):
    return {"type": "model_output", "content": [{"type": "text", "text": text} for text in texts]}


def asked(*texts):
    return {"type": "user_input", "content": [{"type": "text", "text": text} for text in texts]}


def fc(ident, name="f", signature=None, **args):
    part = {"functionCall": {"name": name, "args": args, "id": ident}}
    return {**part, "thoughtSignature": signature} if signature else part


def model(*parts):
    return {"role": "model", "parts": list(parts)}


def user(*parts):
    return {"role": "user", "parts": list(parts)}


BOTH_WAYS = {
    "one call": ([thought("AA=="), call("1", x=2)], [model(fc("1", signature="AA==", x=2))]),
    "parallel calls: the first is signed": (
        [thought("AA=="), call("1"), call("2"), call("3")],
        [model(fc("1", signature="AA=="), fc("2"), fc("3"))],
    ),
    "a text": ([thought("AA=="), output("hi")], [model({"text": "hi", "thoughtSignature": "AA=="})]),
    "a text in pieces: the last is signed": (
        [thought("AA=="), output("h", "i")],
        [model({"text": "h"}, {"text": "i", "thoughtSignature": "AA=="})],
    ),
    "a text before a call: the call is signed": (
        [thought("AA=="), output("let me see"), call("1")],
        [model({"text": "let me see"}, fc("1", signature="AA=="))],
    ),
    "two thoughts": (
        [thought("AA=="), call("1"), thought("BB=="), call("2")],
        [model(fc("1", signature="AA=="), fc("2", signature="BB=="))],
    ),
    "a call and a signed text": (
        [thought("AA=="), call("1"), call("2"), thought("BB=="), output("done")],
        [model(fc("1", signature="AA=="), fc("2"), {"text": "done", "thoughtSignature": "BB=="})],
    ),
    "an empty text that carries the signature": (
        [thought("AA=="), output("")],
        [model({"text": "", "thoughtSignature": "AA=="})],
    ),
    "a signature alone": ([thought("AA==")], [model({"thoughtSignature": "AA=="})]),
    "a summary": (
        [thought("AA==", "I look", "twice"), call("1")],
        [model({"text": "I look", "thought": True}, {"text": "twice", "thought": True}, fc("1", signature="AA=="))],
    ),
    "a summary without a signature": ([thought(None, "hm")], [model({"text": "hm", "thought": True})]),
    "no thought": ([call("1"), call("2")], [model(fc("1"), fc("2"))]),
    "a conversation": (
        [
            asked("q"), thought("AA=="), call("1"), call("2"),
            {"type": "function_result", "name": "f", "call_id": "1", "result": {"v": [1, {"w": None}]}},
            {"type": "function_result", "name": "f", "call_id": "2", "result": {"error": "gone"}},
            asked("and?", "quick"), asked("please"), thought("BB=="), output("so"),
        ],
        [
            user({"text": "q"}),
            model(fc("1", signature="AA=="), fc("2")),
            user(
                {"functionResponse": {"name": "f", "id": "1", "response": {"v": [1, {"w": None}]}}},
                {"functionResponse": {"name": "f", "id": "2", "response": {"error": "gone"}}},
            ),
            user({"text": "and?"}, {"text": "quick"}),
            user({"text": "please"}),
            model({"text": "so", "thoughtSignature": "BB=="}),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "contents"), BOTH_WAYS.values(), ids=BOTH_WAYS)
def test_steps_and_contents_stand_for_each_other(given, contents):
    before = copy.deepcopy((given, contents))
    assert steps.contents(given) == contents
    assert steps.steps(contents) == given
    assert (given, contents) == before


ONE_WAY = {
    "plain text as content": ([{"type": "user_input", "content": "q"}], [user({"text": "q"})]),
    "a result that is a text": (
        [{"type": "function_result", "name": "f", "call_id": "1", "result": "42"}],
        [user({"functionResponse": {"name": "f", "id": "1", "response": {"result": "42"}}})],
    ),
    "a failed result that is a text": (
        [{"type": "function_result", "name": "f", "call_id": "1", "result": "gone", "is_error": True}],
        [user({"functionResponse": {"name": "f", "id": "1", "response": {"error": "gone"}}})],
    ),
    "a result in blocks": (
        [{"type": "function_result", "name": "f", "call_id": "1", "result": output("4", "2")["content"]}],
        [user({"functionResponse": {"name": "f", "id": "1", "response": {"result": "42"}}})],
    ),
    "media": (
        [
            {
                "type": "user_input",
                "content": [
                    {"type": "image", "data": "AAAA", "mime_type": "image/jpeg"},
                    {"type": "video", "uri": "gs://x"},
                ],
            }
        ],
        [
            user(
                {"inlineData": {"mimeType": "image/jpeg", "data": "AAAA"}},
                {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://x"}},
            )
        ],
    ),
    "a built-in tool's steps are passed over": (
        [thought("AA=="), {"type": "google_search_call", "id": "s"}, {"type": "google_search_result"}, output("so")],
        [model({"text": "so", "thoughtSignature": "AA=="})],
    ),
    "an unsigned empty thought says nothing": ([{"type": "thought"}], []),
}


@pytest.mark.parametrize(("given", "contents"), ONE_WAY.values(), ids=ONE_WAY)
def test_other_forms_of_steps_are_read(given, contents):
    assert steps.contents(given) == contents


def test_a_request_s_input_may_be_a_text():
    assert steps.contents_of({"input": "q"}) == [user({"text": "q"})]
    assert steps.contents_of({"input": [asked("q")]}) == [user({"text": "q"})]
    assert steps.contents_of({}) == []


def test_media_have_no_way_into_an_input():
    with pytest.raises(ValueError, match="only texts and function responses"):
        steps.steps([user({"inlineData": {"mimeType": "image/png", "data": "AAAA"}})])
