"""Arms on a language model, one set-up (task and prompt) after the other: pilot and runs."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Gt, Lt

from ... import tasks
from ...agent.arm import arm
from ...agent.trial import Spec
from ...backends import language
from ...registry import BadInput, validated
from ...runs import blocks, donors, trials
from ...runs.blocks import Evidence
from ...runs.trace import Trace
from .. import base, parameters
from ..parameters import Count

if TYPE_CHECKING:
    from ...backends import Backend, Source
    from ...emulator.minds.runtimes import Runtime

# The pilot's instances must not be the runs': its seed lies this far from theirs.
_PILOT_SEED = 500


@dataclass(frozen=True, kw_only=True)
class Parameters(parameters.Parameters):
    """`setups`: each a task and a prompt design; `instances`: at most so many pairs in each.

    `slots`: requests at a time, each with a cache of its own for its prompt. `pilot`: how many trials of the control,
    on instances of their own, lend their thoughts to the placebo. `alpha`: chance of a false alarm among all arms of a
    set-up, at every look; `block`: instances between two looks.
    """

    backend: str = "gguf:"
    setups: list[Any] = field(default_factory=lambda: [{"task": "ecpm-handles", "prompt": "worked"}])
    arms: list[Any] = field(default_factory=lambda: ["preserve", "strip", "placebo", "neutral"])
    instances: Count = 20
    slots: Count = language.SLOTS
    pilot: Count = 12
    alpha: Annotated[float, Gt(0), Lt(1)] = blocks.ALPHA
    block: Count = blocks.BLOCK


@dataclass(frozen=True)
class Setup:
    """One way of asking: a task and a prompt design (`emulator.prompts.DESIGNS`)."""

    task: str
    prompt: str

    def __str__(self) -> str:
        return f"{self.task}, {self.prompt}"

    def file(self, kind: str) -> str:
        """Return the name of the file with its traces: those of the `trials`, or of the `pilot`."""
        return re.sub(r"[^a-z0-9]+", "-", f"{kind}-{self.task}-{self.prompt}") + ".jsonl"


@dataclass(frozen=True)
class Run:
    """What a set-up has given. `arms`: their names, first the control; `source`: who answered.

    `seconds`: how long the trials took that were run now, `ran`: how many these were.
    """

    setup: Setup
    arms: list[str]
    traces: list[Trace]
    evidence: dict[str, Evidence]
    threshold: float
    source: Source
    seconds: float
    ran: int


def setups(values: Sequence[Any]) -> list[Setup]:
    """Return set-ups from their JSON form; raises BadInput for unknown tasks and prompts, none, and one twice."""
    from ...emulator.minds import prompts

    chosen = []
    for value in values:
        setup = validated(Setup, value, "set-up")
        tasks.get(setup.task)
        prompts.design(setup.prompt)
        chosen.append(setup)
    if not chosen or len(set(chosen)) < len(chosen):
        names = "; ".join(map(str, chosen)) or "none"
        raise BadInput(f"set-ups are to differ, and there has to be one: got {names}")
    return chosen


def check(p: Parameters) -> None:
    """Check what `run` would refuse, trials of other settings in the folder too; raises BadInput with one line."""
    blocks.judge([], base.arm_names(p.arms), p.alpha, p.block)
    for setup in setups(p.setups):
        for kind, specs in (("trials", _plan(p, setup)), ("pilot", _pilot(p, setup))):
            if p.folder:
                trials.finished(specs, language.label(p.backend, setup.prompt), p.folder / setup.file(kind))


def _plan(p: Parameters, setup: Setup, arms: Sequence[Any] | None = None) -> list[Spec]:
    return trials.plan(p.arms if arms is None else arms, setup.task, p.model, p.instances, 1, p.seed)


def _pilot(p: Parameters, setup: Setup) -> list[Spec]:
    return trials.plan([p.arms[0]], setup.task, p.model, p.pilot, 1, p.seed + _PILOT_SEED)


def run(p: Parameters, folder: Path, runtime: Runtime | None = None) -> list[Run]:
    """Run all arms in every set-up until the evidence is enough, at most `instances` pairs each.

    `runtime`: one that is loaded already. Goes on from the files in `folder`. Raises BadInput for names that are
    unknown and a model that cannot be had, RuntimeUnavailable where every trial failed.
    """
    runtime = runtime or language.open_runtime(p.backend, p.slots)
    runs = []
    for setup in setups(p.setups):
        print(f"{setup}:")
        done = _run(p, setup, language.backend(p.backend, setup.prompt, p.slots, runtime), folder)
        if runtime.form != "json_schema":  # nothing kept its answers to the tools' arguments: another experiment
            label = f"{done.source.label}; its server took no JSON schema, answers came as {runtime.form}"
            done = replace(done, source=replace(done.source, label=label))
        runs.append(done)
    return runs


def _run(p: Parameters, setup: Setup, api: Backend, folder: Path) -> Run:
    lent, arms = _donors(p, setup, api, folder)
    specs, names = _plan(p, setup, arms), base.arm_names(arms)
    path = folder / setup.file("trials")
    there = len(trials.finished(specs, api.name, path))
    started = time.perf_counter()
    done = blocks.run(specs, names, api, path, p.alpha, p.block, p.slots, donors=lent)
    seconds = time.perf_counter() - started
    _some_ran(done.traces)
    ran = max(len(done.traces) - there, 0)
    return Run(setup, names, done.traces, done.evidence, done.threshold, api.source, seconds, ran)


def _donors(p: Parameters, setup: Setup, api: Backend, folder: Path) -> tuple[donors.Donors, list[Any]]:
    """Return the donors, and the arms that can run: without a completed pilot there is no placebo."""
    lent: dict[str, donors.Donor] = {"neutral": donors.neutral(p.model)}
    if not any(arm(a).history == "placebo" for a in p.arms):
        return lent, list(p.arms)
    traces = trials.run(_pilot(p, setup), api, folder / setup.file("pilot"), p.slots, None)
    _some_ran(traces)
    if any(t.outcome == "completed" and donors.signatures_of(t) for t in traces):
        return {**lent, "placebo": donors.placebo(traces)}, list(p.arms)
    print(f"  no trial of the pilot ({p.pilot}) was completed: no placebo here")
    return lent, [a for a in p.arms if arm(a).history != "placebo"]


def _some_ran(traces: Sequence[Trace]) -> None:
    """Raise RuntimeUnavailable where every trial failed: the next ones would wait and fail as well."""
    from ...emulator.minds.runtimes import RuntimeUnavailable

    if all(t.outcome == "failed" for t in traces):
        raise RuntimeUnavailable(f"every trial failed: {traces[0].detail}")
