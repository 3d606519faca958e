"""Rows to rates, differences, intervals and tests. The unit of analysis is the task instance.

Repeats of one instance are averaged first, so that doubling the repeats cannot shrink a p-value. The test is
chosen by counts (repeats, distinct values), never by looking at the result.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

LEVEL = 0.95
_RESAMPLES = 9_999
_SEED = 20_261_130

Interval = tuple[float, float]
_Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A value with its 95% interval; `n` counts instances."""

    value: float
    ci: Interval
    n: int


@dataclass(frozen=True)
class Comparison:
    """Arm minus control over paired instances; `b` and `c` count instances where only one of them is higher."""

    difference: float
    ci: Interval
    p: float
    test: str
    n: int
    b: int
    c: int


def _scipy() -> Any:
    # It costs a second of start-up, which a command that only checks its input must not pay.
    import scipy.special
    import scipy.stats

    return scipy


def wilson(k: int, n: int) -> Interval:
    """Return the Wilson score interval of k successes in n; (0, 1) where n is 0."""
    if n == 0:
        return 0.0, 1.0
    ci = _scipy().stats.binomtest(k, n).proportion_ci(LEVEL, method="wilson")
    return float(ci.low), float(ci.high)


def rate(per_instance: ArrayLike) -> Estimate:
    """Return a rate over instances: Wilson where each is 0 or 1, else as a mean."""
    values = np.asarray(per_instance, float)
    if len(values) and np.isin(values, (0.0, 1.0)).all():
        k = int(values.sum())
        return Estimate(k / len(values), wilson(k, len(values)), len(values))
    return _mean(values)


def mean(per_instance: ArrayLike) -> Estimate:
    """Return a mean over instances with its BCa bootstrap interval; equal values give an interval of no width."""
    return _mean(np.asarray(per_instance, float))


def _mean(values: _Array) -> Estimate:
    if not len(values):
        return Estimate(math.nan, (math.nan, math.nan), 0)
    return Estimate(float(values.mean()), _bca(values), len(values))


def _bca(values: _Array) -> Interval:
    if np.ptp(values) == 0:
        return float(values[0]), float(values[0])
    found = _bootstrap(values, "BCa")
    if not all(map(math.isfinite, found)):  # too few distinct values for the acceleration
        found = _bootstrap(values, "percentile")
    return found


def _bootstrap(values: _Array, method: Literal["BCa", "percentile"]) -> Interval:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", _scipy().stats.DegenerateDataWarning)
        ci = (
            _scipy()
            .stats.bootstrap(
                (values,),
                np.mean,
                confidence_level=LEVEL,
                n_resamples=_RESAMPLES,
                batch=1_000,
                method=method,
                rng=np.random.default_rng(_SEED),
            )
            .confidence_interval
        )
    return float(ci.low), float(ci.high)


# --- paired comparisons -------------------------------------------------------------------------------------


def _paired(arm: ArrayLike, control: ArrayLike) -> _Array:
    first, second = np.asarray(arm, float), np.asarray(control, float)
    if len(first) != len(second):
        raise ValueError(f"paired arms have one value an instance each, not {len(first)} and {len(second)}")
    return np.asarray([first, second])


def compare_binary(arm: ArrayLike, control: ArrayLike) -> Comparison:
    """Compare two paired 0/1 outcomes, one trial an instance: exact McNemar, Newcombe's paired interval."""
    values = _paired(arm, control)
    if not np.isin(values, (0.0, 1.0)).all():
        raise ValueError("binary outcomes are 0 or 1")
    if not values.shape[1]:
        return Comparison(math.nan, (math.nan, math.nan), 1.0, "McNemar exact", 0, 0, 0)
    a, k = values.astype(bool)
    both, b, c = int((a & k).sum()), int((a & ~k).sum()), int((~a & k).sum())
    p = _scipy().stats.binomtest(b, b + c, 0.5).pvalue if b + c else 1.0
    difference = (b - c) / len(a)
    return Comparison(difference, newcombe(both, b, c, len(a)), float(p), "McNemar exact", len(a), b, c)


def newcombe(both: int, b: int, c: int, n: int) -> Interval:
    """Return the interval of a difference of paired proportions (b − c)/n.

    The hybrid score method of Newcombe, Statistics in Medicine 17 (1998) 2635–2650, method 10; scipy has none.
    `both`: successes of both, b: of the first only, c: of the second only.
    """
    neither = n - both - b - c
    p1, p2 = (both + b) / n, (both + c) / n
    (l1, u1), (l2, u2) = wilson(both + b, n), wilson(both + c, n)
    margins = (both + b) * (c + neither) * (both + c) * (b + neither)
    phi = 0.0
    if margins > 0:
        numerator = both * neither - b * c
        phi = (max(numerator - n / 2, 0.0) if numerator > 0 else numerator) / math.sqrt(margins)

    def half(x: float, y: float) -> float:
        return math.sqrt(max(x * x - 2 * phi * x * y + y * y, 0.0))

    d = p1 - p2
    return d - half(p1 - l1, u2 - p2), d + half(u1 - p1, p2 - l2)


def compare_means(arm: ArrayLike, control: ArrayLike) -> Comparison:
    """Compare paired means over instances: sign-flip permutation test, BCa bootstrap interval."""
    values = _paired(arm, control)
    if not np.isfinite(values).all():
        raise ValueError("a missing value has no place in a paired comparison: leave the instance out")
    if not values.shape[1]:
        return Comparison(math.nan, (math.nan, math.nan), 1.0, "sign-flip permutation", 0, 0, 0)
    d = values[0] - values[1]
    p = 1.0  # with one instance both signs are as likely
    if len(d) > 1 and np.any(d):
        p = (
            _scipy()
            .stats.permutation_test(
                (d,),
                np.mean,
                permutation_type="samples",
                n_resamples=_RESAMPLES,
                batch=1_000,
                rng=np.random.default_rng(_SEED),
            )
            .pvalue
        )
    return Comparison(
        float(d.mean()),
        _bca(d),
        float(p),
        "sign-flip permutation",
        len(d),
        int((d > 0).sum()),
        int((d < 0).sum()),
    )


def compare(arm: ArrayLike, control: ArrayLike, binary: bool) -> Comparison:
    """Compare paired per-instance values; `binary` where each is one trial's 0 or 1."""
    return compare_binary(arm, control) if binary else compare_means(arm, control)


def false_discovery(ps: Sequence[float]) -> list[float]:
    """Return Benjamini–Hochberg adjusted p-values."""
    return [float(p) for p in _scipy().stats.false_discovery_control(ps, method="bh")] if len(ps) else []


def e_value(b: int, c: int, a: float = 0.5) -> float:
    """Return the e-value of b against c discordant pairs: a beta(a, a) mixture over the fair coin.

    Valid at every look; stop where it reaches 1/alpha.
    """
    with np.errstate(over="ignore"):  # beyond the range of floats it is infinite
        return float(
            np.exp(_scipy().special.betaln(b + a, c + a) - _scipy().special.betaln(a, a) + (b + c) * math.log(2))
        )


def flip_rate(outcomes: Sequence[Sequence[Any]]) -> float | None:
    """Return the share of instances whose repeats do not all agree; None without repeats."""
    repeated = [o for o in outcomes if len(o) > 1]
    return sum(len(set(o)) > 1 for o in repeated) / len(repeated) if repeated else None


def pass_k(outcomes: Sequence[Sequence[bool]]) -> float | None:
    """Return pass^k: the share of instances all of whose repeats completed."""
    return sum(all(o) for o in outcomes) / len(outcomes) if outcomes else None
