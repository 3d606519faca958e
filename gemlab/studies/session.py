"""A study in a notebook: checked as the command line checks it, run, interrupted and gone on with."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backends import Backend, NoKey
from ..registry import BadInput, load_parts
from . import base

if TYPE_CHECKING:
    from ..measure.findings import Findings
    from .base import Study

ROOT = Path(__file__).resolve().parents[2]
# Runs of this kernel that began and did not end, by study and parameters.
_unfinished: dict[tuple[str, str], Path] = {}


class Interrupted(KeyboardInterrupt):
    """A run that was stopped by hand; shows itself as one line in a notebook."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@dataclass(frozen=True)
class Started:
    """A study that may run: checked, its backend open, its folder there."""

    study: Study
    parameters: Any
    backend: Backend
    folder: Path

    def run(self) -> Findings:
        """Run it and return what was found; raises Interrupted with one line that says how to go on."""
        _unfinished[_key(self.study, self.parameters)] = self.folder
        try:
            findings = self.study.run(self.parameters, self.folder, self.backend)
        except KeyboardInterrupt:
            raise Interrupted(
                f"Interrupted: {kept(self.folder)} in {self.folder}. Run all cells again to go on there, or later with "
                f'out = "{self.folder}" in the parameters (on the command line --out).'
            ) from None
        del _unfinished[_key(self.study, self.parameters)]
        return findings

    def __repr__(self) -> str:
        return f"{self.study.name}: {self.backend.source.label}. Results go to {self.folder}."


def start(study: str, **parameters: Any) -> Started:
    """Return a study by name, ready to run, and print in one line who will answer and where results go.

    Checks what `gemlab run` checks, by the same call. Raises BadInput with one line.
    """
    try:
        load_parts(parameters.get("parts") or [])
        chosen, _ = base.STUDIES.find(study)
        checked = base.check(chosen, parameters)
        key = _key(chosen, checked)
        again = _unfinished.get(key) if not checked.out else None
        where = folder(again or checked.out, checked.name or study)
        started = Started(chosen, checked, chosen.open(checked), where)
    except NoKey as error:
        raise BadInput(str(error)) from None
    print(started)
    if again:
        print(f"Goes on with the run that did not end: {kept(where)} there.")
    elif not checked.out and (others := [path for (name, _), path in _unfinished.items() if name == chosen.name]):
        print(f"Starts anew: the run in {others[-1]}, which did not end, has other parameters.")
    return started


def _key(study: Study, parameters: Any) -> tuple[str, str]:
    values = {k: v for k, v in parameters.values().items() if k != "out"}
    return study.name, json.dumps(values, sort_keys=True)


def kept(where: Path) -> str:
    """Return in words how many trials a folder holds."""
    count = sum(path.read_bytes().count(b"\n") for path in where.rglob("*.jsonl"))
    return f"{count} trial{'s are' if count != 1 else ' is'} kept"


# --- folders ------------------------------------------------------------------------------------------------


def folder(out: str | Path, name: str) -> Path:
    """Return the run's folder as an absolute path, made if need be: `out`, or `runs/<name>/<time>` here.

    Raises BadInput where it cannot be made or written.
    """
    if out:
        where = Path(out).expanduser().resolve()
    else:
        # A notebook opened by hand works in notebooks/; its runs belong beside the others.
        here = ROOT if Path.cwd() == ROOT / "notebooks" else Path.cwd()
        first = here / "runs" / name / time.strftime("%Y%m%d-%H%M%S")
        where = next(path for path in _numbered(first) if not path.exists())
    try:
        where.mkdir(parents=True, exist_ok=True)
        probe = where / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise BadInput(f"cannot write in {where}: {error.strerror}") from None
    return where


def _numbered(first: Path) -> Sequence[Path]:
    return [first, *(first.with_name(f"{first.name}-{i}") for i in range(1, 1000))]
