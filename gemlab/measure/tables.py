"""Numbers for people: a summary's arms, comparisons and records as cells of text. Imports nothing heavy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Cells = Mapping[str, str]


def each(frame: Any) -> Iterable[Any]:
    """Return the rows of a data frame as named tuples, whose values are of any type."""
    rows: Iterable[Any] = frame.itertuples()
    return rows


def p_text(p: float) -> str:
    """Return a p-value for people."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def percent(value: float | None, ci: Sequence[Any] | None = None, sign: bool = False) -> str:
    """Return a share in percent with its interval; a dash where there is none."""
    if _is_missing(value):
        return "–"
    plus = "+" if sign else ""
    text = f"{100 * value:{plus}.0f}%"  # type: ignore[operator]
    return text if not ci or None in ci else f"{text} [{100 * ci[0]:{plus}.0f}, {100 * ci[1]:{plus}.0f}]"


def points(value: float, ci: Sequence[float]) -> str:
    """Return a difference of shares in percentage points with its interval."""
    return f"{100 * value:+.0f} [{100 * ci[0]:+.0f}, {100 * ci[1]:+.0f}]"


def number(value: float | None, ci: Sequence[Any] | None = None, sign: bool = False) -> str:
    """Return a number with two places and its interval; a dash where there is none."""
    if _is_missing(value):
        return "–"
    plus = "+" if sign else ""
    text = f"{value:{plus}.2f}"
    return text if not ci or None in ci else f"{text} [{ci[0]:{plus}.2f}, {ci[1]:{plus}.2f}]"


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


# --- rows of cells ------------------------------------------------------------------------------------------


def arms(summarised: Mapping[str, Mapping[str, Any]]) -> list[Cells]:
    """Return one row of cells an arm of a summary; outcomes that no arm had are left out."""
    outcomes = next(iter(summarised.values()))["outcomes"]
    shown = [o for o in outcomes if any(arm["outcomes"][o] for arm in summarised.values())]
    return [
        {
            "arm": name,
            "trials": str(arm["trials"]),
            **{o: str(arm["outcomes"][o]) for o in shown},
            "completion": percent(arm["completion_rate"], arm["completion_ci"]),
            "redundant calls": number(arm["redundant_mean"], arm["redundant_ci"]),
            "refetches": number(arm["refetch_mean"]),
            "requests": number(arm["requests_mean"]),
            "signatures returned": percent(arm["signatures_returned"]),
            "prompt tokens a request": f"{arm['prompt_tokens_per_request']:.0f}",
            "pin": arm["pin"],
        }
        for name, arm in summarised.items()
    ]


def comparisons(compared: Sequence[Mapping[str, Any]]) -> list[Cells]:
    """Return one row of cells a comparison."""
    shown: list[Cells] = []
    for c in compared:
        cell = percent if c["metric"] == "completed" else number
        shown.append(
            {
                "metric": c["metric"],
                "arm − control": f"{c['arm']} − {c['control']}",
                "difference": cell(c["difference"], c["ci"], sign=True),
                "p": p_text(c["p"]).removeprefix("p ").removeprefix("= "),
                "p adjusted": p_text(c["p_adjusted"]).removeprefix("p ").removeprefix("= "),
                "test": c["test"],
                "higher / lower": f"{c['higher']} / {c['lower']} of {c['instances']}",
            }
        )
    return shown


def records(rows: Sequence[Mapping[str, Any]]) -> list[Cells]:
    """Return rows of values as cells: `x` with `x_low` and `x_high` in one, numbers to three digits."""
    return [{key.replace("_", " "): _with_interval(row, key) for key in row if not _is_bound(row, key)} for row in rows]


def _is_bound(row: Mapping[str, Any], key: str) -> bool:
    stem, _, end = key.rpartition("_")
    return end in ("low", "high") and stem in row


def _with_interval(row: Mapping[str, Any], key: str) -> str:
    value, low, high = row[key], row.get(f"{key}_low"), row.get(f"{key}_high")
    bounded = not (_is_missing(value) or _is_missing(low) or _is_missing(high))
    return _cell(value) + (f" [{_cell(low)}, {_cell(high)}]" if bounded else "")


def _cell(value: Any) -> str:
    if _is_missing(value):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if value.is_integer() or abs(value) >= 1_000 else f"{value:.3g}"


# --- as text ------------------------------------------------------------------------------------------------


def text(rows: Sequence[Cells]) -> str:
    """Return rows of cells as aligned lines; the first column to the left, the others to the right."""
    import tabulate

    right = ["right"] * (len(rows[0]) - 1) if rows else []
    return tabulate.tabulate(rows, headers="keys", tablefmt="plain", disable_numparse=True, colalign=["left", *right])


def markdown(rows: Sequence[Cells]) -> str:
    """Return rows of cells as a table in Markdown."""
    import tabulate

    escaped = [{key: cell.replace("|", "\\|") for key, cell in row.items()} for row in rows]
    return tabulate.tabulate(escaped, headers="keys", tablefmt="pipe", disable_numparse=True)
