"""Guards by name. The figures are of 2,070 successful runs and 27 that hit a cap of 20 steps, replayed.

That a rule fires on a successful run is no harm by itself where it only nudges: `default` and `nudge_text` give
way before they end anything, `article` too; the others are the bare rules of known systems and stop at once. The
article's rules and those of known systems hear nothing of what tools declare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, TypeAlias

from annotated_types import Ge

from ..registry import BadInput, Kind, bind
from .ladder import STOP, Guard, Ladder
from .policy import Guards
from .rules import Cycle, EmptyAnswer, RepeatedCall, RepeatedError, ResultStall, TurnBudget

AtLeast1: TypeAlias = Annotated[int, Ge(1)]

GUARDS: Kind[Callable[..., Guards | Guard | Iterable[Guard]]] = Kind("guard", "gemlab.guards")


def get(text: str) -> Guards:
    """Return a guard by its text, such as `default` or `cap(10)`; raises BadInput for any other."""
    part, name = GUARDS.find(text)
    return together(part(**bind(part, name)) if callable(part) else part)


def together(guard: Guards | Guard | Iterable[Guard]) -> Guards:
    """Return one or several guards as one policy; raises BadInput for what is no guard."""
    if isinstance(guard, Guards):
        return guard
    members = tuple(guard) if isinstance(guard, Iterable) else (guard,)
    for member in members:
        if not (callable(getattr(member, "before", None)) and callable(getattr(member, "after", None))):
            raise BadInput(f"a guard has the methods before and after: {member!r} has not")
    return Guards(members)


# --- ours -----------------------------------------------------------------------------------------------------

_TEXT = Ladder(place="user_text")


@GUARDS.register
def off() -> Guards:
    """No guard: a turn ends with its answer, or after 200 rounds."""
    return Guards(())


@GUARDS.register
def budget() -> Guards:
    """A budget of 20 rounds a turn, then one forced answer."""
    return Guards((TurnBudget(20),))


@GUARDS.register
def article() -> Guards:
    """The article's three rules; its nudge is a text of the user. Fires on 224 successful runs (10.8%), 27 of 27."""
    return Guards((TurnBudget(10), RepeatedCall(3, _TEXT, by="args"), ResultStall(3, _TEXT)), declared=False)


@GUARDS.register
def default() -> Guards:
    """Repeated call and result, stalled results, repeated errors, empty answers, 50 rounds; nudges first.

    With the result 30 successful runs (1.4%) and 26 of 27; the stall by rounds 3. A cap of 50 rounds loses 1.6% of
    the successes of 39 models, one of 30 loses 12%.
    """
    return Guards((TurnBudget(50), RepeatedCall(3), ResultStall(3), RepeatedError(4), EmptyAnswer(2)))


@GUARDS.register
def nudge_text() -> Guards:
    """As `default`, with its nudges as texts of the user."""
    watches = RepeatedCall(3, _TEXT), ResultStall(3, _TEXT), RepeatedError(4, _TEXT)
    return Guards((TurnBudget(50), *watches, EmptyAnswer(2)))


# --- rules of known systems, for comparison: successful runs stopped, capped runs caught -----------------------


@GUARDS.register
def args_4() -> Guards:
    """Stop at the fourth call with the same arguments: 39 (1.9%) stopped, 26 caught."""
    return Guards((RepeatedCall(4, STOP, by="args"),), declared=False)


@GUARDS.register
def args_5() -> Guards:
    """Stop at the fifth call with the same arguments: 13 (0.6%) stopped, 23 caught."""
    return Guards((RepeatedCall(5, STOP, by="args"),), declared=False)


@GUARDS.register
def consecutive_3() -> Guards:
    """Stop at the third identical call in a row: 23 (1.1%) stopped, 13 caught."""
    return Guards((RepeatedCall(3, STOP, by="args", scope="consecutive"),), declared=False)


@GUARDS.register
def period_5() -> Guards:
    """Stop at the fifth round of a cycle of up to five calls: 5 (0.2%) stopped, 5 caught."""
    return Guards((Cycle(5, STOP, max_period=5, by="args"),), declared=False)


@GUARDS.register
def pairs_4_in_20() -> Guards:
    """Stop at the fourth equal call and result within 20 events, which are 10 pairs: 10 (0.5%) stopped, 10 caught."""
    return Guards((RepeatedCall(4, STOP, window=10),), declared=False)


@GUARDS.register
def cap(rounds: AtLeast1) -> Guards:
    """Stop after so many rounds: at 10 rounds 18 (0.9%) successful runs are stopped, at 15 three (0.1%)."""
    return Guards((TurnBudget(rounds, STOP),))


@GUARDS.register
def cap_10() -> Guards:
    """As `cap(10)`."""
    return cap(10)


@GUARDS.register
def cap_15() -> Guards:
    """As `cap(15)`."""
    return cap(15)


@GUARDS.register
def cap_20() -> Guards:
    """As `cap(20)`."""
    return cap(20)


# Those that take no argument, in order.
PRESETS = (
    "off", "budget", "article", "default", "nudge_text", "args_4", "args_5", "consecutive_3", "period_5",
    "pairs_4_in_20", "cap_10", "cap_15", "cap_20",
)  # fmt: skip
