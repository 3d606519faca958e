"""The parameters of studies: dataclasses, read from the values of an experiment file or of a notebook's cell."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from annotated_types import Ge, Gt, Lt

from .. import backends
from ..registry import BadInput

P = TypeVar("P", bound="Parameters")

Count = Annotated[int, Ge(1)]
# A field whose texts are files or folders, which are to be there; they are named by their whole paths from then on.
FILES = {"files": True}


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What every study takes.

    `name`: of the experiment; `parts`: files with parts of one's own; `out`: the folder of the results, by default a
    new one.
    """

    name: str = ""
    backend: str = "sim"
    model: str = "gemini-2.5-flash"
    seed: int = 1
    parts: list[str] = field(default_factory=list, metadata=FILES)
    out: str = ""

    @property
    def folder(self) -> Path | None:
        """The folder that `out` names."""
        return Path(self.out).expanduser().resolve() if self.out else None

    @property
    def label(self) -> str:
        """What traces call the backend."""
        way, address = backends.find(self.backend)
        return way.called(address)

    def values(self) -> dict[str, Any]:
        """Return the parameters as JSON values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class TrialParameters(Parameters):
    """What a study takes that runs arms on the instances of a task."""

    task: str = "ecpm"
    arms: list[Any] = field(default_factory=lambda: ["preserve", "strip"])
    instances: Count = 40
    repeats: Count = 1


def read(form: type[P], values: Mapping[str, Any], owner: str) -> P:
    """Return parameters from JSON values; `owner`: whose they are, for the message.

    Raises BadInput for unknown names, other types, values out of their bounds and files that are not there.
    """
    fields = {f.name: f for f in dataclasses.fields(form)}
    unknown = sorted(set(values) - set(fields))
    if unknown:
        raise BadInput(f"unknown parameter {', '.join(unknown)}; {owner} has {', '.join(fields)}")
    hints = typing.get_type_hints(form, include_extras=True)
    checked = {}
    for name, value in values.items():
        json_only(name, value)
        hint = hints[name]
        bounds = getattr(hint, "__metadata__", ())
        plain = typing.get_args(hint)[0] if bounds else hint
        of_kind(name, value, typing.get_origin(plain) or plain)
        _within(name, value, bounds)
        checked[name] = _absolute(value) if fields[name].metadata.get("files") else value
    return form(**checked)


def of_kind(name: str, value: Any, kind: Any) -> None:
    """Refuse a parameter's value of another type; a whole number serves as a number."""
    if kind is Any or type(value) is kind or (kind is float and type(value) is int):
        return
    raise BadInput(f"parameter {name} is {_words(kind)}, {json.dumps(value)} is {_words(type(value))}")


def _words(kind: type) -> str:
    names = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list"}
    return names.get(kind, "an object" if kind is dict else kind.__name__)


def json_only(name: str, value: Any) -> None:
    """Refuse what papermill would turn into text or into invalid JSON in silence."""
    if isinstance(value, list):
        for item in value:
            json_only(name, item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise BadInput(f"parameter {name}: the key {key!r} is not a text")
            json_only(name, item)
    elif isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"parameter {name} is {value}, not a finite number")
    elif value is not None and not isinstance(value, str | int | float | bool):
        raise BadInput(f"parameter {name}: {type(value).__name__} is not a JSON type")


def _within(name: str, value: Any, bounds: tuple[Any, ...]) -> None:
    least = next((bound.ge for bound in bounds if isinstance(bound, Ge)), None)
    above = next((bound.gt for bound in bounds if isinstance(bound, Gt)), None)
    below = next((bound.lt for bound in bounds if isinstance(bound, Lt)), None)
    if least is not None and value < least:
        raise BadInput(f"{name} is to start at {least}, not at {value}")
    if above is not None and below is not None and not above < value < below:
        raise BadInput(f"{name} lies between {above} and {below}, not at {value}")


def _absolute(value: str | list[str]) -> Any:
    if isinstance(value, list):
        return [_absolute(str(item)) for item in value]
    if not value:
        return ""
    path = Path(value).expanduser().resolve()
    if not path.exists():
        raise BadInput(f"no file or folder {value}")
    return str(path)
