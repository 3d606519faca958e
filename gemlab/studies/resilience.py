"""Faults × retry × fallback: one run of the same arms under each kind of trouble."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from .. import backends
from ..agent.trial import Spec
from ..emulator import faults
from ..measure import figures
from ..measure.report import Results
from ..runs import trials
from ..runs.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

# Waiting is most of such a run, so many trials wait together.
_TOGETHER = 64
_PANELS = (("completed", figures.BLUE), ("refused", figures.RED), ("failed", figures.GREY))


def run(
    specs: Sequence[Spec], troubles: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path, seed: int
) -> list[Trace]:
    """Run the trials on the emulator under each named list of faults; return all traces.

    An arm is named "trouble: arm" and has a file of its own. The faults are drawn by `seed` from what a request says,
    so all arms meet the same ones as long as they say the same. Raises ValueError for a fault of no known form.
    """
    jobs = []
    for trouble, tables in troubles.items():
        struck = [faults.fault(table) for table in tables]
        print(f"{trouble}: {', '.join(f.kind for f in struck) or 'no faults'}")
        for arm in dict.fromkeys(s.arm for s in specs):
            # A fault's time is counted by request, and arms may send equal ones: each needs a server of its own.
            api = backends.simulated(backends.emulator(faults=struck, seed=seed))
            named = [replace(s, arm=replace(arm, name=f"{trouble}: {arm.name}")) for s in specs if s.arm == arm]
            jobs.append((named, api, folder / "traces" / f"{_file_name(f'{trouble} {arm.name}')}.jsonl"))
    return trials.run_all(jobs, _TOGETHER)


def _file_name(text: str) -> str:
    return re.sub(r"\W+", "_", text)


def results(name: str, traces: Sequence[Trace]) -> Results:
    """Return the results over all troubles, arms in order of appearance by trouble."""
    arms = {t.arm.name for t in traces}
    troubles = list(dict.fromkeys(t.arm.name.split(": ")[0] for t in traces))
    ordered = sorted(arms, key=lambda a: (troubles.index(a.split(": ")[0]), a.split(": ")[1]))
    return Results(name, traces, ordered, backends.SCRIPTED)


def table(found: Results) -> pd.DataFrame:
    """Return one row a trouble and arm: shares completed, refused, failed; requests, resends, redundant calls."""
    rows = found.rows.copy()
    rows[["trouble", "arm"]] = rows.arm.str.split(": ", n=1, expand=True)
    for outcome, _ in _PANELS:
        rows[outcome] = rows.outcome == outcome
    columns = [*(o for o, _ in _PANELS), "requests", "resent", "redundant"]
    return rows.groupby(["trouble", "arm"], sort=False)[columns].mean()


def heat_maps(found: Results) -> Figure:
    """Return completed, refused and failed shares as heat maps: troubles down, arms across."""
    shares = table(found)
    troubles = list(dict.fromkeys(shares.index.get_level_values(0)))
    arms = sorted(set(shares.index.get_level_values(1)))
    with mpl.rc_context(figures.STYLE):
        figure = Figure(figsize=(11.5, 2.3 + 0.42 * len(troubles)), layout="constrained")
        for axes, (outcome, colour) in zip(figure.subplots(1, len(_PANELS), sharey=True), _PANELS, strict=True):
            shades = LinearSegmentedColormap.from_list(outcome, ["white", colour])
            for y, trouble in enumerate(troubles):
                for x, arm in enumerate(arms):
                    share = shares.loc[(trouble, arm), outcome]
                    axes.barh(y, 0.96, left=x - 0.48, height=0.92, color=shades(share))
                    ink = "white" if share > 0.6 else figures.INK
                    axes.text(x, y, f"{100 * share:.0f}%", ha="center", va="center", color=ink)
            axes.set(xlim=(-0.5, len(arms) - 0.5), ylim=(len(troubles) - 0.5, -0.5), title=outcome.capitalize())
            axes.set_yticks(range(len(troubles)), troubles)
            axes.set_xticks(range(len(arms)), [a.replace(", ", "\n") for a in arms], rotation=60, fontsize=8)
            axes.tick_params(bottom=False)
        figures.caption(figure, found)
    return figure


def reading(found: Results) -> str:
    """Return what the table says in lines: by trouble, the arms that complete most and those that are refused."""
    shares = table(found)
    lines = []
    for trouble, rows in shares.groupby(level=0, sort=False):
        arms = rows.droplevel(0)
        best = arms.completed.max()
        text = f"{trouble}: at most {100 * best:.0f}% completed ({', '.join(arms.index[arms.completed == best])})"
        refused = arms.index[arms.refused > 0]
        if len(refused):
            text += f"; refused: {', '.join(f'{a} {100 * arms.refused[a]:.0f}%' for a in refused)}"
        lines.append(f"- {text}.")
    return "\n".join([*lines, f"- {found.notes()[0]}"])
