"""Rows to rates, differences, intervals, tests and evidence: pure functions over numbers."""

from __future__ import annotations

from .comparisons import (
    LEVEL,
    Comparison,
    Estimate,
    Interval,
    compare,
    compare_binary,
    compare_means,
    e_value,
    false_discovery,
    flip_rate,
    mean,
    newcombe,
    pass_k,
    rate,
    wilson,
)

__all__ = [
    "LEVEL",
    "Comparison",
    "Estimate",
    "Interval",
    "compare",
    "compare_binary",
    "compare_means",
    "e_value",
    "false_discovery",
    "flip_rate",
    "mean",
    "newcombe",
    "pass_k",
    "rate",
    "wilson",
]
