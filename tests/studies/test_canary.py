"""The canary: rows by served model, and an alarm whose false-alarm rate is what it says."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from gemlab import backends
from gemlab.backends import SCRIPTED
from gemlab.measure import metrics
from gemlab.measure.subject import Subject
from gemlab.registry import BadInput
from gemlab.runs import trials
from gemlab.studies import base, canary


def rows(mean, n, seed, served="m"):
    rng = np.random.default_rng(seed)
    calls = rng.poisson(mean, n)
    return pd.DataFrame({"served": served, "calls": calls, "redundant": np.maximum(calls - 4, 0)})


def test_a_line_for_each_served_model_with_its_cap_ratio():
    table = canary.table(pd.concat([rows(4, 50, 1), rows(9, 50, 2, "n")]), cap=8).set_index("served")
    both = {"m": rows(4, 50, 1), "n": rows(9, 50, 2)}
    for name, one in both.items():
        assert table.loc[name, "runs"] == 50 and table.loc[name, "calls"] == pytest.approx(one.calls.mean())
        assert table.loc[name, "cap_ratio"] == pytest.approx((one.calls >= 8).mean())
        assert table.loc[name, "cap_ratio_low"] <= table.loc[name, "cap_ratio"] <= table.loc[name, "cap_ratio_high"]


def test_an_unnamed_model_is_unknown():
    assert list(canary.table(rows(4, 5, 1, None), cap=8).served) == ["unknown"]


def test_a_change_raises_the_alarm_and_the_earlier_the_larger_it_is():
    looks = [10, 20, 40, 80]
    baseline = rows(5, 100, 1)
    small, large = (canary.watch(baseline, rows(mean, 80, 2), looks)[1] for mean in (7, 14))
    assert large == 10 and small is not None and small >= large


def test_false_alarms_stay_within_the_stated_rate():
    looks, watches = [10, 20, 40], 300
    raised = sum(canary.watch(rows(5, 60, 2 * i), rows(5, 40, 2 * i + 1), looks)[1] is not None for i in range(watches))
    # At most 5%, within three standard errors of it.
    assert raised / watches <= 0.05 + 3 * (0.05 * 0.95 / watches) ** 0.5


def test_equal_or_too_few_runs_raise_nothing():
    flat = pd.DataFrame({"served": "m", "calls": [4] * 20, "redundant": [0] * 20})
    assert canary.watch(flat, flat, [10, 20])[1] is None
    assert canary.look(flat, flat.iloc[:1], 0.05).p == 1.0


def test_looks_beyond_the_runs_are_not_made():
    assert [a.runs for a in canary.watch(rows(5, 50, 1), rows(5, 15, 2), [10, 20])[0]] == [10]


def test_rows_come_from_traces_csv_and_json_lines(tmp_path):
    specs = trials.plan(["preserve"], "ecpm", "gemini-2.5-flash", 4)
    traces = trials.run(specs, backends.get("sim"), tmp_path / "trials.jsonl", progress=None)
    wanted = metrics.frame(traces)[list(canary.COLUMNS)]
    wanted.to_csv(tmp_path / "rows.csv", index=False)
    wanted.to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
    for name in ("trials.jsonl", "rows.csv", "rows.jsonl"):
        found = canary.load(tmp_path / name)[list(canary.COLUMNS)]
        assert sorted(map(tuple, found.values)) == sorted(map(tuple, wanted.values))


@pytest.mark.parametrize(("name", "text"), [("a.csv", "x,y\n1,2\n"), ("a.jsonl", '{"x": 1}\n'), ("b.jsonl", "{")])
def test_other_files_are_one_clear_line(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=name.replace(".", r"\.")) as error:
        canary.load(tmp_path / name)
    assert "\n" not in str(error.value)


def test_the_study_and_its_figure_show_both_streams():
    streams = {"unchanged": rows(5, 40, 3), "changed": rows(12, 40, 4)}
    p = canary.Parameters(looks=[10, 40], repetitions=30)
    found = canary.study(p, rows(5, 80, 5), streams)
    by = found.set_index(["stream", "runs"]).alarmed
    assert by["changed", 40] == 1.0 and by["unchanged", 40] <= 0.2 and by["changed", 10] <= by["changed", 40]
    figure = canary.figure(found, 0.05, Subject(SCRIPTED, "80 and 40 runs"))
    assert {"unchanged", "changed"} <= {t.get_text() for t in figure.axes[0].texts}
    assert "scripted model" in figure.get_supxlabel() and "80 and 40 runs" in figure.get_supxlabel()
    said = canary.reading(found, 10, p)
    assert any(line.startswith("changed: 100%") for line in said) and "alarm after 10 runs" in said[0]


def own(tmp_path, **options):
    for name, frame in (("before", rows(5, 60, 1)), ("today", rows(12, 40, 2))):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    files = {"baseline_file": str(tmp_path / "before.csv"), "today_file": str(tmp_path / "today.csv")}
    return {**files, "looks": [10, 40], "repetitions": 10, **options}


def test_files_of_one_s_own_are_never_called_the_scripted_model_s(tmp_path):
    p = base.check(canary.STUDY, own(tmp_path))
    findings = canary.STUDY.run(p, tmp_path, backends.simulated())
    summary = findings.summary()
    assert summary["source"] == {
        "kind": "own", "label": "own runs, as recorded in before.csv and today.csv", "settings": {}
    }  # fmt: skip
    everything = json.dumps(summary) + findings.figure().get_supxlabel() + str(findings.reading())
    assert "cripted" not in everything and "put in" not in everything and "60 and 40 runs" in everything
    assert summary["model"] is None and summary["served"] == ["m"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"looks": [20, 10]}, "whole numbers that go up"),
        ({"looks": []}, "whole numbers that go up"),
        ({"looks": [10, 200]}, "a look after 200 runs needs as many: there are 120"),
        ({"alpha": 1.5}, "alpha lies between 0 and 1"),
        ({"runs": 0}, "start at 1"),
        ({"changed": "gpt-5"}, "unknown model 'gpt-5'"),
        ({"task": "nope"}, "unknown task"),
        ({"today_file": __file__}, "come together"),
        ({"today_file": __file__, "baseline_file": __file__}, "neither traces, nor rows"),
        ({"backend": "gemini"}, "canary uses sim alone, not gemini: the change is"),
    ],
)
def test_what_cannot_be_watched_is_refused_in_one_line(options, says):
    with pytest.raises(BadInput, match=says) as error:
        base.check(canary.STUDY, options)
    assert "\n" not in str(error.value)
