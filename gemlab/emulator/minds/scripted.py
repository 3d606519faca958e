"""The scripted model: an assumption with named parameters, not a measurement.

It follows a plan. What it knows is what the request holds: for a step whose thought came back it knows what
it decided; for a step whose thought is lost it sees only call and response, and may doubt it (repeat the
step) or lose the thread (answer too early). Everything it decides goes into its next thought and nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...wire import contents as wire
from . import notices
from .view import Mind, Reply, SeenStep, View


@dataclass(frozen=True)
class Parameters:
    """What the scripted model is assumed to do; each is a probability per request with at least one step.

    `repeat`: repeat the newest step although its thought is known. `quit`: answer too early although the
    thread is known. `doubt`: repeat one of the steps whose thought is lost, added to `repeat` while any is.
    `lose_thread`: answer too early because thoughts are lost, added to `quit` in the same way. `loop`: proneness
    to loops: once the newest two steps were the same calls with the same results, make them again. `heed`: share
    of repeats, and of further tries at a step that is not done, that a guard's notice prevents; a notice stands
    in the newest response or is a user text right after it. Defaults: experiments/calibrate.py; nothing loops.
    """

    repeat: float = 0.0660
    quit: float = 0.0322
    doubt: float = 0.2364
    lose_thread: float = 0.0770
    heed: float = 0.8
    loop: float = 0.0


class FollowableStep(Protocol):
    """A step of a plan: its tool, the reason, the arguments of its calls, and whether its results end it.

    Functions take what is known (_Known), and raise one of _UNUSABLE where that will not do. `until` is None where any
    good result ends the step.
    """

    @property
    def tool(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def args(self) -> Callable[[Any], list[dict[str, Any]]]: ...
    @property
    def until(self) -> Callable[[Any], bool] | None: ...


class FollowablePlan(Protocol):
    """What a plan has to tell to be followed.

    `goal(turns)`: how many of the steps the user's texts ask for by now, and the answer's words. `place`: the step that
    a call's name and arguments alone tell; None where they never do.
    """

    @property
    def steps(self) -> Sequence[FollowableStep]: ...
    @property
    def tools(self) -> frozenset[str]: ...
    @property
    def goal(self) -> Callable[[Sequence[str]], tuple[int, Callable[[Any], str]]]: ...
    @property
    def place(self) -> Callable[[str, Mapping[str, Any]], int | None] | None: ...


@dataclass(frozen=True)
class _Known:
    """What the request tells: the user's first text, and the results by plan step."""

    text: str
    results: Mapping[int, Sequence[dict[str, Any]]]


@dataclass
class _Belief:
    """What the model makes of the history: results by plan step, steps done, steps whose thought is lost."""

    results: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    lost: list[int] = field(default_factory=list)
    newest: int | None = None


class ScriptedModel:
    """Answers a View by the plan whose tools the request declares; where there is none, hands it to another."""

    def __init__(
        self, plans: Sequence[FollowablePlan], parameters: Parameters | None = None, otherwise: Mind | None = None
    ):
        self.plans, self.otherwise = list(plans), otherwise
        self.parameters = parameters or Parameters()

    def respond(self, view: View) -> Reply | Awaitable[Reply]:
        declared = {d.get("name") for d in view.declared}
        plan = next((p for p in self.plans if p.tools <= declared), None)
        if plan is None and self.otherwise is not None:
            return self.otherwise.respond(view)
        if plan is None:
            return Reply(thought="None of these tools is known.", text="I have no plan for these tools.")
        belief = _understand(view, plan)
        end, answer = plan.goal(notices.questions(view))
        missing = [i for i in range(end) if i not in belief.done]
        facts = _Known(view.turns[0] if view.turns else "", belief.results)
        if view.mode == "NONE" and view.turns and re.search(r"\bsummari[sz]e\b", view.turns[-1], re.IGNORECASE):
            return _notes(plan, belief)
        if view.mode == "NONE":
            return _finish(plan, belief, None if missing else answer, facts)[0]
        choice = self._slip(view, belief)
        if choice == _EARLY and missing:
            return _finish(plan, belief, None, facts)[0]
        if choice is not None and choice != _EARLY:
            return _call(plan, belief, choice, facts)
        if missing:
            return _call(plan, belief, missing[0], facts)
        reply, gone = _finish(plan, belief, answer, facts)
        return reply if gone is None else _call(plan, belief, gone, facts)

    def _slip(self, view: View, belief: _Belief) -> int | None:
        """Return the plan step to repeat, _EARLY to answer now, or None to go on as planned."""
        if belief.newest is None:
            return None
        p, lost = self.parameters, bool(belief.lost)
        repeat = p.repeat + p.doubt * lost
        loops = p.loop > repeat and notices.same_again(view)
        repeat = p.loop if loops else repeat
        if notices.is_noticed(view):
            repeat *= 1 - p.heed
            if belief.newest not in belief.done and view.rng("heed").random() < p.heed:
                return _EARLY
        leave = p.quit + p.lose_thread * lost
        rng = view.rng("slip")
        draw = rng.random()
        if draw < repeat:
            return rng.choice(sorted(set(belief.lost))) if belief.lost and not loops else belief.newest
        return _EARLY if draw < repeat + leave else None


_EARLY = -1
# What a plan's functions raise on results that are gone, or that are not what the tool would give.
_UNUSABLE = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)


def _finish(
    plan: FollowablePlan, belief: _Belief, answer: Callable[[Any], str] | None, facts: _Known
) -> tuple[Reply, int | None]:
    """Return the answer, and the plan step whose result it needs but the request no longer holds (or None)."""
    thought = _thought(plan, belief.done, None, "everything asked for is there.")
    early = Reply(thought=thought, text="I have looked into it and that is all there is to report.")
    if answer is None:
        return early, None
    try:
        return Reply(thought=thought, text=answer(facts)), None
    except _UNUSABLE as error:
        return early, _needed(error, len(plan.steps))


_NOTES = "Notes: "


def _notes(plan: FollowablePlan, belief: _Belief) -> Reply:
    """Return a summary of the work in words that this model reads back: it forgets no result."""
    text = _NOTES + json.dumps({str(i): belief.results[i] for i in sorted(belief.results)})
    return Reply(thought=_thought(plan, belief.done, None, "a summary was asked for."), text=text)


def _recall(view: View, belief: _Belief) -> None:
    """Read notes that stand in the user's texts: what they tell is done, and known without its thought."""
    for text in view.turns:
        start = text.find(_NOTES + "{")
        if start < 0:
            continue
        try:
            found, _ = json.JSONDecoder().raw_decode(text[start + len(_NOTES) :])
        except ValueError:
            continue
        for key, results in found.items():
            if key.isdigit() and isinstance(results, list):
                belief.results[int(key)] = results
                belief.done.add(int(key))


def _needed(error: Exception, doing: int) -> int:
    """Return the plan step that yields what was missing: the one a KeyError names, else the one before."""
    named = error.args[0] if isinstance(error, KeyError) and error.args else None
    return named if isinstance(named, int) and named < doing else doing - 1


def _call(plan: FollowablePlan, belief: _Belief, doing: int, facts: _Known) -> Reply:
    """Call the step's tool; where its arguments need results that are gone, the step that yields them."""
    while doing >= 0:
        step = plan.steps[doing]
        try:
            args = step.args(facts)
        except _UNUSABLE as error:
            doing = _needed(error, doing)
            continue
        thought = _thought(plan, belief.done, doing, step.why)
        return Reply(thought=thought, calls=tuple((step.tool, a) for a in args))
    return Reply(thought="The question is not there.", text="I cannot find what to work on.")


def _thought(plan: FollowablePlan, done: set[int], doing: int | None, why: str) -> str:
    tools = [step.tool for step in plan.steps]
    at = "all steps done" if doing is None else f"now {tools[doing]}, step {doing + 1} of {len(tools)}"
    so_far = ", ".join(tools[i] for i in sorted(done)) or "nothing"
    note = f"Done so far: {so_far}. Decision: {at}, because {why} No step that is done needs another look."
    return json.dumps({"done": sorted(done), "doing": doing, "note": note})


def note(thought: str) -> str:
    """Return the prose of a thought, for thought summaries."""
    decided = _decided(thought)
    return decided.get("note", thought) if decided else thought


def _decided(thought: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(thought) if thought else None
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("done"), list) else None


def _of_plan(decided: dict[str, Any] | None, steps: int) -> dict[str, Any] | None:
    """Return the decision if it is one about a plan of so many steps; a thought about another says nothing."""
    if decided is None:
        return None
    named = [*decided["done"], *([] if decided.get("doing") is None else [decided["doing"]])]
    return decided if all(isinstance(n, int) and 0 <= n < steps for n in named) else None


# --- understanding the history ------------------------------------------------------------------------------


def _understand(view: View, plan: FollowablePlan) -> _Belief:
    """Read the steps in order; a restored thought settles everything up to it, whatever it says."""
    belief = _Belief()
    _recall(view, belief)
    current = len(view.turns)
    for step in view.steps:
        decided = _of_plan(_decided(step.thought), len(plan.steps))
        at = _locate(view, plan, belief, step)
        enough = False
        if at is not None and step.calls and all(_good(c.response) for c in step.calls):
            belief.results[at] = [c.response for c in step.calls]
            belief.lost.append(at)
            enough = _is_enough(view, plan, belief, at)
            if enough:
                belief.done |= {at} if _placed(plan, step) is None else set(range(at + 1))
        if at is not None:
            belief.newest = at
        if decided is not None:
            belief.done = set(decided["done"]) | ({decided["doing"]} if decided.get("doing") is not None else set())
            if at is not None and not enough and at not in decided["done"]:
                belief.done.discard(at)
            belief.lost = []
            belief.newest = decided["doing"] if decided.get("doing") is not None else belief.newest
        elif not step.calls and view.readable == "turn" and step.turn < current:
            # This family reads no thoughts of earlier turns: their final text settles them.
            belief.lost = []
    return belief


def _locate(view: View, plan: FollowablePlan, belief: _Belief, step: SeenStep) -> int | None:
    """Return which plan step the calls are: by tool and arguments, else the tool's first step not done."""
    if not step.calls:
        return None
    placed = _placed(plan, step)
    if placed is not None:
        return placed
    seen = sorted(wire.canonical(c.args) for c in step.calls)
    facts = _Known(view.turns[0] if view.turns else "", belief.results)
    candidates = [i for i, s in enumerate(plan.steps) if s.tool == step.calls[0].name]
    for i in candidates if len(candidates) > 1 else ():
        try:
            if sorted(wire.canonical(a) for a in plan.steps[i].args(facts)) == seen:
                return i
        except _UNUSABLE:
            continue
    return next((i for i in candidates if i not in belief.done), candidates[-1] if candidates else None)


def _placed(plan: FollowablePlan, step: SeenStep) -> int | None:
    """Return the plan step that a call names by itself, however little of the history is left; else None."""
    return None if plan.place is None else plan.place(step.calls[0].name, step.calls[0].args)


def _good(response: Any) -> bool:
    return isinstance(response, dict) and not wire.is_error(response)


def _is_enough(view: View, plan: FollowablePlan, belief: _Belief, at: int) -> bool:
    """Tell whether the newest results end the plan's step: a job that still runs has to be asked for again."""
    until = plan.steps[at].until
    try:
        return until is None or until(_Known(view.turns[0] if view.turns else "", belief.results))
    except _UNUSABLE:
        return False
