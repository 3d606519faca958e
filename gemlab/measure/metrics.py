"""From a trace to one row: the only definition of each metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..runs.trace import Trace
from ..wire import answers, families, rules
from ..wire import contents as wire
from ..wire.contents import Content
from .marks import marks

if TYPE_CHECKING:
    import pandas as pd


def frame(traces: Sequence[Trace]) -> pd.DataFrame:
    """Return one row a trial, in the order of the traces."""
    import pandas as pd

    return pd.DataFrame([row(t) for t in traces])


def row(trace: Trace) -> dict[str, Any]:
    """Return the metrics of one trace.

    `calls`: executed calls; blocked ones count in `blocks` alone. `redundant`: as in marks.py. `refetch`: those of
    the task's first tool, None where it is not known. `requests`: requests made, refused ones included, resends not
    (`resent`); `answered`: those with a response. Tokens: sums over requests as the API counted them; output is
    candidates plus thoughts. `signatures_returned`: share of the signatures received before the last request that it
    held, None where there were none; that and `lost` are None where the server kept the history.
    """
    steps = trace.steps
    marked = [
        (mark, c.name) for s, of in zip(steps, marks(trace), strict=True) for mark, c in zip(of, s.calls, strict=True)
    ]
    count = Counter(mark for mark, _ in marked)
    repeated = Counter(name for mark, name in marked if mark == "repeated")
    verdicts = Counter(v.kind for step in steps for v in step.verdicts)
    kept = bool(steps) and steps[-1].kept_by_server
    return {
        "trial": trace.trial,
        "arm": trace.arm.name,
        "instance": trace.instance,
        "repeat": trace.repeat,
        "outcome": trace.outcome,
        "reason": trace.reason,
        "completed": trace.outcome == "completed",
        "requests": len(steps),
        "answered": sum(step.response is not None for step in steps),
        "calls": count["new"] + count["repeated"] + count["failed"],
        "redundant": count["repeated"],
        "refetch": None if trace.tools.first is None else repeated[trace.tools.first],
        "failed_calls": count["failed"],
        "signatures_returned": None if kept else _returned(trace),
        "lost": None if kept else sum(f.verdict == "lost" for f in _findings(trace)),
        **tokens(s.answer for s in steps if s.answer),
        "served": ", ".join(trace.served) or None,
        "pin": _pin(trace),
        "forced": trace.forced,
        "nudges": verdicts["nudge"],
        "blocks": verdicts["block"],
        "resent": sum(step.resent for step in steps),
        "seconds": trace.seconds,
    }


def tokens(given: Iterable[answers.Answer]) -> dict[str, int]:
    """Return the tokens of some answers: prompt (cached included), cached, output, thoughts, total."""
    sums: Counter[str] = Counter()
    for answer in given:
        usage = answer.usage
        sums.update(
            prompt_tokens=answer.prompt_tokens,
            cached_tokens=usage.get("cachedContentTokenCount") or 0,
            output_tokens=answer.output_tokens,
            thought_tokens=usage.get("thoughtsTokenCount") or 0,
            total_tokens=usage.get("totalTokenCount") or 0,
        )
    return {f"{name}_tokens": sums[f"{name}_tokens"] for name in ("prompt", "cached", "output", "thought", "total")}


def signatures(contents: Iterable[Content]) -> Counter[bytes]:
    """Return the signatures in contents with how often each is there; what cannot be read is left out."""
    parts = (part for content in contents for part in wire.parts(content))
    return Counter(raw for part in parts if (raw := wire.readable_signature(part)) is not None)


def _returned(trace: Trace) -> float | None:
    received = signatures(s.content for s in trace.steps[:-1] if s.content)
    if not received:
        return None
    return (received & signatures(trace.steps[-1].contents)).total() / received.total()


def _pin(trace: Trace) -> bool | None:
    """Tell whether every answer came from the requested model; None where one does not say and none differs."""
    served = [s.answer.served for s in trace.steps if s.answer]
    matches = {families.Pin(trace.model, name).match for name in served} or {None}
    return False if False in matches else None if None in matches else True


def _findings(trace: Trace) -> list[rules.Finding]:
    """Judge the last request by the served model's rules, as an auditor would."""
    if not trace.steps:
        return []
    try:
        profile = families.profile(trace.served[-1] if trace.served else families.serve(trace.model))
    except ValueError:
        return []
    return rules.check(list(trace.steps[-1].contents), profile)
