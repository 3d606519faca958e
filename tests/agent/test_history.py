import asyncio
import copy
import json
import random

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemlab import backends
from gemlab.agent import history, loop
from gemlab.emulator.minds.scripted import Parameters
from gemlab.runs import trials
from gemlab.wire import contents, families, rules

S1, S2, S3 = (contents.encode_signature(bytes([n]) * 60) for n in (251, 252, 253))
DUMMY = "skip_thought_signature_validator"

# The strategies that need neither a donor nor a server that keeps the history.
PLAIN = [n for n in history.STRATEGIES.names() if n not in (*history.DONATED, *history.BY_INTERACTIONS)]


def user(text):
    return {"role": "user", "parts": [{"text": text}]}


def call(name, ident=None, signed=None, **args):
    part = {"functionCall": {"name": name, "args": args, **({"id": ident} if ident else {})}}
    return {**part, **({"thoughtSignature": signed} if signed else {})}


def response(name, ident=None, **body):
    return {"functionResponse": {"name": name, **({"id": ident} if ident else {}), "response": body}}


def model(*parts):
    return {"role": "model", "parts": list(parts)}


def answers(*parts):
    return {"role": "user", "parts": list(parts)}


# Two turns: a signed call, a parallel batch, a signed text; then a thought and a signed call.
TWO_TURNS = [
    user("first"),
    model(call("a", "i1", S1, x=1)),
    answers(response("a", "i1", y=1)),
    model(call("b", "i2", S2), call("b", "i3")),
    answers(response("b", "i2", y=2), response("b", "i3", y=3)),
    model({"text": "done", "thoughtSignature": S3}),
    user("second"),
    model({"text": "hm", "thought": True}, call("c", "i4", S1)),
    answers(response("c", "i4", y=4)),
]


def signed(sent):
    """Name every signature in order: by where it came from, DUMMY for the dummy."""
    names = {S1: "S1", S2: "S2", S3: "S3", DUMMY: "DUMMY"}
    return [names[p["thoughtSignature"]] for c in sent for p in c["parts"] if "thoughtSignature" in p]


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("preserve", ["S1", "S2", "S3", "S1"]),
        ("strip", []),
        ("rebuild", []),
        ("first_only", ["S1", "S1"]),
        ("dummy", ["DUMMY", "DUMMY", "DUMMY"]),
        ("strip_past_turns", ["S1"]),
    ],
)
def test_signatures_that_each_strategy_leaves(name, left):
    assert signed(history.get(name)(TWO_TURNS)) == left


def test_get_names_the_known_strategies():
    with pytest.raises(ValueError, match="'keep'; known: preserve, strip, rebuild"):
        history.get("keep")


def test_strip_keeps_every_part_but_an_empty_one():
    streamed = [user("q"), model({"text": "answer"}, {"text": "", "thoughtSignature": S1})]
    assert history.strip(streamed) == [user("q"), model({"text": "answer"})]
    assert history.strip([user("q"), model({"text": "", "thoughtSignature": S1})]) == [user("q")]
    assert history.strip(TWO_TURNS)[3] == model(call("b", "i2"), call("b", "i3"))


def test_rebuild_leaves_names_arguments_and_texts():
    assert history.rebuild(TWO_TURNS) == [
        user("first"),
        model(call("a", x=1)),
        answers(response("a", y=1)),
        model(call("b"), call("b")),
        answers(response("b", y=2), response("b", y=3)),
        model({"text": "done"}),
        user("second"),
        model(call("c")),
        answers(response("c", y=4)),
    ]


def test_first_only_counts_within_each_turn():
    parallel = [user("q"), model(call("a", signed=S1), call("b", signed=S2)), answers(response("a"), response("b"))]
    assert signed(history.first_only(parallel)) == ["S1"]
    assert signed(history.first_only([*parallel, model({"text": "t", "thoughtSignature": S3})])) == ["S1"]


def test_dummy_signs_only_calls_that_were_signed():
    sent = history.dummy(TWO_TURNS)
    assert sent[3] == model(call("b", "i2", DUMMY), call("b", "i3"))
    assert sent[5] == model({"text": "done"})


# --- generated histories ------------------------------------------------------------------------------------


@st.composite
def turns(draw):
    """Turns as lists of contents; every signature, id and argument differs from the others."""
    rng = random.Random(draw(st.integers(0, 10**6)))
    serial = iter(range(1, 10_000))

    def maybe_signed(part, chance):
        if rng.random() < chance:
            part["thoughtSignature"] = contents.encode_signature(b"signature %05d" % next(serial))
        return part

    def step():
        made = [call(rng.choice("ab"), rng.choice((None, f"i{next(serial)}")), n=next(serial)) for _ in range(size())]
        thought = [maybe_signed({"text": "t", "thought": True}, 0.2)] if rng.random() < 0.3 else []
        given = [response(p["functionCall"]["name"], p["functionCall"].get("id"), n=next(serial)) for p in made]
        return [model(*thought, *(maybe_signed(p, 0.6) for p in made)), answers(*given)]

    def size():
        return rng.choice((1, 1, 2, 3))

    found = []
    for number in range(draw(st.integers(1, 3))):
        turn = [user(f"message {number}")]
        for _ in range(draw(st.integers(0, 3))):
            turn += step()
        found.append(turn)
        turn.append(model(maybe_signed({"text": f"answer {number}"}, 0.5)))
    return found if draw(st.booleans()) else [*found[:-1], found[-1][:-1]]


def parts_of(sent):
    return [p for c in sent for p in c["parts"]]


def bare(part):
    return {k: v for k, v in part.items() if k != "thoughtSignature"}


@settings(max_examples=60, deadline=None)
@given(turns())
def test_each_strategy_on_generated_histories(given_turns):
    received = [c for turn in given_turns for c in turn]
    before = copy.deepcopy(received)
    sent = {name: history.get(name)(received) for name in PLAIN}
    assert received == before, "a strategy changed its input"

    assert json.dumps(sent["preserve"]) == json.dumps(before)
    assert all(a is b for a, b in zip(sent["preserve"], received, strict=True))
    assert parts_of(sent["strip"]) == [bare(p) for p in parts_of(received)]
    assert [bare(p) for p in parts_of(sent["dummy"])] == [bare(p) for p in parts_of(received)]
    for old, new in zip(parts_of(received), parts_of(sent["dummy"]), strict=True):
        assert ("thoughtSignature" in new) == ("thoughtSignature" in old and "functionCall" in old)
        assert new.get("thoughtSignature", DUMMY) == DUMMY

    firsts = []
    for turn in given_turns:
        found = [p["thoughtSignature"] for p in parts_of(turn) if "thoughtSignature" in p]
        firsts += found[:1]
    assert [p["thoughtSignature"] for p in parts_of(sent["first_only"]) if "thoughtSignature" in p] == firsts
    assert [bare(p) for p in parts_of(sent["first_only"])] == [bare(p) for p in parts_of(received)]

    past = sum(len(turn) for turn in given_turns[:-1])
    assert parts_of(sent["strip_past_turns"][:past]) == [bare(p) for p in parts_of(received[:past])]
    assert all(a is b for a, b in zip(sent["strip_past_turns"][past:], received[past:], strict=True))

    rebuilt = parts_of(sent["rebuild"])
    assert len(rebuilt) == len([p for p in parts_of(received) if not p.get("thought")])
    assert "thoughtSignature" not in json.dumps(rebuilt) and '"id"' not in json.dumps(rebuilt)


# --- signatures of a donor ----------------------------------------------------------------------------------

DONOR = ["donor 0", "donor 1"]


def test_a_donor_s_signatures_stand_where_the_first_of_each_content_stood():
    sent = history.swap(TWO_TURNS, DONOR)
    assert [(i, p["thoughtSignature"]) for i, c in enumerate(sent) for p in c["parts"] if "thoughtSignature" in p] == [
        (1, "donor 0"), (3, "donor 1"), (5, "donor 1"), (7, "donor 1"),
    ]  # fmt: skip
    assert sent[7] == model({"text": "hm", "thought": True}, call("c", "i4", "donor 1"))


def test_further_signatures_of_a_content_are_dropped_and_an_empty_part_with_them():
    answer = model(call("a"), call("b", "i", S1), {"text": "t", "thoughtSignature": S2}, {"thoughtSignature": S3})
    assert history.swap([user("q"), answer], DONOR) == [
        user("q"),
        model(call("a"), call("b", "i", "donor 0"), {"text": "t"}),
    ]
    last = model({"text": "answer"}, {"text": "", "thoughtSignature": S1})
    assert history.swap([last], DONOR) == [model({"text": "answer"}, {"text": "", "thoughtSignature": "donor 0"})]


def test_a_part_without_a_signature_gets_none():
    bare = [user("q"), model(call("a"), {"text": "t", "thoughtSignature": ""}), answers(response("a"))]
    signed_user = {"role": "user", "parts": [{"text": "x", "thoughtSignature": S1}]}
    assert all(a is b for a, b in zip(history.swap([*bare, signed_user], DONOR), [*bare, signed_user], strict=True))


def first_signed(content):
    return next((i for i, p in enumerate(content["parts"]) if "thoughtSignature" in p), None)


@settings(max_examples=60, deadline=None)
@given(turns(), st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=5))
def test_a_swap_on_generated_histories(given_turns, donor):
    received = [c for turn in given_turns for c in turn]
    before = copy.deepcopy(received)
    sent = history.swap(received, donor)
    assert received == before, "the swap changed its input"
    assert [bare(p) for p in parts_of(sent)] == [bare(p) for p in parts_of(received)]
    count = 0
    for old, new in zip(received, sent, strict=True):
        at = first_signed(old)
        if at is None:
            assert new is old
            continue
        expected = donor[count] if count < len(donor) else donor[-1]
        assert [p.get("thoughtSignature") for p in new["parts"]] == [
            expected if i == at else None for i in range(len(old["parts"]))
        ]
        untouched = [i for i, p in enumerate(old["parts"]) if "thoughtSignature" not in p]
        assert all(new["parts"][i] is old["parts"][i] for i in untouched)
        count += 1
    assert all(a is b for a, b in zip(history.swap(sent, donor), sent, strict=True)), "nothing is left to change"


@pytest.mark.parametrize("name", history.DONATED)
def test_the_arms_that_swap_go_by_name_and_need_a_donor(name):
    assert history.get(name, DONOR)(TWO_TURNS) == history.swap(TWO_TURNS, DONOR)
    with pytest.raises(ValueError, match="no signatures of a donor"):
        history.get(name)(TWO_TURNS)
    with pytest.raises(ValueError, match=r"known: preserve, strip.*, placebo, neutral"):
        history.get("keep")


# --- open calls ---------------------------------------------------------------------------------------------

CANCELLED = {"error": "cancelled"}


@pytest.mark.parametrize(
    ("received", "added"),
    [
        pytest.param([user("q"), model(call("a", "i1", S1))], (2, [("a", "i1", CANCELLED)]), id="last"),
        pytest.param(
            [user("q"), model(call("a", None, S1)), user("go on")], (2, [("a", None, CANCELLED)]), id="idless"
        ),
        pytest.param(
            [user("q"), model(call("a", "i1", S1), call("a", "i2")), user("go on")],
            (2, [("a", "i1", CANCELLED), ("a", "i2", CANCELLED)]),
            id="parallel",
        ),
        pytest.param(
            [user("q"), model(call("a", "i1", S1), call("a", "i2")), answers(response("a", "i2", y=1))],
            (2, [("a", "i2", {"y": 1}), ("a", "i1", CANCELLED)]),
            id="half-answered",
        ),
    ],
)
def test_open_calls_are_answered_as_cancelled(received, added):
    before = copy.deepcopy(received)
    sent = history.closed(received)
    index, expected = added
    found = [p["functionResponse"] for p in sent[index]["parts"]]
    assert [(r["name"], r.get("id"), r["response"]) for r in found] == expected
    assert received == before
    assert [f for f in rules.check(sent, families.profile("gemini-3.8-flash")) if f.verdict == "refused"] == []


def test_a_history_without_open_calls_stays_as_it_is():
    assert all(a is b for a, b in zip(history.closed(TWO_TURNS), TWO_TURNS, strict=True))


def test_a_response_that_answers_no_call_is_left_as_it_is():
    """It is the API's to refuse: a synthetic response beside it would make of one mistake two."""
    call = {"functionCall": {"name": "f", "args": {}, "id": "a"}}
    strange = {"functionResponse": {"name": "g", "id": "b", "response": {}}}
    whole = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [strange]},
    ]
    assert history.closed(whole) == whole
    assert history.closed([whole[0], whole[2]]) == [whole[0], whole[2]]


# --- on the wire --------------------------------------------------------------------------------------------


class Tap(httpx2.AsyncBaseTransport):
    """Passes on to the emulator; keeps every request's contents and every answer's content."""

    def __init__(self):
        emulator = backends.emulator(parameters=Parameters(repeat=0, quit=0))
        self.inner, self.sent, self.got = httpx2.ASGITransport(emulator), [], []

    async def handle_async_request(self, request):
        answer = await self.inner.handle_async_request(request)
        self.sent.append(json.loads(request.content)["contents"])
        self.got.append(json.loads(await answer.aread())["candidates"][0]["content"])
        return answer


@pytest.mark.parametrize("wanted", ["gemini-2.5-flash", "gemini-3-flash-preview", "gemini-3.8-flash"])
def test_preserve_sends_back_what_was_received(wanted):
    tap = Tap()
    spec = trials.plan(["preserve"], "ecpm-two-turns", wanted, 1, seed=3)[0]
    trial = asyncio.run(loop.run(backends.simulated(transport=tap), spec))
    assert trial.outcome == "completed" and len(tap.sent) == 6
    returned = [c for c in tap.sent[-1] if c["role"] == "model"]
    assert returned == tap.got[:-1]
    decoded = [s for c in returned for s in contents.signatures(c)]
    assert decoded == [s for c in tap.got[:-1] for s in contents.signatures(c)] and len(set(decoded)) == 5
    for earlier, later in zip(tap.sent, tap.sent[1:], strict=False):
        assert later[: len(earlier)] == earlier
