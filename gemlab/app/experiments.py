"""Experiment files and their runs: a notebook, its parameters, and the folder that holds what came out."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..registry import BadInput, load_parts, validated
from ..studies.base import STUDIES
from ..studies.parameters import json_only, of_kind
from .shipped import HOME, NOTEBOOKS


@dataclass(frozen=True)
class _File:
    """An experiment file as it is written."""

    notebook: str = ""
    study: str = ""
    question: str = ""
    parts: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """A notebook with the parameters that an experiment file sets, and the study that it runs, empty if not known."""

    name: str
    notebook: Path
    parameters: dict[str, Any]
    study: str = ""


# --- experiment files ---------------------------------------------------------------------------------------


def load(name: str) -> Experiment:
    """Return an experiment by the path of its TOML file, or by name from `experiments/`.

    Looks under the working directory first, then in the project. Raises BadInput.
    """
    places = [Path(name)] if name.endswith(".toml") else [p / "experiments" / f"{name}.toml" for p in (Path(), HOME)]
    path = next((p for p in places if p.is_file()), None)
    if path is None:
        raise BadInput(f"no experiment {name!r}; known: {', '.join(known()) or 'none'}")
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    return _experiment(path, found)


def _experiment(path: Path, found: Mapping[str, Any]) -> Experiment:
    """Return an experiment from the tables of its file.

    Either names the other: a study its notebook of the same name, a notebook its study. `parts`: Python files, beside
    this one, which are executed first. Raises BadInput.
    """
    form = validated(_File, found, str(path))
    if not (form.notebook or form.study):
        raise BadInput(f'{path}: needs notebook = "…" or study = "…"')
    parameters = form.parameters
    if form.parts:
        parameters = {**parameters, "parts": [str((path.parent / part).resolve()) for part in form.parts]}
    load_parts(parameters.get("parts", []))
    notebook = _notebook(path, form.notebook or f"{form.study}.ipynb")
    study = form.study or (notebook.stem if notebook.stem in STUDIES else "")
    if study:
        STUDIES.find(study)
    return Experiment(path.stem, notebook, parameters, study)


def known() -> list[str]:
    """Return the names of the experiments that `load` finds by name."""
    return sorted({p.stem for root in (Path(), HOME) for p in (root / "experiments").glob("*.toml")})


def _notebook(path: Path, name: str) -> Path:
    places = [path.parent / name, path.parent.parent / "notebooks" / name, NOTEBOOKS / name]
    found = next((p for p in places if p.is_file()), None)
    if found is None:
        raise BadInput(f"{path}: no notebook {name!r} (looked in {', '.join(str(p.parent) for p in places)})")
    return found.resolve()


# --- parameters ---------------------------------------------------------------------------------------------


def defaults(notebook: Path) -> dict[str, Any]:
    """Return the names and default values of a notebook's parameters cell, which holds literals only.

    Raises BadInput where there is not exactly one such cell, or where a value is derived.
    """
    try:
        cells = json.loads(notebook.read_text("utf-8"))["cells"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{notebook}: not a notebook ({type(error).__name__})") from None
    tagged = [c for c in cells if "parameters" in c.get("metadata", {}).get("tags", [])]
    if len(tagged) != 1:
        raise BadInput(f"{notebook}: {len(tagged)} cells are tagged parameters, it has to be one")
    try:
        return dict(_literal(line) for line in ast.parse("".join(tagged[0]["source"])).body)
    except (SyntaxError, ValueError) as error:
        raise BadInput(f"{notebook}: the parameters cell may only hold literals: {error}") from None


def _literal(line: ast.stmt) -> tuple[str, Any]:
    """Return the name and the value that a line assigns; raises ValueError where it does anything else."""
    if not isinstance(line, ast.AnnAssign | ast.Assign):
        raise ValueError(ast.unparse(line))
    target = line.target if isinstance(line, ast.AnnAssign) else line.targets[0]
    value = line.value
    if not isinstance(target, ast.Name) or value is None:
        raise ValueError(ast.unparse(line))
    try:
        return target.id, ast.literal_eval(value)
    except ValueError:
        raise ValueError(ast.unparse(line)) from None


def override(text: str, known: Mapping[str, Any]) -> tuple[str, Any]:
    """Read `key=value` from the command line: JSON, else text; raises BadInput for NaN and infinity.

    Where the notebook's default is a text the value is taken as text, where it is a list commas separate.
    """
    key, sign, value = text.partition("=")
    if not sign:
        raise BadInput(f"-p {text}: write key=value")
    default = known.get(key)
    if isinstance(default, str):
        return key, value
    try:
        parsed = json.loads(value, parse_constant=_no_constant)
    except ValueError:
        parsed = [v.strip() for v in value.split(",")] if isinstance(default, list) else value
    return key, parsed


def _no_constant(name: str) -> None:
    raise BadInput(f"{name} is not a value a parameter can have")


def checked(given: Mapping[str, Any], notebook: Path) -> dict[str, Any]:
    """Return the notebook's defaults overlaid with `given`; raises BadInput for unknown names and other types."""
    found = defaults(notebook)
    unknown = sorted(set(given) - set(found))
    if unknown:
        raise BadInput(f"unknown parameter {', '.join(unknown)}; {notebook.name} has {', '.join(found)}")
    for name, value in given.items():
        json_only(name, value)
        if found[name] is not None:
            of_kind(name, value, type(found[name]))
    return {**found, **given}


# --- folders ------------------------------------------------------------------------------------------------


def is_done(run: Path) -> bool:
    """Tell whether a run is complete: its summary exists and the last code cell of its notebook ran."""
    try:
        json.loads((run / "summary.json").read_text("utf-8"))
        cells = json.loads((run / "notebook.ipynb").read_text("utf-8"))["cells"]
    except (OSError, ValueError, KeyError):
        return False
    code = [c for c in cells if c["cell_type"] == "code" and "skip-execution" not in c["metadata"].get("tags", [])]
    errors = any(o.get("output_type") == "error" for c in code for o in c["outputs"])
    return bool(code) and code[-1].get("execution_count") is not None and not errors
