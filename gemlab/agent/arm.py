"""An arm: one setting of the factors, by name; and what of it can be checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .. import guards
from ..guards import GUARDS
from ..registry import BadInput, Kind, parse, validated
from . import history, pruning
from .history import STRATEGIES
from .pruning import PRUNINGS


@dataclass(frozen=True)
class Arm:
    """One setting of the factors, by name.

    `transport`: unary or stream. `retry`: resend (the same bytes) or rebuild (the article's mistake: on an error
    the conversation so far is reconstructed from names and arguments). `fallback`: none, same_family(MODEL) or
    any(MODEL). `thinking`: on (as the model does by itself) or off (asked with a thinkingBudget of 0).
    """

    name: str
    history: str = "preserve"
    pruning: str = "none"
    guard: str = "budget"
    transport: Literal["unary", "stream"] = "unary"
    retry: Literal["resend", "rebuild"] = "resend"
    fallback: str = "none"
    thinking: Literal["on", "off"] = "on"


# What an arm can be given as: a strategy's name, the strategy itself, or an object of Arm's fields.
ArmForm = str | Mapping[str, Any] | Callable[..., Any] | Arm


def arm(form: ArmForm) -> Arm:
    """Return an arm from its form: a history strategy's name or the function itself, or an object of Arm's fields.

    In an object, `history`, `pruning` and `guard` may hold the parts themselves, which are then registered. Raises
    BadInput for unknown names and fields.
    """
    if isinstance(form, Arm):
        return _checked(form)
    if isinstance(form, Mapping):
        fields = dict(form)
    elif isinstance(form, str):
        fields = {"name": form, "history": form}
    elif callable(form):
        strategy = _register(STRATEGIES, form, "")
        fields = {"name": strategy, "history": strategy}
    else:
        raise BadInput(f"an arm is a strategy's name, the strategy itself or an object, not {form!r}")
    name = fields.get("name")
    if not isinstance(name, str) or not name.strip() or set(fields) - set(Arm.__dataclass_fields__):
        raise BadInput(f"an arm has {', '.join(Arm.__dataclass_fields__)}, a name at least; got {sorted(fields)}")
    for factor, kind in (("history", STRATEGIES), ("pruning", PRUNINGS), ("guard", GUARDS)):
        if factor in fields and not isinstance(fields[factor], str) and fields[factor] is not None:
            fields[factor] = _register(kind, fields[factor], name)
    return _checked(validated(Arm, fields, f"arm {name!r}"))


def _register(kind: Kind[Any], part: Any, otherwise: str) -> str:
    name = getattr(part, "__name__", "") or otherwise.replace(" ", "-")
    if not name.isidentifier() and otherwise:
        name = otherwise.replace(" ", "-")
    kind.register(part, name=name)
    return name


def _checked(chosen: Arm) -> Arm:
    history.get(chosen.history)
    if chosen.history in history.BY_INTERACTIONS:
        _check_interactions(chosen)
    pruning.get(chosen.pruning)
    guards.get(chosen.guard)
    fallback(chosen.fallback)
    return chosen


def _check_interactions(chosen: Arm) -> None:
    """Refuse an arm that prunes, rebuilds or streams what the Interactions API keeps; it knows no budget either."""
    for factor, only in (("pruning", "none"), ("transport", "unary"), ("retry", "resend"), ("thinking", "on")):
        if getattr(chosen, factor) != only:
            raise BadInput(
                f"history {chosen.history!r} goes with {factor} {only!r} alone, not {getattr(chosen, factor)!r}"
            )


def fallback(text: str) -> tuple[str, str]:
    """Return (rule, model) of a fallback's text, ("none", "") where there is none; raises BadInput."""
    if text.strip() == "none":
        return "none", ""
    name = parse(text or "-")
    if name.base not in ("same_family", "any") or len(name.args) != 1 or name.kwargs or ":" in text:
        raise BadInput(f"unknown fallback {text!r}; known: none, same_family(MODEL), any(MODEL)")
    return name.base, str(name.args[0])
