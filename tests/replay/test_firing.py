"""Replays: the same as live guards at every threshold, and on recorded runs the same as counting by hand."""

import gzip
import itertools
import json
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemlab.guards import CostBudget, Guards, RepeatedCall, TokenBudget, presets
from gemlab.guards.fingerprints import Identity
from gemlab.guards.rounds import Round
from gemlab.replay import firing, importers, thresholds
from gemlab.replay.firing import NEVER
from gemlab.replay.importers import Run

# --- the sweep is the live guard ----------------------------------------------------------------------------

IDENTITIES = {"poll": Identity(polling=True), "noisy": Identity(volatile_results=("ms",))}
LONG = "the same long list of what was to be found"
RESULTS = st.sampled_from(
    [None, {}, "ok", "x", "y", LONG, {"n": 1}, ["x"], {"error": "e"}, {"error": "f"}, {"ms": 1}, {"ms": 2}]
)
CALLS = st.tuples(st.sampled_from(["a", "b", "poll", "noisy"]), st.sampled_from([{}, {"q": 1}, {"q": 2}]), RESULTS)


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


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=7), min_size=1, max_size=3), known=st.booleans()
)
def test_nothing_is_said_of_runs_in_which_all_differs_and_nothing_fails(lengths, known):
    numbers = itertools.count()

    def differing(count):
        own = [next(numbers) for _ in range(count)]
        return Round(
            tuple((f"tool_{n % 3}", {"n": n}) for n in own),
            tuple({"rows": [f"row {n}"]} if n % 2 else {"row": n} for n in own) if known else (),
        )

    run = Run("r", "s", "m", True, None, tuple(tuple(differing(count) for count in turn) for turn in lengths))
    for name in presets.PRESETS:
        assert firing.live(run, presets.get(name)) == []
    for name in firing.RULES.names():
        if name != "rounds":
            assert first_verdict(run, firing.named_rules([name])[name]) == NEVER


def test_what_a_guard_blocks_has_no_result_and_the_run_goes_on_to_its_end():
    same = run("r", [LONG] * 6, False)
    said = [(at, v.kind, v.reason) for at, v in firing.live(same, Guards((RepeatedCall(3),)))]
    kinds = [(at, kind) for at, kind, _ in said]
    assert kinds == [(2, "nudge"), (3, "block"), (4, "block"), (4, "finish"), (5, "block"), (5, "finish")]


# --- recorded runs, counted by hand -------------------------------------------------------------------------


def by_hand(record):
    """Return for three rules the highest count after each round of a normalised record: {rule: [[...] a seg]}."""
    found = {"args": [], "result": [], "stall": [], "failures": []}
    for seg in record["segs"]:
        by_round, failed = defaultdict(list), defaultdict(list)
        for call in seg:
            by_round[call["r"]].append((call["name"], call["args"], call["result"]))
            failed[call["r"]].append(call["err"])
        args, results, streak, last, before, lost = Counter(), Counter(), 0, None, set(), 0
        counts = {"args": [], "result": [], "stall": [], "failures": []}
        for number, calls in by_round.items():
            args.update({(name, a) for name, a, _ in calls})
            results.update(set(calls))
            telling = {r for *_, r in calls if r not in TRIVIAL}
            made = {(name, a) for name, a, _ in calls}
            short = not any(failed[number]) and all(says_little(r) for *_, r in calls)
            new_step = telling == last and short and not made & before
            if telling and not new_step:
                streak, before = (streak + 1, before) if telling == last else (1, set())
            if telling:
                last, before = telling, before | made
            lost = lost + 1 if all(failed[number]) else 0
            counts["args"].append(max(args[name, a] for name, a, _ in calls))
            counts["result"].append(max(results[c] for c in calls))
            counts["stall"].append(streak if telling and not new_step else 0)
            counts["failures"].append(lost)
        for rule, levels in counts.items():
            found[rule] += levels
    return found


def says_little(text):
    """Tell whether a result's text holds at most 40 characters of values and no list with items."""
    try:
        value = json.loads(text) if text[:1] in ("{", "[") else text
    except ValueError:
        value = text
    if isinstance(value, str):
        return len(value.strip()) <= 40
    left, size = [value], 0
    while left:
        now = left.pop()
        if isinstance(now, dict):
            left += now.values()
        elif isinstance(now, list):
            size += 1000 * len(now)
        else:
            size += len(str("" if now is None else now).strip())
    return size <= 40


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
    assert not got.skipped and len(got.runs) == len(records)
    idle = sum(not any(record["segs"]) for record in records)
    assert [note.split(" (")[0] for note in got.notes()] == [f"{idle} of {len(records)} runs are without a call"] * (
        idle > 0
    )
    counts = ("args", "result", "stall", "failures")
    fires = firing.sweep(firing.index(got.runs), firing.named_rules(counts))
    for i, levels in enumerate(counted):
        for rule in counts:
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


def test_the_interval_holds_from_a_threshold_of_its_own_on():
    rows = pd.DataFrame(
        {
            "rule": "result",
            "threshold": [2, 3, 4],
            "healthy": 1000,
            "stopped": [0.005, 0.004, 0.003],
            "stopped_high": [0.3, 0.005, 0.004],
            "caught": [0.9, 0.8, 0.7],
        }
    )
    (choice,) = thresholds.recommend(rows, 0.01)
    assert (choice.threshold, choice.sure, choice.caught) == (2, 3, 0.9)
    assert "within 1.0% from 3 on" in str(choice)
    # One healthy run in a hundred may be stopped where nothing else is said.
    assert thresholds.recommend(rows.assign(stopped=[0.0101, 0.01, 0.0]))[0].threshold == 3
    assert thresholds.recommend(rows.assign(stopped=[0.0101, 0.01, 0.0]))[0].tolerance == 0.01


def test_each_data_set_alone_has_its_threshold_none_or_nothing_to_say():
    stopped = [run(f"h{n}", ["x"] * 30, True, source="always") for n in range(2)]
    sick = run("c", ["x"] * 30, False, "cap", source="always")
    lost = run("f", ["x"] * 4, False, source="no success")
    cells = thresholds.sensitivity(firing.sweep(firing.index([*SMALL, *stopped, sick, lost])), 0.0)
    found = {c["data set"]: (c["healthy"], c["result"]) for c in cells}
    assert found == {"s": ("3", "≥ 4 (100.0%)"), "always": ("2", "none"), "no success": ("0", "–")}


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda rows: thresholds.recommend(rows, 1.5), "from 0 to 1"),
        (lambda rows: thresholds.recommend(rows.assign(healthy=0), 0.1), "no run is labelled a success"),
        (lambda rows: firing.sweep(firing.index(SMALL), thresholds=[3, 3]), "go up, each once"),
        (lambda rows: firing.sweep(firing.index(SMALL), thresholds=[2, 5, 3]), "go up, each once"),
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


def test_a_budget_is_no_detector():
    long = Run("h", "s", "m", True, None, (tuple(Round((("get", {"n": n}),), ({"n": n},)) for n in range(60)),))
    rows = thresholds.presets([long]).set_index("preset")
    assert tuple(rows.loc["cap_10", ["healthy any", "healthy detectors"]]) == (1, 0)
    assert tuple(rows.loc["default", ["healthy any", "healthy detectors"]]) == (1, 0)


# --- whole presets on recorded runs -------------------------------------------------------------------------

# By data set: healthy runs nudged and ended, capped ones, failing ones. Beside them what `default` did before brief
# results of different calls were progress and failures in a row a rule; counted then by the same replay.
SAID = {
    "fireact_hotpotqa": ((5, 0), (0, 0), (61, 15)),
    "sweagent_demos": ((2, 0), (0, 0), (0, 0)),
    "tau2_activegraph": ((0, 0), (0, 0), (0, 0)),
    "tau2_grok_airline": ((0, 0), (0, 0), (0, 0)),
    "tau_bench_airline": ((0, 0), (0, 0), (3, 0)),
    "toolbench_dfs_example": ((1, 0), (0, 0), (0, 0)),
}
SAID_OF_INTERCODE = {
    "intercode_bash": ((11, 3), (704, 511), (14, 1)),
    "intercode_ctf": ((0, 0), (25, 9), (0, 0)),
    "intercode_python": ((3, 1), (96, 92), (0, 0)),
    "intercode_sql": ((39, 12), (5672, 5263), (47, 16)),
}
BEFORE = ((64, 18), (6258, 5093), (123, 30))


def said_of(recorded, names, preset="default"):
    rows = thresholds.verdicts([run for name in names for run in recorded[name][0].runs], [preset])
    kinds = ("healthy", "capped", "failing")
    return {
        row["data set"]: tuple((row[f"{kind} nudged"], row[f"{kind} ended"]) for kind in kinds)
        for row in rows.to_dict("records")
    }


def test_what_the_default_says_of_recorded_runs_by_data_set(recorded):
    said = said_of(recorded, [name for name in SETS if name != "intercode"])
    assert said.pop("all") == ((8, 0), (0, 0), (64, 15))
    assert said == SAID


@pytest.mark.slow
def test_the_default_says_less_of_healthy_runs_than_before_and_catches_more(recorded):
    said = said_of(recorded, SETS)
    healthy, capped, failing = said.pop("all")
    assert (healthy, capped, failing) == ((61, 16), (6497, 5875), (125, 32))
    assert said == SAID | SAID_OF_INTERCODE
    assert all(now < then for now, then in zip(healthy, BEFORE[0], strict=True))
    assert all(
        now >= then
        for kind, was in ((capped, BEFORE[1]), (failing, BEFORE[2]))
        for now, then in zip(kind, was, strict=True)
    )


def test_presets_replayed_live_by_data_set():
    rows = thresholds.verdicts([*SMALL, run("o", [LONG] * 5, True, source="other")], ["default", "args_4", "off"])
    rows = rows.set_index(["preset", "data set"])
    assert list(rows.loc["default"].index) == ["other", "s", "all"]
    # Of those in `s` h1, c1 and c2 repeat a result three times; c1 and c2 go on for two rounds more.
    columns = ["healthy", "healthy nudged", "healthy ended", "capped", "capped nudged", "capped ended"]
    assert tuple(rows.loc[("default", "s"), columns]) == (3, 1, 0, 2, 2, 2)
    assert tuple(rows.loc[("default", "all"), columns]) == (4, 2, 1, 2, 2, 2)
    # Those that only end have nobody nudged: by arguments h1 and h2 have three calls, c1, c2 and o more.
    assert tuple(rows.loc[("args_4", "all"), columns]) == (4, 0, 1, 2, 0, 2)
    assert rows.loc["off"][columns[1:3] + columns[4:]].to_numpy().sum() == 0


def test_presets_of_known_systems_hear_no_declarations():
    declared = {"get": Identity(polling=True)}
    turn = tuple(Round((("get", {}),), ("x",), identities=declared) for _ in range(5))
    rows = thresholds.presets([Run("p", "s", "m", True, None, (turn,))]).set_index("preset")
    assert rows.loc["article", "healthy any"] == rows.loc["args_4", "healthy any"] == 1
    assert rows.loc["default", "healthy any"] == 0
    live = thresholds.verdicts([Run("p", "s", "m", True, None, (turn,))], ["default", "article", "args_4"])
    assert live[live["data set"] == "all"]["healthy ended"].tolist() == [0, 1, 1]


def test_notes_name_sets_whose_successes_are_short_and_runs_without_outcome():
    fires = firing.sweep(firing.index([*SMALL, *[run(f"l{n}", ["x"] * 9, False) for n in range(9)]]))
    short, unlabelled = thresholds.notes(fires)
    assert "median 3 rounds against 9" in short and "1 runs have no outcome" in unlabelled
