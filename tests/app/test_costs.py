"""The estimate before money is spent: it scales with the run and names its price."""

from __future__ import annotations

from gemlab.app import costs
from gemlab.runs import trials


def estimate(instances, model="gemini-2.5-flash"):
    return costs.estimate(trials.plan(["preserve", "strip"], "ecpm", model, instances))


def test_the_estimate_scales_with_the_instances():
    small, large = estimate(5), estimate(50)
    assert small.trials == 10 and large.trials == 100
    assert large.requests == 10 * small.requests and large.dollars > 9 * small.dollars > 0
    # Five requests at least for four steps and an answer, unless the scripted model answers early.
    assert 30 <= small.requests <= 100


def test_the_price_is_that_of_the_price_list():
    one = estimate(5)
    # 0.30 and 2.50 dollars a million tokens, as listed for gemini-2.5-flash.
    assert abs(one.dollars - (0.30 * one.input_tokens + 2.50 * one.output_tokens) / 1e6) < 1e-6


def test_arms_that_wait_for_a_donor_are_estimated_like_those_that_send_their_own():
    arms = [{"name": "x", "history": history} for history in ("preserve", "placebo", "neutral")]
    plans = [trials.plan([arm], "ecpm", "gemini-2.5-flash", 5) for arm in arms]
    assert len({costs.estimate(specs) for specs in plans}) == 1


def test_an_unlisted_model_has_no_price():
    one = estimate(5, "gemini-2.0-flash")
    assert costs._dollars("gemini-9-nothing", 1, 1) is None
    assert "unknown price" in str(costs.CostEstimate(1, 1, 1, 1, None)) and one.requests
