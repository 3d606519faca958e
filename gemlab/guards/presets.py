"""Guards by name. The figures are of 2,070 successful runs and 27 that hit a cap of 20 steps, replayed.

That a rule fires on a successful run is no harm by itself where it only nudges: `default` and `nudge_text` give
way before they end anything, `article` too; the others are the bare rules of known systems and stop at once.
"""

from __future__ import annotations

from .ladder import STOP, Guard, Ladder
from .rules import Cycle, EmptyAnswer, RepeatedCall, RepeatedError, ResultStall, TurnBudget

# The article's rules and those of known systems hear nothing of what tools declare.
DEAF = frozenset({"article", "args_4", "args_5", "consecutive_3", "period_5", "pairs_4_in_20"})
_TEXT = Ladder(place="user_text")
PRESETS: dict[str, tuple[Guard, ...]] = {
    "off": (),
    "budget": (TurnBudget(20),),
    # The article's three rules; its nudge is a text of the user. Fires on 224 successful runs (10.8%), 27 of 27.
    "article": (TurnBudget(10), RepeatedCall(3, _TEXT, by="args"), ResultStall(3, _TEXT)),
    # With the result 30 (1.4%) and 26 of 27; the stall by rounds 3. A cap of 50 rounds loses 1.6% of the
    # successes of 39 models, one of 30 loses 12%.
    "default": (TurnBudget(50), RepeatedCall(3), ResultStall(3), RepeatedError(4), EmptyAnswer(2)),
    "nudge_text": (
        TurnBudget(50), RepeatedCall(3, _TEXT), ResultStall(3, _TEXT), RepeatedError(4, _TEXT), EmptyAnswer(2),
    ),
    # Rules of known systems, for comparison: successful runs stopped, capped runs caught.
    "args_4": (RepeatedCall(4, STOP, by="args"),),  # 39 (1.9%), 26
    "args_5": (RepeatedCall(5, STOP, by="args"),),  # 13 (0.6%), 23
    "consecutive_3": (RepeatedCall(3, STOP, by="args", scope="consecutive"),),  # 23 (1.1%), 13
    "period_5": (Cycle(5, STOP, max_period=5, by="args"),),  # 5 (0.2%), 5
    "pairs_4_in_20": (RepeatedCall(4, STOP, window=10),),  # 20 events are 10 call and result pairs: 10 (0.5%), 10
    "cap_10": (TurnBudget(10, STOP),),  # 18 (0.9%)
    "cap_15": (TurnBudget(15, STOP),),  # 3 (0.1%)
    "cap_20": (TurnBudget(20, STOP),),
}  # fmt: skip
