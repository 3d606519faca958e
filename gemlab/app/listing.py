"""What there is: every registered part with its first line, kind by kind."""

from __future__ import annotations

from typing import Any

from ..agent.history import STRATEGIES
from ..agent.pruning import PRUNINGS
from ..backends import BACKENDS
from ..backends.minds import MINDS
from ..guards import GUARDS
from ..registry import BadInput, Kind
from ..replay.firing import RULES
from ..replay.importers import IMPORTERS
from ..studies.base import STUDIES
from ..tasks import TASKS

LISTED: dict[str, Kind[Any]] = {
    "studies": STUDIES,
    "tasks": TASKS,
    "strategies": STRATEGIES,
    "prunings": PRUNINGS,
    "guards": GUARDS,
    "rules": RULES,
    "backends": BACKENDS,
    "minds": MINDS,
    "importers": IMPORTERS,
}


def text(kind: str = "") -> str:
    """Return the parts of a kind, or of all, a line each; raises BadInput for an unknown kind."""
    if kind and kind not in LISTED:
        raise BadInput(f"unknown kind {kind!r}; known: {', '.join(LISTED)}")
    chosen = {kind: LISTED[kind]} if kind else LISTED
    return "\n\n".join(f"{name}\n{_lines(parts)}" for name, parts in chosen.items())


def _lines(kind: Kind[Any]) -> str:
    described = kind.describe()
    width = max(map(len, described), default=0)
    return "\n".join(f"  {name:{width}}  {line}".rstrip() for name, line in described.items())
