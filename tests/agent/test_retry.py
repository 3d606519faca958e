"""How long is waited before a request is sent again, and when it is not sent again at all."""

from __future__ import annotations

import asyncio

import pytest

from gemlab import backends
from gemlab.agent import loop
from gemlab.runs import trials

BUSY = (503, {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}})


def asking(delay):
    """A 429 that asks to wait."""
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    return 429, {"error": {"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED", "details": [info]}}


def go(transport):
    (spec,) = trials.plan(["preserve"], "search", "gemini-2.5-flash", 1)
    return asyncio.run(loop.run(backends.simulated(transport=transport), spec))


@pytest.mark.parametrize(("delay", "requests"), [("3600s", 1), ("300.5s", 1), ("300s", 5), ("0.25s", 5)])
def test_a_quota_of_the_day_is_not_waited_for(scripted, slept, delay, requests):
    trial = go(transport := scripted(asking(delay)))
    assert (trial.outcome, trial.reason) == ("failed", None)
    assert len(transport.sent) == requests and slept == [float(delay[:-1])] * (requests - 1)
    assert len(trial.steps) == 1 and trial.steps[0].resent == requests - 1


def test_each_wait_is_about_twice_the_one_before_from_half_a_second_on(scripted, slept):
    assert go(scripted(BUSY)).outcome == "failed"
    assert len(slept) == 4
    for number, seconds in enumerate(slept):
        assert 0.5 * 2**number <= seconds <= 0.5 * 2**number + 0.5
