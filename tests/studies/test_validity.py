"""The instrument's own check: equal arms look equal, a known effect is covered, nothing put in is nothing found."""

from __future__ import annotations

import numpy as np
import pytest

from gemlab.backends import SCRIPTED
from gemlab.measure.subject import Subject
from gemlab.registry import BadInput
from gemlab.studies import base, validity


def pool(shift, n=200, seed=1):
    """A pool with a known effect: completion falls and redundant calls rise by `shift`."""
    rng = np.random.default_rng(seed)
    made = {}
    for metric, usual in (("completed", 0.8), ("redundant", 0.4)):
        if metric == "completed":
            draws = [rng.random(n) < p for p in (usual, usual, usual - shift)]
        else:
            draws = [rng.poisson(m, n) for m in (usual, usual, usual + 2 * shift)]
        made[metric] = dict(zip(("control", "again", "arm"), (d.astype(float) for d in draws), strict=True))
    return made


@pytest.mark.slow
def test_equal_arms_raise_alarms_at_the_tests_own_rate():
    found = validity.equal_arms(pool(0.3), 60, 200, 1)
    assert found.within.all() and (found.rate <= 0.1).all()


@pytest.mark.slow
def test_a_pool_whose_second_repeat_differs_is_no_pair_of_equal_arms_and_swapping_hides_it():
    broken = pool(0.3)
    for metric in validity.METRICS:
        broken[metric]["again"] = broken[metric]["arm"]
    # Labels are swapped at random: equal arms by construction, whatever the repeats are.
    assert validity.equal_arms(broken, 60, 200, 1).within.all()


@pytest.mark.slow
def test_the_intervals_cover_a_known_effect_and_the_test_has_power():
    found = validity.known_effect(pool(0.3), 80, 300, 1)
    assert (found.coverage >= 0.90).all() and (found.coverage_high >= 0.93).all()
    assert (found.power > 0.9).all()
    assert found.truth["completed"] == pytest.approx(-0.3, abs=0.1)


@pytest.mark.slow
def test_without_an_effect_power_is_the_false_alarm_rate():
    found = validity.known_effect(pool(0.0, n=4000), 60, 200, 1)
    assert (found.power < 0.12).all()


@pytest.mark.slow
def test_the_grid_finds_what_was_put_in_and_nothing_else(tmp_path):
    grid = validity.sensitivity(validity.Parameters(grid_instances=24, factors=[0, 3]), tmp_path)
    nothing, much = grid[grid.lost == 0], grid[grid.lost == 3]
    assert (nothing.completed_p > 0.05).all() and (nothing.redundant_p > 0.01).all()
    assert (much.completed < -0.5).all() and (much.completed_p < 0.01).all()
    about = Subject(SCRIPTED, "24 instances at each setting")
    assert len(validity.grid_figure(grid, about, ["preserve", "strip"]).axes) == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"arms": ["preserve"]}, "a control and one other"),
        ({"size": 200}, "cannot be drawn from 150"),
        ({"factors": [1, 2]}, "go up from 0"),
        ({"factors": [0]}, "at least two"),
        ({"factors": [0, "1"]}, "go up from 0"),
        ({"backend": "gemini"}, "validity uses sim alone, not gemini: only of the scripted model"),
    ],
)
def test_what_shows_nothing_is_refused(options, says):
    with pytest.raises(BadInput, match=says):
        base.check(validity.STUDY, options)
