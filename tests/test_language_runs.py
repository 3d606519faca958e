"""Arms on a language model, by a fake one of known behaviour: evidence, tables, files, and what is said of them."""

from __future__ import annotations

import json
import math
import re

import pytest

from gemlab import donors, language, language_plots, language_report, language_runs, metrics, sequential, trace
from gemlab.emulator.runtimes import RuntimeUnavailable
from gemlab.language_runs import Run, Setup
from gemlab.language_speed import Rates

MODEL = "gemini-2.5-flash"
ARMS = ["preserve", "strip", "neutral", "placebo", {"name": "none", "thinking": "off"}]
NAMES = ["preserve", "strip", "neutral", "placebo", "none"]
WORKED, TRANSCRIPT = Setup("ecpm-handles", "worked"), Setup("ecpm-handles", "transcript")
# More than half of the trials without thoughts answer too early: at each of four steps with this probability.
EARLY = 0.5


def run(server, folder, setups=(WORKED,), arms=ARMS, instances=14, pilot=4, **options):
    name = f"openai:{server.url}#small"
    return language_runs.run(name, list(setups), arms, MODEL, instances, 1, folder, pilot=pilot, **options)


@pytest.fixture(scope="module")
def whole(running_model_server, following, tmp_path_factory):
    """A run in two set-ups: its folder, what it gave, and the requests that it made."""
    running_model_server.reset()
    running_model_server.answers = [following(EARLY)]
    folder = tmp_path_factory.mktemp("whole")
    runs = run(running_model_server, folder, (WORKED, TRANSCRIPT))
    return folder, runs, list(running_model_server.asked)


# --- what is found ------------------------------------------------------------------------------------------


def outcomes(one, arm):
    return {t["instance"]: t["outcome"] for t in one.traces if t["arm"]["name"] == arm}


def test_a_model_that_needs_its_thoughts_is_worse_without_them_and_no_worse_with_others_in_their_place(whole):
    """It asks only whether its newest step has a thought: empty, or of another trial, it will do."""
    for one in whole[1]:
        assert one.arms == NAMES and one.threshold == pytest.approx(4 / 0.05)
        for arm in ("strip", "none"):
            found = one.evidence[arm]
            assert found.closed in (10, 14) and found.c > found.b == 0 and found.e_value >= one.threshold
            assert len(outcomes(one, arm)) == found.closed
        for arm in ("neutral", "placebo"):
            found = one.evidence[arm]
            assert (found.b, found.c, found.e_value, found.closed, found.pairs) == (0, 0, 1.0, None, 14)
            assert set(outcomes(one, arm).values()) == {"completed"}
    assert any(len(outcomes(one, "strip")) == 10 for one in whole[1]), "closed before the end"


def test_without_an_effect_none_is_found(model_server, following, tmp_path):
    model_server.answers = [following()]
    (one,) = run(model_server, tmp_path, arms=["preserve", "strip"], instances=10)
    assert one.evidence["strip"] == sequential.Evidence("strip", 10, 0, 0, 1.0, None)


def test_arms_of_an_instance_ask_with_the_same_seeds_and_other_instances_with_others(whole):
    for one in whole[1]:
        seeds = {}
        for t in one.traces:
            for number, request in enumerate(trace.requests(t)):
                seeds.setdefault((t["instance"], number), set()).add(request["generationConfig"]["seed"])
        assert all(len(found) == 1 for found in seeds.values())
        assert len({seed for found in seeds.values() for seed in found}) == len(seeds)


def test_the_pilot_is_of_other_instances_and_lends_its_thoughts_in_turn(whole):
    folder, (one, _), _ = whole
    pilot = trace.read(folder / "pilot-ecpm-handles-worked.jsonl")
    assert len(pilot) == 4 and {t["arm"]["name"] for t in pilot} == {"preserve"}
    assert not {t["seed"] for t in pilot} & {t["seed"] for t in one.traces}
    lent = [set(donors.signatures_of(t)) for t in pilot]
    used = set()
    for t in (t for t in one.traces if t["arm"]["name"] == "placebo"):
        *_, last = trace.requests(t)
        sent = {p["thoughtSignature"] for c in last["contents"] for p in c["parts"] if "thoughtSignature" in p}
        (whose,) = [i for i, signatures in enumerate(lent) if sent <= signatures]
        used.add(whose)
    assert used == {0, 1, 2, 3}


def test_each_set_up_asks_in_its_own_way_of_one_runtime(whole):
    folder, runs, asked = whole
    assert [str(one.setup) for one in runs] == ["ecpm-handles, worked", "ecpm-handles, transcript"]
    texts = [a["messages"][0]["content"] for a in asked]
    assert 0 < sum("Example 2:" in text for text in texts) < len(texts)
    first, second = runs
    assert {t["backend"].rpartition(" ")[2] for t in first.traces} == {"prompt=worked"}
    assert {t["backend"].rpartition(" ")[2] for t in second.traces} == {"prompt=transcript"}
    assert sorted(p.name for p in folder.iterdir()) == [
        f"{kind}-ecpm-handles-{one.setup.prompt}.jsonl" for kind in ("pilot", "trials") for one in (second, first)
    ]


# --- without a placebo --------------------------------------------------------------------------------------


def test_a_pilot_without_a_completed_trial_leaves_the_placebo_out_and_says_so(model_server, tmp_path, capsys):
    model_server.answers = ['{"thought": "Enough.", "answer": "admob, 1.11"}']
    (one,) = run(model_server, tmp_path, arms=["preserve", "strip", "placebo"], instances=3, block=3)
    assert one.arms == ["preserve", "strip"] and {t["arm"]["name"] for t in one.traces} == {"preserve", "strip"}
    assert one.threshold == pytest.approx(1 / 0.05), "the arm that did not run costs the others nothing"
    assert "no trial of the pilot (4) was completed: no placebo here" in capsys.readouterr().out
    rows = language_report.frame([one])
    assert list(rows.arm) == ["preserve", "strip"] and list(rows.completed) == [0, 0]


def test_without_a_placebo_among_the_arms_there_is_no_pilot(model_server, following, tmp_path):
    model_server.answers = [following()]
    run(model_server, tmp_path, arms=["preserve", "neutral"], instances=2, block=2)
    assert [p.name for p in tmp_path.iterdir()] == ["trials-ecpm-handles-worked.jsonl"]


# --- going on, and ending -----------------------------------------------------------------------------------


def timeless(one):
    return one.setup, one.arms, one.evidence, [(t["trial"], t["outcome"], t["received"]) for t in one.traces]


def test_a_run_that_was_killed_gives_the_same(whole, running_model_server, following, tmp_path):
    folder, runs, _ = whole
    running_model_server.reset()
    running_model_server.answers = [following(EARLY)]
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    whole_file = (tmp_path / "trials-ecpm-handles-transcript.jsonl").read_bytes().splitlines(keepends=True)
    kept = len(whole_file) - 13
    cut = b"".join(whole_file[:kept]) + whole_file[kept][:99]
    (tmp_path / "trials-ecpm-handles-transcript.jsonl").write_bytes(cut)
    again = run(running_model_server, tmp_path, (WORKED, TRANSCRIPT))
    assert [timeless(one) for one in again] == [timeless(one) for one in runs]
    assert [one.ran for one in again] == [0, 13]
    assert language_report.frame(again).equals(language_report.frame(runs))
    # Whose trials were there already tells nothing of the speed.
    assert language_report.speed(again, Rates(100, 10)) == {}
    assert language_report.speed_text({}).startswith("no speed to tell")


def test_a_server_that_fails_ends_the_run_and_says_why(model_server, following, tmp_path, slept):
    model_server.answers = [500]
    for arms in (["preserve", "placebo"], ["preserve", "strip"]):
        with pytest.raises(RuntimeUnavailable, match=r"every trial failed: .*answered HTTP 500"):
            run(model_server, tmp_path, (WORKED, TRANSCRIPT), arms=arms, instances=2, pilot=2, block=1)
    assert not any("transcript" in p.name for p in tmp_path.iterdir()), "and the next set-up is not begun"
    model_server.answers = [following()]
    (one,) = run(model_server, tmp_path, arms=["preserve", "strip"], instances=2)
    assert {t["outcome"] for t in one.traces} == {"completed"}, "failed trials are run again"


def test_trials_that_failed_are_told_and_left_out(model_server, following, tmp_path, slept):
    follow = following()
    model_server.answers = [
        lambda body: 500 if "app-" in body["messages"][-1]["content"] and drop(body) else follow(body)
    ]
    doomed = []

    def drop(body):
        # The first conversation that begins fails for ever.
        doomed[:] = doomed or [body["messages"][-1]["content"]]
        return body["messages"][-1]["content"] == doomed[0]

    (one,) = run(model_server, tmp_path, arms=["preserve", "neutral"], instances=3, block=3)
    failed = [t["trial"] for t in one.traces if t["outcome"] == "failed"]
    assert len(failed) == 2 and one.evidence["neutral"].pairs == 2
    rows = language_report.frame([one])
    assert list(rows.trials) == [3, 3] and list(rows.completed) == [2, 2] and list(rows.completion) == [1, 1]
    lines = language_report.reading([one])
    assert "ecpm-handles, worked: 2 of 6 trials failed for infrastructure; left out." in lines


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"arms": ["preserve"]}, "a control and other arms"),
        ({"arms": ["preserve", "strip", "strip"]}, "each once"),
        ({"arms": ["preserve", "nope"]}, "unknown history strategy 'nope'"),
        ({"instances": 0}, "start at 1"),
        ({"pilot": 0}, "start at 1"),
        ({"alpha": 1.0}, "alpha lies between 0 and 1"),
        ({"block": 0}, "at least one instance"),
        ({"model": "gemini-3.8-flash"}, 'no thinking "off" for none'),
        ({"instances": 13}, "holds trial .*/13/0, which this run does not"),
        ({"pilot": 3}, "holds trial preserve/3/0, which this run does not"),
        ({"seed": 2}, "trials with another seed"),
        ({"backend": "openai:http://127.0.0.1:9/v1#other"}, "trials with another backend"),
    ],
)
def test_what_cannot_run_is_told_before_anything_does(whole, running_model_server, changes, says):
    folder = whole[0]
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    given = {
        "backend": f"openai:{running_model_server.url}#small", "wanted": [WORKED, TRANSCRIPT], "arms": ARMS,
        "model": MODEL, "instances": 14, "seed": 1, "folder": folder, "pilot": 4,
    }  # fmt: skip
    language_runs.check(**given)
    language_runs.check(**{**given, "instances": 40})
    with pytest.raises(ValueError, match=says) as error:
        language_runs.check(**{**given, **changes})
    assert "\n" not in str(error.value)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([], "there has to be one: got none"),
        ([{"task": "triage", "prompt": "bare"}] * 2, "set-ups are to differ, .*: got triage, bare; triage, bare"),
        ([{"task": "nope", "prompt": "bare"}], "unknown task 'nope'"),
        ([{"task": "triage", "prompt": "nope"}], "unknown prompt 'nope'"),
        ([{"task": "triage"}], "a set-up has task and prompt, both texts, not {'task': 'triage'}"),
        ([{"task": "triage", "prompt": "bare", "slots": "1"}], "a set-up has task and prompt"),
        ([{"task": "triage", "prompt": 1}], "a set-up has task and prompt"),
        (["triage"], "a set-up has task and prompt, both texts, not 'triage'"),
    ],
)
def test_unknown_set_ups_are_refused(values, says):
    with pytest.raises(ValueError, match=says):
        language_runs.setups(values)


def test_set_ups_come_from_their_json_form_and_have_files_of_their_own():
    made = language_runs.setups([{"task": "chain(6)", "prompt": "bare"}, {"prompt": "silent", "task": "chain(6)"}])
    assert made == [Setup("chain(6)", "bare"), Setup("chain(6)", "silent")]
    assert [one.file("trials") for one in made] == ["trials-chain-6-bare.jsonl", "trials-chain-6-silent.jsonl"]


# --- tables -------------------------------------------------------------------------------------------------


def test_the_table_holds_what_is_counted_by_hand_in_the_traces(whole):
    rows = language_report.frame(whole[1])
    assert len(rows) == 10 and list(rows.arm) == NAMES * 2 and set(rows.prompt) == {"worked", "transcript"}
    for row in rows.itertuples():
        one = next(o for o in whole[1] if o.setup.prompt == row.prompt)
        arm, control = outcomes(one, row.arm), outcomes(one, "preserve")
        completed = [i for i, outcome in arm.items() if outcome == "completed"]
        assert (row.task, row.trials, row.completed) == ("ecpm-handles", len(arm), len(completed))
        assert row.completion == pytest.approx(len(completed) / len(arm), abs=1e-6)
        assert row.completion_low <= row.completion <= row.completion_high
        steps = [len(t["steps"]) for t in one.traces if t["arm"]["name"] == row.arm]
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
    (one,) = run(model_server, tmp_path, [Setup("ecpm-handles", "bare")], ["preserve", "strip"], 4, block=4)
    rows = language_report.frame([one]).set_index("arm")
    assert list(rows.redundant) == [0, 1] and list(rows.requests) == [5, 6] and list(rows.completed) == [4, 4]


def test_the_cells_for_people(whole):
    shown = language_report.shown(language_report.frame(whole[1][:1])).set_index("arm")
    assert list(shown.columns) == [
        "task", "prompt", "completed", "completion", "redundant calls", "requests", "only arm : only control",
        "e-value", "stopped",
    ]  # fmt: skip
    found = whole[1][0].evidence["strip"]
    strip, control, neutral = shown.loc["strip"], shown.loc["preserve"], shown.loc["neutral"]
    assert strip["only arm : only control"] == f"0 : {found.c}" and strip["stopped"] == f"after {found.closed} pairs"
    assert float(strip["e-value"]) == pytest.approx(found.e_value, rel=0.05)
    assert list(control[["only arm : only control", "e-value", "stopped"]]) == ["–"] * 3
    assert list(neutral[["only arm : only control", "e-value", "stopped"]]) == ["0 : 0", "1.00", "–"]
    assert control["completed"] == "14 of 14" and control["completion"].startswith("100% [7")
    lines = language_report.markdown(language_report.frame(whole[1][:1])).splitlines()
    assert len(lines) == 2 + 5 and len({line.count("|") for line in lines}) == 1 and "0 : 0 | 1.00" in lines[4]


# --- in words -----------------------------------------------------------------------------------------------


def turned(one):
    """The same trials with the arm that has no thoughts as the control: now preserve is better."""
    traces = [
        t for t in one.traces if t["arm"]["name"] in ("preserve", "strip") and t["instance"] in outcomes(one, "strip")
    ]
    by_instance = {}
    for t in traces:
        by_instance.setdefault(t["instance"], {})[t["arm"]["name"]] = t["outcome"]
    arms = ["strip", "preserve"]
    evidence = sequential.judge(list(by_instance.values()), arms, block=10)
    return Run(one.setup, arms, traces, evidence, sequential.threshold(arms), one.told, 1.0, len(traces))


def test_the_reading_names_the_sign_whichever_it_is(whole):
    one = whole[1][0]
    found = one.evidence["strip"]
    kept = len(outcomes(one, "strip"))
    completed = [o for o in outcomes(one, "strip").values() if o == "completed"]
    first, *_ = language_report.reading([one])
    assert first.startswith("ecpm-handles, worked: preserve completes 100%; ")
    assert f"strip {len(completed) / kept:.0%} (0 : {found.c} of {kept} pairs, e ≥ 80: worse)" in first
    assert "neutral 100% (0 : 0 of 14 pairs, e = 1.00, no difference shown)" in first
    assert "better" not in first
    other = turned(one)
    turned_first, *_ = language_report.reading([other])
    pairs = other.evidence["preserve"].pairs
    assert f"preserve 100% ({other.evidence['preserve'].b} : 0 of {pairs} pairs, e ≥ 20: better)." in turned_first
    assert "worse" not in turned_first


def test_the_reading_says_what_all_of_it_stands_on(whole, running_model_server):
    lines = language_report.reading(whole[1])
    told = f"on a language model behind the emulator, not on Gemini: small (at {running_model_server.url}, "
    for prompt in ("worked", "transcript"):
        assert sum(f"easured {told}" in line and f"prompt '{prompt}', temp" in line for line in lines) == 1
    assert len(lines) == 5
    assert lines[-1].endswith("with preserve at a false-alarm rate of 0.05 for all arms of a set-up together.")
    assert not any("scripted" in line.lower() for line in lines)


def test_another_alpha_is_said(model_server, following, tmp_path):
    model_server.answers = [following()]
    runs = run(model_server, tmp_path, arms=["preserve", "strip", "neutral"], instances=2, alpha=0.2, block=2)
    assert "false-alarm rate of 0.2 for" in language_report.reading(runs)[-1]


def test_the_last_prompts_of_one_instance_differ_by_the_thoughts_alone(whole):
    one = whole[1][0]
    kept, lost = (language_report.last_prompt(one, arm) for arm in ("preserve", "none"))
    assert kept.startswith("user      For app-") and kept.splitlines()[0] == lost.splitlines()[0]
    assert kept.count('"thought"') == 4 and '"thought"' not in lost
    assert "Example" not in kept and "Tools:" not in kept
    # Whatever the model itself was shown last, of that trial.
    trial = next(t for t in one.traces if t["arm"]["name"] == "preserve" and t["instance"] == 0)
    assert re.search(r"s-\d+", json.dumps(trial["contents"]))[0] in kept


@pytest.mark.parametrize("arm", ["server_state", "server_state_stateless"])
def test_the_last_prompt_of_a_history_that_the_server_keeps(model_server, following, tmp_path, arm):
    model_server.answers = [following()]
    (one,) = run(model_server, tmp_path, arms=["preserve", arm], instances=1, block=1)
    assert {t["outcome"] for t in one.traces} == {"completed"}
    kept, control = (language_report.last_prompt(one, name) for name in (arm, "preserve"))
    assert kept == control and kept.count('"thought"') == 4


# --- what is left behind ------------------------------------------------------------------------------------


def test_the_summary_holds_the_rows_the_speed_and_the_notes(whole, tmp_path, running_model_server):
    _, runs, _ = whole
    speed = language_report.speed(runs, Rates(1000.0, 50.0))
    written = language_report.write(tmp_path / "summary.json", runs, speed)
    assert json.loads((tmp_path / "summary.json").read_text()) == written
    assert written["experiment"] == "signature_lm" and written["model"] == MODEL
    assert written["backend"] == f"openai:{running_model_server.url}#small"
    assert written["notes"] == language_report.reading(runs)
    rows = language_report.frame(runs)
    assert [s["arm"] for s in written["setups"]] == list(rows.arm)
    assert [s["only_control"] for s in written["setups"]] == [None if math.isnan(x) else x for x in rows.only_control]
    assert written["speed"] == {k: pytest.approx(v, rel=1e-3) for k, v in speed.items()}


def test_a_file_s_name_may_hold_spaces(whole, tmp_path):
    one = whole[1][0]
    traces = [{**t, "backend": "gguf:my model prompt=x.gguf prompt=worked"} for t in one.traces]
    run_of = Run(one.setup, one.arms, traces, one.evidence, one.threshold, one.told, one.seconds, one.ran)
    assert language_report.write(tmp_path / "s.json", [run_of], {})["backend"] == "gguf:my model prompt=x.gguf"


def test_the_speed_of_trials_is_told_beside_the_runtime_s_own(whole):
    _, runs, _ = whole
    every = [t for one in runs for t in one.traces]
    requests, seconds = sum(len(t["steps"]) for t in every), sum(one.seconds for one in runs)
    found = language_report.speed(runs, Rates(1000.0, 50.0))
    # The fake server counts 100 tokens of prompt, 60 of them cached, and 20 made, for every request.
    assert found["read_a_second"] == pytest.approx(40 * requests / seconds)
    assert found["made_a_second"] == pytest.approx(20 * requests / seconds)
    assert found["seconds_a_trial"] == pytest.approx(seconds / len(every))
    assert found["runtime_share"] == pytest.approx((40 / 1000 + 20 / 50) * requests / seconds)
    text = language_report.speed_text({**found, "seconds_a_trial": 2.0, "runtime_share": 0.5})
    assert text.startswith("2.0 s a trial; ") and text.endswith("reads 1000 or makes 50: 50% of what it can do")


@pytest.mark.parametrize("rates", [Rates(0.0, 50.0), Rates(1000.0, 0.0)])
def test_a_runtime_that_counts_no_tokens_has_no_speed(whole, rates):
    assert language_report.speed(whole[1], rates) == {}


def test_metrics_read_these_traces_like_any_other(whole):
    rows = metrics.frame(whole[1][0].traces)
    assert (rows.prompt_tokens == 100 * rows.requests).all() and (rows.cached_tokens == 60 * rows.requests).all()
    assert (rows.output_tokens == 20 * rows.requests).all() and rows.pin.all()
    assert (rows.thought_tokens[rows.arm == "none"] == 0).all() and (rows.thought_tokens[rows.arm != "none"] > 0).all()


# --- the figure ---------------------------------------------------------------------------------------------


def test_the_figure_says_who_was_measured_and_colours_by_evidence(whole):
    told = language.source("openai:http://127.0.0.1:9/v1#small")
    figure = language_plots.setups(language_report.frame(whole[1]), told)
    left, right = figure.axes
    assert [t.get_text() for t in left.get_yticklabels()] == NAMES * 2
    assert "not on Gemini: small (at" in " ".join(figure.get_supxlabel().split())
    dots = [line for line in left.lines if line.get_marker() == "o"]
    assert len(dots) == 10 == len([line for line in right.lines if line.get_marker() == "o"])
    colours = [dot.get_color() for dot in dots[:5]]
    assert colours == [
        language_plots.BLUE,
        language_plots.RED,
        language_plots.GREY,
        language_plots.GREY,
        language_plots.RED,
    ]
    better = language_plots.setups(language_report.frame([turned(whole[1][0])]), told)
    dots = [line.get_color() for line in better.axes[0].lines if line.get_marker() == "o"]
    assert dots == [language_plots.BLUE, language_plots.SKY]


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
    assert language_report.e_text(value) == text
