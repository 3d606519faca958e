"""From traces to summary, tables and figures: outcome classes stay apart, and the caveat is always there."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from gemlab import backends
from gemlab.backends import API, SCRIPTED, Source
from gemlab.measure import figures, style, summary, tables
from gemlab.measure.results import Results
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
        made[model] = Results(traces, arms, api.source)
    return made


@pytest.fixture
def loose(results):
    return results["gemini-2.5-flash"]


@pytest.fixture
def strict(results):
    return results["gemini-3.8-flash"]


def test_the_summary_counts_what_the_traces_hold(loose):
    for arm, one in loose.summarised.items():
        mine = [t for t in loose.traces if t.arm.name == arm]
        done = sum(t.outcome == "completed" for t in mine)
        assert one["trials"] == len(mine) == 12 and one["outcomes"]["completed"] == done
        assert one["completion_rate"] == pytest.approx(done / 12, abs=1e-5)
        assert one["completion_ci"][0] <= one["completion_rate"] <= one["completion_ci"][1]
        assert one["tokens"]["total"] == one["tokens"]["prompt"] + one["tokens"]["output"]
    numbers = [loose.summarised, loose.comparisons]
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers


def test_arms_keep_their_declared_order_and_the_first_is_the_control(loose):
    assert list(loose.summarised) == ["preserve", "strip"]
    assert {(c["arm"], c["control"]) for c in loose.comparisons} == {("strip", "preserve")}


def test_a_simulated_run_says_so_in_notes_reading_and_figures(loose):
    assert loose.notes()[0].kind == "source" and "not Gemini" in loose.notes()[0].text
    for draw in (figures.estimates, figures.outcomes, figures.differences, figures.signatures):
        assert "not Gemini" in draw(loose).get_supxlabel()


def test_a_refused_arm_is_its_own_outcome_and_has_no_redundant_calls(strict):
    arm = strict.summarised["strip"]
    assert arm["outcomes"] == {"completed": 0, "wrong": 0, "unfinished": 0, "refused": 12, "failed": 0}
    assert arm["redundant_mean"] is None and arm["redundant_ci"] == [None, None]
    assert not [c for c in strict.comparisons if c["metric"] == "redundant" and c["arm"] == "strip"]
    assert any(note.kind == "refused" and "refused 12 of 12" in note.text for note in strict.notes())
    assert any("not failed by the model" in line for line in strict.sentences())


def test_failed_trials_are_left_out_of_every_rate(loose):
    wrong = [t for t in loose.traces if t.outcome != "completed"]
    traces = [replace(t, outcome="failed") if t in wrong else t for t in loose.traces]
    arms = Results(traces, loose.arms, loose.subject.source).summarised
    assert sum(a["outcomes"]["failed"] for a in arms.values()) == len(wrong) > 0
    assert all(a["completion_rate"] == 1.0 for a in arms.values())


def test_a_served_model_other_than_the_requested_one_is_in_table_and_notes(tmp_path):
    api = backends.get("sim")
    specs = trials.plan(["preserve"], "ecpm", "gemini-3.5-flash", 2)
    traces = trials.run(specs, api, tmp_path / "t.jsonl", progress=None)
    routed = Results(traces, ["preserve"], api.source)
    assert "gemini-3.6-flash" in tables.arms(routed.summarised)[0]["pin"]
    pins = [note.text for note in routed.notes() if note.kind == "pin"]
    assert any("asked for gemini-3.5-flash, served by gemini-3.6-flash" in text for text in pins)
    assert all(t.warnings for t in traces)


def test_the_summary_is_whole_or_not_there(loose, tmp_path, monkeypatch):
    monkeypatch.setattr(summary.json, "dumps", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        summary.write(tmp_path / "summary.json", loose.summarised)
    assert not (tmp_path / "summary.json").exists()


def test_figures_are_pictures_with_every_arm_named(strict, tmp_path):
    for draw in (figures.estimates, figures.outcomes, figures.differences, figures.signatures):
        figure = draw(strict)
        style.save(figure, tmp_path / f"{draw.__name__}.png")
        assert (tmp_path / f"{draw.__name__}.png").read_bytes()[:4] == b"\x89PNG"
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
    assert summary.json_value(1e-12) == 1e-12 and summary.json_value(math.nan) is None


def test_text_tables_align_and_leave_out_what_no_arm_had(loose):
    lines = tables.text(tables.arms(loose.summarised)).splitlines()
    assert len({len(line) for line in lines}) == 1 and "refused" not in lines[0] and "completed" in lines[0]


def test_the_article_s_figures_are_named_only_where_they_were_calibrated(loose, strict):
    assert "90% and 60%" in loose.notes()[0].text
    assert "90%" not in strict.notes()[0].text and "put in, not found" in strict.notes()[0].text
    for source in (replace(SCRIPTED, settings={"loop": 1.0}), API, Source("own", "own runs")):
        assert "90%" not in Results(loose.traces, loose.arms, source).notes()[0].text


def test_every_caption_says_whose_model_task_and_how_many(strict):
    for draw in (figures.estimates, figures.outcomes, figures.differences, figures.signatures):
        caption = " ".join(draw(strict).get_supxlabel().split())
        for said in ("not Gemini", "model gemini-3.8-flash, served gemini-3.8-flash", "task ecpm-two-turns"):
            assert said in caption
        assert "12 instances × 3 arms" in caption
    assert "Wilson for rates" in figures.estimates(strict).get_supxlabel().replace("\n", " ")


def test_figures_and_sentences_show_the_same_p(strict):
    drawn = {t.get_text() for axes in figures.differences(strict).axes for t in axes.texts}
    for c in strict.comparisons:
        if c["arm"] != "strip":
            assert any(tables.p_text(c["p_adjusted"]) in text for text in drawn)


def test_a_handful_of_equal_pairs_is_no_equivalence(loose):
    traces = [t for t in loose.traces if t.arm.name == "preserve"]
    twins = [replace(t, arm=replace(t.arm, name="twin")) for t in traces]
    said = Results([*traces, *twins], ["preserve", "twin"], loose.subject.source).sentences()
    assert len(said) == 2 and all("none excluded" in line and "on 12 instances" in line for line in said)


def test_a_picture_shows_itself_in_a_notebook_without_pyplot(loose):
    raw, size = figures.estimates(loose)._repr_png_()
    assert raw[:4] == b"\x89PNG" and size == {"width": 860}
