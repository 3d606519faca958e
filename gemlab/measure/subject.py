"""What numbers are about: who answered, which models and tasks, how many; and what has to be read beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..backends import Source
from ..runs.trace import Trace

CALIBRATED = (
    "Its parameters are calibrated to figures that an article reports (90% and 60% completed, 0.3 and 1.4 redundant "
    "calls a trial)."
)
# What the calibration was made for; experiments/calibrate.py runs it.
_CALIBRATED_TASK = "ecpm"


@dataclass(frozen=True)
class Subject:
    """Whose numbers a figure, a table or a summary shows.

    `backend`: its name in the traces; `served`: models that said so in their answers, None where that was not
    recorded; `n`: how many, in words.
    """

    source: Source
    n: str
    backend: str = ""
    models: tuple[str, ...] = ()
    served: tuple[str, ...] | None = None
    tasks: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """Models, tasks and numbers in one line, without what is not known."""
        return " · ".join(self.parts)

    @property
    def parts(self) -> list[str]:
        """Models, tasks and numbers in words, without what is not known."""
        served = None if self.served is None else f"served {', '.join(self.served) or 'unknown'}"
        model = ", ".join(part for part in (_named("model", self.models), served) if part)
        return [part for part in (model, _named("task", self.tasks), self.n) if part]


def _named(word: str, names: Sequence[str]) -> str:
    return f"{word}{'s' * (len(names) > 1)} {', '.join(names)}" if names else ""


def of_traces(traces: Sequence[Trace], source: Source, n: str = "") -> Subject:
    """Return the subject of some traces; `n`: by default how many instances and arms."""
    arms = list(dict.fromkeys(t.arm.name for t in traces))
    instances = len({(t.task, t.instance) for t in traces})
    counted = f"{instances} instances × {len(arms)} arms" if len(arms) > 1 else f"{instances} instances"
    return Subject(
        source,
        n or counted,
        backend=traces[0].backend if traces else "",
        models=_each(t.model for t in traces),
        served=tuple(sorted({name for t in traces for name in t.served})),
        tasks=_each(t.task for t in traces),
    )


def _each(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


# --- what to beware of --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Note:
    """One sentence beside the numbers.

    `kind`: `source` (who answered), `pin` (another model served), `refused`, `failed` (trials that say something
    else than the others), `method` (how it was measured).
    """

    kind: Literal["source", "pin", "refused", "failed", "method"]
    text: str

    @property
    def is_caveat(self) -> bool:
        """Tell whether a reading of the numbers would mislead without it."""
        return self.kind != "method"

    def __str__(self) -> str:
        return self.text


def of_source(subject: Subject, put_in: str = "What it loses with its thoughts") -> Note:
    """Return who answered as a note; `put_in`: what of the effect is an assumption where a program answered.

    The article's figures are named only where the calibrated parameters and task were used.
    """
    source, parts = subject.source, [subject.source.sentence]
    if source.kind == "scripted":
        parts.append(f"{put_in} was put in, not found.")
        if not source.settings and subject.tasks == (_CALIBRATED_TASK,):
            parts.append(CALIBRATED)
    return Note("source", " ".join(parts))
