"""Properties of answers in any form: streams say what unary answers say, counts add up, thoughts and signatures."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemlab.emulator.answer import forms
from gemlab.emulator.app import create_app
from gemlab.emulator.minds import view
from gemlab.emulator.minds.view import Reply
from gemlab.wire import answers, families
from gemlab.wire import contents as wire

OLD, G25, G36 = "gemini-3-flash-preview", "gemini-2.5-flash", "gemini-3.6-flash"
MODELS = ("gemini-2.0-flash", "gemini-2.5-flash-lite", "gemini-2.5-pro", G25, OLD, "gemini-3.5-flash", G36)
TOOLS = [{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}]
ASK = {"contents": [{"role": "user", "parts": [{"text": "q"}]}]}
SHARES = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount")

prose = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=400)
sections = st.lists(prose, min_size=1, max_size=3).map(lambda xs: "".join(f"**Head**\n\n{x}\n\n\n" for x in xs))
calls = st.lists(st.tuples(st.sampled_from("ab"), st.dictionaries(prose, st.integers(), max_size=2)), max_size=3)
replies = st.builds(Reply, st.none() | prose | sections, calls.map(tuple), st.none() | prose)
profiles = st.builds(families.profile, st.sampled_from(MODELS), st.sampled_from([families.DEVELOPER, families.VERTEX]))
thinking = st.fixed_dictionaries(
    {}, optional={"includeThoughts": st.booleans(), "thinkingBudget": st.sampled_from([0, 512])}
)
requests = st.fixed_dictionaries(
    {"generationConfig": st.fixed_dictionaries({"thinkingConfig": thinking})},
    optional={"tools": st.just(TOOLS), "systemInstruction": st.just({"parts": [{"text": "Be brief."}]})},
).map(lambda extra: {**ASK, **extra})


def answered(reply: Reply, body: dict[str, Any], profile: families.Profile) -> tuple[dict, list[dict]]:
    """Return both forms of an answer, as read from their JSON."""
    seen = view.read(body, profile)
    both = forms.unary(reply, body, seen, profile), forms.stream(reply, body, seen, profile)
    return json.loads(json.dumps(both))


def parts_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    return body["candidates"][0]["content"]["parts"]


# --- streams and counts -------------------------------------------------------------------------------------


@given(replies, requests, profiles)
def test_a_stream_says_what_the_unary_answer_says(reply, body, profile):
    whole, chunks = answered(reply, body, profile)
    said, unary = answers.fold(chunks), answers.read(whole)
    streamed = [p for c in chunks for p in parts_of(c)]
    assert [p["functionCall"]["name"] for p in streamed if "functionCall" in p] == [name for name, _ in reply.calls]
    assert [c.get("args") for c in wire.calls({"parts": streamed})] == [args for _, args in reply.calls]
    for kind in (True, False):
        texts = [
            "".join(p.get("text", "") for p in ps if wire.is_thought(p) == kind) for ps in (parts_of(whole), streamed)
        ]
        assert texts[0] == texts[1]
    assert wire.signatures({"parts": streamed}) == wire.signatures({"parts": parts_of(whole)})
    assert said.usage == unary.usage
    assert [c["candidates"][0].get("finishReason") for c in chunks] == [None] * (len(chunks) - 1) + ["STOP"]
    assert len({c["responseId"] for c in chunks}) == 1


@given(replies, requests, profiles)
def test_counts_add_up_and_only_grow(reply, body, profile):
    whole, chunks = answered(reply, body, profile)
    counted = [b["usageMetadata"] for b in (*chunks, whole) if "totalTokenCount" in b["usageMetadata"]]
    for usage in counted:
        assert usage["totalTokenCount"] == sum(usage.get(key, 0) for key in SHARES)
        assert usage["promptTokenCount"] == sum(d["tokenCount"] for d in usage["promptTokensDetails"])
        assert all(usage[key] > 0 for key in SHARES if key in usage)
    for key in SHARES:
        values = [usage.get(key, 0) for usage in counted]
        assert values == sorted(values)
    assert (len(counted) == 2) == (profile.service == families.VERTEX or len(chunks) == 1)


# --- thoughts -----------------------------------------------------------------------------------------------


@given(replies, requests, profiles)
def test_thoughts_are_shown_where_asked_for_first_and_unsigned(reply, body, profile):
    asked = body["generationConfig"]["thinkingConfig"]
    budget = asked.get("thinkingBudget")
    # Without a budget, 2.0 and 2.5-flash-lite do not think; 3.x always does.
    alone = profile.model not in ("gemini-2.0-flash", "gemini-2.5-flash-lite")
    thinks = profile.strict or (alone if budget is None else budget > 0)
    shown = bool(reply.thought) and thinks and asked.get("includeThoughts", False)
    whole, chunks = answered(reply, body, profile)
    for parts in (parts_of(whole), [p for c in chunks for p in parts_of(c)]):
        kinds = [wire.is_thought(p) for p in parts]
        assert kinds == sorted(kinds, reverse=True)
        assert any(kinds) == shown
        assert not any("thoughtSignature" in p for p in parts if wire.is_thought(p))
        assert len(wire.signatures({"parts": parts})) <= (reply.thought is not None and thinks)
    spent = whole["usageMetadata"].get("thoughtsTokenCount", 0)
    assert (spent > 0) == (bool(reply.thought) and thinks)


@pytest.mark.parametrize(("model", "as_they_come"), [(OLD, False), ("gemini-2.5-pro", True)])
def test_thoughts_count_as_they_come_on_2_5_and_when_they_are_over_on_3(model, as_they_come):
    reply = Reply("**One**\n\n" + "x" * 40 + "**Not a head**\n**Two**\n\n" + "y" * 10, text="Yes.")
    body = {**ASK, "generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
    _, chunks = answered(reply, body, families.profile(model))
    shown = [c["usageMetadata"].get("thoughtsTokenCount", 0) for c in chunks if parts_of(c)[0].get("thought")]
    assert len(shown) == 2
    whole = -(-len(reply.thought) // 4)
    assert shown[1] == (whole if as_they_come else 0) and (0 < shown[0] < whole) == as_they_come
    assert chunks[-1]["usageMetadata"]["thoughtsTokenCount"] == whole


@given(prose, st.sampled_from([G25, OLD, "gemini-3.5-flash", G36]))
def test_signatures_are_as_long_as_recorded_ones(thought, model):
    """72 characters at least; 5 to 7 a thought token, where the thought is more than a few words."""
    whole, _ = answered(Reply(thought, (("a", {}),)), {**ASK, "tools": TOOLS}, families.profile(model))
    (signature,) = [p["thoughtSignature"] for p in parts_of(whole) if "thoughtSignature" in p]
    assert len(signature) >= 72 and len(signature) % 4 == 0
    if len(thought) >= 100:
        assert 5 <= len(signature) / whole["usageMetadata"]["thoughtsTokenCount"] <= 7


@given(st.lists(prose, min_size=1, max_size=3), st.sampled_from([G25, OLD, "gemini-3.5-flash", G36]))
def test_signatures_sent_back_cost_the_thoughts_they_carry(thoughts, model):
    profile = families.profile(model)
    signed = {**ASK, "tools": TOOLS, "contents": list(ASK["contents"])}
    spent = 0
    for number, thought in enumerate(thoughts):
        whole, _ = answered(Reply(thought, (("a", {"n": number}),)), signed, profile)
        spent += whole["usageMetadata"]["thoughtsTokenCount"]
        call = wire.calls(whole["candidates"][0]["content"])[0]
        back = {"functionResponse": {k: v for k, v in call.items() if k != "args"} | {"response": {"ok": 1}}}
        signed["contents"] += [whole["candidates"][0]["content"], {"role": "user", "parts": [back]}]
    bare = json.loads(json.dumps(signed))
    for content in bare["contents"]:
        for part in content["parts"]:
            part.pop("thoughtSignature", None)
    prompts = [answered(Reply(text="x"), b, profile)[0]["usageMetadata"]["promptTokenCount"] for b in (signed, bare)]
    assert prompts[0] - prompts[1] == spent


def test_an_empty_thought_signs_and_costs_nothing():
    """As in recorded answers of 3.1-flash-lite: 72 characters, and no thoughtsTokenCount."""
    whole, chunks = answered(Reply("", text="x"), ASK, families.profile(OLD))
    assert len(parts_of(whole)[0]["thoughtSignature"]) == 72
    assert "thoughtSignature" in parts_of(chunks[-1])[0]
    assert "thoughtsTokenCount" not in whole["usageMetadata"]


# --- media --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "expected"),
    [(G25, {"AUDIO": 258, "DOCUMENT": 258, "IMAGE": 516}), (OLD, {"AUDIO": 1088, "IMAGE": 3 * 1088})],
)
def test_media_count_by_modality_also_within_responses(model, expected):
    blobs = [{"inlineData": {"mimeType": t, "data": "AAAA"}} for t in ("image/png", "audio/mpeg", "application/pdf")]
    inner = {"functionResponse": {"name": "a", "response": {}, "parts": [{"fileData": {"mimeType": "image/jpeg"}}]}}
    body = {"contents": [{"role": "user", "parts": [{"text": "q"}, *blobs, inner]}]}
    whole, _ = answered(Reply(text="x"), body, families.profile(model))
    details = {d["modality"]: d["tokenCount"] for d in whole["usageMetadata"]["promptTokensDetails"]}
    assert details.pop("TEXT") < 40
    assert details == expected


# --- bytes --------------------------------------------------------------------------------------------------


class Says:
    def respond(self, seen):
        return Reply(calls=(("a", {}),)) if seen.declared else Reply(text="Grüße <&> it's")


async def raw(method: str, body: dict[str, Any]) -> bytes:
    app = create_app(Says(), routes={})
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://emulator") as client:
        return (await client.post(f"/v1beta/models/{G25}:{method}", json=body)).content


async def test_events_are_written_as_recorded():
    """One line each, a blank after colons and none after commas, characters as they are, CRLF twice."""
    text = (await raw("streamGenerateContent?alt=sse", ASK)).decode()
    start = 'data: {"candidates": [{"content": {"parts": [{"text": "Grüße <&> it\'s"}],"role": "model"},"finishReason"'
    assert text.startswith(start + ': "STOP","index": 0}],"usageMetadata": {"promptTokenCount": 1,')
    assert text.endswith('"}\r\n\r\n') and text.count("\n") == 2


async def test_bodies_and_arrays_are_printed_as_recorded():
    """Two blanks a level; an array's elements start at the margin, parted by LF, comma, CR LF."""
    unary = (await raw("generateContent", {**ASK, "tools": TOOLS})).decode()
    assert unary.startswith('{\n  "candidates": [\n    {\n      "content": {\n        "parts": [\n          {\n')
    assert (
        '            "functionCall": {\n              "name": "a",\n              "args": {}\n            }\n' in unary
    )
    assert unary.endswith('"\n}\n')
    array = (await raw("streamGenerateContent", {**ASK, "contents": ASK["contents"] * 2})).decode()
    assert array.startswith('[{\n  "candidates": [\n') and array.endswith('"\n}\n]')
