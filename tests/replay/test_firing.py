"""Replays: the same as live guards at every threshold, and on recorded runs the same as counting by hand."""

import gzip
import json
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemlab.guards import CostBudget, Guards, TokenBudget, presets
from gemlab.guards.fingerprints import Identity
from gemlab.guards.rounds import Round
from gemlab.replay import firing, importers, thresholds
from gemlab.replay.firing import NEVER
from gemlab.replay.importers import Run

# --- the sweep is the live guard ----------------------------------------------------------------------------

IDENTITIES = {"poll": Identity(polling=True), "noisy": Identity(volatile_results=("ms",))}
RESULTS = st.sampled_from([None, {}, "ok", "x", "y", {"n": 1}, {"error": "e"}, {"error": "f"}, {"ms": 1}, {"ms": 2}])
CALLS = st.tuples(st.sampled_from(["a", "b", "poll", "noisy"]), st.sampled_from([{}, {"q": 1}]), RESULTS)


@st.composite
def rounds(draw):
    made = draw(st.lists(CALLS, max_size=3))
    return Round(
        tuple((name, args) for name, args, _ in made),
        tuple(result for *_, result in made),
        unknown=(0,) if made and draw(st.booleans()) else (),
        empty="" if made else draw(st.sampled_from(["no parts", ""])),
        prompt_tokens=draw(st.integers(0, 2)),
        identities=IDENTITIES,
    )


RUNS = st.lists(st.lists(rounds(), max_size=14), max_size=3).map(
    lambda turns: Run("r", "s", "m", True, None, tuple(map(tuple, turns)))
)


def first_verdict(run, guard):
    said = firing.live(run, Guards((guard,)))
    return said[0][0] if said else NEVER


@pytest.mark.parametrize("name", firing.RULES.names())
@settings(max_examples=60, deadline=None)
@given(run=RUNS)
def test_the_sweep_is_the_live_guard_at_every_threshold(name, run):
    rule, limits = firing.named_rules([name])[name], [2, 3, 4, 6, 9]
    fires = firing.sweep(firing.index([run]), {name: rule}, limits)
    assert fires.steps[0, 0].tolist() == [first_verdict(run, replace(rule, limit=n)) for n in limits]


@pytest.mark.parametrize("rule", [TokenBudget(1), CostBudget(1, prompt=1e6)])
@settings(max_examples=40, deadline=None)
@given(run=RUNS)
def test_budgets_are_swept_too(rule, run):
    (indexed,) = firing.index([run])
    found = firing.first_fires(indexed.turns, rule, [1, 3, 5])
    assert found == [first_verdict(run, replace(rule, limit=n)) for n in (1, 3, 5)]


@settings(max_examples=40, deadline=None)
@given(run=RUNS)
def test_a_preset_fires_where_the_first_of_its_guards_does(run):
    (indexed,) = firing.index([run])
    for members in (presets.get(name).members for name in presets.PRESETS):
        said = firing.live(run, Guards(members))
        found = [firing.first_fires(indexed.turns, g, [g.limit])[0] for g in members]
        assert min((n for n in found if n != NEVER), default=NEVER) == (said[0][0] if said else NEVER)


# --- recorded runs, counted by hand -------------------------------------------------------------------------


def by_hand(record):
    """Return for three rules the highest count after each round of a normalised record: {rule: [[...] a seg]}."""
    found = {"args": [], "result": [], "stall": []}
    for seg in record["segs"]:
        by_round = defaultdict(list)
        for call in seg:
            by_round[call["r"]].append((call["name"], call["args"], call["result"]))
        args, results, streak, last = Counter(), Counter(), 0, None
        counts = {"args": [], "result": [], "stall": []}
        for calls in by_round.values():
            args.update({(name, a) for name, a, _ in calls})
            results.update(set(calls))
            telling = {r for *_, r in calls if r not in TRIVIAL}
            if telling:
                streak, last = (streak + 1 if telling == last else 1), telling
            counts["args"].append(max(args[name, a] for name, a, _ in calls))
            counts["result"].append(max(results[c] for c in calls))
            counts["stall"].append(streak if telling else 0)
        for rule, levels in counts.items():
            found[rule] += levels
    return found


TRIVIAL = {"", "ok", "OK", "{}", "[]", '{"results": []}'}
SETS = ["tau", "tau2", "tau2grok", "fireact", "toolbench", "sweagent", "intercode"]


@pytest.fixture(scope="module")
def recorded(shared):
    """By set: what was imported, the records as they are, and their counts by hand."""
    found = {}
    for name in SETS:
        path = shared / "data" / "traces" / f"{name}.jsonl.gz"
        with gzip.open(path, "rt", encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        found[name] = importers.read([path]), records, [by_hand(record) for record in records]
    return found


@pytest.mark.parametrize("name", SETS)
def test_the_counts_on_recorded_runs_are_those_counted_by_hand(recorded, name):
    got, records, counted = recorded[name]
    assert got.notes() == [] and len(got.runs) == len(records)
    fires = firing.sweep(firing.index(got.runs))
    for i, levels in enumerate(counted):
        for rule in ("args", "result", "stall"):
            wanted = [next((at for at, n in enumerate(levels[rule]) if n >= t), NEVER) for t in fires.thresholds]
            assert fires.steps[i, fires.rules.index(rule)].tolist() == wanted, (records[i]["id"], rule)


def table_of(recorded, names):
    runs = [run for name in names for run in recorded[name][0].runs]
    return thresholds.table(firing.sweep(firing.index(runs))).set_index(["rule", "threshold"])


def test_the_table_counts_what_was_counted_by_hand(recorded):
    rows = table_of(recorded, SETS)
    runs = [pair for _, records, counted in recorded.values() for pair in zip(records, counted, strict=True)]
    for rule in ("args", "result", "stall"):
        for limit in (2, 3, 5, 10):
            fired = Counter()
            for record, levels in runs:
                if max(levels[rule], default=0) >= limit:
                    capped = record["end"] in ("cap", "max_steps")
                    fired["healthy" if record["success"] else "capped" if capped else "failing"] += 1
            row = rows.loc[(rule, limit)]
            assert (row.healthy_fired, row.capped_fired, row.failing_fired) == tuple(
                fired[kind] for kind in ("healthy", "capped", "failing")
            )


def test_sets_present_stay_below_the_published_counts_of_all_sets(recorded):
    """Replayed over more sets than these: 224 of 2,070 successes by name and args, 30 with the result, 3 by stall."""
    rows = table_of(recorded, [name for name in SETS if name != "intercode"])
    assert 0 < rows.healthy.iloc[0] < 2070
    for rule, limit, healthy, failing in (
        ("args", 3, 224, 386 + 27),
        ("args", 4, 39, 137 + 26),
        ("result", 3, 30, 138),
    ):
        row = rows.loc[(rule, limit)]
        assert 0 < row.healthy_fired <= healthy and 0 < row.failing_fired + row.capped_fired <= failing


# --- tables -------------------------------------------------------------------------------------------------


def run(ident, results, success, end=None, source="s", tokens=0):
    turn = tuple(Round((("get", {}),), (r,), prompt_tokens=tokens) for r in results)
    return Run(ident, source, "m", success, end, (turn,))


SMALL = [
    run("h1", ["x"] * 3, True),
    run("h2", ["x", "y", "z"], True),
    run("h3", ["x"], True),
    run("c1", ["x"] * 8, False, "max_steps", tokens=10),
    run("c2", ["x"] * 5, False, "cap"),
    run("f1", ["x", "y"], False, "user_stop"),
    run("u1", ["x"] * 9, None),
]


def test_the_table_of_a_small_set_by_hand():
    rows = thresholds.table(firing.sweep(firing.index(SMALL), thresholds=[3, 5, 9])).set_index(["rule", "threshold"])
    args, result = rows.loc[("args", 3)], rows.loc[("result", 3)]
    assert (args.healthy, args.capped, args.failing, args.unlabelled) == (3, 2, 1, 1)
    assert (args.healthy_fired, args.capped_fired, args.failing_fired, args.unlabelled_fired) == (2, 2, 0, 1)
    assert (result.healthy_fired, result.stopped, result.caught) == (1, pytest.approx(1 / 3), 1.0)
    # After the third of 8 and of 5 calls there are 5 and 2 more; 16 calls were made without success.
    assert (result.calls_saved, result.tokens_saved) == (7, 50)
    assert result.calls_saved_share == pytest.approx(7 / 15)
    assert result.success_if_fired == pytest.approx(1 / 3)
    # Wilson's interval of 1 in 3 by its formula.
    n, p, z = 3, 1 / 3, 1.959964
    middle, half = (p + z * z / (2 * n)), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert (result.stopped_low, result.stopped_high) == pytest.approx(
        ((middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)), abs=1e-6
    )
    assert np.isnan(rows.loc[("args", 9)].success_if_fired) and rows.loc[("args", 9)].caught == 0


def test_what_is_to_be_caught_depends_on_the_set():
    fires = firing.sweep(firing.index([*SMALL, run("f", ["x"] * 4, False, source="other")]))
    assert thresholds.target(fires) == thresholds.target(fires, "s") == "capped"
    assert thresholds.target(fires, "other") == "failing"
    rows = thresholds.table(fires, "other").set_index(["rule", "threshold"])
    assert rows.loc[("args", 4)].caught == 1 and rows.loc[("args", 5)].caught == 0
    assert np.isnan(rows.loc[("args", 4)].stopped)


def test_the_recommended_threshold_is_the_smallest_within_the_tolerance():
    rows = thresholds.table(firing.sweep(firing.index(SMALL)))
    found = {c.rule: c for c in thresholds.recommend(rows, 0.0)}
    assert (found["args"].threshold, found["args"].caught, found["result"].threshold) == (4, 1.0, 4)
    assert found["args"].sure is None and "no threshold swept" in str(found["args"])
    loose = {c.rule: c for c in thresholds.recommend(rows, 0.5)}
    assert (loose["args"].threshold, loose["result"].threshold) == (4, 2)
    alone = thresholds.recommend(rows[rows.threshold < 4], 0.1)
    assert [c.threshold for c in alone] == [None] * 3 and "no threshold swept stops at most" in str(alone[0])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda rows: thresholds.recommend(rows, 1.5), "from 0 to 1"),
        (lambda rows: thresholds.recommend(rows.assign(healthy=0), 0.1), "no run is labelled a success"),
        (lambda rows: firing.sweep([], thresholds=[3, 3]), "go up, each once"),
        (lambda rows: firing.sweep([], thresholds=[]), "go up, each once"),
    ],
)
def test_questions_without_an_answer_are_refused(make, why):
    with pytest.raises(ValueError, match=why):
        make(thresholds.table(firing.sweep(firing.index(SMALL))))


def test_the_frontier_holds_what_nothing_beats():
    rows = thresholds.table(firing.sweep(firing.index(SMALL), thresholds=[2, 3, 4, 6]))
    kept = {(r.rule, r.threshold) for r in thresholds.frontier(rows).itertuples()}
    # At 4 both rules stop nobody and catch both; whatever stops somebody catches no more.
    assert kept == {("args", 4), ("result", 4), ("stall", 4)}


def test_the_runs_that_flip_between_two_thresholds():
    fires = firing.sweep(firing.index(SMALL))
    assert [fires.ids[i] for i in thresholds.flips(fires, "result", 3, 6)] == ["h1", "c2"]
    assert list(thresholds.flips(fires, "result", 3, 6, "other")) == []
    assert list(thresholds.flips(fires, "result", 3, 3)) == []


def test_presets_are_compared_by_what_they_say_of_recorded_runs():
    rows = thresholds.presets(SMALL).set_index("preset")
    assert rows.loc["off"].sum() == 0
    assert tuple(rows.loc["article", ["healthy any", "capped any", "failing any"]]) == (2, 2, 0)
    assert tuple(rows.loc["default", ["healthy any", "capped any", "failing any"]]) == (1, 2, 0)
    assert tuple(rows.loc["args_5", ["healthy any", "capped any"]]) == (0, 2)
    assert tuple(rows.loc["cap_10", ["capped any", "capped detectors"]]) == (0, 0)


def test_presets_of_known_systems_hear_no_declarations():
    declared = {"get": Identity(polling=True)}
    turn = tuple(Round((("get", {}),), ("x",), identities=declared) for _ in range(5))
    rows = thresholds.presets([Run("p", "s", "m", True, None, (turn,))]).set_index("preset")
    assert rows.loc["article", "healthy any"] == rows.loc["args_4", "healthy any"] == 1
    assert rows.loc["default", "healthy any"] == 0


def test_notes_name_sets_whose_successes_are_short_and_runs_without_outcome():
    fires = firing.sweep(firing.index([*SMALL, *[run(f"l{n}", ["x"] * 9, False) for n in range(9)]]))
    short, unlabelled = thresholds.notes(fires)
    assert "median 3 rounds against 9" in short and "1 runs have no outcome" in unlabelled
