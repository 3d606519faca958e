"""Traces on disk: one JSON line a trial with all that was received and sent, never a key or a header.

Contents are kept once each in a pool and named by index, since every request repeats the last one's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..agent.trial import Trial
from ..wire import contents as wire
from ..wire import interaction_steps

VERSION = 1


class TraceError(ValueError):
    """A trace file that cannot be used, with where and why in one line."""


class _Pool:
    """Contents by equality, in order of first appearance."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self._index: dict[str, int] = {}

    def index(self, content: dict[str, Any]) -> int:
        key = wire.canonical(content)
        if key not in self._index:
            self._index[key] = len(self.items)
            self.items.append(content)
        return self._index[key]


def pack(trial: Trial, backend: str) -> dict[str, Any]:
    """Return the trace of a finished trial as JSON values."""
    spec, pool = trial.spec, _Pool()
    received = [pool.index(c) for c in trial.received]
    config: dict[str, Any] = {}
    steps = [_step(step, pool, config) for step in trial.steps]
    pins = [step["pin"] for step in trial.steps if step.get("pin")]
    return {
        "version": VERSION,
        "trial": spec.id,
        "arm": dict(vars(spec.arm)),
        "task": spec.task,
        "instance": spec.instance,
        "repeat": spec.repeat,
        "seed": spec.seed,
        "backend": backend,
        "model": spec.model,
        "served": sorted({str(p.served) for p in pins if p.served}),
        "warnings": sorted({p.warning for p in pins if p.warning}),
        "outcome": trial.outcome,
        "reason": trial.reason,
        "detail": trial.detail,
        "answer": trial.answer,
        "forced": trial.forced,
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(trial.seconds, 6),
        "config": config,
        "received": received,
        "steps": steps,
        "contents": pool.items,
    }


def _step(step: dict[str, Any], pool: _Pool, config: dict[str, Any]) -> dict[str, Any]:
    sent = step["request"] or {}
    settings = {k: v for k, v in sent.items() if k not in ("contents", "input")}
    if not config:
        config.update(settings)
    changed = {k: v for k, v in settings.items() if config.get(k) != v}
    contents, given = sent.get("contents", step["contents"]), {}
    if "input" in sent:  # an interaction: its steps as sent, and the contents that they stand for
        contents, given = interaction_steps.contents_of(sent), {"input": [pool.index(s) for s in sent["input"]]}
    return {
        # What the wire carried; where nothing was answered, what was handed to the client.
        "contents": [pool.index(c) for c in contents],
        **given,
        "changed": changed,
        "model": step.get("model"),
        "response": step["response"],
        "failures": step["failures"],
        "verdicts": [dict(vars(v)) for v in step.get("verdicts", ())],
        "seconds": round(step.get("seconds", 0.0), 6),
    }


def requests(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each request body of a trace as it was sent."""
    for step in trace["steps"]:
        carried = "input" if "input" in step else "contents"
        held = [trace["contents"][i] for i in step[carried]]
        yield {**trace["config"], **step["changed"], carried: held}


def kept_by_server(step: dict[str, Any]) -> bool:
    """Tell whether a step's request left the history to the server: what it holds is then not the history."""
    return "previous_interaction_id" in step["changed"]


def received(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the whole history as it came: messages, answers and the responses to their calls."""
    return [trace["contents"][i] for i in trace["received"]]


# --- files --------------------------------------------------------------------------------------------------


def dumps(trace: dict[str, Any]) -> str:
    """Return the trace as one line."""
    return json.dumps(trace, ensure_ascii=False, separators=(",", ":")) + "\n"


def read(path: Path) -> list[dict[str, Any]]:
    """Return the traces of a file, for a trial written twice the later one; a cut last line is left out.

    Raises TraceError for any other line that is no trace.
    """
    found: dict[str, dict[str, Any]] = {}
    raw = path.read_bytes()
    for number, line in enumerate(raw[: raw.rfind(b"\n") + 1].splitlines(), 1):
        try:
            trace = json.loads(line)
            found[trace["trial"]] = trace
        except (ValueError, KeyError, TypeError) as error:
            raise TraceError(f"{path}, line {number}: no trace ({type(error).__name__})") from None
    return list(found.values())


def mend(path: Path) -> None:
    """Cut a file back to its last whole line, so that appending cannot glue two traces together."""
    if not path.exists():
        return
    raw = path.read_bytes()
    whole = raw.rfind(b"\n") + 1
    if whole < len(raw):
        with path.open("r+b") as file:
            file.truncate(whole)
