"""Faults on purpose: each one's form on the wire, and the outcome that the loop makes of it."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from gemlab import backends
from gemlab.agent import loop
from gemlab.emulator import faults
from gemlab.emulator.faults import Fault
from gemlab.emulator.minds.scripted import Parameters
from gemlab.runs import trials
from gemlab.wire import answers

STEADY = Parameters(0, 0, 0, 0)


pytestmark = pytest.mark.usefixtures("slept")


def run(*struck, transport="unary", model="gemini-2.5-flash"):
    """Run one steady trial of the four-step task against these faults."""
    api = backends.simulated(backends.emulator(parameters=STEADY, faults=struck))
    spec = trials.plan([{"name": "x", "transport": transport}], "ecpm", model, 1)[0]
    return asyncio.run(loop.run(api, spec))


@pytest.mark.parametrize("transport", ["unary", "stream"])
@pytest.mark.parametrize(
    ("fault", "outcome", "reason"),
    [
        (Fault("429", step=2), "completed", None),
        (Fault("503", step=2, times=3), "completed", None),
        (Fault("500", step=2, times=9), "failed", None),
        (Fault("slow", step=2, seconds=0.01), "completed", None),
        (Fault("malformed", step=2), "unfinished", "malformed"),
        (Fault("malformed_after_call", step=2), "unfinished", "malformed"),
        (Fault("unexpected_tool_call", step=2), "unfinished", "malformed"),
        (Fault("empty", step=2), "unfinished", "empty"),
        (Fault("thoughts_only", step=2), "unfinished", "empty"),
        (Fault("no_model_version", step=2), "completed", None),
        (Fault("duplicate_ids"), "completed", None),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_every_fault_ends_in_its_own_outcome(fault, outcome, reason, transport):
    trial = run(fault, transport=transport)
    assert (trial.outcome, trial.reason) == (outcome, reason), trial.detail


def test_resending_is_counted_and_waits_as_long_as_the_server_asks(slept):
    trial = run(Fault("429", step=2, seconds=7.9))
    assert [len(step.failures) for step in trial.steps] == [0, 1, 0, 0, 0] and slept == [7.0]
    details = trial.steps[1].failures[0]["body"]["error"]["details"]
    assert [d["@type"].rsplit(".", 1)[1] for d in details] == ["Help", "QuotaFailure", "RetryInfo"]


def test_a_call_that_came_with_a_malformed_one_is_not_run():
    trial = run(Fault("malformed_after_call", step=2))
    assert [c.name for c in trial.called] == ["fetch_ecpm"]


@pytest.mark.parametrize("kind", ["cut", "error_chunk"])
def test_a_stream_that_fails_after_something_came_is_not_asked_for_again(kind):
    trial = run(Fault(kind, step=2, after=1), transport="stream", model="gemini-3.6-flash")
    assert trial.outcome == "failed" and len(trial.steps) == 2
    (failure,) = trial.steps[1].failures
    assert answers.fold(failure["got"]).content["parts"][0]["functionCall"]["name"] == "estimate_range"
    assert [c.name for c in trial.called] == ["fetch_ecpm"]


@pytest.mark.parametrize("kind", ["cut", "error_chunk"])
def test_a_stream_that_fails_before_anything_came_is_asked_for_again(kind):
    trial = run(Fault(kind, step=2, after=0), transport="stream", model="gemini-3.6-flash")
    assert trial.outcome == "completed" and len(trial.steps[1].failures) == 1


def test_a_cut_stream_never_strikes_an_unary_request():
    assert run(Fault("cut")).outcome == "completed"


def test_another_model_in_the_middle_of_a_run_is_seen_and_of_another_family_refuses_the_signatures():
    same = run(Fault("served_model", step=3, served="gemini-3.5-flash"), model="gemini-3.6-flash")
    assert same.outcome == "completed"
    assert [step.pin.match for step in same.steps] == [True, True, False, True, True]
    other = run(Fault("served_model", step=3, served="gemini-4-argon"), model="gemini-3.6-flash")
    assert other.outcome == "refused" and "Corrupted thought signature." in other.detail


def test_an_answer_that_names_no_model_is_unknown_not_a_match():
    trial = run(Fault("no_model_version", step=2))
    assert [step.pin.match for step in trial.steps] == [True, None, True, True, True]


def test_faults_come_with_their_probability_and_are_the_same_for_the_same_seed():
    def struck(seed):
        app = backends.emulator(parameters=STEADY, faults=[Fault("503", probability=0.3)], seed=seed)

        async def ask():
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://e") as client:
                bodies = [{"contents": [{"parts": [{"text": f"q{i}"}]}]} for i in range(300)]
                posts = [await client.post("/v1/models/gemini-3.6-flash:generateContent", json=b) for b in bodies]
                return [post.status_code for post in posts]

        return asyncio.run(ask())

    first = struck(1)
    # 300 draws of 0.3: within four standard errors of 90.
    assert set(first) == {200, 503} and abs(first.count(503) - 90) < 32
    assert struck(1) == first != struck(2)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"kind": "fire"}, "unknown kind 'fire'; known: 429"),
        ({"kind": "503", "probabilty": 1}, "fault 503: unknown probabilty; known: kind, probability"),
        ({"kind": "503", "probability": 2}, "within 0 and 1"),
        ({"kind": "503", "times": 0}, "start at 1"),
        ({"kind": "503", "times": "many"}, "times: input should be a valid integer, not 'many'"),
        ({"kind": "503", "times": 1.5}, "times: input should be a valid integer"),
        ({"kind": "slow", "seconds": float("inf")}, "fault slow: Out of range float values"),
        ({"kind": "503", "probability": float("nan")}, "Out of range float values"),
        ({"kind": "503", "step": 0}, "start at 1"),
        ({"kind": "served_model"}, "served"),
        ({"kind": "503", "served": "gemini-4-argon"}, "served"),
        ({"probability": 1}, "fault: kind: field required"),
    ],
)
def test_a_broken_fault_is_one_clear_line(table, words):
    with pytest.raises(ValueError, match=words) as error:
        faults.fault(table)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["fault = 3", "x = 1", "[[fault]]\nkind = ", "[[fault]]\nkind = 'fire'"])
def test_a_broken_fault_file_is_one_clear_line(tmp_path, text):
    (tmp_path / "f.toml").write_text(text)
    with pytest.raises(ValueError, match=r"f\.toml"):
        faults.load(tmp_path / "f.toml")
    with pytest.raises(ValueError, match="No such file"):
        faults.load(tmp_path / "gone.toml")


def test_a_fault_file_is_read(tmp_path):
    (tmp_path / "f.toml").write_text('[[fault]]\nkind = "429"\nseconds = 3\n[[fault]]\nkind = "cut"\nstep = 2\n')
    assert faults.load(tmp_path / "f.toml") == [Fault("429", seconds=3), Fault("cut", step=2)]
