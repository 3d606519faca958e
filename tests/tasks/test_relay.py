"""The task whose end only the count tells."""

import re
from collections import Counter

from gemlab import backends, tasks
from gemlab.emulator.minds.scripted import Parameters
from gemlab.measure import metrics
from gemlab.runs import trials
from gemlab.tasks import Called

STEADY = Parameters(repeat=0, quit=0, doubt=0, lose_thread=0)
TASK = tasks.get("relay")


def follow(seed, stops):
    """Follow the parcel by hand; return the instance, the calls and where it is then."""
    instance = TASK.instance(seed)
    place = re.search(r"d-\d+", instance.messages[0])[0]
    called = []
    for _ in range(stops):
        called.append(Called("next_stop", {"place": place}, instance.functions["next_stop"](place=place)))
        place = called[-1].response["next"]
    return instance, called, place


def asked(seed):
    return int(re.search(r"for (\d) stops", TASK.instance(seed).messages[0])[1])


def test_each_count_is_asked_for_as_often_and_the_way_goes_on():
    assert Counter(map(asked, range(-30, 60))) == {3: 30, 4: 30, 5: 30}
    for seed in range(-20, 20):
        _, called, place = follow(seed, 9)
        assert len({place, *(c.args["place"] for c in called)}) == 10


def test_the_place_after_just_so_many_stops_is_right():
    for seed in range(-20, 20):
        stops = asked(seed)
        instance, called, place = follow(seed, stops)
        assert instance.check(f"It is at {place}.", called) is None
        start = called[0].args["place"]
        assert instance.check(f"From {start} to {place}.", called) == (
            f"names the places {sorted([start, place])}, right is {place}"
        )
        assert instance.check("", called).startswith("names the places []")
        _, more, beyond = follow(seed, stops + 1)
        assert instance.check(f"It is at {beyond}.", more) == f"names the places ['{beyond}'], right is {place}"
        assert instance.check(f"It is at {place}.", more) is None
        _, fewer, _ = follow(seed, stops - 1)
        assert instance.check(f"It is at {place}.", fewer) == f"not asked for: {called[-1].args['place']}"


def test_an_unknown_place_is_an_error_in_one_line():
    assert TASK.instance(1).functions["next_stop"](place="nowhere") == {"error": "unknown place nowhere"}


def rows(parameters, instances, path):
    backend = backends.simulated(backends.emulator(parameters=parameters))
    specs = trials.plan(["preserve", "strip"], "relay", "gemini-2.5-flash", instances, seed=3)
    return metrics.frame(trials.run(specs, backend, path / "t.jsonl", progress=None))


def test_a_steady_model_makes_a_request_for_each_stop_and_the_answer(tmp_path):
    found = rows(STEADY, 6, tmp_path)
    assert set(found.outcome) == {"completed"}
    assert [asked(300_000 + i) + 1 for i in found.instance] == list(found.requests)


def test_lost_thoughts_cost_completion(tmp_path):
    found = rows(Parameters(), 40, tmp_path).groupby("arm").completed.mean()
    assert 1 > found["preserve"] > found["strip"] > 0.2
