"""What runs on a language model gave, by a fake one of known behaviour: rows, cells, sentences, figure, summary."""

from __future__ import annotations

import json
import math
import re

import pandas as pd
import pytest

from gemlab.backends import language
from gemlab.measure import metrics, style, tables
from gemlab.measure.subject import of_traces
from gemlab.runs import blocks
from gemlab.studies.signature_lm import figure as figures
from gemlab.studies.signature_lm import report
from gemlab.studies.signature_lm import runs as running
from gemlab.studies.signature_lm.runs import Run
from gemlab.studies.signature_lm.speed import Rates
from gemlab.studies.signature_lm.study import STUDY, Loaded

MODEL = "gemini-2.5-flash"
ARMS = ["preserve", "strip", "neutral", "placebo", {"name": "none", "thinking": "off"}]
NAMES = ["preserve", "strip", "neutral", "placebo", "none"]


def run(server, folder, arms, instances, prompt="worked", **options):
    name = f"openai:{server.url}#small"
    return running.run(asked(name, prompt, arms=arms, instances=instances, block=instances, **options), folder)


def asked(name, *prompts, **options):
    setups = [{"task": "ecpm-handles", "prompt": prompt} for prompt in prompts]
    return running.Parameters(backend=name, setups=setups, **options)


def outcomes(one, arm):
    return {t.instance: t.outcome for t in one.traces if t.arm.name == arm}


# --- tables -------------------------------------------------------------------------------------------------


def test_the_table_holds_what_is_counted_by_hand_in_the_traces(language_whole):
    rows = report.frame(language_whole[1])
    assert len(rows) == 10 and list(rows.arm) == NAMES * 2 and set(rows.prompt) == {"worked", "transcript"}
    for row in rows.itertuples():
        one = next(o for o in language_whole[1] if o.setup.prompt == row.prompt)
        arm, control = outcomes(one, row.arm), outcomes(one, "preserve")
        completed = [i for i, outcome in arm.items() if outcome == "completed"]
        assert (row.task, row.trials, row.completed) == ("ecpm-handles", len(arm), len(completed))
        assert row.completion == pytest.approx(len(completed) / len(arm), abs=1e-6)
        assert row.completion_low <= row.completion <= row.completion_high
        steps = [len(t.steps) for t in one.traces if t.arm.name == row.arm]
        assert row.requests == pytest.approx(sum(steps) / len(steps), abs=1e-4)
        assert row.redundant == row.redundant_low == row.redundant_high == 0
        if row.arm == "preserve":
            assert math.isnan(row.pairs) and math.isnan(row.e_value) and math.isnan(row.closed)
            continue
        only_arm = sum(arm[i] == "completed" != control[i] for i in arm)
        only_control = sum(control[i] == "completed" != arm[i] for i in arm)
        assert (row.pairs, row.only_arm, row.only_control) == (len(arm), only_arm, only_control)
        assert (row.closed == len(arm)) if row.arm in ("strip", "none") else math.isnan(row.closed)
    returned = rows.set_index(["prompt", "arm"]).thoughts_returned["worked"]
    # Of trials that ended with their first request nothing could come back.
    assert (returned["preserve"], returned["strip"], returned["neutral"], returned["placebo"]) == (1, 0, 0, 0)
    assert math.isnan(returned["none"])


def test_redundant_calls_are_counted_by_hand(model_server, following, tmp_path):
    """A model that makes its first call twice, wherever its newest thought is lost."""
    follow = following()

    def repeating(body):
        chat = [m["content"] for m in body["messages"] if m["role"] == "assistant"]
        lost = [text for text in chat[-1:] if "thought" not in text]
        return json.dumps({"thought": "Again.", **json.loads(chat[0])}) if lost and len(chat) == 1 else follow(body)

    model_server.answers = [repeating]
    (one,) = run(model_server, tmp_path, ["preserve", "strip"], 4, "bare")
    rows = report.frame([one]).set_index("arm")
    assert list(rows.redundant) == [0, 1] and list(rows.requests) == [5, 6] and list(rows.completed) == [4, 4]


def test_the_cells_for_people(language_whole):
    cells = report.shown(report.frame(language_whole[1][:1]))
    shown = pd.DataFrame(cells).set_index("arm")
    assert list(shown.columns) == [
        "task", "prompt", "completed", "completion", "redundant calls", "requests", "only arm : only control",
        "e-value", "stopped",
    ]  # fmt: skip
    found = language_whole[1][0].evidence["strip"]
    strip, control, neutral = shown.loc["strip"], shown.loc["preserve"], shown.loc["neutral"]
    assert strip["only arm : only control"] == f"0 : {found.c}" and strip["stopped"] == f"after {found.closed} pairs"
    assert float(strip["e-value"]) == pytest.approx(found.e_value, rel=0.05)
    assert list(control[["only arm : only control", "e-value", "stopped"]]) == ["–"] * 3
    assert list(neutral[["only arm : only control", "e-value", "stopped"]]) == ["0 : 0", "1.00", "–"]
    assert control["completed"] == "14 of 14" and control["completion"].startswith("100% [7")
    lines = tables.markdown(cells).splitlines()
    assert (
        len(lines) == 2 + 5
        and len({line.count("|") for line in lines}) == 1
        and re.search(r"0 : 0 +\| 1\.00", lines[4])
    )


# --- in words -----------------------------------------------------------------------------------------------


def turned(one):
    """The same trials with the arm that has no thoughts as the control: now preserve is better."""
    traces = [t for t in one.traces if t.arm.name in ("preserve", "strip") and t.instance in outcomes(one, "strip")]
    by_instance = {}
    for t in traces:
        by_instance.setdefault(t.instance, {})[t.arm.name] = t.outcome
    arms = ["strip", "preserve"]
    evidence = blocks.judge(list(by_instance.values()), arms, block=10)
    return Run(one.setup, arms, traces, evidence, blocks.threshold(arms), one.source, 1.0, len(traces))


def test_the_reading_names_the_sign_whichever_it_is(language_whole):
    one = language_whole[1][0]
    found = one.evidence["strip"]
    kept = len(outcomes(one, "strip"))
    completed = [o for o in outcomes(one, "strip").values() if o == "completed"]
    first, *_ = report.reading([one])
    assert first.startswith("ecpm-handles, worked: preserve completes 100%; ")
    assert f"strip {len(completed) / kept:.0%} (0 : {found.c} of {kept} pairs, e ≥ 80: worse)" in first
    assert "neutral 100% (0 : 0 of 14 pairs, e = 1.00, no difference shown)" in first
    assert "better" not in first
    other = turned(one)
    turned_first, *_ = report.reading([other])
    pairs = other.evidence["preserve"].pairs
    assert f"preserve 100% ({other.evidence['preserve'].b} : 0 of {pairs} pairs, e ≥ 20: better)." in turned_first
    assert "worse" not in turned_first


def test_the_reading_says_what_all_of_it_stands_on(language_whole, running_model_server):
    lines = [*report.reading(language_whole[1]), *map(str, report.notes(language_whole[1]))]
    told = f"on a language model behind the emulator, not on Gemini: small (at {running_model_server.url}, "
    for prompt in ("worked", "transcript"):
        assert sum(f"easured {told}" in line and f"prompt '{prompt}', temp" in line for line in lines) == 1
    assert len(lines) == 5
    assert lines[-1].endswith("with preserve at a false-alarm rate of 0.05 for all arms of a set-up together.")
    assert not any("scripted" in line.lower() for line in lines)


def test_another_alpha_is_said(model_server, following, tmp_path):
    model_server.answers = [following()]
    runs = run(model_server, tmp_path, ["preserve", "strip", "neutral"], 2, alpha=0.2)
    assert "false-alarm rate of 0.2 for" in report.notes(runs)[-1].text


def test_the_last_prompts_of_one_instance_differ_by_the_thoughts_alone(language_whole):
    one = language_whole[1][0]
    kept, lost = (report.last_prompt(one, arm) for arm in ("preserve", "none"))
    assert kept.startswith("user      For app-") and kept.splitlines()[0] == lost.splitlines()[0]
    assert kept.count('"thought"') == 4 and '"thought"' not in lost
    assert "Example" not in kept and "Tools:" not in kept
    # Whatever the model itself was shown last, of that trial.
    trial = next(t for t in one.traces if t.arm.name == "preserve" and t.instance == 0)
    assert re.search(r"s-\d+", json.dumps(trial.received))[0] in kept


@pytest.mark.parametrize("arm", ["server_state", "server_state_stateless"])
def test_the_last_prompt_of_a_history_that_the_server_keeps(model_server, following, tmp_path, arm):
    model_server.answers = [following()]
    (one,) = run(model_server, tmp_path, ["preserve", arm], 1)
    assert {t.outcome for t in one.traces} == {"completed"}
    kept, control = (report.last_prompt(one, name) for name in (arm, "preserve"))
    assert kept == control and kept.count('"thought"') == 4


# --- what is left behind ------------------------------------------------------------------------------------


@pytest.fixture
def findings(language_whole, running_model_server, following, tmp_path):
    """The whole run again, from its folder: nothing but the speed is measured anew."""
    folder, _, _ = language_whole
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    running_model_server.reset()
    follow = following(early=0.5)
    running_model_server.answers = [lambda body: follow(body) if "response_format" in body else "one, two, three"]
    p = asked(f"openai:{running_model_server.url}#small", "worked", "transcript", arms=ARMS, instances=14, pilot=4)
    return STUDY.run(p, tmp_path, Loaded(p))


def test_the_summary_holds_the_rows_and_the_notes(language_whole, findings, running_model_server):
    _, runs, _ = language_whole
    written = json.loads(findings.save().read_text())
    lines = (findings.folder / "tables.md").read_text().splitlines()
    (first,) = [n for n, line in enumerate(lines) if line.startswith("| task")][:1]
    assert re.match(r"\| ecpm-handles +\| worked +\| preserve +\|", lines[first + 2])
    assert written["experiment"] == "signature_lm" and written["model"] == MODEL
    assert written["backend"] == f"openai:{running_model_server.url}#small"
    assert written["source"]["kind"] == "language" and written["source"]["settings"] == {
        "prompts": ["worked", "transcript"]
    }
    assert written["notes"] == [note.text for note in report.notes(runs)]
    assert written["reading"][:2] == report.reading(runs)
    rows, setups = report.frame(runs), written["tables"]["setups"]
    assert [s["arm"] for s in setups] == list(rows.arm)
    assert [s["only_control"] for s in setups] == [None if math.isnan(x) else x for x in rows.only_control]
    assert written["tables"]["speed"] == [] and "no speed to tell" in findings.speed
    assert findings.last_prompts().count("--- ") == 2 and "--- strip\nuser " in findings.last_prompts()


def test_the_speed_of_trials_is_told_beside_the_runtime_s_own(language_whole):
    _, runs, _ = language_whole
    every = [t for one in runs for t in one.traces]
    requests, seconds = sum(len(t.steps) for t in every), sum(one.seconds for one in runs)
    found = report.speed(runs, Rates(1000.0, 50.0))
    # The fake server counts 100 tokens of prompt, 60 of them cached, and 20 made, for every request.
    assert found["read_a_second"] == pytest.approx(40 * requests / seconds)
    assert found["made_a_second"] == pytest.approx(20 * requests / seconds)
    assert found["seconds_a_trial"] == pytest.approx(seconds / len(every))
    assert found["runtime_share"] == pytest.approx((40 / 1000 + 20 / 50) * requests / seconds)
    text = report.speed_text({**found, "seconds_a_trial": 2.0, "runtime_share": 0.5})
    assert text.startswith("2.0 s a trial; ") and text.endswith("reads 1000 or makes 50: 50% of what it can do")


@pytest.mark.parametrize("rates", [Rates(0.0, 50.0), Rates(1000.0, 0.0)])
def test_a_runtime_that_counts_no_tokens_has_no_speed(language_whole, rates):
    assert report.speed(language_whole[1], rates) == {}


def test_metrics_read_these_traces_like_any_other(language_whole):
    rows = metrics.frame(language_whole[1][0].traces)
    assert (rows.prompt_tokens == 100 * rows.requests).all() and (rows.cached_tokens == 60 * rows.requests).all()
    assert (rows.output_tokens == 20 * rows.requests).all() and rows.pin.all()
    assert (rows.thought_tokens[rows.arm == "none"] == 0).all() and (rows.thought_tokens[rows.arm != "none"] > 0).all()


# --- the figure ---------------------------------------------------------------------------------------------


def test_the_figure_says_who_was_measured_and_colours_by_evidence(language_whole):
    traces = [t for one in language_whole[1] for t in one.traces]
    told = of_traces(traces, language.source("openai:http://127.0.0.1:9/v1#small"))
    figure = figures.setups(report.frame(language_whole[1]), told)
    left, right = figure.axes
    assert [t.get_text() for t in left.get_yticklabels()] == NAMES * 2
    assert "not on Gemini: small (at" in " ".join(figure.get_supxlabel().split())
    dots = [line for line in left.lines if line.get_marker() == "o"]
    assert len(dots) == 10 == len([line for line in right.lines if line.get_marker() == "o"])
    colours = [dot.get_color() for dot in dots[:5]]
    assert colours == [
        style.BLUE,
        style.RED,
        style.GREY,
        style.GREY,
        style.RED,
    ]
    better = figures.setups(report.frame([turned(language_whole[1][0])]), told)
    dots = [line.get_color() for line in better.axes[0].lines if line.get_marker() == "o"]
    assert dots == [style.BLUE, style.SKY]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0312, "0.03"),
        (1.0, "1.00"),
        (9.994, "9.99"),
        (26.81, "27"),
        (180.4, "180"),
        (1_234_567.0, "1.2e+06"),
        (math.inf, "inf"),
    ],
)
def test_e_values_are_read_without_a_calculator(value, text):
    assert report.e_text(value) == text
