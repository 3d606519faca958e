"""Guards on looping tasks: recovery counted by hand, the figure, and both notebooks run headless."""

import json
from dataclasses import replace

import pytest

from gemlab import backends
from gemlab.agent.arm import Arm
from gemlab.agent.step import Step
from gemlab.app import experiments, notebooks
from gemlab.guards.rounds import Verdict
from gemlab.measure import style, subject
from gemlab.runs import looping
from gemlab.runs.trace import Tools, Trace
from gemlab.studies import guard_ab

MODEL = "gemini-2.5-flash"

NUDGE = Verdict("nudge", "repeated_call", "x", 0)


def answered(*calls, verdicts=(), text=None):
    parts = [{"functionCall": {"name": n, "args": {"q": q}}} for n, q in calls] or [{"text": text or ""}]
    response = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    return Step(MODEL, response=response, verdicts=tuple(verdicts))


def trace_of(arm, instance, outcome, steps, forced=False):
    steps = [*steps[:-1], replace(steps[-1], final=forced)]
    return Trace(
        f"{arm}/{instance}/0", Arm(arm), "dead-end", instance, 0, 0, "sim", backends.SCRIPTED, MODEL, outcome, None,
        None, None, "", 0, "", Tools("get"), steps,
    )  # fmt: skip


def test_recovery_by_hand():
    same, other, nudged = ("get", 1), ("get", 2), answered(("get", 1), verdicts=[NUDGE])
    done = answered(text="done")
    traces = [
        trace_of("a", 0, "completed", [answered(same), nudged, answered(other), done]),
        trace_of("a", 1, "completed", [nudged, answered(other, same), done]),
        trace_of("a", 2, "completed", [nudged, answered(same), done], forced=True),
        trace_of("a", 3, "wrong", [nudged, done]),
        trace_of("a", 4, "unfinished", [answered(same), done]),
        trace_of("b", 0, "completed", [done]),
    ]
    rows = guard_ab.recovery(traces, ["b", "a"])
    assert list(rows.arm) == ["b", "a"]
    a = rows.iloc[1]
    # Left the loop: the first (another call) and the fourth (an answer); in the others the call came again.
    assert (a.trials, a.nudged, a["left"], a.recovered, a.forced, a.stopped) == (5, 4, 2, 2, 1, 1)
    assert a.completed == 0.6 and a.requests == pytest.approx((4 + 3 + 3 + 2 + 2) / 5)
    shown = guard_ab.shown(rows)
    assert shown[0]["recovered"] == "–" and shown[1]["left the loop"].startswith("2 of 4, 50% [")
    assert guard_ab.reading(rows) == ["dead-end (n = 1 an arm): b 100% in 1.0 requests, a 60% in 2.8 requests."]


def test_the_arms_of_a_small_run(tmp_path):
    api = looping.backend("sim", loop=1.0)
    arms = [{"name": "off", "guard": "cap_20"}, {"name": "default", "guard": "default"}]
    jobs = looping.jobs(["dead-end", "polling", "dead-end"], arms, "gemini-2.5-flash", 12, 1, 1)
    traces = looping.run(jobs, api, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["trials-polling.jsonl", "trials.jsonl"]
    rows = guard_ab.recovery(traces, ["off", "default"]).set_index(["task", "arm"])
    assert rows.loc[("dead-end", "off"), "stopped"] > 0 and rows.loc[("dead-end", "default"), "completed"] == 1
    assert rows.loc[("dead-end", "default"), "nudged"] == rows.loc[("dead-end", "off"), "stopped"]
    assert rows.loc[("polling", "default"), "nudged"] == 0 and rows.loc[("polling", "default"), "completed"] == 1
    about = subject.of_traces(traces, api.source)
    figure = guard_ab.figure(rows.reset_index(), about)
    assert "tasks dead-end, polling · 24 instances × 2 arms" in figure.get_supxlabel()
    style.save(figure, tmp_path / "arms.png")
    # All of it lies on disk: a second call runs nothing.
    before = (tmp_path / "trials.jsonl").read_bytes()
    assert len(looping.run(jobs[:1], api, tmp_path)) == 24 and (tmp_path / "trials.jsonl").read_bytes() == before


def test_what_was_put_in_is_said_of_the_scripted_model_alone():
    prone = subject.of_traces([], looping.backend("sim", 1.0).source, "n")
    note = subject.of_source(prone, looping.PUT_IN).text
    assert "That it loops" in note and "90%" not in note
    assert "put in" not in subject.of_source(subject.of_traces([], backends.API, "n"), looping.PUT_IN).text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["guard_thresholds", "guard_ab"])
def test_the_notebooks_run_headless_with_figures_and_without_widgets(name, tmp_path):
    chosen = experiments.load(name)
    parameters = notebooks.prepare(chosen, {"instances": 6}, False, str(tmp_path / "out"))
    where = notebooks.run(chosen, parameters, str(tmp_path / "out"))
    assert experiments.is_done(where)
    cells = json.loads((where / "notebook.ipynb").read_text("utf-8"))["cells"]
    outputs = [o for c in cells if c["cell_type"] == "code" for o in c["outputs"]]
    kinds = [kind for o in outputs for kind in o.get("data", {})]
    assert kinds.count("image/png") == {"guard_thresholds": 4, "guard_ab": 1}[name]
    assert not any("widget" in kind for kind in kinds)
    skipped = [c for c in cells if "skip-execution" in c["metadata"].get("tags", [])]
    assert [c["execution_count"] for c in skipped] == {"guard_thresholds": [None], "guard_ab": []}[name]
    assert "shows the instrument" in (where / "summary.json").read_text("utf-8")
