"""Stopping by evidence: the decision by itself, and runs that it ends."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gemlab import backends
from gemlab.emulator.minds.scripted import Parameters
from gemlab.runs import blocks, trace, trials
from gemlab.runs.blocks import Evidence

OUTCOMES = np.array(["wrong", "completed"])


def drawn(rng, arms, instances, rates):
    """Outcomes by instance: each arm completes with its own chance."""
    made = OUTCOMES[(rng.random((instances, len(arms))) < rates).astype(int)]
    return [dict(zip(arms, row, strict=True)) for row in made.tolist()]


# --- the decision -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("others", "rate"), [(1, 0.5), (6, 0.5), (6, 0.8)])
def test_equal_arms_raise_a_false_alarm_less_often_than_alpha(others, rate):
    """With a look every 5 of 200 instances; six arms share a control, so each needs more evidence than one would."""
    rng, alpha, repetitions = np.random.default_rng(20), 0.1, 400
    arms = [f"arm {i}" for i in range(others + 1)]
    alarms = sum(
        any(e.closed for e in blocks.judge(drawn(rng, arms, 200, rate), arms, alpha, 5).values())
        for _ in range(repetitions)
    )
    # Two standard errors, 3 points, lie between the bound and what is let pass.
    assert 0 < alarms / repetitions < alpha - 0.03


def test_a_strong_effect_is_seen_early_and_none_beside_it():
    rng, arms = np.random.default_rng(5), ["control", "worse", "better", "same"]
    runs = [blocks.judge(drawn(rng, arms, 200, [0.5, 0.1, 0.9, 0.5]), arms) for _ in range(100)]
    for arm in ("worse", "better"):
        assert sum(r[arm].closed is not None for r in runs) > 97
        assert np.median([r[arm].closed or math.inf for r in runs]) <= 50
    assert sum(r["same"].closed is not None for r in runs) <= 5
    assert all(r["worse"].b < r["worse"].c and r["better"].b > r["better"].c for r in runs)


def outcomes(control, arm):
    """C completed, w wrong, u unfinished, r refused, f failed, - did not run."""
    names = {"C": "completed", "w": "wrong", "u": "unfinished", "r": "refused", "f": "failed"}
    both = zip(control, arm, strict=True)
    return [{a: names[x] for a, x in zip("ab", pair, strict=True) if x != "-"} for pair in both]


@pytest.mark.parametrize(
    ("control", "arm", "pairs", "b", "c"),
    [
        ("CCCC", "Cwur", 4, 0, 3),
        ("Cwur", "CCCC", 4, 3, 0),
        ("wurw", "wwww", 4, 0, 0),
        ("fCfC", "Cfff", 0, 0, 0),
        ("CfCC", "wwfw", 2, 0, 2),
        ("CCwC", "w-C-", 2, 1, 1),
        ("", "", 0, 0, 0),
    ],
)
def test_what_counts_as_a_pair(control, arm, pairs, b, c):
    found = blocks.judge(outcomes(control, arm), "ab", block=2)["b"]
    assert (found.pairs, found.b, found.c, found.closed) == (pairs, b, c, None)


def e_value(b, c):
    """The same by integration: the mean likelihood ratio of a coin drawn from the arcsine law against a fair one."""
    angle = (np.arange(20_000) + 0.5) / 20_000 * math.pi / 2
    p = np.sin(angle) ** 2
    return float(np.mean((2 * p) ** b * (2 * (1 - p)) ** c))


def test_an_arm_is_closed_at_the_first_look_at_which_its_evidence_is_enough():
    # 7 to 0 is 26.8, enough for one comparison at 5% (20); 9 to 0 is 95, enough for three (60), where 8 to 0 is not.
    assert [round(e_value(0, n), 1) for n in (6, 7, 8, 9)] == [14.4, 26.8, 50.3, 95.0]
    lost = outcomes("C" * 40, "w" * 40)
    for block, closed in ((1, 7), (5, 10), (7, 7), (10, 10), (40, 40)):
        found = blocks.judge(lost, "ab", block=block)["b"]
        assert found == Evidence("b", closed, 0, closed, pytest.approx(e_value(0, closed)), closed)
    assert blocks.judge(lost[:6], "ab", block=1)["b"].closed is None
    four = [{**o, "c": "completed", "d": "completed"} for o in lost]
    assert blocks.judge(four, "abcd", block=1)["b"].closed == 9
    assert blocks.judge(four, "abcd", alpha=0.25, block=1)["b"].closed == 6
    assert blocks.threshold("abcd") == pytest.approx(60)


def test_what_comes_after_the_close_changes_nothing():
    closed = blocks.judge(outcomes("C" * 10, "w" * 10), "ab")
    assert blocks.judge(outcomes("C" * 10 + "w" * 90, "w" * 10 + "C" * 90), "ab") == closed
    assert str(closed["b"]) == "b 0:10 of 10, e = 180 (closed)"


@pytest.mark.parametrize(
    ("arms", "options", "why"),
    [
        (["a"], {}, "a control and other arms, each once, not a"),
        ([], {}, "not none"),
        (["a", "b", "b"], {}, "each once"),
        (["a", "b"], {"alpha": 0}, "alpha lies between 0 and 1, not at 0"),
        (["a", "b"], {"alpha": 1.5}, "not at 1.5"),
        (["a", "b"], {"block": 0}, "at least one instance, not 0"),
    ],
)
def test_settings_that_decide_nothing_are_refused(arms, options, why):
    with pytest.raises(ValueError, match=why):
        blocks.judge([], arms, **options)


# --- runs ---------------------------------------------------------------------------------------------------

# Stripped histories are refused by this model: a known effect. The third arm is the control again.
MODEL = "gemini-3.8-flash"
NAMES = ["preserve", "strip", "again"]
ARMS = ["preserve", "strip", {"name": "again"}]


class Killed(Exception):
    pass


def backend():
    return backends.simulated(backends.emulator(parameters=Parameters(0.05, 0.03)))


def run(path, specs, arms=NAMES, progress=None, **options):
    return blocks.run(specs, arms, backend(), path, progress=progress, **options)


def timeless(traces):
    """What the clock leaves alone: the trial, the outcome, and what was said."""
    return [(t.trial, t.outcome, t.answer, t.received, t.requests, t.config) for t in traces]


@pytest.fixture(scope="module")
def specs():
    return trials.plan(ARMS, "ecpm", MODEL, 25, seed=4)


@pytest.fixture(scope="module")
def whole(specs, tmp_path_factory):
    """An uninterrupted run: its file, result and progress."""
    path, said = tmp_path_factory.mktemp("whole") / "t.jsonl", []
    return path, run(path, specs, progress=said.append), said


def test_a_closed_arm_runs_no_more_and_the_others_go_on(specs, whole):
    path, found, said = whole
    ran = {name: [t.instance for t in found.traces if t.arm.name == name] for name in NAMES}
    assert ran == {"preserve": list(range(25)), "strip": list(range(10)), "again": list(range(25))}
    assert [t.trial for t in found.traces] == [s.id for s in specs if s.arm.name != "strip" or s.instance < 10], (
        "in the plan's order, which is random within an instance"
    )
    assert {t.trial for t in trace.read(path)} == {t.trial for t in found.traces}
    completed = sum(t.outcome == "completed" for t in found.traces[:30] if t.arm.name == "preserve")
    assert 7 < completed < 10
    assert found.evidence["strip"] == Evidence("strip", 10, 0, completed, pytest.approx(e_value(0, completed)), 10)
    # Equal draws for equal requests: the control again is the control, and never parts from it.
    assert found.evidence["again"] == Evidence("again", 25, 0, 0, 1.0, None)
    assert found.threshold == pytest.approx(40)
    assert [line.partition(":")[0] for line in said] == [f"{n} of 25 instances" for n in (10, 20, 25)]
    assert f"strip 0:{completed} of 10, e = " in said[0] and "(closed); again 0:0 of 25, e = 1" in said[2]


def test_a_run_ends_when_every_arm_is_closed(tmp_path):
    specs = trials.plan(ARMS[:2], "ecpm", MODEL, 200, seed=4)
    found = run(tmp_path / "t.jsonl", specs, NAMES[:2], block=5)
    closed = found.evidence["strip"].closed
    assert closed in (10, 15) and len(found.traces) == 2 * closed
    assert len(trace.read(tmp_path / "t.jsonl")) == 2 * closed


def test_a_run_looks_at_the_end_of_a_plan_that_is_no_whole_block(tmp_path):
    specs = [s for s in trials.plan(ARMS, "ecpm", MODEL, 13, seed=4) if s.instance > 0]
    found = run(tmp_path / "t.jsonl", specs, block=50)
    assert {e.pairs for e in found.evidence.values()} == {12} and len(found.traces) == 36


@pytest.mark.parametrize(("kept", "concurrency"), [(0, 8), (17, 8), (30, 8), (31, 1), (31, 8), (60, 8)])
def test_a_run_that_was_killed_goes_on_as_if_it_had_not_been(specs, whole, tmp_path, kept, concurrency):
    path, found, said = whole
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 60
    cut = tmp_path / "t.jsonl"
    cut.write_bytes(b"".join(lines[:kept]) + (lines[kept][:99] if kept < 60 else b""))
    again = []
    resumed = run(cut, specs, progress=again.append, concurrency=concurrency)
    assert resumed.evidence == found.evidence and again == said
    assert timeless(resumed.traces) == timeless(found.traces)
    assert sorted(t.trial for t in trace.read(cut)) == sorted(t.trial for t in trace.read(path))


def test_a_kill_in_the_middle_of_a_block_decides_nothing(specs, whole, tmp_path, monkeypatch):
    done = []
    real = trials.loop.run

    async def mortal(*given):
        if len(done) == 26:
            raise Killed
        done.append(given[1].id)
        return await real(*given)

    with monkeypatch.context() as patched:
        patched.setattr(trials.loop, "run", mortal)
        with pytest.raises(Killed):
            run(tmp_path / "t.jsonl", specs, concurrency=1)
    assert len(trace.read(tmp_path / "t.jsonl")) == 26
    resumed = run(tmp_path / "t.jsonl", specs)
    assert resumed.evidence == whole[1].evidence and timeless(resumed.traces) == timeless(whole[1].traces)


async def test_a_run_in_the_caller_s_event_loop_and_beside_it_is_the_same(specs, whole, tmp_path):
    inside = await blocks.run_async(specs, NAMES, backend(), tmp_path / "a.jsonl", progress=None)
    assert timeless(inside.traces) == timeless(whole[1].traces)
    assert timeless(run(tmp_path / "a.jsonl", specs).traces) == timeless(whole[1].traces)


@pytest.mark.parametrize(
    ("changes", "arms", "why"),
    [
        ({"seed": 5}, NAMES, "another seed"),
        ({"instances": 24}, NAMES, "holds trial .*/24/0, which this run does not"),
        ({"arms": ARMS[:2]}, NAMES[:2], "holds trial again/"),
        ({"arms": [*ARMS[:2], {"name": "again", "guard": "default"}]}, NAMES, "another arm"),
        ({}, NAMES[:2], "the plan's arms are again, preserve, strip, not preserve, strip"),
        ({"repeats": 2}, NAMES, "takes no repeats"),
        ({"arms": [*ARMS[:2], {"name": "again", "history": "placebo"}]}, NAMES, "no donors for 'placebo'"),
    ],
)
def test_another_plan_is_refused_and_the_file_left_alone(whole, tmp_path, changes, arms, why):
    path = tmp_path / "t.jsonl"
    path.write_bytes(whole[0].read_bytes())
    other = trials.plan(**{"arms": ARMS, "task": "ecpm", "model": MODEL, "instances": 25, "seed": 4, **changes})
    with pytest.raises(ValueError, match=why):
        run(path, other, arms)
    assert path.read_bytes() == whole[0].read_bytes()


def test_donors_reach_the_trials(tmp_path):
    asked = []

    def donor(spec):
        asked.append(spec.id)
        return ["AAAA"]

    specs = trials.plan(["preserve", "placebo"], "ecpm", MODEL, 10)
    found = run(tmp_path / "t.jsonl", specs, ["preserve", "placebo"], donors={"placebo": donor})
    assert {s.id for s in specs if s.arm.name == "placebo"} == set(asked)
    assert {t.outcome for t in found.traces if t.arm.name == "placebo"} == {"refused"}


def test_a_trial_without_a_donor_shows_before_the_first_block_runs(tmp_path):
    def donor(spec):
        if spec.instance == 9:
            raise ValueError("no donor for the last one")
        return ["AAAA"]

    specs = trials.plan(["preserve", "placebo"], "ecpm", MODEL, 10)
    with pytest.raises(ValueError, match="no donor for the last one"):
        run(tmp_path / "t.jsonl", specs, ["preserve", "placebo"], donors={"placebo": donor}, block=2)
    assert not (tmp_path / "t.jsonl").exists()


def test_failed_pairs_are_run_again_and_left_out_until_then(specs, whole, tmp_path):
    path = tmp_path / "t.jsonl"
    traces = [
        replace(t, outcome="failed") if t.trial in ("strip/3/0", "preserve/7/0") else t for t in trace.read(whole[0])
    ]
    path.write_text("".join(map(trace.dumps, traces)), "utf-8")
    resumed = run(path, specs)
    assert resumed.evidence == whole[1].evidence and timeless(resumed.traces) == timeless(whole[1].traces)
    left = blocks.judge([{t.arm.name: t.outcome for t in traces if t.instance == i} for i in range(25)], NAMES)
    assert (
        left["strip"].pairs == 8
        and left["again"].pairs == 24
        and replace(left["again"], pairs=25) == whole[1].evidence["again"]
    )
