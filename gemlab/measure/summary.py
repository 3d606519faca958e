"""summary.json: what a study found, in one form for all of them, whole or not there."""

from __future__ import annotations

import importlib.metadata
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from . import tables as cells
from .subject import Note, Subject

SCHEMA = 1


class Summarised(Protocol):
    """What a summary is made of: the fields of `Findings`."""

    experiment: str
    study: str
    question: str
    subject: Subject
    parameters: Mapping[str, Any]
    arms: Mapping[str, Any]
    comparisons: Sequence[Mapping[str, Any]]

    @property
    def tables(self) -> Mapping[str, Any]: ...
    def shown(self) -> list[cells.Cells]: ...
    def reading(self) -> list[str]: ...
    def notes(self) -> list[Note]: ...


def of(findings: Summarised) -> dict[str, Any]:
    """Return the summary as JSON values: the same keys for every study, NaN as null, six significant digits.

    `tables`: numbers, one object a row; `shown`: the first table as people read it.
    """
    subject, parameters = findings.subject, dict(findings.parameters)
    found = {
        "schema": SCHEMA,
        "gemlab": importlib.metadata.version("gemlab"),
        "experiment": findings.experiment,
        "study": findings.study,
        "question": findings.question,
        "source": {
            "kind": subject.source.kind,
            "label": subject.source.label,
            "settings": dict(subject.source.settings),
        },
        "backend": subject.backend,
        "model": subject.models[0] if subject.models else None,
        "models": list(subject.models),
        "served": list(subject.served or ()),
        "task": subject.tasks[0] if subject.tasks else None,
        "tasks": list(subject.tasks),
        "seed": parameters.get("seed"),
        "parameters": parameters,
        "arms": findings.arms,
        "comparisons": findings.comparisons,
        "tables": {name: table.records() for name, table in findings.tables.items() if not table.is_of_arms},
        "shown": [dict(row) for row in findings.shown()],
        "reading": findings.reading(),
        "notes": [note.text for note in findings.notes()],
    }
    return json_value(found)  # type: ignore[no-any-return]


def json_value(value: Any) -> Any:
    """Return a value as JSON has it: significant digits, not places, since a p-value of 1e-12 is not zero."""
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if hasattr(value, "item"):  # numpy's numbers
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def write(path: Path, summary: Mapping[str, Any]) -> None:
    """Write a summary next to its final name and move it there."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
    partial.replace(path)


def text(summary: Mapping[str, Any]) -> str:
    """Return a summary for a terminal: its first table, how to read it, and what has to be read beside it."""
    rows, said = summary["shown"], summary["reading"]
    # A reading ends with the caveats already.
    beside = [note for note in summary["notes"] if note not in said]
    parts = [cells.text(rows) if rows else "", "\n".join(f"- {line}" for line in said), "\n".join(beside)]
    return "\n\n".join(part for part in parts if part)
