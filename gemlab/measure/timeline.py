"""One trial as a strip: steps, calls, where signatures came and whether they went back, what guards said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..runs import trace
from ..wire import answers
from ..wire import contents as wire

# What a call can be, with its mark in the text form.
MARKS = {"new": "+", "repeated": "=", "failed": "!", "blocked": "x", "open": "?"}


@dataclass(frozen=True)
class Call:
    """One call of a step: `kind` is a key of MARKS."""

    name: str
    kind: str


@dataclass(frozen=True)
class Step:
    """One request and its answer.

    `sent` and `due`: how many of the signatures received so far the request held, and how many there were (none
    are due where the server kept the history).
    `signed`: signatures in the answer. `verdicts`: what guards said, as "kind: reason". `end`: why nothing
    more came, where nothing did.
    """

    number: int
    contents: int
    sent: int
    due: int
    resent: int
    calls: tuple[Call, ...]
    signed: int
    text: str
    verdicts: tuple[str, ...]
    end: str | None


def steps(one: dict[str, Any]) -> list[Step]:
    """Return the steps of a trace in order."""
    results = _results(one)
    seen: set[tuple[Any, str]] = set()
    received: Counter[bytes] = Counter()
    found = []
    for number, step in enumerate(one["steps"], 1):
        sent = _signatures([one["contents"][i] for i in step["contents"]])
        answer = answers.of(step["response"]) if step["response"] else None
        content = answer.content if answer else None
        verdicts = [v for v in step["verdicts"] if v["kind"] != "block"]
        blocked = {v["call"] for v in step["verdicts"] if v["kind"] == "block"}
        calls = tuple(
            Call(str(call.get("name")), _kind(call, results.get((number, index)), index in blocked, seen))
            for index, call in enumerate(wire.calls(content) if content else [])
        )
        signed = _signatures([content]) if content else Counter()
        found.append(
            Step(
                number,
                len(step["contents"]),
                (received & sent).total(),
                0 if trace.kept_by_server(step) else received.total(),
                len(step["failures"]) - (answer is None),
                calls,
                signed.total(),
                wire.answer_text(content) if content else "",
                tuple(f"{v['kind']}: {v['reason']}" for v in [*verdicts, *_once(step["verdicts"], "block")]),
                None if calls or (content and wire.answer_text(content)) else _end(one, answer),
            )
        )
        received += signed
    return found


def _once(verdicts: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [v for v in verdicts if v["kind"] == kind][:1]


def _signatures(contents: Sequence[dict[str, Any]]) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for _, _, part in wire.walk(contents):
        try:
            raw = wire.signature(part)
        except wire.NotBase64:
            continue
        if raw:
            found[raw] += 1
    return found


def _results(one: dict[str, Any]) -> dict[tuple[int, int], Any]:
    """Return each answered call's result by (step number, call index).

    Not every step's answer is in the history: a summary's is not. Those that are stand there in order.
    """
    found = {}
    groups = [g for g in wire.groups(trace.received(one)) if g.is_step]
    for number, step in enumerate(one["steps"], 1):
        content = answers.of(step["response"]).content if step["response"] else None
        if content is None or not groups or groups[0].contents[0] != content:
            continue
        for index, (_, response) in enumerate(wire.answered_calls(groups.pop(0))):
            if response is not None:
                found[number, index] = wire.without_notice(response.get("response"))
    return found


def _kind(call: dict[str, Any], result: Any, blocked: bool, seen: set[tuple[Any, str]]) -> str:
    if blocked:
        return "blocked"
    if result is None:
        return "open"
    if wire.is_error(result):
        return "failed"
    key = wire.call_key(call), wire.canonical(result)
    if key in seen:
        return "repeated"
    seen.add(key)
    return "new"


def _end(one: dict[str, Any], answer: answers.Answer | None) -> str:
    if answer is None:
        return f"{one['outcome']}: {one['detail']}"
    return f"{one['reason'] or one['outcome']} ({answer.finish_reason})"


# --- in words -----------------------------------------------------------------------------------------------


def text(one: dict[str, Any]) -> str:
    """Return the strip for a terminal, one line a step, with a legend."""
    head = f"{one['trial']}  {one['task']}  {one['model']}  {one['outcome']}"
    lines = [head + (f" ({one['reason']})" if one["reason"] else "")]
    for s in steps(one):
        back = f"signatures {s.sent}/{s.due}" if s.due else "signatures –"
        calls = "  ".join(f"{MARKS[c.kind]}{c.name}" for c in s.calls)
        said = calls or s.end or f'"{_short(s.text)}"'
        extra = [f"resent {s.resent}×"] if s.resent else []
        extra += [f"[{v}]" for v in s.verdicts]
        lines.append(f"{s.number:3}  {back:16} → {said}{' ~' if s.signed else ''}  {' '.join(extra)}".rstrip())
    if one["detail"]:
        lines.append(f"     {_short(one['detail'], 150)}")
    legend = "  ".join(f"{mark} {kind}" for kind, mark in MARKS.items())
    lines.append(f"     {legend}  ~ signed answer  signatures: sent back / received so far")
    return "\n".join(lines)


def _short(value: str, most: int = 80) -> str:
    line = " ".join(value.split())
    return line if len(line) <= most else line[: most - 1] + "…"
