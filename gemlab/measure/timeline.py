"""One trial as a strip: steps, calls, where signatures came and whether they went back, what guards said."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..agent.step import Step
from ..runs.trace import Trace
from .marks import Mark, marks
from .metrics import signatures

# What a call can be, with its mark in the text form.
MARKS: dict[Mark, str] = {"new": "+", "repeated": "=", "failed": "!", "blocked": "x", "open": "?"}


@dataclass(frozen=True)
class Call:
    """One call of a step: `kind` is a key of MARKS."""

    name: str
    kind: Mark


@dataclass(frozen=True)
class Column:
    """One step of the strip: a request and its answer.

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


def steps(trace: Trace) -> list[Column]:
    """Return the steps of a trace in order."""
    received: Counter[bytes] = Counter()
    columns = []
    for number, (step, kinds) in enumerate(zip(trace.steps, marks(trace), strict=True), 1):
        signed = signatures([step.content] if step.content else [])
        columns.append(
            Column(
                number,
                len(step.contents),
                (received & signatures(step.contents)).total(),
                0 if step.kept_by_server else received.total(),
                step.resent,
                tuple(Call(call.name, kind) for call, kind in zip(step.calls, kinds, strict=True)),
                signed.total(),
                step.text,
                _said(step),
                None if step.calls or step.text else _end(trace, step),
            )
        )
        received += signed
    return columns


def _said(step: Step) -> tuple[str, ...]:
    """Return what guards said, of several blocks of a step the first."""
    blocks = [v for v in step.verdicts if v.kind == "block"]
    said = [v for v in step.verdicts if v.kind != "block"] + blocks[:1]
    return tuple(f"{v.kind}: {v.reason}" for v in said)


def _end(trace: Trace, step: Step) -> str:
    if step.answer is None:
        return f"{trace.outcome}: {trace.detail}"
    return f"{trace.reason or trace.outcome} ({step.answer.finish_reason})"


# --- in words -----------------------------------------------------------------------------------------------


def text(trace: Trace) -> str:
    """Return the strip for a terminal, one line a step, with a legend."""
    head = f"{trace.trial}  {trace.task}  {trace.model}  {trace.outcome}"
    lines = [head + (f" ({trace.reason})" if trace.reason else "")]
    for s in steps(trace):
        back = f"signatures {s.sent}/{s.due}" if s.due else "signatures –"
        calls = "  ".join(f"{MARKS[c.kind]}{c.name}" for c in s.calls)
        said = calls or s.end or f'"{_short(s.text)}"'
        extra = [f"resent {s.resent}×"] if s.resent else []
        extra += [f"[{v}]" for v in s.verdicts]
        lines.append(f"{s.number:3}  {back:16} → {said}{' ~' if s.signed else ''}  {' '.join(extra)}".rstrip())
    if trace.detail:
        lines.append(f"     {_short(trace.detail, 150)}")
    legend = "  ".join(f"{mark} {kind}" for kind, mark in MARKS.items())
    lines.append(f"     {legend}  ~ signed answer  signatures: sent back / received so far")
    return "\n".join(lines)


def _short(value: str, most: int = 80) -> str:
    line = " ".join(value.split())
    return line if len(line) <= most else line[: most - 1] + "…"
