"""The canary: does an agent behave today as it did, by the model that served it?

Reads traces or plain rows. A row has `served`, `calls`, `redundant` and, if it is known, `reason`. The alarm is a
two-sample test of today's runs against the baseline's with a stated false-alarm rate.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Gt, Lt

from .. import backends, stats
from ..backends import Backend, Source
from ..measure import metrics, style
from ..measure.style import BLUE, GREY, INK, ORANGE, RED
from ..measure.subject import Note, Subject, of_source
from ..registry import BadInput
from ..runs import trace, trials
from ..wire import families
from . import base, parameters
from .parameters import FILES, Count

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..measure.findings import Findings

COLUMNS = ("served", "calls", "redundant")
# What is watched, and so how many tests share one false-alarm rate.
WATCHED = ("calls", "redundant")


@dataclass(frozen=True, kw_only=True)
class Parameters(parameters.Parameters):
    """`changed`: who serves after the change; `runs`: of each day; `looks`: after how many runs the canary looks.

    `alpha`: false-alarm rate of a whole watch, shared by its looks. `cap`: tool calls from which on a run counts as
    capped. `baseline_file`, `today_file`: one's own rows or traces in the place of the scripted model's.
    """

    changed: str = "gemini-2.5-flash-lite"
    task: str = "ecpm"
    runs: Count = 120
    looks: list[int] = field(default_factory=lambda: [10, 20, 40, 60, 80, 120])
    alpha: Annotated[float, Gt(0), Lt(1)] = 0.05
    cap: Count = 8
    repetitions: Count = 200
    baseline_file: str = field(default="", metadata=FILES)
    today_file: str = field(default="", metadata=FILES)

    @property
    def is_own(self) -> bool:
        """Tell whether somebody's own files are read."""
        return bool(self.baseline_file)


class Canary(base.Study):
    """Three days of the same agent: the baseline, one without a change and one with another model."""

    name = "canary"
    question = "A model is changed in silence: how many runs until the alarm?"
    only = ("sim",)
    why = "the change is the embedded emulator's routing; runs of another model come as baseline_file and today_file"
    Parameters = Parameters

    def check(self, parameters: Any) -> None:
        p = parameters
        whole = all(type(n) is int and n > 0 for n in p.looks)
        if not whole or not p.looks or list(p.looks) != sorted(set(p.looks)):
            raise BadInput(f"looks are whole numbers that go up, not {p.looks}")
        if bool(p.baseline_file) != bool(p.today_file):
            raise BadInput("baseline_file and today_file come together")
        if p.is_own:
            for file in (p.baseline_file, p.today_file):
                load(Path(file))
            return
        if p.looks[-1] > p.runs:
            raise BadInput(f"a look after {p.looks[-1]} runs needs as many: there are {p.runs}")
        if not families.is_known(families.serve(p.changed)):
            raise BadInput(f"unknown model {p.changed!r}; the emulator knows {', '.join(families.known_models())}")
        for day in range(3):
            base.check_folder(_plan(p, day), p, _file(day))

    def run(self, parameters: Any, folder: Path, backend: Backend) -> Findings:
        from ..measure.findings import Table

        p = parameters
        baseline, same, today = days(p, folder)
        subject = _subject(p, baseline, today)
        alarms, until = watch(baseline, today, p.looks, p.alpha)
        shares = study(p, baseline, {"unchanged": same, "changed": today})
        together = _together(baseline, today)
        return base.of_tables(
            self,
            p,
            subject=subject,
            rows=together,
            tables={
                "alarms": Table(shares),
                "served": Table(table(together, p.cap)),
                "looks": Table(cells=_cells(alarms)),
            },
            figures={"alarms": lambda: figure(shares, p.alpha, subject)},
            sentences=reading(shares, until, p),
            remarks=[of_source(subject, "What the changed model does otherwise"), _method(p)],
            folder=folder,
        )


def _method(p: Parameters) -> Note:
    share = f"at most {100 * p.alpha:.3g}%, shared by its {len(p.looks)} looks and {len(WATCHED)} tests each"
    same = " The day without a change is the baseline's own runs in another order." if p.is_own else ""
    return Note("method", f"The stated false-alarm rate of a whole watch is {share}.{same}")


# --- runs ---------------------------------------------------------------------------------------------------


def load(path: Path) -> pd.DataFrame:
    """Return rows from a trials.jsonl, or from rows as CSV or JSON lines; raises BadInput with one line."""
    import pandas as pd

    try:
        if path.suffix == ".csv":
            rows = pd.read_csv(path)
        else:
            lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
            first = json.loads(lines[0]) if lines else {}
            traces = isinstance(first, dict) and "steps" in first
            rows = metrics.frame(trace.read(path)) if traces else pd.DataFrame([json.loads(line) for line in lines])
    except (ValueError, TypeError, AttributeError) as error:
        raise BadInput(f"{path}: neither traces, nor rows as CSV or JSON lines ({error})".replace("\n", " ")) from None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    missing = [c for c in COLUMNS if c not in rows]
    if missing or not len(rows):
        raise BadInput(f"{path}: no column {', '.join(missing or COLUMNS)}; a row has {', '.join(COLUMNS)}")
    return rows


def days(p: Parameters, folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the rows of a baseline, of a day without a change, and of a day on which another model serves.

    From files where they are named (the day without a change is then the baseline itself), else from the
    scripted model.
    """
    if p.is_own:
        baseline, today = load(Path(p.baseline_file)), load(Path(p.today_file))
        return baseline, baseline, today
    jobs = []
    for day, route in enumerate((None, None, {p.model: p.changed})):
        api = backends.simulated(backends.emulator(routes=route))
        jobs.append((_plan(p, day), api, folder / _file(day)))
    traces = trials.run_all(jobs, 4)
    first, second, third = (metrics.frame(traces[i * p.runs : (i + 1) * p.runs]) for i in range(3))
    return first, second, third


def _plan(p: Parameters, day: int) -> list[Any]:
    return trials.plan(["preserve"], p.task, p.model, p.runs, 1, p.seed * 100 + day)


def _file(day: int) -> str:
    return f"day{day}.jsonl"


def _subject(p: Parameters, *days: pd.DataFrame) -> Subject:
    served = sorted({str(name) for rows in days for name in rows.served.dropna()})
    n = " and ".join(str(len(rows)) for rows in days) + " runs"
    if not p.is_own:
        return Subject(backends.SCRIPTED, n, "sim", (p.model,), tuple(served), (p.task,))
    names = [Path(file).name for file in (p.baseline_file, p.today_file)]
    label = f"own runs, as recorded in {names[0]} and {names[1]}"
    return Subject(Source("own", label), n, served=tuple(served))


def _together(*days: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    return pd.concat(days, ignore_index=True)


# --- the alarm ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Alarm:
    """The verdict on one look: `p` is the smallest over what is watched, already multiplied by their number."""

    runs: int
    p: float
    watched: str
    raised: bool


def look(baseline: pd.DataFrame, today: pd.DataFrame, alpha: float) -> Alarm:
    """Compare today's runs with the baseline's: Mann–Whitney on each watched column, Bonferroni over them."""
    ps = {name: _p(baseline[name].to_numpy(float), today[name].to_numpy(float)) for name in WATCHED}
    worst = min(ps, key=lambda name: ps[name])
    p = min(1.0, len(ps) * ps[worst])
    return Alarm(len(today), p, worst, p < alpha)


def _p(before: np.ndarray, now: np.ndarray) -> float:
    from scipy import stats as scipy_stats  # a second of start-up, which a check must not pay

    if len(before) < 2 or len(now) < 2 or np.ptp(np.concatenate([before, now])) == 0:
        return 1.0
    # The normal approximation, always: counts are full of ties, and the choice must not hang on the data.
    p = float(scipy_stats.mannwhitneyu(before, now, method="asymptotic").pvalue)
    return p if math.isfinite(p) else 1.0


def watch(
    baseline: pd.DataFrame, runs: pd.DataFrame, looks: Sequence[int], alpha: float = 0.05
) -> tuple[list[Alarm], int | None]:
    """Look at the first n runs for each n of `looks`; return the looks and the runs until the alarm, or None.

    Each look gets alpha / len(looks), so that the false-alarm rate of the whole watch is at most alpha.
    """
    alarms = [look(baseline, runs.iloc[:n], alpha / len(looks)) for n in looks if n <= len(runs)]
    raised = next((a.runs for a in alarms if a.raised), None)
    return alarms, raised


def study(p: Parameters, baseline: pd.DataFrame, streams: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return, by stream and look, the share of repetitions that have raised the alarm by then, with intervals.

    A repetition takes half of the baseline's runs and the stream's runs in a new random order.
    """
    import pandas as pd

    rng, rows = np.random.default_rng(p.seed), []
    for name, runs in streams.items():
        until = []
        for _ in range(p.repetitions):
            before = baseline.iloc[rng.permutation(len(baseline))[: len(baseline) // 2]]
            until.append(watch(before, runs.iloc[rng.permutation(len(runs))], p.looks, p.alpha)[1])
        for n in p.looks:
            raised = sum(u is not None and u <= n for u in until)
            low, high = stats.wilson(raised, p.repetitions)
            share = {"alarmed": raised / p.repetitions, "alarmed_low": low, "alarmed_high": high}
            rows.append({"stream": name, "runs": n, **share})
    return pd.DataFrame(rows)


# --- for people ---------------------------------------------------------------------------------------------


def table(rows: pd.DataFrame, cap: int) -> pd.DataFrame:
    """Return one line a served model: runs, mean tool calls, share of runs at the cap, redundant calls.

    `cap`: tool calls from which on a run counts as capped. Intervals: BCa for means, Wilson for the share.
    """
    import pandas as pd

    found = []
    for served, group in rows.groupby(rows.served.fillna("unknown"), sort=True):
        line: dict[str, Any] = {"served": served, "runs": len(group)}
        capped = (group.calls >= cap).astype(float)
        for name, estimate in (
            ("calls", stats.mean(group.calls)),
            ("cap_ratio", stats.rate(capped)),
            ("redundant", stats.mean(group.redundant)),
        ):
            line |= {name: estimate.value, f"{name}_low": estimate.ci[0], f"{name}_high": estimate.ci[1]}
        found.append(line)
    return pd.DataFrame(found)


def _cells(alarms: Sequence[Alarm]) -> list[dict[str, str]]:
    return [
        {"runs": str(a.runs), "p": f"{a.p:.3g}", "smallest in": a.watched, "alarm": "yes" if a.raised else "no"}
        for a in alarms
    ]


def figure(shares: pd.DataFrame, alpha: float, subject: Subject) -> Figure:
    """Return the share of watches that have raised the alarm by each look, one line a stream, 95% intervals."""
    colours = dict(zip(dict.fromkeys(shares.stream), (GREY, RED, BLUE, ORANGE), strict=False))
    with style.sheet(7.6, 3.8) as figure:
        axes = figure.subplots()
        axes.axhline(alpha, color=INK, linewidth=0.8, linestyle="--")
        at = (shares.runs.min(), alpha)
        axes.annotate(f"stated false-alarm rate {alpha:.0%}", at, (0, 5), textcoords="offset points")
        for name, rows in shares.groupby("stream", sort=False):
            colour = colours[str(name)]
            axes.fill_between(rows.runs, rows.alarmed_low, rows.alarmed_high, color=colour, alpha=0.2, linewidth=0)
            axes.plot(rows.runs, rows.alarmed, "o-", color=colour)
            last = rows.iloc[-1]
            axes.annotate(str(name), (last.runs, last.alarmed), (8, -3), textcoords="offset points", color=colour)
        axes.set(ylim=(-0.03, 1.04), xlabel="runs since the change", title="Alarm raised by then")
        style.percent(axes.yaxis)
        axes.margins(x=0.22)
        style.caption(figure, subject, "bands: 95% (Wilson) over repetitions, which draw from the same runs")
    return figure


def reading(shares: pd.DataFrame, until: int | None, p: Parameters) -> list[str]:
    """Return what the study says."""
    lines = ["In the order in which they came, " + (f"alarm after {until} runs." if until else "no alarm was raised.")]
    for name, rows in shares.groupby("stream", sort=False):
        half, last = rows[rows.alarmed >= 0.5], rows.iloc[-1]
        share = f"{100 * last.alarmed:.0f}% [{100 * last.alarmed_low:.0f}, {100 * last.alarmed_high:.0f}]"
        text = f"{name}: {share} of {p.repetitions} watches raise the alarm within {last.runs:.0f} runs"
        lines.append(text + (f"; half of them within {half.runs.iloc[0]:.0f}." if len(half) else "."))
    return lines


STUDY = Canary()
