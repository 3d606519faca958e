"""Arms on a language model, by a fake one of known behaviour: evidence, files, going on, what is refused."""

from __future__ import annotations

import pytest

from gemlab.emulator.minds.runtimes import RuntimeUnavailable
from gemlab.runs import blocks, donors, trace
from gemlab.studies.signature_lm import report, runs
from gemlab.studies.signature_lm.runs import Setup
from gemlab.studies.signature_lm.speed import Rates

MODEL = "gemini-2.5-flash"
ARMS = ["preserve", "strip", "neutral", "placebo", {"name": "none", "thinking": "off"}]
NAMES = ["preserve", "strip", "neutral", "placebo", "none"]
WORKED, TRANSCRIPT = Setup("ecpm-handles", "worked"), Setup("ecpm-handles", "transcript")


def run(server, folder, setups=(WORKED,), arms=ARMS, instances=14, pilot=4, **options):
    return runs.run(asked(server, setups, arms=arms, instances=instances, pilot=pilot, **options), folder)


def asked(server, setups=(WORKED,), **options):
    name = f"openai:{server.url}#small"
    return runs.Parameters(**{"backend": name, "setups": [vars(s) for s in setups], "arms": ARMS, **options})


# --- what is found ------------------------------------------------------------------------------------------


def outcomes(one, arm):
    return {t.instance: t.outcome for t in one.traces if t.arm.name == arm}


def test_a_model_that_needs_its_thoughts_is_worse_without_them_and_no_worse_with_others_in_their_place(language_whole):
    """It asks only whether its newest step has a thought: empty, or of another trial, it will do."""
    for one in language_whole[1]:
        assert one.arms == NAMES and one.threshold == pytest.approx(4 / 0.05)
        for arm in ("strip", "none"):
            found = one.evidence[arm]
            assert found.closed in (10, 14) and found.c > found.b == 0 and found.e_value >= one.threshold
            assert len(outcomes(one, arm)) == found.closed
        for arm in ("neutral", "placebo"):
            found = one.evidence[arm]
            assert (found.b, found.c, found.e_value, found.closed, found.pairs) == (0, 0, 1.0, None, 14)
            assert set(outcomes(one, arm).values()) == {"completed"}
    assert any(len(outcomes(one, "strip")) == 10 for one in language_whole[1]), "closed before the end"


def test_without_an_effect_none_is_found(model_server, following, tmp_path):
    model_server.answers = [following()]
    (one,) = run(model_server, tmp_path, arms=["preserve", "strip"], instances=10)
    assert one.evidence["strip"] == blocks.Evidence("strip", 10, 0, 0, 1.0, None)


def test_arms_of_an_instance_ask_with_the_same_seeds_and_other_instances_with_others(language_whole):
    for one in language_whole[1]:
        seeds = {}
        for t in one.traces:
            for number, request in enumerate(t.requests):
                seeds.setdefault((t.instance, number), set()).add(request["generationConfig"]["seed"])
        assert all(len(found) == 1 for found in seeds.values())
        assert len({seed for found in seeds.values() for seed in found}) == len(seeds)


def test_the_pilot_is_of_other_instances_and_lends_its_thoughts_in_turn(language_whole):
    folder, (one, _), _ = language_whole
    pilot = trace.read(folder / "pilot-ecpm-handles-worked.jsonl")
    assert len(pilot) == 4 and {t.arm.name for t in pilot} == {"preserve"}
    assert not {t.seed for t in pilot} & {t.seed for t in one.traces}
    lent = [set(donors.signatures_of(t)) for t in pilot]
    used = set()
    for t in (t for t in one.traces if t.arm.name == "placebo"):
        *_, last = t.requests
        sent = {p["thoughtSignature"] for c in last["contents"] for p in c["parts"] if "thoughtSignature" in p}
        (whose,) = [i for i, signatures in enumerate(lent) if sent <= signatures]
        used.add(whose)
    assert used == {0, 1, 2, 3}


def test_each_set_up_asks_in_its_own_way_of_one_runtime(language_whole):
    folder, done, sent = language_whole
    assert [str(one.setup) for one in done] == ["ecpm-handles, worked", "ecpm-handles, transcript"]
    texts = [a["messages"][0]["content"] for a in sent]
    assert 0 < sum("Example 2:" in text for text in texts) < len(texts)
    first, second = done
    assert {t.backend.rpartition(" ")[2] for t in first.traces} == {"prompt=worked"}
    assert {t.backend.rpartition(" ")[2] for t in second.traces} == {"prompt=transcript"}
    assert sorted(p.name for p in folder.iterdir()) == [
        f"{kind}-ecpm-handles-{one.setup.prompt}.jsonl" for kind in ("pilot", "trials") for one in (second, first)
    ]


# --- without a placebo --------------------------------------------------------------------------------------


def test_a_pilot_without_a_completed_trial_leaves_the_placebo_out_and_says_so(model_server, tmp_path, capsys):
    model_server.answers = ['{"thought": "Enough.", "answer": "admob, 1.11"}']
    (one,) = run(model_server, tmp_path, arms=["preserve", "strip", "placebo"], instances=3, block=3)
    assert one.arms == ["preserve", "strip"] and {t.arm.name for t in one.traces} == {"preserve", "strip"}
    assert one.threshold == pytest.approx(1 / 0.05), "the arm that did not run costs the others nothing"
    assert "no trial of the pilot (4) was completed: no placebo here" in capsys.readouterr().out
    rows = report.frame([one])
    assert list(rows.arm) == ["preserve", "strip"] and list(rows.completed) == [0, 0]


def test_a_server_that_takes_no_schema_is_told_of(model_server, tmp_path):
    model_server.answers = ['{"thought": "no", "answer": "no"}']
    (one,) = run(model_server, tmp_path / "schema", arms=["preserve", "strip"], instances=1)
    assert "schema" not in one.source.label
    model_server.forms = ("json_object", None)
    (one,) = run(model_server, tmp_path / "object", arms=["preserve", "strip"], instances=1)
    assert one.source.label.endswith("; its server took no JSON schema, answers came as json_object")


def test_without_a_placebo_among_the_arms_there_is_no_pilot(model_server, following, tmp_path):
    model_server.answers = [following()]
    run(model_server, tmp_path, arms=["preserve", "neutral"], instances=2, block=2)
    assert [p.name for p in tmp_path.iterdir()] == ["trials-ecpm-handles-worked.jsonl"]


# --- going on, and ending -----------------------------------------------------------------------------------


def timeless(one):
    return one.setup, one.arms, one.evidence, [(t.trial, t.outcome, t.received) for t in one.traces]


def test_a_run_that_was_killed_gives_the_same(language_whole, running_model_server, following, tmp_path):
    folder, done, _ = language_whole
    running_model_server.reset()
    running_model_server.answers = [following(0.5)]
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    whole_file = (tmp_path / "trials-ecpm-handles-transcript.jsonl").read_bytes().splitlines(keepends=True)
    kept = len(whole_file) - 13
    cut = b"".join(whole_file[:kept]) + whole_file[kept][:99]
    (tmp_path / "trials-ecpm-handles-transcript.jsonl").write_bytes(cut)
    again = run(running_model_server, tmp_path, (WORKED, TRANSCRIPT))
    assert [timeless(one) for one in again] == [timeless(one) for one in done]
    assert [one.ran for one in again] == [0, 13]
    assert report.frame(again).equals(report.frame(done))
    # Whose trials were there already tells nothing of the speed.
    assert report.speed(again, Rates(100, 10)) == {}
    assert report.speed_text({}).startswith("no speed to tell")


def test_a_server_that_fails_ends_the_run_and_says_why(model_server, following, tmp_path, slept):
    model_server.answers = [500]
    for arms in (["preserve", "placebo"], ["preserve", "strip"]):
        with pytest.raises(RuntimeUnavailable, match=r"every trial failed: .*answered HTTP 500"):
            run(model_server, tmp_path, (WORKED, TRANSCRIPT), arms=arms, instances=2, pilot=2, block=1)
    assert not any("transcript" in p.name for p in tmp_path.iterdir()), "and the next set-up is not begun"
    model_server.answers = [following()]
    (one,) = run(model_server, tmp_path, arms=["preserve", "strip"], instances=2)
    assert {t.outcome for t in one.traces} == {"completed"}, "failed trials are run again"


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
    failed = [t.trial for t in one.traces if t.outcome == "failed"]
    assert len(failed) == 2 and one.evidence["neutral"].pairs == 2
    rows = report.frame([one])
    assert list(rows.trials) == [3, 3] and list(rows.completed) == [2, 2] and list(rows.completion) == [1, 1]
    lines = [note.text for note in report.notes([one])]
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
def test_what_cannot_run_is_told_before_anything_does(language_whole, running_model_server, changes, says):
    folder = language_whole[0]
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    given = {"instances": 14, "pilot": 4, "out": str(folder)}
    both = (WORKED, TRANSCRIPT)
    runs.check(asked(running_model_server, both, **given))
    runs.check(asked(running_model_server, both, **{**given, "instances": 40}))
    with pytest.raises(ValueError, match=says) as error:
        runs.check(asked(running_model_server, both, **{**given, **changes}))
    assert "\n" not in str(error.value)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([], "there has to be one: got none"),
        ([{"task": "triage", "prompt": "bare"}] * 2, "set-ups are to differ, .*: got triage, bare; triage, bare"),
        ([{"task": "nope", "prompt": "bare"}], "unknown task 'nope'"),
        ([{"task": "triage", "prompt": "nope"}], "unknown prompt 'nope'"),
        ([{"task": "triage"}], "set-up: prompt: field required"),
        ([{"task": "triage", "prompt": "bare", "slots": "1"}], "set-up: unknown slots; known: task, prompt"),
        ([{"task": "triage", "prompt": 1}], "set-up: prompt: input should be a valid string, not 1"),
        (["triage"], "set-up: .*, not 'triage'"),
    ],
)
def test_unknown_set_ups_are_refused(values, says):
    with pytest.raises(ValueError, match=says):
        runs.setups(values)


def test_set_ups_come_from_their_json_form_and_have_files_of_their_own():
    made = runs.setups([{"task": "chain(6)", "prompt": "bare"}, {"prompt": "silent", "task": "chain(6)"}])
    assert made == [Setup("chain(6)", "bare"), Setup("chain(6)", "silent")]
    assert [one.file("trials") for one in made] == ["trials-chain-6-bare.jsonl", "trials-chain-6-silent.jsonl"]
