import asyncio
import copy
import json

import httpx2
import pytest
from google import genai
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from gemlab import backends, tasks
from gemlab.agent import history
from gemlab.emulator.minds.scripted import Parameters
from gemlab.tasks import ecpm
from gemlab.wire import answers, contents, families, rules

S1, S2, S3 = (contents.encode_signature(bytes([n]) * 60) for n in (251, 252, 253))

# The strategies that need neither a donor nor a server that keeps the history.
PLAIN = [n for n in history.STRATEGIES.names() if n not in (*history.DONATED, *history.BY_INTERACTIONS)]


def user(text):
    return {"role": "user", "parts": [{"text": text}]}


def call(name, ident=None, signed=None, **args):
    part = {"functionCall": {"name": name, "args": args, **({"id": ident} if ident else {})}}
    return {**part, **({"thoughtSignature": signed} if signed else {})}


def response(name, ident=None):
    return {"functionResponse": {"name": name, **({"id": ident} if ident else {}), "response": {"of": name}}}


def text(words, signed=None):
    return {"text": words, **({"thoughtSignature": signed} if signed else {})}


def thought(words):
    return {"text": words, "thought": True}


def model(*parts):
    return {"role": "model", "parts": list(parts)}


def given_back(*parts):
    return {"role": "user", "parts": list(parts)}


BATCH = model(thought("hm"), call("b", "i2", S1), call("a", "i1"))
RESPONSES = given_back(response("b", "i2"), response("a", "i1"))
IDLESS = model(call("b", signed=S1, x=1), call("b", x=0), call("a", x=2))
TWICE = contents.encode_signature(S1.encode())


@pytest.mark.parametrize(
    ("name", "answer", "stored"),
    [
        pytest.param("reorder", BATCH, [model(thought("hm"), call("a", "i1"), call("b", "i2", S1))], id="by id"),
        pytest.param(
            "reorder", IDLESS, [model(call("a", x=2), call("b", x=0), call("b", signed=S1, x=1))], id="by name"
        ),
        pytest.param("split", BATCH, [model(thought("hm"), call("b", "i2", S1)), model(call("a", "i1"))], id="split"),
        pytest.param(
            "merge_text",
            model(text("Hi"), text(" there"), text("", S1)),
            [model(text("Hi there"))],
            id="signature on the last of the stream",
        ),
        pytest.param(
            "merge_text",
            model(thought("a"), thought("b"), text("Hi", S1), text(" you", S2)),
            [model(thought("ab"), text("Hi you", S1))],
            id="the first one's signature stays",
        ),
        pytest.param("merge_text", model(text("Hi"), {"thoughtSignature": S1}), [model(text("Hi"))], id="bare"),
        pytest.param("text_only", BATCH, [], id="calls only"),
        pytest.param(
            "text_only", model(thought("hm"), text("I'll"), text(" look", S1), call("a")), [model(text("I'll look"))],
            id="text beside a call",
        ),
        pytest.param(
            "copy_to_siblings", BATCH, [model(thought("hm"), call("b", "i2", S1), call("a", "i1", S1))], id="copied"
        ),
        pytest.param(
            "copy_to_siblings", model(call("a", signed=S1), call("b", signed=S2)),
            [model(call("a", signed=S1), call("b", signed=S2))], id="each has its own",
        ),
        pytest.param("json_text", model(text("t", S1)), [model(text("t", TWICE))], id="encoded twice"),
        pytest.param(
            "nested",
            model(text("t", S2), call("a", "i", S1, x=1)),
            [
                model(
                    text("t", S2),
                    {"functionCall": {"name": "a", "args": {"x": 1}, "id": "i", "thoughtSignature": S1}},
                )
            ],
            id="nested",
        ),
        pytest.param(
            "sdk_chat", BATCH,
            [model(thought("hm")), model(call("b", "i2", S1)), model(call("a", "i1")), model(text(""))],
            id="chunks of calls",
        ),
        pytest.param(
            "sdk_chat", model(thought("hm"), text("Hi", S1)),
            [model(thought("hm")), model(text("Hi")), model(text("", S1))], id="chunks of a text",
        ),
    ],
)  # fmt: skip
def test_what_a_client_stores_of_an_answer(name, answer, stored):
    whole = [user("q"), answer, RESPONSES]
    before = copy.deepcopy(whole)
    assert history.get(name)(whole) == [user("q"), *stored, RESPONSES]
    assert whole == before


STRICT = families.profile("gemini-3.8-flash")
LOOSE = families.profile("gemini-2.5-flash")


def judged(name, answer, responses, profile):
    found = rules.check(history.get(name)([user("q"), answer, responses]), profile)
    return {(f.rule, f.verdict) for f in found}


@pytest.mark.parametrize(
    ("name", "strict", "loose"),
    [
        ("preserve", set(), set()),
        ("reorder", {("unsigned", "refused")}, {("unsigned", "lost")}),
        ("split", {("unsigned", "refused")}, {("unsigned", "lost")}),
        ("sdk_chat", {("unsigned", "refused")}, {("unsigned", "lost")}),
        ("copy_to_siblings", {("duplicated", "suspect")}, {("duplicated", "suspect")}),
        ("json_text", {("altered", "refused")}, {("altered", "refused")}),
        # The parser stops at the field it does not know; that the call is unsigned comes on top.
        (
            "nested",
            {("inside_call", "refused"), ("unsigned", "refused")},
            {("inside_call", "refused"), ("unsigned", "lost")},
        ),
        (
            "text_only",
            {("response_order", "refused"), ("id_mismatch", "refused")},
            {("response_order", "refused")},
        ),
        ("merge_text", set(), set()),
    ],
)
def test_a_batch_of_the_current_turn_is_judged_as_documented(name, strict, loose):
    assert judged(name, BATCH, RESPONSES, STRICT) == strict
    assert judged(name, BATCH, RESPONSES, LOOSE) == loose


@pytest.mark.parametrize("name", ["reorder", "split", "copy_to_siblings", "merge_text"])
def test_single_calls_and_whole_texts_are_left_as_they_are(name):
    whole = [user("q"), model(call("a", signed=S1)), given_back(response("a")), model(text("done", S2)), user("q2")]
    assert all(a is b for a, b in zip(history.get(name)(whole), whole, strict=True))


# --- generated answers --------------------------------------------------------------------------------------

SIGNATURES = st.sampled_from([None, None, S1, S2, S3])
PARTS = st.one_of(
    st.builds(text, st.sampled_from(["", "one", "two"]), SIGNATURES),
    st.builds(thought, st.sampled_from(["why", "how"])),
    st.builds(call, st.sampled_from("abc"), st.sampled_from([None, "i1", "i2", "i3"]), SIGNATURES),
)


def carried(whole):
    return sorted(s for c in whole for s in contents.signatures(c))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(PARTS, max_size=5), max_size=4))
def test_strategies_on_generated_answers(answered):
    whole = [c for parts in answered for c in (user("q"), {"role": "model", "parts": parts})]
    before = json.dumps(whole)
    sent = {name: history.get(name)(whole) for name in PLAIN}
    assert json.dumps(whole) == before, "a strategy changed its input"
    for name, out in sent.items():
        assert [c for c in out if c["role"] == "user"] == [user("q")] * len(answered)
        assert name == "rebuild" or [id(c) for c in out if c["role"] == "user"] == [id(c) for c in whole[::2]]
    for name in ("preserve", "reorder", "split", "sdk_chat"):
        assert carried(sent[name]) == carried(whole), f"{name} lost or doubled a signature"
    made = [[contents.call_key(k) for k in contents.calls(c)] for c in whole]
    for name, out in sent.items():
        keys = [contents.call_key(k) for c in out for k in contents.calls(c)]
        if name == "text_only":
            assert keys == []
        elif name == "reorder":
            assert sorted(keys) == sorted(k for one in made for k in one)
        else:
            assert keys == [k for one in made for k in one], f"{name} lost or moved a call"
        texts = "".join(contents.answer_text(c) for c in out if c["role"] == "model")
        assert texts == "".join(contents.answer_text(c) for c in whole if c["role"] == "model"), name


# --- what google-genai's streaming chat stores --------------------------------------------------------------


class Tap(httpx2.BaseTransport):
    """Runs each request of the SDK's synchronous client on the emulator; keeps contents and chunks."""

    def __init__(self):
        self.app, self.sent, self.got = backends.emulator(parameters=Parameters(repeat=0, quit=0)), [], []

    def handle_request(self, request):
        async def send():
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app)) as client:
                return await client.post(request.url, content=request.content)

        answer = asyncio.run(send())
        self.sent.append(json.loads(request.content)["contents"])
        self.got.append([json.loads(line[5:]) for line in answer.text.splitlines() if line.startswith("data:")])
        return httpx2.Response(answer.status_code, content=answer.content, headers=dict(answer.headers))


def joined(whole):
    """Neighbouring contents of one plain text each as one: where a text was cut into chunks does not count."""
    out = []
    for content in whole:
        plain = [set(p) == {"text"} and p["text"] for p in content["parts"]] == [content["parts"][0].get("text")]
        last = out[-1]["parts"][0] if out else {}
        if out and content["role"] == out[-1]["role"] == "model" and plain and set(last) == {"text"}:
            out[-1] = {**content, "parts": [{"text": last["text"] + content["parts"][0]["text"]}]}
        else:
            out.append(content)
    return out


def decoded(whole):
    """Contents with signatures as bytes: the SDK writes them in the other base64 alphabet."""
    return [
        {
            "role": c["role"],
            "parts": [
                {**p, **({"thoughtSignature": contents.signature(p)} if "thoughtSignature" in p else {})}
                for p in c["parts"]
            ],
        }
        for c in whole
    ]


@pytest.mark.parametrize("wanted", ["gemini-3-flash-preview", "gemini-3.8-flash"])
def test_the_sdk_s_streaming_chat_stores_what_the_strategy_says(wanted):
    task = tasks.get("ecpm")
    seed = next(s for s in range(50) if len(days(s)) == 2)
    instance = task.instance(seed)
    tap = Tap()
    options = types.HttpOptions(client_args={"transport": tap}, base_url="http://emulator")
    client = genai.Client(api_key="x", http_options=options)
    declared = [
        types.FunctionDeclaration(
            name=d["name"], description=d["description"], parameters_json_schema=d["parametersJsonSchema"]
        )
        for d in task.declarations
    ]
    chat = client.chats.create(
        model=wanted,
        config=types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=declared)],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        ),
    )
    received, message = [], [types.Part.from_text(text=instance.messages[0])]
    for _ in range(4):
        list(chat.send_message_stream(message))
        received.append(json.loads(types.UserContent(parts=message).model_dump_json(by_alias=True, exclude_none=True)))
        answer = answers.fold(tap.got[-1]).content
        received.append(answer)
        made = contents.calls(answer)
        message = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=c.get("id"), name=c["name"], response=instance.functions[c["name"]](**c["args"])
                )
            )
            for c in made
        ]
    assert len(contents.calls(received[-1])) == 2, "the last step is a batch"
    stored = [json.loads(c.model_dump_json(by_alias=True, exclude_none=True)) for c in chat.get_history(curated=True)]
    assert joined(decoded(stored)) == joined(decoded(history.sdk_chat(received)))
    # And what it would send next is refused at the batch's second call.
    responses = {"role": "user", "parts": [response(c["name"], c.get("id")) for c in made]}
    refused = rules.refusal(rules.check([*stored, responses], families.profile(wanted)))
    assert [f.rule for f in refused] == ["unsigned"] and made[1]["name"] in refused[0].message
    client.close()


def days(seed):
    return ecpm._expected(seed)[1]
