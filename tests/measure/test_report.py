"""From traces to summary, tables and figures: outcome classes stay apart, and the caveat is always there."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from gemlab import backends
from gemlab.measure import figures, report, tables
from gemlab.runs import trials

ARMS = {
    "gemini-2.5-flash": ("ecpm", ["preserve", "strip"]),
    "gemini-3.8-flash": ("ecpm-two-turns", ["preserve", "strip", "dummy"]),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    made = {}
    for model, (task, arms) in ARMS.items():
        api = backends.get("sim")
        path = tmp_path_factory.mktemp("runs") / "trials.jsonl"
        traces = trials.run(trials.plan(arms, task, model, 12), api, path, progress=None)
        made[model] = report.Results("x", traces, arms, api.source)
    return made


@pytest.fixture
def loose(results):
    return results["gemini-2.5-flash"]


@pytest.fixture
def strict(results):
    return results["gemini-3.8-flash"]


def test_the_summary_counts_what_the_traces_hold(loose):
    summary = loose.summary()
    for arm, one in summary["arms"].items():
        mine = [t for t in loose.traces if t.arm.name == arm]
        done = sum(t.outcome == "completed" for t in mine)
        assert one["trials"] == len(mine) == 12 and one["outcomes"]["completed"] == done
        assert one["completion_rate"] == pytest.approx(done / 12, abs=1e-5)
        assert one["completion_ci"][0] <= one["completion_rate"] <= one["completion_ci"][1]
        assert one["tokens"]["total"] == one["tokens"]["prompt"] + one["tokens"]["output"]
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_arms_keep_their_declared_order_and_the_first_is_the_control(loose):
    assert list(loose.summary()["arms"]) == ["preserve", "strip"]
    assert {(c["arm"], c["control"]) for c in loose.comparisons()} == {("strip", "preserve")}


def test_a_simulated_run_says_so_in_notes_reading_and_figures(loose):
    assert "not Gemini" in loose.notes()[0] and "not Gemini" in loose.reading()
    for draw in (figures.estimates, figures.outcomes, figures.differences, figures.signatures):
        assert "not Gemini" in draw(loose).get_supxlabel()


def test_a_refused_arm_is_its_own_outcome_and_has_no_redundant_calls(strict):
    arm = strict.summary()["arms"]["strip"]
    assert arm["outcomes"] == {"completed": 0, "wrong": 0, "unfinished": 0, "refused": 12, "failed": 0}
    assert arm["redundant_mean"] is None and arm["redundant_ci"] == [None, None]
    assert not [c for c in strict.comparisons() if c["metric"] == "redundant" and c["arm"] == "strip"]
    assert any("refused 12 of 12" in note for note in strict.notes())
    assert "not failed by the model" in strict.reading()


def test_failed_trials_are_left_out_of_every_rate(loose):
    wrong = [t for t in loose.traces if t.outcome != "completed"]
    traces = [replace(t, outcome="failed") if t in wrong else t for t in loose.traces]
    arms = report.Results("x", traces, loose.arms, loose.source).summary()["arms"]
    assert sum(a["outcomes"]["failed"] for a in arms.values()) == len(wrong) > 0
    assert all(a["completion_rate"] == 1.0 for a in arms.values())


def test_a_served_model_other_than_the_requested_one_is_in_table_and_notes(tmp_path):
    api = backends.get("sim")
    specs = trials.plan(["preserve"], "ecpm", "gemini-3.5-flash", 2)
    traces = trials.run(specs, api, tmp_path / "t.jsonl", progress=None)
    routed = report.Results("x", traces, ["preserve"], api.source)
    assert "gemini-3.6-flash" in routed.table().loc["preserve", "pin"]
    assert any("asked for gemini-3.5-flash, served by gemini-3.6-flash" in note for note in routed.notes())
    assert all(t.warnings for t in traces)


def test_the_summary_is_whole_or_not_there(loose, tmp_path, monkeypatch):
    monkeypatch.setattr(report.json, "dumps", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        loose.write(tmp_path / "summary.json")
    assert not (tmp_path / "summary.json").exists()


def test_figures_are_pictures_with_every_arm_named(strict, tmp_path):
    for draw in (figures.estimates, figures.outcomes, figures.differences, figures.signatures):
        figure = draw(strict)
        picture = figures.save(figure, tmp_path / f"{draw.__name__}.png")
        assert picture.data[:4] == b"\x89PNG"
        named = {label.get_text() for axes in figure.axes for label in axes.get_yticklabels()}
        assert {"dummy"} <= named


@pytest.mark.parametrize(
    ("value", "ci", "text"),
    [(0.5, (0.25, 0.75), "50% [25, 75]"), (None, None, "–"), (1.0, (None, None), "100%")],
)
def test_percent(value, ci, text):
    assert tables.percent(value, ci) == text


def test_p_values_are_never_shown_as_zero():
    assert tables.p_text(1e-12) == "p < 0.001" and tables.p_text(0.0314) == "p = 0.031"
    assert report._json(1e-12) == 1e-12 and report._json(math.nan) is None


def test_text_tables_align_and_leave_out_what_no_arm_had(loose):
    lines = tables.text(tables.arms(loose.summary())).splitlines()
    assert len({len(line) for line in lines}) == 1 and "refused" not in lines[0] and "completed" in lines[0]
