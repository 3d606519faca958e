"""Arms against a control on the same instances of a task: by default signatures preserved against stripped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backends import Backend
from ..runs import trials
from . import base
from .parameters import TrialParameters

if TYPE_CHECKING:
    from ..agent.trial import Spec
    from ..measure.findings import Findings

FILE = "trials.jsonl"


class SignatureAB(base.Study):
    """Any arms: what differs between them is the question."""

    name = "signature_ab"
    question = "What does an agent lose when thought signatures fall out of its history?"
    Parameters = TrialParameters

    def check(self, parameters: Any) -> None:
        base.check_folder(self.plan(parameters), parameters, FILE)

    def plan(self, parameters: Any) -> list[Spec]:
        p = parameters
        return trials.plan(p.arms, p.task, p.model, p.instances, p.repeats, p.seed)

    def run(self, parameters: Any, folder: Path, backend: Backend) -> Findings:
        from ..measure.results import Results

        traces = trials.run(self.plan(parameters), backend, folder / FILE)
        results = Results(traces, base.arm_names(parameters.arms), backend.source)
        return base.of_arms(self, parameters, results, folder)


STUDY = SignatureAB()
