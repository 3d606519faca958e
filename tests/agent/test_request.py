"""One request of a trial: what a retry that rebuilds loses, and where a fallback takes the conversation."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from gemlab import backends
from gemlab.agent import loop, request
from gemlab.agent.summaries import ASK
from gemlab.emulator.faults import Fault
from gemlab.emulator.minds.scripted import Parameters
from gemlab.runs import donors, trace, trials
from gemlab.wire import contents as wire
from gemlab.wire import families

pytestmark = pytest.mark.usefixtures("slept")


def run(arm, *faults, model="gemini-3.6-flash", task="ecpm"):
    app = backends.emulator(parameters=Parameters(0, 0, 0, 0), faults=faults)
    (spec,) = trials.plan([{"name": "x", **arm}], task, model, 1)
    return asyncio.run(loop.run(backends.simulated(app), spec))


def signed(step):
    return sum(len(wire.signatures(c)) for c in step.request["contents"])


def test_a_retry_that_resends_loses_nothing():
    trial = run({"retry": "resend"}, Fault("503", step=3))
    assert trial.outcome == "completed" and [signed(s) for s in trial.steps] == [0, 1, 2, 3, 4]


def test_a_retry_that_rebuilds_loses_every_signature_so_far_and_a_strict_model_refuses():
    trial = run({"retry": "rebuild"}, Fault("503", step=3))
    assert trial.outcome == "refused" and "missing a thought_signature" in trial.detail
    loose = run({"retry": "rebuild"}, Fault("503", step=3), model="gemini-2.5-flash")
    # The first two steps are rebuilt; what comes after keeps its signatures.
    assert loose.outcome == "completed" and [signed(s) for s in loose.steps] == [0, 1, 0, 1, 2]


def test_without_a_fault_the_ways_of_retrying_are_one():
    assert [signed(s) for s in run({"retry": "rebuild"}).steps] == [0, 1, 2, 3, 4]


DOWN = Fault("503", step=3, times=5, model="gemini-3.6-flash")  # as often as one request is sent


def test_without_a_fallback_a_model_that_stays_down_fails_the_trial():
    assert run({}, DOWN).outcome == "failed"


def test_within_the_family_the_conversation_goes_along():
    trial = run({"fallback": "same_family(gemini-3.5-flash-lite)"}, DOWN)
    assert trial.outcome == "completed" and [c.name for c in trial.called].count("fetch_ecpm") == 1
    assert [s.model for s in trial.steps] == ["gemini-3.6-flash"] * 3 + ["gemini-3.5-flash-lite"] * 3
    assert signed(trial.steps[3]) == 2


def test_out_of_the_family_a_new_conversation_begins_with_the_question():
    trial = run({"fallback": "same_family(gemini-4-argon)"}, DOWN)
    assert trial.outcome == "completed" and [c.name for c in trial.called].count("fetch_ecpm") == 2
    assert len(trial.steps[3].request["contents"]) == 1


def test_any_takes_the_conversation_along_and_the_other_family_refuses_its_signatures():
    trial = run({"fallback": "any(gemini-4-argon)"}, DOWN)
    assert trial.outcome == "refused" and "Corrupted thought signature." in trial.detail
    assert run({"fallback": "any(gemini-3.5-flash-lite)"}, DOWN).outcome == "completed"


def test_a_fallback_that_fails_too_ends_the_trial():
    trial = run({"fallback": "any(gemini-3.5-flash-lite)"}, Fault("503", step=3, times=99))
    assert trial.outcome == "failed" and len(trial.steps) == 4


def test_a_summary_that_failed_is_not_asked_for_in_the_conversation_that_begins_anew():
    """What it was to stand for is no part of that conversation."""

    class NoSummaries(httpx2.AsyncBaseTransport):
        inner = httpx2.ASGITransport(backends.emulator(parameters=Parameters(0, 0, 0, 0)))

        async def handle_async_request(self, request):
            if "gemini-3.6-flash" in request.url.path and ASK.encode() in request.content:
                return httpx2.Response(503, json={"error": {"code": 503, "message": "no", "status": "UNAVAILABLE"}})
            return await self.inner.handle_async_request(request)

    arm = {"name": "x", "fallback": "same_family(gemini-4-argon)", "pruning": "summarise(1)", "guard": "off"}
    (spec,) = trials.plan([arm], "chain(6)", "gemini-3.6-flash", 1)
    trial = asyncio.run(loop.run(backends.simulated(transport=NoSummaries()), spec))
    failed = next(i for i, s in enumerate(trial.steps) if s.response is None)
    assert trial.steps[failed].purpose == "summary"
    anew = trial.steps[failed + 1]
    assert anew.anew and anew.purpose == "answer" and anew.contents == [trial.received[0]]
    assert trial.outcome == "completed"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("gemini-3.6-flash", "gemini-3.5-flash-lite", True),
        ("gemini-3.8-flash", "gemini-3-flash-preview", True),
        ("gemini-2.5-flash", "gemini-3.6-flash", False),
        ("gemini-4-argon", "gemini-4-neon", True),
    ],
)
def test_models_of_one_family_read_each_others_signatures(one, other, same):
    assert families.same_issuer(one, other) is same


@pytest.mark.parametrize("arm", [{}, {"pruning": "summarise(1)"}, {"guard": "article"}])
def test_a_model_that_is_not_to_think_is_told_so_in_every_request_and_signs_nothing(arm):
    told = {"thinkingBudget": 0}
    off = run({"thinking": "off", **arm}, model="gemini-2.5-flash")
    on = run(arm, model="gemini-2.5-flash")
    assert off.outcome == on.outcome == "completed" and len(off.steps) == len(on.steps) > 4
    for trial, expected in ((off, told), (on, None)):
        sent = [wire.normalise(s.request)["generationConfig"].get("thinkingConfig") for s in trial.steps]
        assert sent == [expected] * len(sent)
    assert "thoughtSignature" not in str([s.response for s in off.steps])
    assert "thoughtsTokenCount" not in str([s.response for s in off.steps])
    assert donors.signatures_of(trace.of(off, "sim", backends.SCRIPTED)) == []
    assert all("thoughtSignature" in str(s.response) for s in on.steps if s.response)


@pytest.mark.parametrize("text", ["same_family", "any()", "next(gemini-3.6-flash)", ""])
def test_broken_fallbacks_are_refused(text):
    with pytest.raises(ValueError, match="unknown fallback"):
        trials.arm({"name": "x", "fallback": text})


def test_a_fallback_is_read():
    assert request.fallback("any(gemini-3.6-flash)") == ("any", "gemini-3.6-flash")
    assert request.fallback("none") == ("none", "")
