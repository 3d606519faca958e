"""What runs on a language model gave: rows and cells, what a model saw, how fast it was, and the sentences to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...measure import metrics, tables
from ...measure.results import Results
from ...measure.subject import Note
from ...runs.blocks import Evidence
from ...wire import contents as wire
from .runs import Run

if TYPE_CHECKING:
    import pandas as pd

    from .speed import Rates

# --- tables -------------------------------------------------------------------------------------------------


def frame(runs: Sequence[Run]) -> pd.DataFrame:
    """Return one row a set-up and arm, in order.

    `completion` and `redundant` with their 95% intervals `…_low`, `…_high`. Against the control, which is the first
    arm: `only_arm`, `only_control` (discordant pairs), `e_value`, `closed` (after so many pairs, else None).
    """
    import pandas as pd

    return pd.DataFrame([row for one in runs for row in _rows(one)])


def _rows(one: Run) -> list[dict[str, Any]]:
    found = Results(one.traces, one.arms, one.source).summarised
    rows = []
    for arm in one.arms:
        of, against = found[arm], one.evidence.get(arm)
        low, high = of["completion_ci"]
        fewest, most = of["redundant_ci"]
        rows.append(
            {
                "task": one.setup.task,
                "prompt": one.setup.prompt,
                "arm": arm,
                "trials": of["trials"],
                "completed": of["outcomes"]["completed"],
                "completion": of["completion_rate"],
                "completion_low": low,
                "completion_high": high,
                "redundant": of["redundant_mean"],
                "redundant_low": fewest,
                "redundant_high": most,
                "requests": of["requests_mean"],
                "thoughts_returned": of["signatures_returned"],
                "pairs": against.pairs if against else None,
                "only_arm": against.b if against else None,
                "only_control": against.c if against else None,
                "e_value": against.e_value if against else None,
                "closed": against.closed if against else None,
            }
        )
    return rows


def shown(rows: pd.DataFrame) -> list[tables.Cells]:
    """Return the rows of `frame` as cells."""
    return [
        {
            "task": r.task,
            "prompt": r.prompt,
            "arm": r.arm,
            "completed": f"{r.completed} of {r.trials}",
            "completion": tables.percent(r.completion, (r.completion_low, r.completion_high)),
            "redundant calls": tables.number(r.redundant, (r.redundant_low, r.redundant_high)),
            "requests": f"{r.requests:.1f}",
            "only arm : only control": "–" if _none(r.pairs) else f"{r.only_arm:.0f} : {r.only_control:.0f}",
            "e-value": "–" if _none(r.pairs) else e_text(r.e_value),
            "stopped": "–" if _none(r.closed) else f"after {r.closed:.0f} pairs",
        }
        for r in tables.each(rows)
    ]


def _none(value: Any) -> bool:
    return value is None or value != value  # pandas makes a missing number NaN


def e_text(value: float) -> str:
    """Return an e-value for people."""
    return f"{value:.2f}" if value < 10 else f"{value:.0f}" if value < 10_000 else f"{value:.1e}"


def speed(runs: Sequence[Run], rates: Rates) -> dict[str, float]:
    """Return what the trials that were run now took, beside the runtime's own rates; empty where none were.

    `seconds_a_trial`: wall time over trials, `slots` of them at a time. `read_a_second`, `made_a_second`: tokens read
    anew and made; `runtime_share`: how much of what the runtime can do by itself that is. Empty, too, where the
    runtime counts no tokens.
    """
    ran = [one for one in runs if one.ran == len(one.traces)]
    if not ran or not (rates.read and rates.made):
        return {}
    rows = metrics.frame([t for one in ran for t in one.traces])
    seconds = sum(one.seconds for one in ran)
    found = {
        "seconds_a_trial": seconds / len(rows),
        "read_a_second": float((rows.prompt_tokens - rows.cached_tokens).sum()) / seconds,
        "made_a_second": float(rows.output_tokens.sum()) / seconds,
    }
    return {**found, "runtime_share": rates.share(found), "bench_read": rates.read, "bench_made": rates.made}


def speed_text(found: dict[str, float]) -> str:
    """Return the speed in words."""
    if not found:
        return "no speed to tell: no set-up was run from its beginning, or the runtime counts no tokens"
    return (
        f"{found['seconds_a_trial']:.1f} s a trial; {found['read_a_second']:.0f} tokens read anew and "
        f"{found['made_a_second']:.0f} made a second, where the runtime by itself reads {found['bench_read']:.0f} or "
        f"makes {found['bench_made']:.0f}: {found['runtime_share']:.0%} of what it can do"
    )


def last_prompt(one: Run, arm: str) -> str:
    """Return what the model was shown last in the first trial of an arm, its conversation alone."""
    from ...emulator.minds import prompts, view
    from ...wire import families

    first = min((t for t in one.traces if t.arm.name == arm), key=lambda t: t.instance)
    last = first.steps[-1]
    contents = last.contents
    if last.kept_by_server:  # which sent along only what was new
        contents = first.received
        contents = contents[:-1] if wire.is_model(contents[-1]) else contents
    seen = view.read({**(last.request or {}), "contents": contents}, families.profile(families.serve(first.model)))
    chat = prompts.messages(seen, prompts.design(one.setup.prompt), [])
    return "\n".join(f"{m['role']:9} {m['content']}" for m in chat[1:])


# --- in words -----------------------------------------------------------------------------------------------


def reading(runs: Sequence[Run]) -> list[str]:
    """Return one sentence a set-up, whatever its sign."""
    rows = frame(runs)
    lines = []
    for one in runs:
        mine = rows[(rows.task == one.setup.task) & (rows.prompt == one.setup.prompt)].set_index("arm")
        control = mine.loc[one.arms[0]]
        said = [_against(mine.loc[arm], one.evidence[arm], one.threshold) for arm in one.arms[1:]]
        lines.append(f"{one.setup}: {one.arms[0]} completes {control.completion:.0%}; " + "; ".join(said) + ".")
    return lines


def notes(runs: Sequence[Run]) -> list[Note]:
    """Return what all of it stands on: who answered in each set-up, what failed, what stopped the arms."""
    found = [Note("source", text) for text in dict.fromkeys(one.source.sentence for one in runs)]
    for one in runs:
        failed = sum(t.outcome == "failed" for t in one.traces)
        if failed:
            text = f"{one.setup}: {failed} of {len(one.traces)} trials failed for infrastructure; left out."
            found.append(Note("failed", text))
    alpha = (len(runs[0].arms) - 1) / runs[0].threshold
    text = (
        "Arms were stopped by evidence, so the e-values hold and the intervals only describe; each arm is compared "
        f"with {runs[0].arms[0]} at a false-alarm rate of {alpha:.3g} for all arms of a set-up together."
    )
    return [*found, Note("method", text)]


def _against(row: Any, evidence: Evidence, enough: float) -> str:
    text = f"{row.name} {row.completion:.0%} ({evidence.b} : {evidence.c} of {evidence.pairs} pairs"
    if evidence.closed is None:
        return f"{text}, e = {e_text(evidence.e_value)}, no difference shown)"
    worse = evidence.c > evidence.b
    return f"{text}, e ≥ {enough:.0f}: {'worse' if worse else 'better'})"
