import asyncio
import re

import numpy as np
import pytest

from gemlab import backends, tasks
from gemlab.agent import history, loop, pruning
from gemlab.emulator.minds.scripted import Parameters
from gemlab.measure import metrics
from gemlab.runs import trials
from gemlab.tasks import Called, Facts, chain

NEVER = Parameters(repeat=0, quit=0, doubt=0, lose_thread=0)


def opened(task, seed=3, upto=None):
    """Open the records by hand: the instance, the calls, the amounts."""
    instance = task.instance(seed)
    code, seal = re.search(r"code (\w+) and the seal (\w+)", instance.messages[0]).groups()
    last = int(re.findall(r"up to record (\d+)", instance.messages[-1])[0])
    seals, called = {}, []
    for number in range(1, (upto or last) + 1):
        args = {"number": number, "code": code, "seal": seal}
        found = instance.functions["open_record"](**args)
        called.append(Called("open_record", args, found))
        seals[number] = found["seal"]
        code, seal = found["next_code"], seals[found["next_seal_of"]]
    return instance, called, [c.response["amount"] for c in called]


# --- names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "stops"),
    [
        ("chain(1)", [1]),
        ("chain(20)", [20]),
        ("chain(60)", [60]),
        ("chain(20,turns=4)", [5, 10, 15, 20]),
        ("chain(20, turns=4)", [5, 10, 15, 20]),
        ("chain(7,turns=3)", [2, 4, 7]),
        ("chain(3,turns=3)", [1, 2, 3]),
        ("chain(9,turns=1)", [9]),
    ],
)
def test_a_name_says_how_many_steps_in_how_many_turns(name, stops):
    task = tasks.get(name)
    messages = task.instance(1).messages
    assert [int(re.findall(r"up to record (\d+)", m)[0]) for m in messages] == stops
    assert [task.plan.goal(messages[:n])[0] for n in range(1, len(messages) + 1)] == stops
    assert tasks.get(task.name) is task and any(task.plan is plan for plan in tasks.plans())


@pytest.mark.parametrize("name", ["chain(0)", "chain(61)", "chain(3,turns=4)", "chain(3,turns=0)"])
def test_lengths_that_no_chain_has_are_refused(name):
    with pytest.raises(ValueError, match=r"from 1 to 60 steps, and at least one a turn|is at least 1, not 0"):
        tasks.get(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("chain", r"written chain\(steps,turns=1\)"),
        ("chain()", r"written chain\(steps,turns=1\)"),
        ("chain(-1)", "steps is at least 1, not -1"),
        ("chain(3.5)", "steps is a whole number, not 3.5"),
        ("chain(3,n=2)", "unexpected keyword argument 'n'"),
        ("chains(3)", r"unknown task 'chains\(3\)' \(did you mean chain\?\); known: ecpm"),
    ],
)
def test_other_names_are_refused_with_the_way_to_write_them(name, why):
    with pytest.raises(ValueError, match=why):
        tasks.get(name)


def test_arguments_may_come_by_place_and_with_spaces():
    assert tasks.get("chain(3,2)") is tasks.get("chain(3,turns=2)") is tasks.get(" chain( 3, turns=2 ) ")


# --- the data -----------------------------------------------------------------------------------------------


def test_every_step_depends_on_the_one_before_and_some_on_one_far_back():
    far = []
    for seed in range(40):
        instance, called, amounts = opened(tasks.get("chain(60)"), seed)
        assert len(set(amounts)) == 60 and all("error" not in c.response for c in called)
        far += [c.response["number"] - c.response["next_seal_of"] for c in called[:-1]]
        spoilt = {"code": "wrong", "seal": "wrong"}
        for call in called[:: 1 if seed == 0 else 20]:
            for name, value in spoilt.items():
                answer = instance.functions["open_record"](**{**call.args, name: value})
                assert answer == {"error": f"wrong code or seal for record {call.args['number']}"}
    # RECALL of the records draw from 1 to n, one n-th of which is the nearest.
    expected = chain.RECALL * (1 - np.mean([1 / n for n in range(1, 60)]))
    assert abs(np.mean(np.array(far) > 0) - expected) < 4 * np.sqrt(expected * (1 - expected) / len(far))
    assert min(far) == 0 and max(far) > 50


def test_instances_differ_by_seed_and_a_shorter_chain_is_the_start_of_a_longer_one():
    assert len({tuple(opened(tasks.get("chain(5)"), seed)[2]) for seed in range(30)}) == 30
    long, short = opened(tasks.get("chain(60)")), opened(tasks.get("chain(9,turns=3)"))
    assert long[1][:9] == short[1]
    assert short[0].functions["open_record"](10, "a", "b") == {"error": "there is no record 10"}


@pytest.mark.parametrize("name", ["chain(1)", "chain(8)", "chain(8,turns=2)"])
def test_the_checker_wants_all_records_and_the_last_amount(name):
    instance, called, amounts = opened(tasks.get(name))
    right = amounts[-1]
    assert instance.check(f"It is {right}.", called) is None
    assert instance.check(f"{right // 1000},{right % 1000:03d} in record {len(called)}", [*called, called[0]]) is None
    assert instance.check(f"It is {right + 1}.", called) == f"names the amounts [], right is {right}"
    assert instance.check("", called) == f"names the amounts [], right is {right}"
    assert instance.check(f"It is {right}.", called[:-1]) == f"records not opened: {len(called)}"
    failed = Called("open_record", called[-1].args, {"error": "down"})
    assert instance.check(f"It is {right}.", [*called[:-1], failed]) == f"records not opened: {len(called)}"
    if len(amounts) > 1:
        listed = " ".join(map(str, amounts))
        assert instance.check(listed, called) == f"names the amounts {sorted(amounts)}, right is {right}"


def test_a_plan_step_names_the_step_whose_result_it_misses():
    task = tasks.get("chain(60)")
    instance, called, _ = opened(task)
    results = {i: [c.response] for i, c in enumerate(called)}
    for i, call in enumerate(called):
        assert task.plan.steps[i].args(Facts(instance.messages[0], results)) == [call.args]
        needs = {i - 1, called[i - 1].response["next_seal_of"] - 1} if i else set()
        for gone in needs:
            for left in ({k: v for k, v in results.items() if k != gone}, {**results, gone: [pruning.CLEARED]}):
                with pytest.raises(KeyError) as raised:
                    task.plan.steps[i].args(Facts(instance.messages[0], left))
                assert raised.value.args == (gone,)
    with pytest.raises(KeyError) as raised:
        task.plan.goal(instance.messages)[1](Facts(instance.messages[0], {}))
    assert raised.value.args == (59,)


def test_a_call_tells_its_place():
    place = tasks.get("chain(5)").plan.place
    assert [place("open_record", {"number": n}) for n in (1, 2.0, 60)] == [0, 1, 59]
    assert [place("open_record", args) for args in ({}, {"number": "2"}, {"number": 0}, {"number": 61})] == [None] * 4


# --- runs ---------------------------------------------------------------------------------------------------


def ran(name, model="gemini-3.8-flash", parameters=NEVER, seed=1, **arm):
    backend = backends.simulated(backends.emulator(parameters=parameters))
    spec = trials.plan([{"name": "a", "guard": "off", **arm}], name, model, 1, seed=seed)[0]
    return asyncio.run(loop.run(backend, spec))


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3-flash-preview", "gemini-3.8-flash"])
@pytest.mark.parametrize(("name", "requests"), [("chain(60)", 61), ("chain(12,turns=4)", 16)])
def test_a_model_that_never_slips_opens_each_record_once(name, requests, model):
    trial = ran(name, model)
    assert (trial.outcome, len(trial.steps)) == ("completed", requests)
    assert [c.args["number"] for c in trial.called] == list(range(1, len(trial.called) + 1))


def farthest(seed, steps):
    """How many whole steps a request has to hold for every record to be opened: the farthest seal's distance."""
    _, called, _ = opened(tasks.get(f"chain({steps})"), seed)
    return max(c.response["number"] + 1 - c.response["next_seal_of"] for c in called[:-1])


def test_a_budget_that_reaches_the_farthest_seal_costs_nothing_and_a_smaller_one_does():
    needed = {seed: farthest(seed * 100_000, 8) for seed in range(1, 7)}
    assert len(set(needed.values())) > 3
    for seed, need in needed.items():
        for kind in ("steps", "clear_results"):
            assert len(ran("chain(8)", seed=seed, pruning=f"{kind}({need})").steps) == 9
            if need > 1:
                trial = ran("chain(8)", seed=seed, pruning=f"{kind}({need - 1})", guard="budget")
                assert len(trial.steps) > 9, "a lost seal has to be fetched again"


def test_lost_thoughts_on_a_pruned_history_do_not_send_the_model_back_to_the_start():
    """What is left names its place: before record 9 stand eight others, though none of them is in the request."""
    seed = next(s for s in range(1, 99) if farthest(s * 100_000, 12) <= 3)
    trial = ran("chain(12)", "gemini-2.5-flash", seed=seed, pruning="steps(3)", history="strip")
    assert (trial.outcome, len(trial.steps)) == ("completed", 13)


def by_recursion(parameters, stops, lost=False):
    """Completion as a chain over turns and records opened, a request a draw; early answers lose only the last turn."""
    repeat = parameters.repeat + parameters.doubt * lost
    leave = (parameters.quit + parameters.lose_thread * lost) / (1 - repeat)
    arriving = {0: 1.0}
    for stop in stops:
        ending: dict[int, float] = {}
        for start, chance in arriving.items():
            for done in range(start, stop):
                stays = 0 if done == 0 else leave  # with nothing done there is nothing to slip on
                ending[done] = ending.get(done, 0) + chance * stays
                chance *= 1 - stays
            ending[stop] = ending.get(stop, 0) + chance
        arriving = ending
    return arriving[stops[-1]]


def test_the_recursion_is_the_closed_form_on_one_turn():
    p = Parameters()
    onward = (1 - p.repeat - p.quit) / (1 - p.repeat)
    assert by_recursion(p, [20]) == pytest.approx(onward**19) == pytest.approx(0.513, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "stops", "model", "strategy"),
    [
        ("chain(6)", [6], "gemini-3.8-flash", "preserve"),
        ("chain(6)", [6], "gemini-2.5-flash", "strip"),
        ("chain(6,turns=2)", [3, 6], "gemini-3.8-flash", "preserve"),
    ],
)
def test_completion_is_what_the_parameters_imply(name, stops, model, strategy, tmp_path):
    parameters = Parameters(repeat=0.1, quit=0.08, doubt=0.2, lose_thread=0.1)
    backend = backends.simulated(backends.emulator(parameters=parameters))
    specs = trials.plan([{"name": strategy, "history": strategy, "guard": "off"}], name, model, 80, seed=5)
    rows = metrics.frame(trials.run(specs, backend, tmp_path / "t.jsonl", progress=None))
    expected = by_recursion(parameters, stops, lost=strategy == "strip")
    assert 0.2 < expected < 0.9
    assert abs(rows.completed.mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / 80)
    assert set(rows.outcome) == {"completed", "wrong"}


def test_the_window_is_refused_as_soon_as_it_cuts():
    trial = ran("chain(12)", pruning="window(4)")
    assert (trial.outcome, len(trial.steps)) == ("refused", 3)
    assert len(history.preserve(trial.received)) == 5
