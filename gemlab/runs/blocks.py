"""Arms against a control, block by block of instances, until the evidence is enough.

After each block every arm still open has an e-value of its discordant pairs against the control (`stats.e_value`),
valid at every look. An arm is closed where it reaches k/alpha, k being the number of arms beside the control: by the
union bound over the comparisons the chance of any false alarm in the run is then at most alpha.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import stats
from ..agent.trial import Spec
from ..backends import Backend
from . import trials
from .donors import Donors, given
from .trace import Trace

ALPHA = 0.05
BLOCK = 10


@dataclass(frozen=True)
class Evidence:
    """What is known of one arm against the control.

    `pairs`: instances on which both came to a judgement; `b`: only the arm completed, `c`: only the control.
    `closed`: after how many pairs the e-value was enough, None where it never was.
    """

    arm: str
    pairs: int = 0
    b: int = 0
    c: int = 0
    e_value: float = 1.0
    closed: int | None = None

    def __str__(self) -> str:
        return f"{self.arm} {self.b}:{self.c} of {self.pairs}, e = {self.e_value:.3g}" + " (closed)" * bool(self.closed)


@dataclass(frozen=True)
class Sequential:
    """A run's traces in the plan's order, the evidence by arm, and the e-value at which an arm is closed."""

    traces: list[Trace]
    evidence: dict[str, Evidence]
    threshold: float


def run(
    specs: Sequence[Spec],
    arms: Sequence[str],
    backend: Backend,
    path: Path,
    alpha: float = ALPHA,
    block: int = BLOCK,
    concurrency: int = 8,
    progress: Callable[[str], None] | None = print,
    *,
    donors: Donors | None = None,
) -> Sequential:
    """Run a plan (`trials.plan`) in blocks of instances until all arms are closed or the plan is at its end.

    `arms`: their names, first the control, which always runs. Goes on from the trials that `path` holds, with the
    same decisions. Raises as `trials.run` does, and ValueError for repeats, arms that are not the plan's, an alpha
    outside of (0, 1) or an empty block.
    """
    return trials.outside_of_loops(
        run_async(specs, arms, backend, path, alpha, block, concurrency, progress, donors=donors)
    )


async def run_async(
    specs: Sequence[Spec],
    arms: Sequence[str],
    backend: Backend,
    path: Path,
    alpha: float = ALPHA,
    block: int = BLOCK,
    concurrency: int = 8,
    progress: Callable[[str], None] | None = print,
    *,
    donors: Donors | None = None,
) -> Sequential:
    """Like `run`, for callers with an event loop of their own."""
    _check(specs, arms)
    for spec in specs:  # an arm without a donor shows before anything runs
        given(spec, donors)
    instances = list(dict.fromkeys(s.instance for s in specs))
    outcomes: list[dict[str, str]] = []
    traces: list[Trace] = []
    evidence = judge(outcomes, arms, alpha, block)
    while len(outcomes) < len(instances) and (still := _open(evidence)):
        now = instances[len(outcomes) : len(outcomes) + block]
        part = [s for s in specs if s.instance in now and s.arm.name in (arms[0], *still)]
        found = await trials.run_async(part, backend, path, concurrency, None, whole=specs, donors=donors)
        outcomes += [{t.arm.name: t.outcome for t in found if t.instance == i} for i in now]
        traces += found
        evidence = judge(outcomes, arms, alpha, block)
        if progress:
            progress(f"{len(outcomes)} of {len(instances)} instances: {'; '.join(map(str, evidence.values()))}")
    return Sequential(traces, evidence, threshold(arms, alpha))


def _check(specs: Sequence[Spec], arms: Sequence[str]) -> None:
    planned = {s.arm.name for s in specs}
    if planned != set(arms):
        raise ValueError(f"the plan's arms are {', '.join(sorted(planned))}, not {', '.join(arms)}")
    if any(s.repeat for s in specs):
        raise ValueError("pairs of one instance are no new evidence: a sequential run takes no repeats")


def _open(evidence: Mapping[str, Evidence]) -> list[str]:
    return [arm for arm, e in evidence.items() if e.closed is None]


# --- the decision -------------------------------------------------------------------------------------------


def threshold(arms: Sequence[str], alpha: float = ALPHA) -> float:
    """Return the e-value that closes an arm; raises ValueError without arms, or for an alpha outside of (0, 1)."""
    if len(arms) < 2 or len(set(arms)) < len(arms):
        raise ValueError(f"a control and other arms, each once, not {', '.join(arms) or 'none'}")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha lies between 0 and 1, not at {alpha}")
    return (len(arms) - 1) / alpha


def judge(
    outcomes: Sequence[Mapping[str, str]], arms: Sequence[str], alpha: float = ALPHA, block: int = BLOCK
) -> dict[str, Evidence]:
    """Return the evidence on every arm but the first, the control, looking at the end of each block.

    `outcomes`: for each instance in the plan's order the outcome of each arm that ran. What an arm did after it was
    closed does not count; nor does a pair in which a trial failed. Refused is not completed.
    """
    enough = threshold(arms, alpha)
    if block < 1:
        raise ValueError(f"a block holds at least one instance, not {block}")
    control, *others = arms
    evidence = {arm: Evidence(arm) for arm in others}
    for start in range(0, len(outcomes), block):
        looked = outcomes[start : start + block]
        for arm in _open(evidence):
            evidence[arm] = _added(evidence[arm], [(o.get(arm), o.get(control)) for o in looked], enough)
    return evidence


def _added(before: Evidence, outcomes: Sequence[tuple[str | None, str | None]], enough: float) -> Evidence:
    judged = [pair for pair in outcomes if all(one in trials.TERMINAL for one in pair)]
    completed = [(arm == "completed", control == "completed") for arm, control in judged]
    b = before.b + completed.count((True, False))
    c = before.c + completed.count((False, True))
    pairs, e = before.pairs + len(judged), stats.e_value(b, c)
    return Evidence(before.arm, pairs, b, c, e, pairs if e >= enough else None)
