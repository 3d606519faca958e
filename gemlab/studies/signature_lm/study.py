"""What arms do to a language model of one's own, until the evidence is enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...backends import Backend, Exchange, Settings, Source, language
from ...measure.findings import Findings, Table
from .. import base
from . import runs as running
from .runs import Parameters, Run

if TYPE_CHECKING:
    from ...emulator.minds.runtimes import Runtime


class Loaded:
    """A backend over a language model that is loaded; each set-up asks the same runtime in its own way."""

    def __init__(self, p: Parameters):
        self.runtime: Runtime = language.open_runtime(p.backend, p.slots)
        prompt = running.setups(p.setups)[0].prompt
        self._first = language.backend(p.backend, prompt, p.slots, self.runtime)
        self.name, self.service = self._first.name, self._first.service
        self.source = language.source(p.backend)

    async def send(
        self, model: str, contents: Sequence[dict[str, Any]], settings: Settings, stream: bool = False
    ) -> Exchange:
        return await self._first.send(model, contents, settings, stream)

    async def interact(self, request: dict[str, Any]) -> Exchange:
        return await self._first.interact(request)

    async def release(self) -> None:
        await self._first.release()


@dataclass(repr=False)
class Spoken(Findings):
    """Findings with the runs of each set-up, for what the model was shown, and with how fast they were."""

    runs: Sequence[Run] = ()
    speed: str = ""

    def last_prompts(self) -> str:
        """Return what the control and the second arm were shown last, in one and the same instance."""
        from . import report

        first = self.runs[0]
        return "\n\n".join(f"--- {arm}\n{report.last_prompt(first, arm)}" for arm in first.arms[:2])


class SignatureLM(base.Study):
    """Arms in set-ups side by side, each a task and a prompt."""

    name = "signature_lm"
    question = "What does a real language model lose with its thoughts?"
    only = ("gguf", "openai")
    why = "it needs a language model (./lab model)"
    Parameters = Parameters

    def check(self, parameters: Any) -> None:
        running.check(parameters)

    def open(self, parameters: Any) -> Backend:
        return Loaded(parameters)

    def run(self, parameters: Any, folder: Path, backend: Backend) -> Findings:
        import pandas as pd

        from ...measure.subject import of_traces
        from . import figure, report, speed

        p = parameters
        runtime = backend.runtime if isinstance(backend, Loaded) else language.open_runtime(p.backend, p.slots)
        rates = speed.measure(runtime, p.slots)
        print(f"by itself: {rates.read:.0f} tokens read and {rates.made:.0f} made a second by {p.slots} slots")
        runs = running.run(p, folder, runtime)
        rows, took = report.frame(runs), report.speed(runs, rates)
        traces = [t for one in runs for t in one.traces]
        subject = of_traces(traces, _source(p, runs), f"at most {p.instances} pairs an arm")
        subject = replace(subject, backend=subject.backend.rpartition(" prompt=")[0])
        return base.of_tables(
            self,
            p,
            Spoken,
            subject=subject,
            rows=rows,
            tables={
                "setups": Table(rows, cells=report.shown(rows)),
                "speed": Table(pd.DataFrame([took] if took else [])),
            },
            figures={"setups": lambda: figure.setups(rows, subject)},
            sentences=report.reading(runs),
            remarks=report.notes(runs),
            folder=folder,
            runs=runs,
            speed=report.speed_text(took),
        )


def _source(p: Parameters, runs: Sequence[Run]) -> Source:
    """Return who answered in all set-ups: the model, whatever the prompts, and what is said of its server."""
    model = language.source(p.backend)
    beside = runs[0].source.label.partition(";")[2]
    label = f"{model.label};{beside}" if beside else model.label
    return Source("language", label, {"prompts": [one.setup.prompt for one in runs]})


STUDY = SignatureLM()
