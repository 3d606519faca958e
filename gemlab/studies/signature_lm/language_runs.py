"""Arms on a language model, one set-up (task and prompt) after the other: pilot and runs."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...backends import language
from ...runs import blocks, donors, trials
from ...runs.blocks import Evidence
from ...runs.trace import Trace

if TYPE_CHECKING:
    from ...backends import Backend, Source
    from ...emulator.minds.runtimes import Runtime

# The pilot's instances must not be the runs': its seed lies this far from theirs.
_PILOT_SEED = 500


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


def setups(values: Sequence[dict[str, str]]) -> list[Setup]:
    """Return set-ups from their JSON form; raises ValueError for unknown tasks and prompts, none, and one twice."""
    from ... import tasks
    from ...emulator.minds import prompts

    made = []
    for value in values:
        texts = isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
        if not texts or set(value) != {"task", "prompt"}:
            raise ValueError(f"a set-up has task and prompt, both texts, not {value!r}")
        tasks.get(value["task"])
        prompts.design(value["prompt"])
        made.append(Setup(**value))
    if not made or len(set(made)) < len(made):
        raise ValueError(f"set-ups are to differ, and there has to be one: got {'; '.join(map(str, made)) or 'none'}")
    return made


def check(
    backend: str,
    wanted: Sequence[Setup],
    arms: Sequence[str | dict[str, str]],
    model: str,
    instances: int,
    seed: int,
    folder: Path | None = None,
    pilot: int = 12,
    alpha: float = blocks.ALPHA,
    block: int = blocks.BLOCK,
) -> None:
    """Check what `run` would refuse, trials of other settings in `folder` too; raises ValueError with one line."""
    names = [trials.arm(a).name for a in arms]
    blocks.judge([], names, alpha, block)
    for setup in wanted:
        planned = {
            "trials": trials.plan(arms, setup.task, model, instances, 1, seed),
            "pilot": trials.plan([arms[0]], setup.task, model, pilot, 1, seed + _PILOT_SEED),
        }
        for kind, specs in planned.items() if folder else ():
            trials.finished(specs, language.label(backend, setup.prompt), folder / setup.file(kind))


def run(
    backend: str,
    wanted: Sequence[Setup],
    arms: Sequence[str | dict[str, str]],
    model: str,
    instances: int,
    seed: int,
    folder: Path,
    slots: int = language.SLOTS,
    pilot: int = 12,
    alpha: float = blocks.ALPHA,
    block: int = blocks.BLOCK,
    runtime: Runtime | None = None,
) -> list[Run]:
    """Run all arms in every set-up until the evidence is enough, at most `instances` pairs each.

    `pilot`: how many trials of the control, on instances of their own, lend their thoughts to the placebo.
    `runtime`: one that is loaded already. Goes on from the files in `folder`. Raises ValueError for names that are
    unknown and a model that cannot be had, RuntimeUnavailable where every trial failed.
    """
    runtime = runtime or language.open_runtime(backend, slots)
    made = []
    for setup in wanted:
        print(f"{setup}:")
        api = language.backend(backend, setup.prompt, slots, runtime)
        one = _run(api, setup, arms, model, instances, seed, folder, slots, pilot, alpha, block)
        if runtime.form != "json_schema":  # nothing kept its answers to the tools' arguments: another experiment
            label = f"{one.source.label}; its server took no JSON schema, answers came as {runtime.form}"
            one = replace(one, source=replace(one.source, label=label))
        made.append(one)
    return made


def _run(
    api: Backend,
    setup: Setup,
    arms: Sequence[str | dict[str, str]],
    model: str,
    instances: int,
    seed: int,
    folder: Path,
    slots: int,
    pilot: int,
    alpha: float,
    block: int,
) -> Run:
    given, arms = _donors(api, setup, arms, model, seed, folder, slots, pilot)
    specs = trials.plan(arms, setup.task, model, instances, 1, seed)
    names = [trials.arm(a).name for a in arms]
    path = folder / setup.file("trials")
    there = len(trials.finished(specs, api.name, path))
    started = time.perf_counter()
    done = blocks.run(specs, names, api, path, alpha, block, slots, donors=given)
    seconds = time.perf_counter() - started
    _some_ran(done.traces)
    ran = max(len(done.traces) - there, 0)
    return Run(setup, names, done.traces, done.evidence, done.threshold, api.source, seconds, ran)


def _donors(
    api: Backend,
    setup: Setup,
    arms: Sequence[str | dict[str, str]],
    model: str,
    seed: int,
    folder: Path,
    slots: int,
    pilot: int,
) -> tuple[donors.Donors, list[str | dict[str, str]]]:
    """Return the donors, and the arms that can run: without a completed pilot there is no placebo."""
    given: dict[str, donors.Donor] = {"neutral": donors.neutral(model)}
    if not any(trials.arm(a).history == "placebo" for a in arms):
        return given, list(arms)
    specs = trials.plan([arms[0]], setup.task, model, pilot, 1, seed + _PILOT_SEED)
    traces = trials.run(specs, api, folder / setup.file("pilot"), slots, None)
    _some_ran(traces)
    if any(t.outcome == "completed" and donors.signatures_of(t) for t in traces):
        return {**given, "placebo": donors.placebo(traces)}, list(arms)
    print(f"  no trial of the pilot ({pilot}) was completed: no placebo here")
    return given, [a for a in arms if trials.arm(a).history != "placebo"]


def _some_ran(traces: Sequence[Trace]) -> None:
    """Raise RuntimeUnavailable where every trial failed: the next ones would wait and fail as well."""
    from ...emulator.minds.runtimes import RuntimeUnavailable

    if all(t.outcome == "failed" for t in traces):
        raise RuntimeUnavailable(f"every trial failed: {traces[0].detail}")
