"""Gemini contents, one conversation a line, and gemlab's own traces, which hold them with what was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ... import guards
from ...agent import step
from ...agent.trial import INTERRUPTED
from ...guards.rounds import Round, blocked
from ...runs import trace
from ...wire import contents as wire
from .base import Broken, Run, need
from .chat import outcome


def is_contents(record: Any) -> bool:
    """Tell whether a record is a conversation by itself, or a request body that holds one under `contents`."""
    contents = record.get("contents") if isinstance(record, dict) else record
    return isinstance(contents, list) and bool(contents) and all(isinstance(c, dict) and "parts" in c for c in contents)


def contents_run(record: Any, name: str) -> Run:
    """Return the run of a conversation; a body's `tools` say what is declared, `success` or `reward` its outcome."""
    body = wire.normalise({"contents": record} if isinstance(record, list) else record)
    turns = _turns(body["contents"], _declared(body))
    source, model = str(body.get("source") or "contents"), str(body.get("model") or "unknown")
    return Run(str(body.get("id") or name), source, model, outcome(body), body.get("end"), turns)


# --- own traces ---------------------------------------------------------------------------------------------

_OUTCOMES = {"completed": True, "wrong": False, "unfinished": False, "refused": None, "failed": None}


def is_trace(record: Any) -> bool:
    """Tell whether a record is one of gemlab's own traces."""
    return isinstance(record, dict) and {"trial", "arm", "steps", "contents"} <= set(record)


def trace_run(record: dict[str, Any]) -> Run:
    """Return the run of a trace; refusals, failures and answers that were ended from outside say nothing of the run."""
    try:
        own = trace.load(record)
    except trace.TraceError as error:
        raise Broken(str(error)) from None
    if own.outcome not in _OUTCOMES:
        raise Broken(f"unknown outcome {own.outcome!r}")
    turns = [step.rounds(turn, own.tools.identities) for turn in step.turns(own.steps)]
    unheard = tuple(tuple(_unheard(now) for now in turn) for turn in turns if turn)
    success = None if own.reason in INTERRUPTED else _OUTCOMES[own.outcome]
    return Run(own.trial, f"{own.task} {own.arm.name}", own.model, success, own.reason, unheard)


def _unheard(now: Round) -> Round:
    """Return a round as it would be if no guard had spoken in it: a call that one blocked has no result."""
    stopped = blocked(now.verdicts)
    results = tuple(None if i in stopped else wire.without_notice(body) for i, body in enumerate(now.results))
    return replace(now, results=results, verdicts=())


# --- contents to turns --------------------------------------------------------------------------------------


def _turns(contents: Sequence[Any], declared: set[str] | None) -> tuple[tuple[Round, ...], ...]:
    """Return the turns that hold at least one round; an answer with text and no calls is no round."""
    found: list[list[Round]] = [[]]
    for group in wire.groups([need(c, dict, "content") for c in contents]):
        first = group.contents[0]
        if group.is_step:
            made = _step(group, declared)
            found[-1] += [] if made is None else [made]
        elif wire.opens_turn(first):
            found.append([])
    return tuple(tuple(turn) for turn in found if turn)


def _step(group: wire.Group, declared: set[str] | None) -> Round | None:
    pairs = wire.answered_calls(group)
    if not pairs:
        empty = "".join(_emptiness(c) for c in group.contents if wire.is_model(c))
        return Round((), empty=empty) if empty else None
    calls = tuple(_call(call) for call, _ in pairs)
    results = tuple(_result(response) for _, response in pairs)
    unknown = () if declared is None else tuple(i for i, (name, _) in enumerate(calls) if name not in declared)
    return Round(calls, results, unknown=unknown)


def _call(call: dict[str, Any]) -> tuple[str, Any]:
    return str(call.get("name")), call.get("args") or {}


def _result(response: dict[str, Any] | None) -> Any:
    """Return what the tool gave: None where nothing did, a guard's block included."""
    body = wire.without_notice((response or {}).get("response"))
    return None if body == guards.BLOCKED else body


def _emptiness(content: dict[str, Any] | None) -> str:
    if content is None or not wire.parts(content):
        return "no parts"
    return "" if wire.answer_text(content).strip() else "thoughts only"


def _declared(body: Mapping[str, Any]) -> set[str] | None:
    """Return the names of the declared functions, None where the record does not hold them."""
    tools = body.get("tools")
    if not isinstance(tools, list):
        return None
    return {str(d.get("name")) for tool in tools for d in tool.get("functionDeclarations") or []}
