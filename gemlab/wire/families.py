"""Model families and services as data: what each takes, signs and refuses; routing and the pin.

Where recorded traffic leaves a point open, it is a field here, so that an experiment can switch it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, get_type_hints

from ..registry import BadInput

DEVELOPER, VERTEX = "developer", "vertex"


@dataclass(frozen=True)
class Profile:
    """What one served model does with a history.

    `strict`: the first call of every model content in the current turn must be signed. `thoughts`: whose
    signatures the model reads. `ids`: the form of call ids. The last five fields are unsettled points.
    """

    model: str
    family: str
    service: str = DEVELOPER
    strict: bool = True
    thinks: bool = True
    thoughts: Literal["turn", "all"] = "turn"
    ids: Literal["none", "lower8", "mixed8", "digits"] = "none"
    levels: tuple[str, ...] = ()
    last_model_turn: Literal["accept", "unless_response", "refuse"] = "accept"
    role_names: Literal["old", "new"] = "old"
    altered: Literal["refuse", "ignore"] = "refuse"
    thought_before_call: Literal["accept", "refuse"] = "accept"
    id_mismatch: Literal["ignore", "empty", "refuse"] = "empty"
    consecutive_model: Literal["accept", "refuse"] = "accept"
    text_beside_response: Literal["accept", "refuse"] = "accept"


_UNSETTLED = ("altered", "thought_before_call", "id_mismatch", "consecutive_model", "text_beside_response")
_ALL_LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH")
_NO_MINIMAL = ("LOW", "MEDIUM", "HIGH")
_G2 = Profile("", "gemini-2", strict=False, thinks=False, altered="ignore", id_mismatch="ignore")
# That 2.5 refuses an altered signature is inferred: it is only known to miss none.
_G25 = replace(_G2, family="gemini-2.5", thinks=True, altered="refuse")
_G3 = Profile("", "gemini-3", levels=_ALL_LEVELS, ids="digits")
_G35 = replace(_G3, thoughts="all", ids="lower8")
_G36 = replace(_G35, ids="mixed8", role_names="new", last_model_turn="unless_response")
_G37 = replace(_G36, levels=_NO_MINIMAL, last_model_turn="refuse", ids="digits")

_KNOWN: dict[str, Profile] = {
    "gemini-2.0-flash": _G2,
    "gemini-2.5-pro": _G25,
    "gemini-2.5-flash": _G25,
    "gemini-2.5-flash-lite": replace(_G25, thinks=False),
    "gemini-3-pro-preview": _G3,
    "gemini-3-flash-preview": _G3,
    "gemini-3.1-pro-preview": replace(_G3, levels=_NO_MINIMAL),
    "gemini-3.1-flash-lite": _G3,
    "gemini-3.5-flash": _G35,
    "gemini-3.5-flash-lite": replace(_G36, ids="lower8"),
    "gemini-3.6-flash": _G36,
    "gemini-3.7-flash": _G37,
    "gemini-3.8-flash": replace(_G37, id_mismatch="refuse"),
    **dict.fromkeys(
        ("gemini-4-argon", "gemini-4-carbon", "gemini-4-hydrogen", "gemini-4-neon"),
        replace(_G37, family="gemini-4", id_mismatch="refuse"),
    ),
}

# Requested → served, as announced or recorded up to 30 Nov 2026.
ROUTES: dict[str, str] = {
    "gemini-3-pro-preview": "gemini-3.1-pro-preview",
    "gemini-3.5-flash": "gemini-3.6-flash",
    "gemini-3.7-flash": "gemini-3.8-flash",
    "gemini-flash-latest": "gemini-3.6-flash",
    "gemini-flash-lite-latest": "gemini-3.5-flash-lite",
    "gemini-pro-latest": "gemini-3.1-pro-preview",
}
# Routes of the Developer API from 1 Dec 2026 on: not in force yet, an emulator may be started with them.
ROUTES_DECEMBER: dict[str, str] = {
    **ROUTES,
    "gemini-2.5-pro": "gemini-3.8-flash",
    "gemini-2.5-flash": "gemini-3.5-flash-lite",
}


def known_models() -> list[str]:
    """Return the ids of all models that have a profile of their own."""
    return list(_KNOWN)


def is_known(model: str) -> bool:
    """Tell whether the id, or one that it is a dated or suffixed form of, is listed by name."""
    return _base(model.removeprefix("models/")) is not None


@functools.lru_cache(maxsize=1024)
def _base(name: str) -> Profile | None:
    prefixes = [k for k in _KNOWN if name == k or name.startswith(k + "-")]
    return _KNOWN[max(prefixes, key=len)] if prefixes else None


def profile(model: str, service: str = DEVELOPER, **switched: str | bool) -> Profile:
    """Return the profile of a served model; raises ValueError for an id of no known family, or an unknown switch.

    A dated or suffixed id (`gemini-2.5-flash-preview-09-2025`) takes the longest known prefix; a 2.x or 3.x
    id not listed takes its generation's. `switched` override single fields.
    """
    name = model.removeprefix("models/")
    base = _base(name) or _generation(name)
    if base is None:
        raise ValueError(f"unknown model {model!r}; known: {', '.join(_KNOWN)}")
    check_switches(switched)
    fields: dict[str, Any] = {**switched}
    return replace(base, model=name, service=service, **fields)


def _generation(name: str) -> Profile | None:
    found = re.match(r"gemini-(\d+)(?:\.(\d+))?-", name)
    if not found:
        return None
    version = (int(found[1]), int(found[2] or 0))
    for least, base in (((4, 0), _KNOWN["gemini-4-argon"]), ((3, 7), _G37), ((3, 6), _G36), ((3, 5), _G35)):
        if version >= least:
            return base
    return {3: _G3, 2: _G25 if version >= (2, 5) else _G2}.get(version[0])


def switches() -> dict[str, tuple[str, ...]]:
    """Return the unsettled points of a Profile that can be switched, with their values."""
    hints = get_type_hints(Profile)
    return {name: get_args(hints[name]) for name in _UNSETTLED}


def check_switches(switched: Mapping[str, str | bool]) -> None:
    """Raise BadInput for a field that a Profile does not have, or a value that the field does not take."""
    for field, value in switched.items():
        known = _choices()
        if field not in known:
            raise BadInput(f"unknown switch {field!r}; known: {', '.join(known)}")
        if value not in known[field]:
            raise BadInput(f"{field} is one of {', '.join(map(str, known[field]))}, not {value!r}")


@functools.cache
def _choices() -> dict[str, tuple[str | bool, ...]]:
    """Return the values of each field of a Profile that takes but a few."""
    hints = get_type_hints(Profile).items()
    few = {field: (True, False) if kind is bool else get_args(kind) for field, kind in hints}
    return {field: values for field, values in few.items() if values and Ellipsis not in values}


def serve(requested: str, routes: dict[str, str] | None = None) -> str:
    """Return the id of the model that serves a requested one."""
    name = requested.removeprefix("models/")
    return (ROUTES if routes is None else routes).get(name, name)


def same_issuer(one: str, other: str, service: str = DEVELOPER) -> bool:
    """Tell whether two requested models read each other's signatures: one family, and here one service."""
    families = {profile(serve(name), service).family for name in (one, other)}
    return len(families) == 1


# --- the pin ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pin:
    """Requested against served; `match` is None where the answer did not say who served it."""

    requested: str
    served: str | None

    @property
    def match(self) -> bool | None:
        return None if not self.served else self.served == self.requested.removeprefix("models/")

    @property
    def warning(self) -> str | None:
        """One line to show beside every figure, or None where the served model is the requested one."""
        if self.match is None:
            return f"asked for {self.requested}, the answer names no model: unknown, not a match"
        return None if self.match else f"asked for {self.requested}, served by {self.served}"
