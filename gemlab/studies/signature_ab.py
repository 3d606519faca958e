"""Arms against a control on the same instances of a task: by default signatures preserved against stripped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backends import Backend
from . import base
from .parameters import TrialParameters

if TYPE_CHECKING:
    from ..measure.findings import Findings


class SignatureAB(base.OfArms):
    """Any arms: what differs between them is the question."""

    name = "signature_ab"
    question = "What does an agent lose when thought signatures fall out of its history?"
    Parameters = TrialParameters

    def run(self, parameters: Any, folder: Path, backend: Backend) -> Findings:
        results = self.results(parameters, folder, backend)
        return base.of_arms(self, parameters, results, folder)


STUDY = SignatureAB()
