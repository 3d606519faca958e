"""Prunings that blank or strip what is inside of contents, or leave out what is of past turns."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemlab.agent import pruning
from gemlab.wire import contents, families, rules

PAIRING = {"call_order", "response_order", "count", "consecutive"}
PROFILE = families.profile("gemini-3.8-flash", consecutive_model="accept")


def user(text):
    return {"role": "user", "parts": [{"text": text}]}


def text(words):
    return {"role": "model", "parts": [{"text": words}]}


def step(*names):
    """A model content with one call a name, and the content that answers it; ids are the names."""
    signature = contents.encode_signature(f"thought of {', '.join(names)}".encode())
    made = [{"functionCall": {"name": n[0], "args": {}, "id": n}} for n in names]
    made[0]["thoughtSignature"] = signature
    given = [{"functionResponse": {"name": n[0], "id": n, "response": {"of": n}}} for n in names]
    return [{"role": "model", "parts": made}, {"role": "user", "parts": given}]


MESSAGE, ANSWER = user("the question"), text("the answer")
ONE, TWO, THREE = step("a1"), step("b1", "b2"), step("a2")
OPEN_ENDED = [MESSAGE, *ONE, *TWO, *THREE]
WHOLE = [*OPEN_ENDED, ANSWER]


def broken(kept):
    return [(f.rule, f.content) for f in rules.check(kept, PROFILE) if f.rule in PAIRING]


def ids(content, kind):
    return [p[kind]["id"] for p in content["parts"] if kind in p]


@st.composite
def histories(draw):
    """A history as groups: messages, answers, single calls, batches in any order behind a message."""
    kinds = draw(st.lists(st.sampled_from(["message", "answer", "call", "batch"]), max_size=12))
    groups = [[user("0")]]
    for number, kind in enumerate(kinds, 1):
        made = {
            "message": [user(str(number))],
            "answer": [text(str(number))],
            "call": step(f"c{number}"),
            "batch": step(f"c{number}", f"d{number}"),
        }[kind]
        # What the model says right before a call belongs to the same step.
        if kind != "message" and groups[-1][-1]["role"] == "model":
            groups[-1] = groups[-1] + made
        else:
            groups.append(made)
    return groups


# --- cleared results ----------------------------------------------------------------------------------------


def cleared(*names):
    made, given_back = step(*names)
    parts = [{"functionResponse": {**p["functionResponse"], "response": pruning.CLEARED}} for p in given_back["parts"]]
    return [made, {**given_back, "parts": parts}]


@pytest.mark.parametrize(
    ("history", "budget", "kept"),
    [
        (OPEN_ENDED, 0, [MESSAGE, *cleared("a1"), *cleared("b1", "b2"), *THREE]),
        (OPEN_ENDED, 1, [MESSAGE, *cleared("a1"), *cleared("b1", "b2"), *THREE]),
        (OPEN_ENDED, 2, [MESSAGE, *cleared("a1"), *TWO, *THREE]),
        (OPEN_ENDED, 3, OPEN_ENDED),
        (WHOLE, 0, [MESSAGE, *cleared("a1"), *cleared("b1", "b2"), *cleared("a2"), ANSWER]),
        (WHOLE, 1, [MESSAGE, *cleared("a1"), *cleared("b1", "b2"), *THREE, ANSWER]),
        ([MESSAGE, ANSWER], 0, [MESSAGE, ANSWER]),
        ([], 0, []),
    ],
)
def test_old_results_are_blanked_and_calls_stay(history, budget, kept):
    assert pruning.clear_results(history, budget) == kept


def test_what_lies_beside_a_cleared_response_stays():
    made, given_back = step("a1")
    given_back["parts"][0]["functionResponse"]["parts"] = [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]
    beside = {**given_back, "parts": [*given_back["parts"], {"text": "look"}]}
    kept = pruning.clear_results([MESSAGE, made, beside, ANSWER], 0)
    assert kept[2]["parts"] == [
        {"functionResponse": {"name": "a", "id": "a1", "response": pruning.CLEARED}},
        {"text": "look"},
    ]


@settings(max_examples=60, deadline=None)
@given(histories(), st.integers(0, 14))
def test_clear_results_on_generated_histories(groups, budget):
    history = [c for group in groups for c in group]
    before = copy.deepcopy(history)
    kept = pruning.clear_results(history, budget)
    assert history == before and broken(kept) == [] and len(kept) == len(history)
    answered = [c for c in history if ids(c, "functionResponse")]
    due = max(budget, int(bool(answered) and history[-1] is answered[-1]))
    blank = {id(c) for c in answered[: max(len(answered) - due, 0)]}
    for old, new in zip(history, kept, strict=True):
        assert (new is not old) == (id(old) in blank)
        assert ids(new, "functionResponse") == ids(old, "functionResponse")


# --- past turns ---------------------------------------------------------------------------------------------

SECOND = user("second")
THINKING = [{**ONE[0], "parts": [{"text": "hm", "thought": True}, *ONE[0]["parts"]]}, ONE[1]]
SIGNED_ANSWER = {"role": "model", "parts": [{"text": "the answer", "thoughtSignature": "AAAA"}]}
TURNS = [MESSAGE, *THINKING, SIGNED_ANSWER, SECOND, *TWO]


def unsigned(content):
    return {**content, "parts": [{k: v for k, v in p.items() if k != "thoughtSignature"} for p in content["parts"]]}


@pytest.mark.parametrize(
    ("what", "kept"),
    [
        ("steps", [MESSAGE, SIGNED_ANSWER, SECOND, *TWO]),
        ("thoughts", [MESSAGE, *ONE, SIGNED_ANSWER, SECOND, *TWO]),
        ("signatures", [MESSAGE, unsigned(THINKING[0]), ONE[1], ANSWER, SECOND, *TWO]),
        ("both", [MESSAGE, unsigned(ONE[0]), ONE[1], ANSWER, SECOND, *TWO]),
    ],
)
def test_past_turns_lose_and_the_current_one_stays_whole(what, kept):
    before = copy.deepcopy(TURNS)
    found = pruning.get(f"strip_past({what})")(TURNS)
    assert found == kept and before == TURNS
    assert all(a is b for a, b in zip(found[-3:], TURNS[-3:], strict=True))
    assert broken(found) == []
    # A single turn has no past.
    assert pruning.get(f"strip_past({what})")(OPEN_ENDED) == OPEN_ENDED


def test_past_steps_that_cannot_be_cut_stay():
    history = [MESSAGE, ONE[1], ANSWER, SECOND, *TWO]
    assert pruning.get("strip_past(steps)")(history) == history


@settings(max_examples=60, deadline=None)
@given(histories())
def test_past_steps_on_generated_histories(groups):
    history = [c for group in groups for c in group]
    kept = pruning.past_steps(history)
    assert broken(kept) == [] and all(any(c is one for one in history) for c in kept)
    current = max(i for i, c in enumerate(history) if c["role"] == "user" and not ids(c, "functionResponse"))
    assert history[current:] == kept[len(kept) - len(history) + current :]
    past = kept[: len(kept) - len(history) + current]
    assert not any(ids(c, "functionCall") or ids(c, "functionResponse") for c in past)
    assert [c for c in past if c["role"] == "user"] == [
        c for c in history[:current] if not ids(c, "functionResponse") and c["role"] == "user"
    ]
