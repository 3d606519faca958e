"""Numbers for people: a summary's arms and comparisons as cells of text. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def p_text(p: float) -> str:
    """Return a p-value for people."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def percent(value: float | None, ci: Sequence[float] | None = None, sign: bool = False) -> str:
    """Return a share in percent with its interval; a dash where there is none."""
    if value is None:
        return "–"
    plus = "+" if sign else ""
    text = f"{100 * value:{plus}.0f}%"
    return text if not ci or None in ci else f"{text} [{100 * ci[0]:{plus}.0f}, {100 * ci[1]:{plus}.0f}]"


def number(value: float | None, ci: Sequence[float] | None = None, sign: bool = False) -> str:
    """Return a number with two places and its interval; a dash where there is none."""
    if value is None:
        return "–"
    plus = "+" if sign else ""
    text = f"{value:{plus}.2f}"
    return text if not ci or None in ci else f"{text} [{ci[0]:{plus}.2f}, {ci[1]:{plus}.2f}]"


def arms(summary: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return one row of cells an arm; outcomes that no arm had are left out."""
    found = summary["arms"]
    shown = [o for o in next(iter(found.values()))["outcomes"] if any(a["outcomes"][o] for a in found.values())]
    return {
        arm: {
            "trials": str(a["trials"]),
            **{o: str(a["outcomes"][o]) for o in shown},
            "completion": percent(a["completion_rate"], a["completion_ci"]),
            "redundant calls": number(a["redundant_mean"], a["redundant_ci"]),
            "refetches": number(a["refetch_mean"]),
            "requests": number(a["requests_mean"]),
            "signatures returned": percent(a["signatures_returned"]),
            "prompt tokens a request": f"{a['prompt_tokens_per_request']:.0f}",
            "pin": a["pin"],
        }
        for arm, a in found.items()
    }


def comparisons(made: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return one row of cells a comparison."""
    shown = []
    for c in made:
        one = percent if c["metric"] == "completed" else number
        shown.append(
            {
                "metric": c["metric"],
                "arm − control": f"{c['arm']} − {c['control']}",
                "difference": one(c["difference"], c["ci"], sign=True),
                "p": p_text(c["p"]).removeprefix("p ").removeprefix("= "),
                "p adjusted": p_text(c["p_adjusted"]).removeprefix("p ").removeprefix("= "),
                "test": c["test"],
                "higher / lower": f"{c['higher']} / {c['lower']} of {c['instances']}",
            }
        )
    return shown


def text(rows: Mapping[str, Mapping[str, str]]) -> str:
    """Return rows of cells as aligned lines, each row's name in front."""
    columns = list(next(iter(rows.values())))
    lines = [["", *columns], *([name, *(row[c] for c in columns)] for name, row in rows.items())]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
