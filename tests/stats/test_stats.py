import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy import stats as scipy_stats

from gemlab import stats


def pairs(both, b, c, neither):
    """Two arms with these counts of pairs."""
    arm = [1] * both + [1] * b + [0] * c + [0] * neither
    control = [1] * both + [0] * b + [1] * c + [0] * neither
    return arm, control


# --- rates and means ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998) 857–872, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_as_published(k, n, low, high):
    assert stats.wilson(k, n) == pytest.approx((low, high), abs=5e-5)
    assert stats.wilson(n - k, n) == pytest.approx((1 - high, 1 - low), abs=5e-5)


@pytest.mark.parametrize("n", [1, 7, 50])
def test_wilson_without_a_success(n):
    z2 = scipy_stats.norm.ppf(0.975) ** 2
    assert stats.wilson(0, n) == pytest.approx((0, z2 / (n + z2)))
    assert stats.wilson(0, 0) == (0, 1)


def test_a_rate_of_zeros_and_ones_has_wilsons_interval():
    assert stats.rate([1, 0, 1, 1]) == stats.Estimate(0.75, stats.wilson(3, 4), 4)
    averaged = stats.rate([1, 0.5, 1, 1])
    assert averaged.value == 0.875 and averaged.ci != stats.wilson(3, 4)


def test_a_mean_has_an_interval_near_students():
    values = np.random.default_rng(3).normal(2, 1, 200)
    found = stats.mean(values)
    expected = scipy_stats.t.interval(0.95, 199, values.mean(), scipy_stats.sem(values))
    assert found.value == pytest.approx(values.mean()) and found.n == 200
    assert found.ci == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("values", [[0.25, 0.25, 0.25], [0, 0], [3.0]])
def test_equal_values_have_an_interval_of_no_width(values):
    assert stats.mean(values) == stats.Estimate(values[0], (values[0], values[0]), len(values))


def test_nothing_has_no_mean():
    for found in (stats.mean([]), stats.rate([])):
        assert math.isnan(found.value) and found.n == 0 and all(map(math.isnan, found.ci))


@pytest.mark.parametrize("values", [[0, 0, 0, 0, 0, 0, 0, 1], [0, 1], [0.5] * 9 + [1.0]])
def test_few_distinct_values_still_have_an_interval(values):
    low, high = stats.mean(values).ci
    assert 0 <= low <= np.mean(values) <= high <= 1 and low < high


# --- paired, one trial an instance --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        # Fagerland, Lydersen and Laake, Statistics in Medicine 33 (2014) 2850–2875: data of Bentur and of Cavo.
        ((1, 1, 7, 12), -0.507, -0.026),
        ((59, 6, 16, 80), -0.119, -0.005),
        # Altman and others, Statistics with Confidence (2000), table 6.2.
        ((14, 5, 0, 22), 0.01, 0.23),
    ],
)
def test_newcombe_as_published(counts, low, high):
    both, b, c, _ = counts
    digits = 5e-4 if low < 0 else 5e-3
    assert stats.newcombe(both, b, c, sum(counts)) == pytest.approx((low, high), abs=digits)
    found = stats.compare_binary(*pairs(*counts))
    assert found.ci == stats.newcombe(both, b, c, sum(counts))
    assert found.difference == pytest.approx((b - c) / sum(counts))
    assert stats.newcombe(both, c, b, sum(counts)) == pytest.approx((-found.ci[1], -found.ci[0]))


@pytest.mark.parametrize("counts", [(20, 0, 0, 0), (0, 0, 0, 20), (0, 20, 0, 0), (0, 0, 20, 0), (1, 0, 0, 0)])
def test_newcombe_at_the_edges(counts):
    both, b, c, _ = counts
    low, high = stats.newcombe(both, b, c, sum(counts))
    assert -1 <= low <= (b - c) / sum(counts) <= high <= 1 and low < high


def test_newcombe_covers_its_level():
    """The exact coverage over all tables of 15 pairs."""
    n = 15
    tables = [t for t in itertools.product(range(n + 1), repeat=3) if sum(t) <= n]
    intervals = np.array([stats.newcombe(both, b, c, n) for both, b, c in tables])
    counts = np.array([(*t, n - sum(t)) for t in tables])
    for truth in ((0.6, 0.1, 0.1, 0.2), (0.85, 0.05, 0.05, 0.05), (0.5, 0.4, 0.1, 0.0), (0.25, 0.25, 0.25, 0.25)):
        inside = (intervals[:, 0] <= truth[1] - truth[2]) & (truth[1] - truth[2] <= intervals[:, 1])
        assert scipy_stats.multinomial.pmf(counts, n, truth)[inside].sum() >= 0.93


@pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 0), (5, 0), (7, 1), (10, 2), (3, 3), (1, 7)])
def test_mcnemar_is_the_binomial_sum(b, c):
    tail = sum(math.comb(b + c, k) for k in range(min(b, c) + 1)) / 2 ** (b + c)
    found = stats.compare_binary(*pairs(4, b, c, 3))
    assert found.p == pytest.approx(min(1, 2 * tail))
    assert (found.b, found.c, found.n, found.test) == (b, c, b + c + 7, "McNemar exact")


# --- paired means -------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=8))
def test_sign_flips_are_enumerated(differences):
    n, seen = len(differences), abs(sum(differences))
    flips = itertools.product((-1, 1), repeat=n)
    extreme = sum(abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= seen for signs in flips)
    found = stats.compare_means(differences, [0] * n)
    assert found.p == pytest.approx(extreme / 2**n)
    assert (found.b, found.c) == (sum(d > 0 for d in differences), sum(d < 0 for d in differences))
    assert found.ci[0] <= found.difference <= found.ci[1]


def test_more_instances_than_can_be_enumerated():
    rng = np.random.default_rng(5)
    d = rng.normal(0.3, 1, 40)
    signs = rng.choice((-1, 1), (40_000, 40))
    simulated = np.mean(np.abs(signs @ d) >= abs(d.sum()))
    assert stats.compare_means(d, np.zeros(40)).p == pytest.approx(simulated, abs=0.012)


def test_doubled_repeats_do_not_shrink_p():
    rng = np.random.default_rng(6)
    arm, control = rng.integers(1, 4, (12, 2)), rng.integers(0, 4, (12, 2))
    once = stats.compare_means(arm.mean(axis=1), control.mean(axis=1))
    twice = stats.compare_means(np.hstack([arm, arm]).mean(axis=1), np.hstack([control, control]).mean(axis=1))
    assert once == twice and 0 < once.p < 1
    pooled = stats.compare_means(np.tile(arm.mean(axis=1), 2), np.tile(control.mean(axis=1), 2))
    assert pooled.p < once.p, "repeats taken for instances would"


@pytest.mark.parametrize("binary", [True, False])
def test_equal_arms_do_not_differ(binary):
    found = stats.compare([1, 0, 1, 1], [1, 0, 1, 1], binary)
    assert (found.difference, found.p, found.b, found.c) == (0, 1, 0, 0)
    assert found.ci[0] <= 0 <= found.ci[1]


@pytest.mark.parametrize("binary", [True, False])
def test_nothing_compared_and_one_instance(binary):
    nothing = stats.compare([], [], binary)
    assert math.isnan(nothing.difference) and nothing.p == 1 and nothing.n == 0
    one = stats.compare([1], [0], binary)
    assert (one.difference, one.p, one.n) == (1, 1, 1)


@pytest.mark.parametrize(
    ("arm", "control", "binary", "why"),
    [
        ([1, 0], [1], True, "not 2 and 1"),
        ([1], [1, 0, 0], False, "not 1 and 3"),
        ([1, math.nan], [1, 0], True, "0 or 1"),
        ([1, 0.5], [1, 0], True, "0 or 1"),
        ([1, math.nan], [1, 0], False, "missing value"),
    ],
)
def test_what_is_not_paired_is_refused(arm, control, binary, why):
    with pytest.raises(ValueError, match=why):
        stats.compare(arm, control, binary)


@pytest.mark.parametrize("binary", [True, False])
def test_false_alarms_of_equal_arms(binary):
    """Two arms that do the same on instances of differing difficulty: p < 0.05 in at most about one of twenty."""
    rng, runs = np.random.default_rng(7), 200
    alarms = 0
    for _ in range(runs):
        ease = rng.beta(4, 1, 25)
        arm, control = (rng.binomial(1 if binary else 3, ease) / (1 if binary else 3) for _ in range(2))
        alarms += stats.compare(arm, control, binary).p < 0.05
    assert scipy_stats.binomtest(int(alarms), runs, 0.05, alternative="greater").pvalue > 0.01
    assert binary or alarms > 0


# --- the rest -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 0), (2, 0), (1, 1), (5, 2), (0, 9)])
@pytest.mark.parametrize("a", [0.5, 1, 3])
def test_the_e_value_is_the_mixtures_likelihood_ratio(a, b, c):
    density = scipy_stats.beta(a, a).pdf
    # Half by half, as the density may be infinite at both ends.
    halves = [integrate.quad(lambda p: density(p) * p**b * (1 - p) ** c, *ends)[0] for ends in ((0, 0.5), (0.5, 1))]
    assert stats.e_value(b, c, a) == pytest.approx(sum(halves) * 2 ** (b + c), rel=1e-6)


def test_e_values_by_hand():
    assert stats.e_value(0, 0) == pytest.approx(1)
    # Under the arcsine law E p = 1/2, E p² = 3/8, E p(1 − p) = 1/8.
    assert (stats.e_value(1, 0), stats.e_value(2, 0), stats.e_value(1, 1)) == pytest.approx((1, 1.5, 0.5))
    assert stats.e_value(4000, 0) == math.inf


@given(st.integers(0, 200), st.integers(0, 200))
def test_the_e_value_is_a_martingale(b, c):
    after = (stats.e_value(b + 1, c) + stats.e_value(b, c + 1)) / 2
    assert after == pytest.approx(stats.e_value(b, c), rel=1e-9)


def test_looking_after_every_pair_keeps_the_level():
    heads = np.random.default_rng(8).integers(0, 2, (400, 150)).cumsum(axis=1)
    table = np.array([[stats.e_value(b, n - b) if b <= n else 0 for b in range(151)] for n in range(151)])
    looks = table[np.arange(1, 151)[None, :], heads]
    assert 0 < np.mean(looks.max(axis=1) >= 20) <= 0.05


def test_false_discovery_by_hand():
    # Each p times 4 over its rank.
    assert stats.false_discovery([0.01, 0.04, 0.02, 0.5]) == pytest.approx([0.04, 0.16 / 3, 0.04, 0.5])
    assert stats.false_discovery([]) == []


def test_flip_rate_and_pass_k_by_hand():
    outcomes = [[True, True, True], [True, False, True], [False, False, False], [True]]
    assert stats.flip_rate(outcomes) == pytest.approx(1 / 3)
    assert stats.pass_k(outcomes) == pytest.approx(2 / 4)
    assert stats.flip_rate([[True], [False]]) is None and stats.flip_rate([]) is None
    assert stats.pass_k([]) is None
