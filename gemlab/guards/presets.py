"""Guards by name. The figures are of 2,070 successful runs and 27 that hit a cap of 20 steps, replayed, if not said.

That a rule fires on a successful run is no harm by itself where it only nudges: `default` and `nudge_text` give
way before they end anything, `article_text` too; the others are the bare rules of known systems and stop at once. The
article's rules and those of known systems hear nothing of what tools declare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Annotated, TypeAlias

from annotated_types import Ge

from ..registry import BadInput, Kind, bind
from .ladder import STOP, Guard, Ladder
from .policy import Guards
from .rules import (
    Cycle,
    EmptyAnswer,
    FailuresInARow,
    RepeatedCall,
    RepeatedError,
    ResultStall,
    TurnBudget,
    UnknownTool,
)

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
_UNANSWERED = Ladder(place="unanswered")


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
    """The article's rules, 8 rounds, and its nudge: a text in place of the call's response, which the API refuses.

    Fires on 224 successful runs (10.8%) and on 27 of 27.
    """
    return _article(_UNANSWERED)


def _article(ladder: Ladder) -> Guards:
    return Guards(
        (TurnBudget(8), RepeatedCall(3, ladder, by="args"), ResultStall(3, ladder, brief=True)), declared=False
    )


@GUARDS.register
def default() -> Guards:
    """Repeated calls and results, failures in a row, unknown tools, empty answers, 50 rounds; nudges before it ends.

    Of 6,618 successful recorded runs it nudges 61 (0.9%), and would end 16 (0.2%) if they went on as they did; of 9,325
    that hit a cap of steps 6,497 (70%) and 5,875 (63%): `replay.thresholds.verdicts(runs)`, by data set in its test.
    A cap of 50 rounds loses 1.6% of the successes of 39 models, one of 30 loses 12%.
    """
    return _default(Ladder())


@GUARDS.register
def nudge_text() -> Guards:
    """As `default`, with its nudges as texts of the user."""
    return _default(_TEXT)


@GUARDS.register
def article_text() -> Guards:
    """As `article`, with its nudge after the response, which the API takes: what its rules do by themselves."""
    return _article(_TEXT)


def _default(ladder: Ladder) -> Guards:
    failures = FailuresInARow(5, replace(ladder, patience=3))
    stuck = RepeatedCall(3, ladder), ResultStall(3, ladder)
    failing = RepeatedError(4, ladder), failures, UnknownTool(3, ladder)
    return Guards((TurnBudget(50), *stuck, *failing, EmptyAnswer(2)))


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
    "off", "budget", "article", "default", "nudge_text", "article_text", "args_4", "args_5", "consecutive_3",
    "period_5", "pairs_4_in_20", "cap_10", "cap_15", "cap_20",
)  # fmt: skip
