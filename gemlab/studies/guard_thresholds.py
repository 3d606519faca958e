"""Recorded runs replayed under every threshold of every rule: one's own, or runs that are made for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from ..backends import Backend, Source
from ..measure.findings import Findings, Table
from ..measure.subject import Note, Subject, of_source, of_traces
from ..registry import BadInput
from ..replay import firing, importers
from ..runs import looping
from . import base
from .parameters import FILES, TrialParameters

if TYPE_CHECKING:
    from ..agent.trial import Spec
    from ..replay.thresholds import Choice

# As many names of files as a caption holds.
_MOST_NAMES = 3


@dataclass(frozen=True, kw_only=True)
class Parameters(TrialParameters):
    """`traces`: recorded runs, files or folders; where there are none, runs are made with what follows.

    `tolerance`: share of healthy runs that may be stopped. `loop`: how prone to loops the scripted model is.
    """

    traces: list[str] = field(default_factory=list, metadata=FILES)
    rules: list[str] = field(default_factory=lambda: ["args", "result", "stall", "cycle", "error"])
    tolerance: Annotated[float, Ge(0)] = 0.01
    task: str = "dead-end"
    more_tasks: list[str] = field(default_factory=lambda: ["flaky", "polling", "paging"])
    arms: list[Any] = field(default_factory=lambda: [{"name": "capped", "guard": "cap_20"}])
    loop: Annotated[float, Ge(0)] = 1.0


@dataclass(repr=False)
class Swept(Findings):
    """Findings with the runs that were replayed, for the explorer."""

    runs: Sequence[importers.Run] = ()


class GuardThresholds(base.Study):
    """Every rule at every threshold, in one pass over the runs."""

    name = "guard_thresholds"
    question = "Which thresholds stop loops without stopping healthy runs?"
    Parameters = Parameters

    def check(self, parameters: Any) -> None:
        p = parameters
        if not p.rules:
            raise BadInput("rules: name at least one")
        firing.named_rules(p.rules)
        if p.tolerance > 1:
            raise BadInput(f"the tolerance is a share of the healthy runs, from 0 to 1, not {p.tolerance}")
        if p.loop > 1:
            raise BadInput(f"loop is a probability, not {p.loop}")
        if p.traces and p.backend != "sim":
            raise BadInput(f"recorded runs are replayed without a call: no backend {p.backend} with traces")
        source = looping.source(p.loop) if p.backend == "sim" else None
        for specs, file in _jobs(p):
            base.check_folder(specs, p, file, source=source)

    def plan(self, parameters: Any) -> list[Spec]:
        return [spec for specs, _ in _jobs(parameters) for spec in specs]

    def open(self, parameters: Any) -> Backend:
        return looping.backend(parameters.backend, parameters.loop)

    def run(self, parameters: Any, folder: Path, backend: Backend) -> Findings:
        from ..replay import sweep_figures, thresholds

        p = parameters
        jobs = _jobs(p)
        traces = looping.run(jobs, backend, folder)
        recorded = importers.read(p.traces or [folder / file for _, file in jobs])
        if not recorded.runs:
            raise BadInput("; ".join(["no runs in these files", *recorded.notes()]))
        print(" ".join([f"{len(recorded.runs)} runs.", *recorded.notes()]))
        if p.traces:
            about = sweep_figures.subject(recorded.runs, _own(p.traces))
        else:
            about = of_traces(traces, backend.source, sweep_figures.counted(recorded.runs))
        fires = firing.sweep(firing.index(recorded.runs), firing.named_rules(p.rules))
        rows, kind = thresholds.table(fires), thresholds.target(fires)
        choices = thresholds.recommend(rows, p.tolerance)
        beside = [firing.ASSUMPTION, *thresholds.notes(fires), *recorded.notes()]
        return base.of_tables(
            self,
            p,
            Swept,
            subject=about,
            rows=rows,
            tables={
                "recommended": Table(cells=thresholds.recommended(choices)),
                "thresholds": Table(rows, cells=thresholds.cells(rows)),
                "presets": Table(thresholds.presets(recorded.runs)),
                "data_sets": Table(cells=thresholds.sensitivity(fires, p.tolerance)),
            },
            figures={
                "frontier": lambda: sweep_figures.frontier(rows, choices, kind, p.tolerance, about),
                "heat": lambda: sweep_figures.heat(rows, choices, kind, about),
                "firing": lambda: sweep_figures.firing(fires, choices, about),
                "by_source": lambda: sweep_figures.by_source(fires, choices, about),
            },
            sentences=_sentences(choices, about),
            remarks=[of_source(about, looping.PUT_IN), *(Note("method", text) for text in beside)],
            folder=folder,
            runs=recorded.runs,
        )


def _jobs(p: Parameters) -> list[tuple[list[Spec], str]]:
    """Return what to run; nothing where recorded runs are there."""
    if p.traces:
        return []
    return looping.jobs([p.task, *p.more_tasks], p.arms, p.model, p.instances, p.repeats, p.seed)


def _sentences(choices: Sequence[Choice], about: Subject) -> list[str]:
    return [f"{choice}." for choice in choices] + [f"n = {about.n}."]


def _own(traces: Sequence[str]) -> Source:
    names = [Path(file).name for file in traces]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return Source("own", f"own runs, as recorded in {', '.join(names[:_MOST_NAMES])}{more}")


STUDY = GuardThresholds()
