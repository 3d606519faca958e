"""The speed of a runtime by itself: what is asked, what is counted, and the share that trials reach."""

from __future__ import annotations

import gc
import itertools
import types

import pytest

from gemlab.emulator.minds.runtimes import Runtime, RuntimeUnavailable
from gemlab.studies.signature_lm import speed
from gemlab.studies.signature_lm.speed import Rates


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by two seconds at each look."""
    ticks = itertools.count(step=2.0)
    own = types.SimpleNamespace(time_ns=lambda: 1, perf_counter=lambda: next(ticks))
    monkeypatch.setattr(speed, "time", own)


def test_the_rates_are_the_tokens_of_all_slots_over_the_time(model_server, clock):
    """Of each prompt 100 tokens are read, 60 of which were cached, and 20 are made."""
    rates = speed.measure(Runtime(model_server.url, "small"), 3)
    assert rates == Rates(3 * 40 / 2, 3 * 20 / 2)


def test_the_real_clock_gives_positive_rates(model_server):
    rates = speed.measure(Runtime(model_server.url, "small"), 2)
    assert rates.read > 0 and rates.made > 0


def test_every_slot_has_a_prompt_of_its_own_which_no_earlier_measurement_had(model_server):
    runtime = Runtime(model_server.url, "small")
    for _ in range(2):
        speed.measure(runtime, 4)
    reading, making, again, _ = (
        [a["messages"][0]["content"] for a in model_server.asked[i : i + 4]] for i in (0, 4, 8, 12)
    )
    assert len({*reading, *again}) == 8 and sorted(reading) == sorted(making)
    assert all(len(text.split()) > 160 for text in reading)
    assert [a["max_tokens"] for a in model_server.asked] == ([1] * 4 + [48] * 4) * 2
    assert not any("response_format" in a for a in model_server.asked), "free text: no grammar slows it"
    assert sorted(a["seed"] for a in model_server.asked[:4]) == [0, 1, 2, 3]


async def test_it_works_inside_an_event_loop_and_leaves_nothing_open(model_server, recwarn):
    runtime = Runtime(model_server.url, "small")
    assert speed.measure(runtime, 2).made > 0
    assert not runtime._clients
    gc.collect()
    assert [str(w.message) for w in recwarn if issubclass(w.category, ResourceWarning)] == []


def test_a_runtime_that_does_not_answer_is_told(model_server):
    model_server.answers = [500]
    runtime = Runtime(model_server.url, "small")
    with pytest.raises(RuntimeUnavailable, match="HTTP 500"):
        speed.measure(runtime, 2)
    assert not runtime._clients


def test_a_runtime_that_counts_nothing_has_rates_of_zero(model_server):
    model_server.usage = None
    assert speed.measure(Runtime(model_server.url, "small"), 2) == Rates(0.0, 0.0)


@pytest.mark.parametrize(
    ("read", "made", "share"),
    [
        (100.0, 0.0, 1.0),
        (0.0, 20.0, 1.0),
        # In each second half of it goes into reading 50 tokens, and a quarter into making 5.
        (50.0, 5.0, 0.75),
        (0.0, 0.0, 0.0),
        (100.0, 20.0, 2.0),
    ],
)
def test_the_share_is_the_time_that_the_tokens_would_take_the_runtime_by_itself(read, made, share):
    assert Rates(100.0, 20.0).share({"read_a_second": read, "made_a_second": made}) == pytest.approx(share)
