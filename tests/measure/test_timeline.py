"""A trial's strip: what each step's calls were, and whether the signatures received so far went back."""

from __future__ import annotations

import pytest

from gemlab import backends
from gemlab.emulator.faults import Fault
from gemlab.emulator.minds.scripted import Parameters
from gemlab.measure import figures, timeline
from gemlab.runs import trials

STEADY = Parameters(0, 0, 0, 0)
LOOPING = Parameters(1, 0, 0, 0, heed=0)


def trace_of(tmp_path, arm, task="ecpm", model="gemini-2.5-flash", parameters=STEADY, faults=()):
    api = backends.simulated(backends.emulator(parameters=parameters, faults=faults))
    specs = trials.plan([{"name": "x", **arm}], task, model, 1)
    return trials.run(specs, api, tmp_path / "t.jsonl", progress=None)[0]


def test_calls_and_signatures_of_a_plain_run(tmp_path):
    steps = timeline.steps(trace_of(tmp_path, {}))
    assert [[c.name for c in s.calls] for s in steps[:3]] == [["fetch_ecpm"], ["estimate_range"], ["find_outliers"]]
    assert all(c.kind == "new" for s in steps for c in s.calls)
    assert [(s.sent, s.due) for s in steps] == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    assert steps[-1].text and steps[-1].end is None


def test_stripped_signatures_are_due_and_not_sent(tmp_path):
    steps = timeline.steps(trace_of(tmp_path, {"history": "strip"}))
    assert [(s.sent, s.due) for s in steps] == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]


def test_a_loop_shows_repeats_nudge_blocks_and_the_guards_last_word(tmp_path):
    one = trace_of(tmp_path, {"guard": "default"}, parameters=LOOPING)
    steps = timeline.steps(one)
    kinds = [c.kind for s in steps for c in s.calls]
    assert kinds[:3] == ["new", "repeated", "repeated"] and "blocked" in kinds
    said = [v for s in steps for v in s.verdicts]
    assert any(v.startswith("nudge") for v in said) and any(v.startswith("finish") for v in said)
    assert "=fetch_ecpm" in timeline.text(one) and "xfetch_ecpm" in timeline.text(one)


def test_a_refusal_and_resends_are_told(tmp_path):
    refused = trace_of(tmp_path, {"history": "strip"}, model="gemini-3.8-flash")
    assert "refused: HTTP 400" in timeline.text(refused) and timeline.steps(refused)[-1].end.startswith("refused")


def test_resent_requests_are_counted(tmp_path, slept):
    one = trace_of(tmp_path, {}, faults=[Fault("503", step=2, times=2)])
    assert [s.resent for s in timeline.steps(one)] == [0, 2, 0, 0, 0] and "resent 2×" in timeline.text(one)


def test_a_summarys_request_is_a_step_without_calls(tmp_path):
    one = trace_of(tmp_path, {"pruning": "summarise(2)", "guard": "off"}, "chain(8)", "gemini-3.8-flash")
    steps = timeline.steps(one)
    assert one.outcome == "completed" and "open" not in {c.kind for s in steps for c in s.calls}
    assert [s.number for s in steps if s.text.startswith("Notes")] == [6, 10]


@pytest.mark.parametrize("arm", [{}, {"history": "strip", "guard": "default"}])
def test_the_figure_names_every_step_and_call(tmp_path, arm):
    one = trace_of(tmp_path, arm, parameters=LOOPING if arm else STEADY)
    (axes,) = figures.timeline(one).axes
    texts = [t.get_text() for t in axes.texts]
    assert len(axes.get_xticks()) == len(one.steps) and "fetch_ecpm" in texts
