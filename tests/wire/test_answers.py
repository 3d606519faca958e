"""Reading answers: a stream folds into the content that an unary answer would have had, signatures in place."""

import pytest

from gemlab.wire import answers
from gemlab.wire import contents as wire


def fc(name, **more):
    return {"functionCall": {"name": name, "args": {}, **more}}


def chunk(*parts, finish=None, **body):
    candidate = {"content": {"parts": list(parts), "role": "model"}}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **body}


def test_a_signature_on_an_empty_last_part_stays_there_and_the_text_reads_whole():
    end = {"text": "", "thoughtSignature": "Uw=="}
    answer = answers.fold([chunk({"text": "Hi"}), chunk({"text": " there"}), chunk(end, finish="STOP")])
    assert answer.content == {"parts": [{"text": "Hi there"}, end], "role": "model"}
    assert wire.answer_text(answer.content) == "Hi there"
    assert answer.finish_reason == "STOP"


def test_a_signed_text_is_merged_with_nothing():
    first = {"text": "Hi", "thoughtSignature": "Uw=="}
    answer = answers.fold([chunk(first), chunk({"text": " the"}), chunk({"text": "re"})])
    assert answer.content["parts"] == [first, {"text": " there"}]


def test_parts_keep_order_and_signatures_their_place():
    parts = [fc("a"), {"text": "why", "thought": True, "thoughtSignature": "Uw=="}, fc("b")]
    assert answers.fold([chunk(*parts)]).content["parts"] == parts
    text_then_call = [{"text": "Let me see."}, {**fc("a"), "thoughtSignature": "Uw=="}]
    answer = answers.fold([chunk(p) for p in text_then_call])
    assert answer.content["parts"] == text_then_call


def test_thoughts_and_text_are_not_joined_and_blank_unsigned_parts_go():
    thought, text = {"text": "hm", "thought": True}, {"text": "yes"}
    blank, blank_thought = {"text": ""}, {"text": "", "thought": True}
    answer = answers.fold([chunk(thought), chunk(blank_thought), chunk(thought), chunk(text), chunk(blank)])
    assert answer.content["parts"] == [{"text": "hmhm", "thought": True}, text]
    assert wire.answer_text(answer.content) == "yes"


def test_parallel_calls_of_a_stream_become_one_content():
    signed = {**fc("a", id="1"), "thoughtSignature": "Uw=="}
    answer = answers.fold([chunk(signed), chunk(fc("b", id="2")), chunk({"text": ""}, finish="STOP")])
    assert answer.content["parts"] == [signed, fc("b", id="2")]


def test_a_stream_keeps_why_it_ended():
    ended = {
        "candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "Malformed function call: x("}]
    }
    last = {"candidates": [{}], "usageMetadata": {"promptTokenCount": 1}}
    for chunks in ([chunk({"text": "Hi"}), ended], [ended, last]):
        answer = answers.fold(chunks)
        assert (answer.finish_reason, answer.message) == ("MALFORMED_FUNCTION_CALL", "Malformed function call: x(")


def test_tokens_that_are_not_counted_are_none():
    counts = {"promptTokenCount": 7, "candidatesTokenCount": 2, "thoughtsTokenCount": 3, "totalTokenCount": 12}
    counted = answers.read(chunk({"text": "Hi"}, usageMetadata=counts))
    assert (counted.prompt_tokens, counted.output_tokens) == (7, 5)
    silent = answers.read(chunk({"text": "Hi"}, usageMetadata={"promptTokenCount": None}))
    assert (silent.prompt_tokens, silent.output_tokens) == (0, 0)


def test_the_last_usage_of_a_stream_counts():
    bodies = [
        chunk({"text": "a"}, usageMetadata={"candidatesTokenCount": 1}, modelVersion="gemini-3-flash-preview"),
        chunk({"text": "b"}, usageMetadata={"candidatesTokenCount": 2}, finish="STOP"),
    ]
    answer = answers.fold(bodies)
    assert answer.usage == {"candidatesTokenCount": 2}
    assert answer.served == "gemini-3-flash-preview"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"candidates": []},
        {"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL"}]},
        {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]},
        {"candidates": [{"finishReason": "UNEXPECTED_TOOL_CALL"}]},
        {"promptFeedback": {"blockReason": "SAFETY"}},
    ],
)
def test_an_answer_without_parts_has_no_content_but_keeps_its_finish_reason(body):
    candidates = body.get("candidates") or [{}]
    for answer in (answers.read(body), answers.fold([body])):
        assert answer.content is None
        assert answer.finish_reason == candidates[0].get("finishReason")
        assert answer.served is None
