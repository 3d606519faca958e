"""From a trace to one row: the only definition of each metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import guards, tasks
from ..runs import trace
from ..wire import answers, families, rules
from ..wire import contents as wire

if TYPE_CHECKING:
    import pandas as pd


def frame(traces: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return one row a trial, in the order of the traces."""
    import pandas as pd

    return pd.DataFrame([row(t) for t in traces])


def row(one: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics of one trace.

    `calls`: executed calls; blocked ones count in `blocks` alone. `redundant`: successful calls whose name and
    canonical arguments equal an earlier successful call of the trial with an equal result. `refetch`: those of
    the task's first tool. `requests`: requests made, refused ones included, resends not (`resent`); `answered`:
    those with a response. Tokens: sums over requests as the API counted them; output is candidates plus
    thoughts. `signatures_returned`: share of the signatures received before the last request that it held, None
    where there were none; that and `lost` are None where the server kept the history.
    """
    steps = one["steps"]
    done = _calls(one)
    repeated = _redundant(done)
    first_tool = tasks.get(one["task"]).first_tool
    verdicts = Counter(v["kind"] for step in steps for v in step["verdicts"])
    kept = trace.kept_by_server(steps[-1]) if steps else False
    return {
        "trial": one["trial"],
        "arm": one["arm"]["name"],
        "instance": one["instance"],
        "repeat": one["repeat"],
        "outcome": one["outcome"],
        "reason": one["reason"],
        "completed": one["outcome"] == "completed",
        "requests": len(steps),
        "answered": sum(step["response"] is not None for step in steps),
        "calls": len(done),
        "redundant": len(repeated),
        "refetch": sum(name == first_tool for name in repeated),
        "failed_calls": sum(wire.is_error(result) for _, result in done),
        "signatures_returned": None if kept else _returned(one),
        "lost": None if kept else sum(f.verdict == "lost" for f in _findings(one)),
        **tokens([step["response"] for step in steps if step["response"]]),
        "served": ", ".join(one["served"]) or None,
        "pin": _pin(one),
        "forced": one["forced"],
        "nudges": verdicts["nudge"],
        "blocks": verdicts["block"],
        "resent": sum(max(len(step["failures"]) - (step["response"] is None), 0) for step in steps),
        "seconds": one["seconds"],
    }


def tokens(responses: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return the tokens of some responses: prompt (cached included), cached, output, thoughts, total."""
    sums: Counter[str] = Counter()
    for response in responses:
        usage = answers.of(response).usage
        sums.update({key: usage.get(key, 0) for key in _USAGE})
    return {
        "prompt_tokens": sums["promptTokenCount"],
        "cached_tokens": sums["cachedContentTokenCount"],
        "output_tokens": sums["candidatesTokenCount"] + sums["thoughtsTokenCount"],
        "thought_tokens": sums["thoughtsTokenCount"],
        "total_tokens": sums["totalTokenCount"],
    }


_USAGE = (
    "promptTokenCount", "cachedContentTokenCount", "candidatesTokenCount", "thoughtsTokenCount",
    "totalTokenCount",
)  # fmt: skip


def _calls(one: dict[str, Any]) -> list[tuple[dict, Any]]:
    """Return the executed calls of the trial with their results, in order: answered, and not blocked."""
    pairs = [p for g in wire.groups(trace.received(one)) if g.is_step for p in wire.answered_calls(g)]
    answered = [(call, r.get("response")) for call, r in pairs if r is not None]
    return [(call, wire.without_notice(body)) for call, body in answered if not _is_blocked(body)]


def _is_blocked(body: Any) -> bool:
    return isinstance(body, dict) and wire.NOTICE in body and wire.without_notice(body) == guards.BLOCKED


def _redundant(done: Sequence[tuple[dict, Any]]) -> list[str]:
    """Return the tool names of the redundant calls."""
    seen: set[tuple[Any, str]] = set()
    found = []
    for call, result in done:
        if wire.is_error(result):
            continue
        key = wire.call_key(call), wire.canonical(result)
        if key in seen:
            found.append(str(call.get("name")))
        seen.add(key)
    return found


def _returned(one: dict[str, Any]) -> float | None:
    steps = one["steps"]
    earlier = [answers.of(s["response"]).content for s in steps[:-1] if s["response"]]
    received = Counter(s for content in earlier if content for s in wire.signatures(content))
    if not received:
        return None
    last = [one["contents"][i] for i in steps[-1]["contents"]]
    sent = Counter(raw for _, _, part in wire.walk(last) if (raw := _signature(part)))
    return (received & sent).total() / received.total()


def _pin(one: dict[str, Any]) -> bool | None:
    """Tell whether every answer came from the requested model; None where one does not say and none differs."""
    found = [answers.of(step["response"]) for step in one["steps"] if step["response"]]
    matches = {families.Pin(one["model"], answer.served).match for answer in found} or {None}
    return False if False in matches else None if None in matches else True


def _signature(part: dict[str, Any]) -> bytes | None:
    try:
        return wire.signature(part)
    except wire.NotBase64:
        return None


def _findings(one: dict[str, Any]) -> list[rules.Finding]:
    """Judge the last request by the served model's rules, as an auditor would."""
    if not one["steps"]:
        return []
    try:
        profile = families.profile(one["served"][-1] if one["served"] else families.serve(one["model"]))
    except ValueError:
        return []
    return rules.check([one["contents"][i] for i in one["steps"][-1]["contents"]], profile)
