"""What each call of a trial was: the one place that says which are redundant."""

from __future__ import annotations

from typing import Any, Literal

from ..guards import fingerprints
from ..runs.trace import Trace
from ..wire import contents as wire

Mark = Literal["new", "repeated", "failed", "blocked", "open"]


def marks(trace: Trace) -> list[list[Mark]]:
    """Return the mark of each call, by step.

    `repeated`: a redundant call, one that succeeds as an earlier one of the trial did that had its name, its canonical
    arguments and its result, and that its tool does not declare as polling. `blocked`: a guard answered in the tool's
    place. `open`: nobody answered.
    """
    seen: set[tuple[Any, str]] = set()
    found: list[list[Mark]] = []
    for step in trace.steps:
        found.append([])
        for call in step.calls:
            key = call.key, wire.canonical(wire.without_notice(call.result))
            mark: Mark = "new"
            if call.blocked:
                mark = "blocked"
            elif call.result is None:
                mark = "open"
            elif wire.is_error(call.result):
                mark = "failed"
            elif key in seen and not fingerprints.is_polling(call.name, trace.tools.identities):
                mark = "repeated"
            if mark == "new":
                seen.add(key)
            found[-1].append(mark)
    return found
