"""The tasks for small models: references to copy, and steps that look alike."""

import random
import re
from collections import Counter

import numpy as np
import pytest

from gemlab import backends, tasks
from gemlab.agent.loop import call_tool
from gemlab.emulator.minds.scripted import Parameters
from gemlab.measure import metrics
from gemlab.runs import trials
from gemlab.tasks import Called

NETWORKS = {"admob", "applovin", "ironsource", "mintegral", "unity", "vungle"}
STEADY = Parameters(repeat=0, quit=0, doubt=0, lose_thread=0)
NAMES = ["ecpm-handles", "triage"]
HANDLE = r"\b[a-z]+-\d+\b"


def solve(name, seed):
    """Do the task by hand: the instance, the right calls in order, and the right answer."""
    instance = tasks.get(name).instance(seed)
    called = []

    def do(tool, **args):
        called.append(Called(tool, args, instance.functions[tool](**args)))
        return called[-1].response

    if name == "ecpm-handles":
        series = do("fetch_series", app=re.search(r"app-\d{4}", instance.messages[0])[0])
        bounds = do("normal_range", **series)
        days = do("outlying_days", **series, **bounds)
        found = do("mediation_of", **days)
        return instance, called, f"{found['network'].title()}, {found['floor']}"
    hosts = re.findall(HANDLE, instance.messages[0])
    down = next(host for host in [do("probe", host=h) for h in hosts] if host["status"] == "down")["host"]
    return instance, called, f"{down}: {do('restart', host=down)['receipt']}"


# --- the data -----------------------------------------------------------------------------------------------


def test_references_are_short_and_differ_within_an_instance():
    networks, floors, seen = Counter(), [], set()
    for seed in range(-100, 300):
        _, called, _ = solve("ecpm-handles", seed)
        handles = [value for c in called[:3] for value in c.response.values()]
        assert [re.sub(r"\d{3}$", "", h) for h in handles] == ["s-", "r-", "d-"]
        assert len({h[2:] for h in handles}) == 3
        assert [list(c.response) for c in called] == [["series"], ["range"], ["days"], ["network", "floor"]]
        networks[called[3].response["network"]] += 1
        floors.append(called[3].response["floor"])
        seen.add((called[0].args["app"], *handles))
    assert set(networks) == NETWORKS and len(seen) == 400
    assert all(re.fullmatch(r"[0-3]\.\d[1-9]", str(floor)) for floor in floors)


def test_exactly_one_host_is_down_each_as_often_as_the_others():
    places, seen = Counter(), set()
    for seed in range(-99, 300):
        instance, called, _ = solve("triage", seed)
        hosts = re.findall(HANDLE, instance.messages[0])
        assert len(set(hosts)) == len({h.split("-")[0] for h in hosts}) == len({h[-2:] for h in hosts}) == 3
        states = [instance.functions["probe"](h) for h in hosts]
        assert [s["host"] for s in states] == hosts
        assert sorted(s["status"] for s in states) == ["down", "up", "up"]
        assert re.fullmatch(r"k-\d{3}", called[3].response["receipt"]) and list(called[3].response) == ["receipt"]
        places[hosts.index(called[3].args["host"])] += 1
        seen.add((*hosts, called[3].response["receipt"]))
    assert set(places.values()) == {133} and len(seen) == 399


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_makes_one_instance(name):
    assert [c.response for c in solve(name, 7)[1]] == [c.response for c in solve(name, 7)[1]]


@pytest.mark.parametrize(
    ("tool", "args", "error"),
    [
        ("fetch_series", ["app-1"], "unknown app app-1"),
        ("normal_range", ["s-111"], "unknown series s-111"),
        ("normal_range", ["s\n 1"], "unknown series s 1"),
        ("outlying_days", ["s-111", "r-111"], "unknown series s-111"),
        ("mediation_of", ["d " * 90], "unknown days d d d d d d d d d d "),
        ("mediation_of", [None], "unknown days None"),
    ],
)
def test_an_unknown_reference_is_told_in_one_short_line(tool, args, error):
    assert tasks.get("ecpm-handles").instance(1).functions[tool](*args) == {"error": error}


def test_a_reference_of_another_kind_is_wrong():
    instance, called, _ = solve("ecpm-handles", 1)
    series, bounds = called[0].response["series"], called[1].response["range"]
    assert instance.functions["normal_range"](bounds) == {"error": f"unknown series {bounds}"}
    assert instance.functions["outlying_days"](series, series) == {"error": f"unknown range {series}"}
    assert instance.functions["outlying_days"](bounds, series) == {"error": f"unknown series {bounds}"}


def test_only_the_host_that_is_down_can_be_restarted_probed_or_not():
    for seed in range(6):
        instance, called, _ = solve("triage", seed)
        for host in re.findall(HANDLE, instance.messages[0]):
            fresh = tasks.get("triage").instance(seed).functions["restart"](host)
            assert fresh == (called[3].response if host == called[3].args["host"] else {"error": f"{host} is up"})
        assert instance.functions["restart"]("web-1") == {"error": "unknown host web-1"}
        assert instance.functions["probe"]("web-1") == {"error": "unknown host web-1"}


# --- the checker --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_right_run_is_accepted_with_needless_calls_too(name):
    for seed in range(-20, 60):
        instance, called, answer = solve(name, seed)
        assert instance.check(answer, called) is None
        failed = Called(called[3].name, {}, {"error": "x"})
        assert instance.check(answer, [failed, called[0], *called, *called]) is None


def test_probes_may_come_in_any_order():
    instance, called, answer = solve("triage", 4)
    assert instance.check(answer, [*called[2::-1], called[3]]) is None


def moved(source, target):
    return lambda calls: calls.insert(target, calls.pop(source))


def given(index, **args):
    def change(calls):
        calls[index] = Called(calls[index].name, args, calls[index].response)

    return change


def failed(index):
    def change(calls):
        calls[index] = Called(calls[index].name, calls[index].args, {"error": "x"})

    return change


def without(index):
    return lambda calls: calls.pop(index)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (list.clear, "not done on the right values: fetch_series, normal_range, outlying_days, mediation_of"),
        (without(0), "not done on the right values: fetch_series"),
        (without(1), "not done on the right values: normal_range"),
        (without(2), "not done on the right values: outlying_days"),
        (without(3), "not done on the right values: mediation_of"),
        (failed(2), "not done on the right values: outlying_days"),
        (given(0, app="app-1"), "not done on the right values: fetch_series"),
        (given(1, series="s-99"), "not done on the right values: normal_range"),
        (given(2, series="s-99", range="r-99"), "not done on the right values: outlying_days"),
        (given(3, days="d-99"), "not done on the right values: mediation_of"),
        (moved(0, 1), "normal_range before fetch_series"),
        (moved(1, 2), "outlying_days before normal_range"),
        (moved(3, 2), "mediation_of before outlying_days"),
        (moved(3, 0), "mediation_of before outlying_days"),
    ],
)
def test_a_run_on_wrong_references_is_not_accepted(spoil, why):
    instance, called, answer = solve("ecpm-handles", 5)
    spoil(called)
    assert instance.check(answer, called) == why


@pytest.mark.parametrize(
    ("say", "why"),
    [
        (lambda network, floor, other: "", "names the networks"),
        (lambda network, floor, other: f"{other} {floor}", "names the networks"),
        (lambda network, floor, other: f"{network}, not {other}, {floor}", "names the networks"),
        (lambda network, floor, other: f"{network}x {floor}", "names the networks"),
        (lambda network, floor, other: network, "the floor price is"),
        (lambda network, floor, other: f"{network} {floor + 0.01:.2f}", "the floor price is"),
        (lambda network, floor, other: f"{network} {floor:.1f}", "the floor price is"),
        (lambda network, floor, other: f"{network} {100 * floor:.0f}", "the floor price is"),
    ],
)
def test_another_network_or_price_is_not_accepted(say, why):
    for seed in range(12):
        instance, called, _ = solve("ecpm-handles", seed)
        network, floor = called[3].response.values()
        other = min(NETWORKS - {network})
        assert instance.check(say(network, floor, other), called).startswith(why)
        assert instance.check(f"It is {network.upper()} at ${floor:.2f}.", called) is None


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (list.clear, "not done on the right values: probe, restart"),
        (without(0), "not done on the right values: probe"),
        (without(1), "not done on the right values: probe"),
        (without(2), "not done on the right values: probe"),
        (without(3), "not done on the right values: restart"),
        (failed(1), "not done on the right values: probe"),
        (failed(3), "not done on the right values: restart"),
        (moved(3, 2), "restart before probe"),
        (moved(3, 0), "restart before probe"),
        (lambda calls: calls.insert(2, calls[3]), "restart before probe"),
    ],
)
def test_all_hosts_are_probed_before_one_is_restarted(spoil, why):
    for seed in range(3):
        instance, called, answer = solve("triage", seed)
        spoil(called)
        assert instance.check(answer, called) == why


def test_no_other_host_is_restarted():
    instance, called, answer = solve("triage", 0)
    down, up = called[3].args["host"], called[1].args["host"]
    restarted = Called("restart", {"host": up}, {"receipt": "k-100"})
    assert instance.check(answer, [*called, restarted]) == f"{up} was restarted, {down} is down"
    tried = Called("restart", {"host": up}, {"error": f"{up} is up"})
    assert instance.check(answer, [tried, *called]) is None


def test_another_receipt_or_host_is_not_accepted():
    instance, called, _ = solve("triage", 0)
    down, up, receipt = called[3].args["host"], called[1].args["host"], called[3].response["receipt"]
    other = "k-999" if receipt != "k-999" else "k-998"
    assert instance.check(f"{down.upper()} ({up} is up), receipt {receipt.upper()}.", called) is None
    assert instance.check(f"{down}: {other}", called) == f"names the receipts ['{other}'], right is {receipt}"
    assert instance.check(f"{down}: {receipt} {other}", called).startswith("names the receipts ['k-")
    assert instance.check(f"{down}: {receipt}0", called) == f"names the receipts ['{receipt}0'], right is {receipt}"
    assert instance.check(down, called) == f"names the receipts [], right is {receipt}"
    assert instance.check(f"{up}: {receipt}", called) == f"does not name {down}"


# --- runs ---------------------------------------------------------------------------------------------------


def choices(name, known):
    if name == "triage":
        return [(tool, {"host": h}) for tool in ("probe", "restart") for h in known if not h.startswith("k-")]
    one = [("fetch_series", "app"), ("normal_range", "series"), ("mediation_of", "days")]
    both = [("outlying_days", {"series": a, "range": b}) for a in known for b in known]
    return [*((tool, {arg: h}) for tool, arg in one for h in known), *both]


def wander(name, seed, most):
    """Choose uniformly among all calls with references seen so far and the answer; tell whether it completes."""
    rng = random.Random(f"wander {seed}")
    instance = tasks.get(name).instance(seed)
    called, seen = [], instance.messages[0]
    while len(called) < most:
        known = sorted(set(re.findall(HANDLE, seen)))
        choice = rng.choice([None, *choices(name, known)])
        if choice is None:
            break
        called.append(Called(*choice, call_tool(instance.functions, *choice)))
        seen += "" if not called[-1].ok else f" {called[-1].response}"
    return instance.check(seen.removeprefix(instance.messages[0]), called) is None


@pytest.mark.parametrize(("name", "expected"), [("ecpm-handles", 1 / 2**4), ("triage", 6 / 120)])
def test_choosing_uniformly_completes_as_rarely_as_the_dependencies_say(name, expected):
    """At every step one call leads on and one choice, the answer, ends it; of triage, five events in any order, of
    which the restart has to be the fourth and the answer the fifth."""
    rate = np.mean([wander(name, seed, 10_000) for seed in range(1000)])
    assert abs(rate - expected) < 4 * np.sqrt(expected * (1 - expected) / 1000)


def rows(name, parameters, instances, path, arms=("preserve", "strip"), model="gemini-2.5-flash"):
    backend = backends.simulated(backends.emulator(parameters=parameters))
    specs = trials.plan(list(arms), name, model, instances, seed=3)
    return metrics.frame(trials.run(specs, backend, path / "t.jsonl", progress=None))


@pytest.mark.parametrize("name", NAMES)
def test_a_steady_model_completes_with_four_calls(name, tmp_path):
    cleared = {"name": "cleared", "pruning": "clear_results(2)"}
    found = rows(name, STEADY, 6, tmp_path, ("preserve", "strip", cleared))
    assert set(found.outcome) == {"completed"} and len(found) == 18
    assert set(found[found.arm != "cleared"].requests) == {5}
    assert set(rows(name, STEADY, 2, tmp_path / "strict", ["preserve"], "gemini-3.8-flash").outcome) == {"completed"}


@pytest.mark.parametrize("name", NAMES)
def test_lost_thoughts_cost_completion_and_calls(name, tmp_path):
    found = rows(name, Parameters(), 40, tmp_path).groupby("arm")
    completed, redundant = found.completed.mean(), found.redundant.mean()
    assert 1 > completed["preserve"] > completed["strip"] > 0.3
    assert redundant["strip"] > redundant["preserve"] > 0
