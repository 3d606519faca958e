"""Arms × instances: paired by seed, order randomised inside each pair, concurrent, resumable."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from .. import tasks
from ..agent import loop
from ..agent.arm import Arm, ArmForm, arm
from ..agent.trial import Spec
from ..backends import Backend
from ..wire import families
from . import trace
from .donors import Donors, given
from .trace import Trace

T = TypeVar("T")

# Outcomes after which a trial is done; a failed one is run again on resume.
TERMINAL = ("completed", "wrong", "unfinished", "refused")


def plan(
    arms: Sequence[ArmForm],
    task: str,
    model: str,
    instances: int,
    repeats: int = 1,
    seed: int = 1,
) -> list[Spec]:
    """Return the trials in running order: instance by instance, the arms of each pair in random order.

    Raises ValueError for unknown names, duplicate arms, counts below one, or thinking "off" on a model that cannot.
    """
    made = [arm(a) for a in arms]
    duplicates = sorted({a.name for a in made if [b.name for b in made].count(a.name) > 1})
    if duplicates or not made:
        raise ValueError(f"every arm needs a name of its own: {', '.join(duplicates) or 'there is none'}")
    tasks.get(task)
    _check_thinking(made, model)
    if instances < 1 or repeats < 1:
        raise ValueError(f"instances and repeats start at 1, not {instances} and {repeats}")
    order = random.Random(f"order {seed}")
    specs = []
    for instance in range(instances):
        for repeat in range(repeats):
            for one in order.sample(made, len(made)):
                trial_seed = seed * 100_000 + instance
                specs.append(Spec(one, task, model, instance, repeat, trial_seed))
    return specs


def _check_thinking(arms: Sequence[Arm], model: str) -> None:
    """Refuse an arm that would think although it is said not to: from 3 on a budget of 0 switches nothing off."""
    off = [a.name for a in arms if a.thinking == "off"]
    served = families.serve(model)
    if off and families.is_known(served) and families.profile(served).strict:
        raise ValueError(f'{model} thinks whatever is asked: no thinking "off" for {", ".join(off)}')


def run(
    specs: Sequence[Spec],
    backend: Backend,
    path: Path,
    concurrency: int = 8,
    progress: Callable[[str], None] | None = print,
    *,
    whole: Sequence[Spec] | None = None,
    donors: Donors | None = None,
) -> list[Trace]:
    """Run the trials that `path` does not hold yet, append each as it ends, return all traces of `specs`.

    `whole`: the plan that `specs` are a part of, whose other trials the file may hold too. `donors`: for arms that
    send another trial's signatures. Works inside a notebook's running event loop and outside of one. Raises
    ValueError where two trials have one id, an arm has no donor or the file holds trials of other settings,
    OSError where it cannot be written.
    """
    return outside_of_loops(run_async(specs, backend, path, concurrency, progress, whole=whole, donors=donors))


def run_all(jobs: Sequence[tuple[Sequence[Spec], Backend, Path]], concurrency: int) -> list[Trace]:
    """Run several lists of trials at the same time, each on its backend and into its file; return all traces.

    For trials that mostly wait: `concurrency` is each list's own.
    """

    async def together() -> list[list[Trace]]:
        return await asyncio.gather(*(run_async(*job, concurrency, None) for job in jobs))

    return [one for traces in outside_of_loops(together()) for one in traces]


async def run_async(
    specs: Sequence[Spec],
    backend: Backend,
    path: Path,
    concurrency: int = 8,
    progress: Callable[[str], None] | None = print,
    *,
    whole: Sequence[Spec] | None = None,
    donors: Donors | None = None,
) -> list[Trace]:
    """Like `run`, for callers with an event loop of their own."""
    twice = sorted(name for name, n in Counter(s.id for s in specs).items() if n > 1)
    if twice:
        raise ValueError(f"every trial needs an id of its own: {', '.join(twice)}")
    donor = {s.id: given(s, donors) for s in specs}
    done = finished(specs, backend.name, path, whole)
    todo = [s for s in specs if s.id not in done]
    report = _Progress(len(specs), len(done), progress)
    queue = iter(todo)
    path.parent.mkdir(parents=True, exist_ok=True)
    trace.mend(path)
    with path.open("a", encoding="utf-8") as file:

        async def work() -> None:
            for spec in queue:
                trial = await loop.run(backend, spec, donor[spec.id])
                done[spec.id] = trace.of(trial, backend.name, backend.source)
                file.write(trace.dumps(done[spec.id]))
                file.flush()
                report.one(trial.outcome)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(max(1, min(concurrency, len(todo)))):
                    group.create_task(work())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            await backend.release()
    report.end(len(todo))
    return [done[s.id] for s in specs]


def finished(specs: Sequence[Spec], backend: str, path: Path, whole: Sequence[Spec] | None = None) -> dict[str, Trace]:
    """Return the traces of done trials of `specs` by id.

    Raises ValueError where the file's are of other settings than those of `whole`, the plan that `specs` are a part
    of, or where they are no part of it.
    """
    wanted, planned = ({s.id: s for s in some} for some in (specs, specs if whole is None else whole))
    strange = [name for name, spec in wanted.items() if planned.get(name) != spec]
    if strange:
        raise ValueError(f"trials that the whole plan does not hold: {', '.join(strange)}")
    done = {}
    for there in trace.read(path) if path.exists() else ():
        spec = planned.get(there.trial)
        if spec is None:
            raise ValueError(f"{path} holds trial {there.trial}, which this run does not: choose another folder")
        asked = {"arm": spec.arm, "task": spec.task, "model": spec.model, "seed": spec.seed, "backend": backend}
        differing = [name for name, value in asked.items() if getattr(there, name) != value]
        if differing:
            raise ValueError(f"{path} holds trials with another {', '.join(differing)}: choose another folder")
        if there.outcome in TERMINAL and there.trial in wanted:
            done[spec.id] = there
    return done


class _Progress:
    """Plain lines, one per tenth of the run: they read the same in a terminal, a log and a notebook."""

    def __init__(self, total: int, done: int, say: Callable[[str], None] | None):
        self.total, self.done, self.say = total, done, say
        self.started = time.perf_counter()
        self.outcomes: Counter[str] = Counter()
        if say and done:
            say(f"{done} of {total} trials were there already")

    def one(self, outcome: str) -> None:
        self.done += 1
        self.outcomes[outcome] += 1
        if self.say and self.done * 10 // self.total > (self.done - 1) * 10 // self.total:
            counts = ", ".join(f"{n} {name}" for name, n in sorted(self.outcomes.items()))
            self.say(f"{self.done}/{self.total} trials: {counts}")

    def end(self, ran: int) -> None:
        seconds = time.perf_counter() - self.started
        if self.say and ran:
            self.say(f"{ran} trials in {seconds:.1f} s: {ran / seconds:.1f} trials per second")


def outside_of_loops(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in a thread of its own where this one already runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as pool:
        runner = asyncio.Runner()
        task = pool.submit(runner.run, work)
        try:
            return task.result()
        except KeyboardInterrupt:
            # The interrupt reaches this thread only: hand it on, or the work would go on behind the prompt.
            other = runner.get_loop()
            other.call_soon_threadsafe(lambda: [t.cancel() for t in asyncio.all_tasks(other)])
            raise
        finally:
            pool.submit(runner.close)
