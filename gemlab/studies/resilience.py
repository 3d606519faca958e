"""Faults × retry × fallback: one run of the same arms under each kind of trouble."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import backends
from ..agent.trial import Spec
from ..backends import SCRIPTED, Backend, Source
from ..emulator import faults
from ..measure import style
from ..measure.style import BLUE, GREY, RED, Cell
from ..registry import BadInput
from ..runs import trials
from . import base
from .parameters import Count, TrialParameters

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..measure.findings import Findings
    from ..measure.results import Results

# Waiting is most of such a run, so many trials wait together.
_TOGETHER = 64
_PANELS = (("completed", BLUE), ("refused", RED), ("failed", GREY))
_BETWEEN = ": "
# As a fault's `model`: the one that the experiment asks for, so that a fallback escapes the fault.
REQUESTED = "requested"


def _arms() -> list[Any]:
    return [
        {"name": "resend"},
        {"name": "rebuild", "retry": "rebuild"},
        {"name": "resend, same family", "fallback": "same_family(gemini-3.5-flash-lite)"},
        {"name": "resend, other family anew", "fallback": "same_family(gemini-4-argon)"},
        {"name": "resend, any model", "fallback": "any(gemini-4-argon)"},
    ]


def _troubles() -> dict[str, Any]:
    return {
        "none": [],
        "busy": [{"kind": "503", "probability": 0.3}],
        "quota": [{"kind": "429", "probability": 0.3, "seconds": 1.0}],
        "outage": [{"kind": "503", "step": 3, "times": 1000, "model": REQUESTED}],
        "empty answers": [{"kind": "empty", "probability": 0.05}],
    }


@dataclass(frozen=True, kw_only=True)
class Parameters(TrialParameters):
    """`troubles`: lists of faults by name; each fault as in a faults file, its `model` may be "requested"."""

    model: str = "gemini-3.6-flash"
    arms: list[Any] = field(default_factory=_arms)
    troubles: dict[str, Any] = field(default_factory=_troubles)
    instances: Count = 25


class Resilience(base.Study):
    """Arms by their retry and fallback, each under each trouble; the first is the right way."""

    name = "resilience"
    question = "What does a retry or a fallback do to an agent's history when the API is in trouble?"
    only = ("sim",)
    why = "the faults are the embedded emulator's"
    Parameters = Parameters

    def check(self, parameters: Any) -> None:
        for named, struck, file in _jobs(parameters):
            base.check_folder(named, parameters, *file, source=_source(struck))

    def run(self, parameters: Any, folder: Path, backend: Backend) -> Findings:
        from ..measure.findings import Table
        from ..measure.subject import of_source

        results = run(parameters, folder)
        shares = table(results)
        put_in = "Which faults strike, and what it loses with its thoughts,"
        return base.of_arms(
            self,
            parameters,
            results,
            folder,
            tables={"troubles": Table(shares.reset_index())},
            figures={"heat_maps": lambda: heat_maps(results)},
            sentences=reading(results),
            notes=[of_source(results.subject, put_in), *results.notes()[1:]],
        )


# --- runs ---------------------------------------------------------------------------------------------------


def _jobs(p: Parameters) -> list[tuple[list[Spec], list[faults.Fault], tuple[str, str]]]:
    """Return for each trouble and arm its trials, its faults and its file; raises BadInput."""
    specs = trials.plan(p.arms, p.task, p.model, p.instances, p.repeats, p.seed)
    jobs = []
    for trouble, faults_ in p.troubles.items():
        struck = _faults(trouble, faults_, p.model)
        for arm in base.arm_names(p.arms):
            named = [replace(s, arm=replace(s.arm, name=trouble + _BETWEEN + arm)) for s in specs if s.arm.name == arm]
            jobs.append((named, struck, ("traces", re.sub(r"\W+", "_", f"{trouble} {arm}") + ".jsonl")))
    files = [file for _, _, file in jobs]
    if not jobs or len(set(files)) < len(files):
        raise BadInput("troubles and arms need names that differ in more than signs, and there has to be a trouble")
    return jobs


def _faults(trouble: str, values: Any, model: str) -> list[faults.Fault]:
    if _BETWEEN in trouble or not isinstance(values, list) or not all(isinstance(v, dict) for v in values):
        raise BadInput(f"trouble {trouble!r}: a name without {_BETWEEN!r}, and a list of faults")
    return [faults.fault({**v, "model": model} if v.get("model") == REQUESTED else v) for v in values]


def run(p: Parameters, folder: Path) -> Results:
    """Run the trials on the emulator under each trouble; return the results, arms named "trouble: arm".

    Each has a file of its own. The faults are drawn by `seed` from what a request says, so all arms meet the same ones
    as long as they say the same. Raises BadInput for a fault of no known form.
    """
    from ..measure.results import Results

    jobs = []
    for named, struck, file in _jobs(p):
        # A fault's time is counted by request, and arms may send equal ones: each needs a server of its own.
        api = backends.simulated(backends.emulator(faults=struck, seed=p.seed), source=_source(struck))
        jobs.append((named, api, folder.joinpath(*file)))
    for trouble, values in p.troubles.items():
        print(f"{trouble}: {', '.join(value['kind'] for value in values) or 'no faults'}")
    traces = trials.run_all(jobs, _TOGETHER)
    source = replace(SCRIPTED, settings={"faults": p.troubles})
    n = f"{p.instances} instances × {len(p.arms)} arms × {len(p.troubles)} troubles"
    return Results(traces, [named[0].arm.name for named, _, _ in jobs], source, n)


def _source(struck: Sequence[faults.Fault]) -> Source:
    return replace(SCRIPTED, settings={"faults": [asdict(fault) for fault in struck]})


# --- tables and figures -------------------------------------------------------------------------------------


def table(results: Results) -> pd.DataFrame:
    """Return one row a trouble and arm: shares completed, refused, failed; requests, resends, redundant calls."""
    rows = results.rows.copy()
    rows[["trouble", "arm"]] = rows.arm.str.split(_BETWEEN, n=1, expand=True)
    for outcome, _ in _PANELS:
        rows[outcome] = rows.outcome == outcome
    columns = [*(o for o, _ in _PANELS), "requests", "resent", "redundant"]
    return rows.groupby(["trouble", "arm"], sort=False)[columns].mean()


def _names(results: Results) -> tuple[list[str], list[str]]:
    """Return the troubles and the arms in the order in which they were given."""
    pairs = [name.split(_BETWEEN, 1) for name in results.arms]
    return list(dict.fromkeys(t for t, _ in pairs)), list(dict.fromkeys(a for _, a in pairs))


def heat_maps(results: Results) -> Figure:
    """Return completed, refused and failed shares as heat maps: troubles down, arms across."""
    shares, (troubles, arms) = table(results), _names(results)
    with style.sheet(11.5, 2.5 + 0.42 * len(troubles)) as figure:
        for axes, (outcome, colour) in zip(figure.subplots(1, len(_PANELS), sharey=True), _PANELS, strict=True):
            share: Any = shares[outcome]
            values = [[float(share[trouble, arm]) for arm in arms] for trouble in troubles]
            style.heat(axes, [[Cell(v, f"{100 * v:.0f}%") for v in row] for row in values], colour)
            axes.set_title(outcome.capitalize())
            axes.set_yticks(range(len(troubles)), troubles)
            axes.set_xticks(range(len(arms)), [a.replace(", ", "\n") for a in arms], rotation=60, fontsize=8)
        style.caption(figure, results.subject, f"shares of {_trials(results)} trials a cell")
    return figure


def _trials(results: Results) -> int:
    return len(results.of(results.arms[0]))


def reading(results: Results) -> list[str]:
    """Return what the table says: by trouble, the arms that complete most and those that are refused."""
    shares, (troubles, arms) = table(results), _names(results)
    return [_sentence(trouble, shares.loc[trouble].loc[arms], _trials(results)) for trouble in troubles]


def _sentence(trouble: str, rows: Any, n: int) -> str:
    best = rows.completed.max()
    names = " / ".join(rows.index[rows.completed == best])
    text = f"{trouble}: at most {100 * best:.0f}% of {n} completed ({names})"
    refused = [f"{arm} {100 * share:.0f}%" for arm, share in rows.refused.items() if share > 0]
    return text + (f"; refused: {' / '.join(refused)}." if refused else ".")


STUDY = Resilience()
