"""The arms of the Interactions API: what goes up, what comes of it, and what a trace holds."""

from __future__ import annotations

import asyncio
import json

import pytest

from gemlab import backends
from gemlab.agent import loop
from gemlab.emulator.faults import Fault
from gemlab.emulator.minds.scripted import Parameters
from gemlab.measure import metrics, timeline
from gemlab.runs import trace, trials
from gemlab.wire import answers

pytestmark = pytest.mark.usefixtures("slept")
ARMS = ["preserve", "server_state", "server_state_stateless"]
COMPETENT = Parameters(0, 0, 0, 0)


def run(history, *faults, task="ecpm", model="gemini-3.6-flash", parameters=COMPETENT, instances=1, **arm):
    app = backends.emulator(parameters=parameters, faults=faults)
    specs = trials.plan([{"name": history, "history": history, **arm}], task, model, instances)
    backend = backends.simulated(app)

    async def all_of_them():
        return [await loop.run(backend, spec) for spec in specs]

    return asyncio.run(all_of_them())


def sent(trial):
    return [step.request for step in trial.steps]


def given(steps):
    return [s["type"] for s in steps]


# --- outcomes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["ecpm", "search", "ecpm-two-turns", "chain(6,turns=2)"])
@pytest.mark.parametrize("history", ARMS[1:])
def test_single_parallel_and_multi_turn_tasks_complete(history, task):
    (trial,) = run(history, task=task)
    assert (trial.outcome, trial.detail) == ("completed", None)


@pytest.mark.parametrize("model", ["gemini-3.6-flash", "gemini-2.5-flash", "gemini-3-flash-preview"])
def test_a_model_that_slips_slips_as_it_does_with_the_history_preserved(model):
    """The draws depend on the seed and on what the history says: equal only if every thought is restored.

    Tokens differ on 2.5 alone: there generateContent gives no ids, and an interaction must.
    """
    slips = Parameters(repeat=0.3, quit=0.05, doubt=0.5, lose_thread=0.3)
    kept, *others = (run(h, task="ecpm-two-turns", model=model, parameters=slips, instances=4) for h in ARMS)

    def told(trial):
        return trial.outcome, trial.answer, [(c.name, c.args, c.response) for c in trial.called]

    assert len({len(t.steps) for t in kept}) > 1  # some slipped, or nothing would be compared
    for trials_of_arm in others:
        assert [told(t) for t in trials_of_arm] == [told(t) for t in kept]
    lost = run("strip", task="ecpm-two-turns", model="gemini-2.5-flash", parameters=slips, instances=4)
    assert [told(t) for t in lost] != [told(t) for t in kept]


# --- what goes up -------------------------------------------------------------------------------------------


def test_with_the_history_on_the_server_only_what_is_new_goes_up():
    (trial,) = run("server_state", task="ecpm-two-turns")
    requests, responses = sent(trial), [s.response for s in trial.steps]
    assert [r.get("previous_interaction_id") for r in requests] == [None, *(r["id"] for r in responses[:-1])]
    assert [given(r["input"]) for r in requests] == [
        ["user_input"], ["function_result"], ["function_result"], ["user_input"], ["function_result"],
        ["function_result"] * 2,
    ]  # fmt: skip
    assert all(r["store"] is True and r["tools"] and r["system_instruction"] for r in requests)
    assert "signature" not in json.dumps([r["input"] for r in requests])
    assert len({r["generation_config"]["seed"] for r in requests}) == len(requests)


def test_without_the_server_every_step_goes_back_as_it_came():
    (trial,) = run("server_state_stateless", task="ecpm-two-turns")
    requests, responses = sent(trial), [s.response for s in trial.steps]
    for before, answer, after in zip(requests, responses, requests[1:], strict=False):
        assert after["input"][: len(before["input"])] == before["input"]
        assert after["input"][len(before["input"]) :][: len(answer["steps"])] == answer["steps"]
    assert all(r["store"] is False and "previous_interaction_id" not in r for r in requests)


def test_parallel_calls_are_answered_together_and_by_id():
    (trial,) = run("server_state")
    made = [s for s in trial.steps[3].response["steps"] if s["type"] == "function_call"]
    answered = sent(trial)[4]["input"]
    assert len(made) == 2 and [s["call_id"] for s in answered] == [s["id"] for s in made]


def test_a_forced_final_answer_is_asked_for_without_tools():
    (trial,) = run("server_state", guard="cap_10", task="chain(12)")
    assert trial.forced is False  # cap_10 stops
    (trial,) = run("server_state", guard="article", task="chain(12)")
    assert trial.forced and sent(trial)[-1]["generation_config"]["tool_choice"] == "none"
    assert all("tool_choice" not in r["generation_config"] for r in sent(trial)[:-1])


# --- when something fails -----------------------------------------------------------------------------------


@pytest.mark.parametrize("history", ARMS[1:])
def test_what_failed_on_the_way_is_resent_as_it_was(history):
    (trial,) = run(history, Fault("503", step=3))
    assert trial.outcome == "completed"
    assert [len(s.failures) for s in trial.steps] == [0, 0, 1, 0, 0]
    assert trial.steps[2].failures[0]["status"] == 503


def interaction(ident, *steps, status="completed"):
    return 200, {"id": ident, "status": status, "object": "interaction", "model": "m", "usage": {}, "steps": [*steps]}


LOOK = {"type": "function_call", "id": "c1", "name": "web_search", "arguments": {"query": "x"}}
SIGNED, HM = {"type": "thought", "signature": "AAAA"}, {"type": "thought", "summary": [{"type": "text", "text": "hm"}]}
SAID = {"type": "model_output", "content": [{"type": "text", "text": "No."}]}


@pytest.mark.parametrize("nothing", [(), (HM,), (SIGNED,)])
@pytest.mark.parametrize("history", ARMS[1:])
def test_an_empty_answer_is_no_part_of_the_history_when_asked_again(scripted, history, nothing):
    transport = scripted(
        interaction("i1", SIGNED, LOOK, status="requires_action"), interaction("i2", *nothing), interaction("i3", SAID)
    )
    (spec,) = trials.plan([{"name": "x", "history": history, "guard": "default"}], "search", "gemini-3.6-flash", 1)
    trial = asyncio.run(loop.run(backends.simulated(transport=transport), spec))
    assert (trial.outcome, trial.answer) == ("wrong", "No.")
    again, before = json.loads(transport.sent[2]), json.loads(transport.sent[1])
    assert again["input"] == before["input"]
    before_it = "i1" if history == "server_state" else None
    assert (before.get("previous_interaction_id"), again.get("previous_interaction_id")) == (before_it, before_it)


def test_steps_that_nobody_here_knows_go_back_as_they_came(scripted):
    unknown = [
        {"type": "google_search_call", "id": "s", "arguments": {"queries": ["x"]}, "later": None},
        {"type": "brand_new", "of": {"a": [1.0, {"b": None}]}},
    ]
    made = [*unknown, {**SIGNED, "summary": None}, {**LOOK, "later": 1}]
    transport = scripted(interaction("i1", *made, status="requires_action"), interaction("i2", SAID))
    (spec,) = trials.plan(["server_state_stateless"], "search", "gemini-3.6-flash", 1)
    trial = asyncio.run(loop.run(backends.simulated(transport=transport), spec))
    assert json.loads(transport.sent[1])["input"][1:-1] == made
    assert trace.of(trial, "sim", backends.SCRIPTED).requests == [json.loads(raw) for raw in transport.sent]


def test_an_interaction_that_the_server_has_forgotten_fails_the_trial(scripted):
    gone = (404, {"error": {"message": "Requested entity was not found.", "code": "not_found"}})
    (spec,) = trials.plan(["server_state"], "search", "gemini-3.6-flash", 1)
    trial = asyncio.run(loop.run(backends.simulated(transport=scripted(gone)), spec))
    assert trial.outcome == "failed" and trial.detail == "HTTP 404: Requested entity was not found."


DOWN = Fault("503", step=3, times=5, model="gemini-3.6-flash")


def test_a_fallback_within_the_family_goes_on_from_what_the_server_has():
    (trial,) = run("server_state", DOWN, fallback="same_family(gemini-3.5-flash-lite)")
    assert trial.outcome == "completed"
    assert [r["model"] for r in sent(trial)] == ["gemini-3.6-flash"] * 3 + ["gemini-3.5-flash-lite"] * 3
    assert sent(trial)[3]["previous_interaction_id"] == trial.steps[1].response["id"]


@pytest.mark.parametrize("history", ARMS[1:])
def test_a_fallback_out_of_the_family_begins_anew(history):
    (trial,) = run(history, DOWN, fallback="same_family(gemini-4-argon)")
    assert trial.outcome == "completed"
    assert given(sent(trial)[3]["input"]) == ["user_input"] and "previous_interaction_id" not in sent(trial)[3]
    assert [c.name for c in trial.called].count("fetch_ecpm") == 2


# --- traces and metrics -------------------------------------------------------------------------------------


@pytest.mark.parametrize("history", ARMS[1:])
def test_a_trace_holds_what_was_sent_and_received(history):
    (trial,) = run(history, Fault("503", step=2), task="ecpm-two-turns")
    packed = trace.load(json.loads(trace.dumps(trace.of(trial, "sim", backends.SCRIPTED))))
    assert packed.requests == sent(trial)
    assert [s.response for s in packed.steps] == [s.response for s in trial.steps]
    assert packed.received == trial.received
    assert [answers.of(s.response).content for s in packed.steps] == [c for c in trial.received if c["role"] == "model"]


def test_a_trace_of_steps_sent_back_grows_with_the_trial_and_not_with_its_square():
    def size(length):
        (trial,) = run("server_state_stateless", task=f"chain({length})", guard="off")
        return len(trace.dumps(trace.of(trial, "sim", backends.SCRIPTED))) / length

    assert size(30) < 1.5 * size(10)


def test_shares_of_signatures_mean_nothing_where_the_server_keeps_them():
    rows, strips = {}, {}
    for history in ARMS:
        (trial,) = run(history, task="ecpm-two-turns")
        packed = trace.of(trial, "sim", backends.SCRIPTED)
        rows[history], strips[history] = metrics.row(packed), timeline.steps(packed)
    assert {h: (r["signatures_returned"], r["lost"]) for h, r in rows.items()} == {
        "preserve": (1.0, 0), "server_state": (None, None), "server_state_stateless": (1.0, 0),
    }  # fmt: skip
    assert [(s.sent, s.due) for s in strips["server_state"]] == [(0, 0)] * 6
    assert [(s.sent, s.due) for s in strips["server_state_stateless"]] == [(n, n) for n in range(6)]
    same = ("outcome", "requests", "calls", "redundant", "prompt_tokens", "output_tokens", "thought_tokens")
    assert len({tuple(row[name] for name in same) for row in rows.values()}) == 1


def test_a_stateless_trial_that_lost_its_signatures_would_show_it():
    (trial,) = run("server_state_stateless")
    record = json.loads(trace.dumps(trace.of(trial, "sim", backends.SCRIPTED)))
    for step in record["steps"]:
        step["input"] = [i for i in step["input"] if record["contents"][i]["type"] != "thought"]
    row = metrics.row(trace.load(record))
    assert row["signatures_returned"] == 0.0


def test_who_served_is_unknown_and_no_match():
    (trial,) = run("server_state", model="gemini-3.5-flash")
    packed = trace.of(trial, "sim", backends.SCRIPTED)
    assert packed.served == [] and metrics.row(packed)["pin"] is None
    assert "unknown, not a match" in packed.warnings[0]


# --- names --------------------------------------------------------------------------------------------------


def test_arms_by_name_and_by_object():
    assert trials.arm("server_state").history == "server_state"
    made = trials.arm({"name": "x", "history": "server_state_stateless", "guard": "default"})
    assert (made.history, made.guard) == ("server_state_stateless", "default")


@pytest.mark.parametrize(
    ("field", "value"), [("pruning", "steps(3)"), ("pruning", "summarise(3)"), ("transport", "stream"),
                         ("retry", "rebuild"), ("thinking", "off")],
)  # fmt: skip
@pytest.mark.parametrize("history", ARMS[1:])
def test_what_cannot_go_together_is_refused_in_one_line(history, field, value):
    with pytest.raises(ValueError, match=rf"history '{history}' goes with {field} '\w+' alone") as caught:
        trials.arm({"name": "x", "history": history, field: value})
    assert "\n" not in str(caught.value)
