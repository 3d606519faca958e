"""The canary: rows by served model, and an alarm whose false-alarm rate is what it says."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from gemlab import backends
from gemlab.measure import metrics
from gemlab.runs import trials
from gemlab.studies import canary, canary_plots


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
        low, high = table.loc[name, "cap_ci"]
        assert low <= table.loc[name, "cap_ratio"] <= high


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
    found = canary.study(rows(5, 80, 5), streams, [10, 40], 0.05, 30, 1)
    by = found.set_index(["stream", "runs"]).alarmed
    assert by["changed", 40] == 1.0 and by["unchanged", 40] <= 0.2 and by["changed", 10] <= by["changed", 40]
    texts = [t.get_text() for t in canary_plots.alarms(found, 0.05).axes[0].texts]
    assert {"unchanged", "changed"} <= set(texts)
    assert "changed: 100%" in canary.reading(found, 0.05)
    json.dumps(canary.summary(canary.watch(streams["unchanged"], streams["changed"], [10])[0]))
