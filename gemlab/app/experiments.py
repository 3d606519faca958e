"""Experiment files and their runs: a notebook, its parameters, and the folder that holds what came out."""

from __future__ import annotations

import ast
import json
import math
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..registry import BadInput

ROOT = Path(__file__).resolve().parent.parent.parent
_FIELDS = {"notebook", "question", "parameters"}


@dataclass(frozen=True)
class Experiment:
    """A notebook with the parameters that an experiment file sets."""

    name: str
    notebook: Path
    parameters: dict[str, Any]


# --- experiment files ---------------------------------------------------------------------------------------


def load(name: str) -> Experiment:
    """Return an experiment by the path of its TOML file, or by name from `experiments/`.

    Looks under the working directory first, then in the project. Raises BadInput.
    """
    places = [Path(name)] if name.endswith(".toml") else [p / "experiments" / f"{name}.toml" for p in (Path(), ROOT)]
    path = next((p for p in places if p.is_file()), None)
    if path is None:
        raise BadInput(f"no experiment {name!r}; known: {', '.join(known()) or 'none'}")
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    unknown = set(found) - _FIELDS
    if unknown or not isinstance(found.get("notebook"), str) or not isinstance(found.get("parameters", {}), dict):
        raise BadInput(f'{path}: needs notebook = "…" and [parameters]; unknown here: {sorted(unknown) or "none"}')
    return Experiment(path.stem, _notebook(path, found["notebook"]), found.get("parameters", {}))


def known() -> list[str]:
    """Return the names of the experiments that `load` finds by name."""
    return sorted({p.stem for root in (Path(), ROOT) for p in (root / "experiments").glob("*.toml")})


def _notebook(path: Path, name: str) -> Path:
    places = [path.parent / name, path.parent.parent / "notebooks" / name, ROOT / "notebooks" / name]
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
    found = {}
    for line in ast.parse("".join(tagged[0]["source"])).body:
        target = line.target if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [None])[0]
        try:
            found[target.id] = ast.literal_eval(line.value)
        except (AttributeError, ValueError):
            text = f"{notebook}: the parameters cell may only hold literals: {ast.unparse(line)}"
            raise BadInput(text) from None
    return found


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
        _json_only(name, value)
        wanted, got = type(found[name]), type(value)
        if found[name] is None or got is wanted or (wanted is float and got is int):
            continue
        raise BadInput(f"parameter {name} is {_kind(wanted)}, {json.dumps(value)} is {_kind(got)}")
    return {**found, **given}


def _kind(kind: type) -> str:
    names = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list"}
    return names.get(kind, kind.__name__)


def _json_only(name: str, value: Any) -> None:
    """Refuse what papermill would turn into text or into invalid JSON in silence."""
    if isinstance(value, list):
        for item in value:
            _json_only(name, item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise BadInput(f"parameter {name}: the key {key!r} is not a text")
            _json_only(name, item)
    elif isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"parameter {name} is {value}, not a finite number")
    elif value is not None and not isinstance(value, str | int | float | bool):
        raise BadInput(f"parameter {name}: {type(value).__name__} is not a JSON type")


# --- folders ------------------------------------------------------------------------------------------------


def folder(out: str | Path, name: str) -> Path:
    """Return the run's folder as an absolute path, made if need be: `out`, or `runs/<name>/<time>` here.

    Raises BadInput where it cannot be made or written.
    """
    if out:
        made = Path(out).expanduser().resolve()
    else:
        # A notebook opened by hand works in notebooks/; its runs belong beside the others.
        here = ROOT if Path.cwd() == ROOT / "notebooks" else Path.cwd()
        base = here / "runs" / name / time.strftime("%Y%m%d-%H%M%S")
        made = next(p for i in range(1000) if not (p := base if not i else base.with_name(f"{base.name}-{i}")).exists())
    try:
        made.mkdir(parents=True, exist_ok=True)
        probe = made / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise BadInput(f"cannot write in {made}: {error.strerror}") from None
    return made


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
