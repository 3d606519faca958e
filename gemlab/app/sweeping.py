"""The command `sweep`: recorded runs in, a table in the terminal, sweep.csv and sweep.png beside it."""

from __future__ import annotations

from collections.abc import Sequence

from ..backends import Source
from ..measure import style, tables
from ..registry import BadInput
from ..replay import firing, importers, sweep_figures, thresholds
from ..studies.session import folder


def sweep(traces: Sequence[str], rules: Sequence[str], tolerance: float, out: str) -> str:
    """Write the table and the figure into `out` (or a folder of its own) and return what to print.

    Raises BadInput for unknown rules, paths that are not there, files without runs and tolerances outside 0 to 1.
    """
    names = list(dict.fromkeys(rules)) or list(firing.DEFAULT_RULES)
    chosen = firing.named_rules(names)
    try:
        got = importers.read(traces)
    except OSError as error:
        raise BadInput(str(error)) from None
    if not any(run.has_calls for run in got.runs):
        raise BadInput("; ".join([f"no {'calls' if got.runs else 'runs'} in these files", *got.notes()]))
    fires = firing.sweep(firing.index(got.runs), chosen)
    rows = thresholds.table(fires)
    try:
        choices = thresholds.recommend(rows, tolerance)
    except ValueError as error:
        raise BadInput("; ".join([str(error), *got.notes()])) from None
    where = folder(out, "sweep")
    rows.to_csv(where / "sweep.csv", index=False)
    kind = thresholds.target(fires)
    about = sweep_figures.subject(got.runs, Source("own", "own runs, as recorded"))
    style.save(sweep_figures.frontier(rows, choices, kind, tolerance, about), where / "sweep.png")
    found = thresholds.cells(rows)
    parts = [
        tables.text(found) if found else "No rule fires in any run.",
        f"Recommended where at most {tolerance:.1%} of the healthy runs may be stopped (caught: {kind} runs):\n"
        + "\n".join(f"  {choice}" for choice in choices),
        "By data set alone: threshold (caught)\n" + tables.text(thresholds.sensitivity(fires, tolerance)),
        "\n".join([firing.ASSUMPTION, *thresholds.notes(fires), *got.notes()]),
        f"table   {where / 'sweep.csv'}\nfigure  {where / 'sweep.png'}",
    ]
    return "\n\n".join(parts)
