"""What a study is: one question, checked before anything runs, and answered by findings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from .. import backends
from ..agent.arm import arm
from ..backends import Backend, Source, Way, language
from ..registry import BadInput, Kind
from ..runs import trials
from ..wire import families
from .parameters import Parameters, TrialParameters, read

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..agent.trial import Spec
    from ..measure.findings import Findings, Table
    from ..measure.results import Results
    from ..measure.subject import Note


class Study:
    """One question and how it is answered; a new one is a subclass, an instance of it registered, and a notebook.

    `only`: the backends that it can use by their names, all where it is empty, and `why`: the reason, for who asks for
    another. `Parameters`: a dataclass of what it takes.
    """

    name: ClassVar[str]
    question: ClassVar[str]
    only: ClassVar[tuple[str, ...]] = ()
    why: ClassVar[str] = ""
    Parameters: ClassVar[type[Parameters]] = TrialParameters

    @property
    def doc(self) -> str:
        """The question, for a list of studies."""
        return self.question

    def check(self, parameters: Any) -> None:
        """Check what can be checked before anything runs; raises BadInput. By default that the plan can be made."""
        self.plan(parameters)

    def plan(self, parameters: Any) -> list[Spec]:
        """Return the trials that a run will make at most, for an estimate of what they cost; none if not known."""
        return []

    def open(self, parameters: Any) -> Backend:
        """Return the backend to run on."""
        return backends.get(parameters.backend)

    def run(self, parameters: Any, folder: Path, backend: Backend) -> Findings:
        """Answer the question; goes on from the trials that the folder holds."""
        raise NotImplementedError


class OfArms(Study):
    """A study whose trials are arms on the instances of one task, the first arm being the control."""

    def check(self, parameters: Any) -> None:
        check_folder(self.plan(parameters), parameters, _TRIALS)

    def plan(self, parameters: Any) -> list[Spec]:
        p = parameters
        return trials.plan(p.arms, p.task, p.model, p.instances, p.repeats, p.seed)

    def results(self, parameters: Any, folder: Path, backend: Backend) -> Results:
        """Run the trials that the folder does not hold yet, and return the results of all."""
        from ..measure.results import Results

        traces = trials.run(self.plan(parameters), backend, folder / _TRIALS)
        return Results(traces, arm_names(parameters.arms), backend.source)


_TRIALS = "trials.jsonl"

STUDIES: Kind[Study] = Kind("study", "gemlab.studies")
# Imported when they are asked for: a list of them must not cost what one of them needs.
for _name, _module in {
    "signature_ab": "signature_ab",
    "signature_lm": "signature_lm.study",
    "pruning": "pruning",
    "resilience": "resilience",
    "canary": "canary",
    "guard_ab": "guard_ab",
    "guard_thresholds": "guard_thresholds",
    "validity": "validity",
}.items():
    STUDIES.offer(_name, f"gemlab.studies.{_module}:STUDY")


# --- checks -------------------------------------------------------------------------------------------------


def check(study: Study, values: Mapping[str, Any]) -> Any:
    """Return a study's parameters, checked as far as can be without running anything.

    The one check of the command line and of notebooks. A language model's file is named by its whole path from here
    on. Raises BadInput, and backends.NoKey where the real API is asked for without a key.
    """
    parameters = read(study.Parameters, values, study.name)
    try:
        way, address = backends.find(parameters.backend)
        if study.only and way.name not in study.only:
            raise BadInput(f"{study.name} uses {' or '.join(study.only)} alone, not {parameters.backend}: {study.why}")
        if way.kind == "language":
            parameters = dataclasses.replace(parameters, backend=language.absolute(parameters.backend))
            way, address = backends.find(parameters.backend)
        _check_model(way, parameters.model)
        study.check(parameters)
        way.check(address)  # last, as it may ask a server
    except BadInput:
        raise
    except ValueError as error:
        raise BadInput(str(error)) from None
    return parameters


def _check_model(way: Way, model: str) -> None:
    """Refuse a model that the emulator does not know; what another API serves only that API can tell."""
    if way.kind in ("api", "elsewhere") or families.is_known(families.serve(model)):
        return
    raise BadInput(f"unknown model {model!r}; the emulator knows {', '.join(families.known_models())}")


def check_folder(specs: Sequence[Spec], parameters: Parameters, *file: str, source: Source | None = None) -> None:
    """Refuse an `out` whose file holds trials of other settings, or of another `source`; raises BadInput."""
    if parameters.folder is None:
        return
    path = parameters.folder.joinpath(*file)
    held = trials.finished(specs, parameters.label, path)
    if source is not None and any(trace.source != source for trace in held.values()):
        raise BadInput(f"{path} holds trials of the same backend with other settings: choose another folder")


def arm_names(arms: Sequence[Any]) -> list[str]:
    """Return the names of arms in their order, first the control; raises BadInput for arms that are none."""
    return [arm(form).name for form in arms]


# --- findings -----------------------------------------------------------------------------------------------


def of_arms(
    study: Study,
    parameters: Parameters,
    results: Results,
    folder: Path | None,
    *,
    tables: Mapping[str, Table] | None = None,
    figures: Mapping[str, Callable[[], Figure]] | None = None,
    sentences: Sequence[str] | None = None,
    notes: Sequence[Note] | None = None,
) -> Findings:
    """Return the findings of a run of arms: what every such run has, a study's own tables and figures before it.

    `sentences`, `notes`: in the place of those that read the comparisons, and of the results' own.
    """
    from ..measure import figures as drawn
    from ..measure import tables as cells
    from ..measure.findings import Findings, Table

    return Findings(
        experiment=parameters.name or study.name,
        study=study.name,
        question=study.question,
        subject=results.subject,
        parameters={k: v for k, v in parameters.values().items() if k != "out"},
        rows=results.rows,
        tables={
            **(tables or {}),
            "arms": Table(cells=cells.arms(results.summarised), is_of_arms=True),
            "comparisons": Table(cells=cells.comparisons(results.comparisons), is_of_arms=True),
        },
        figures={**(figures or {}), **drawn.of_arms(results)},
        sentences=results.sentences() if sentences is None else sentences,
        remarks=results.notes() if notes is None else notes,
        arms=results.summarised,
        comparisons=results.comparisons,
        folder=folder,
    )


def of_tables(study: Study, parameters: Parameters, form: type[Findings] | None = None, **found: Any) -> Findings:
    """Return the findings of a study that compares no arms; `found` are the other fields of `form`."""
    from ..measure.findings import Findings

    values = {k: v for k, v in parameters.values().items() if k != "out"}
    return (form or Findings)(
        experiment=parameters.name or study.name,
        study=study.name,
        question=study.question,
        parameters=values,
        **found,
    )
