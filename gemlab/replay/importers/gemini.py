"""Gemini contents, one conversation a line, and gemlab's own traces, which hold them with what was sent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
    found = turns(body["contents"], declared(body))
    source, model = str(body.get("source") or "contents"), str(body.get("model") or "unknown")
    return Run(str(body.get("id") or name), source, model, outcome(body), body.get("end"), found)


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
    heard = [step.rounds(turn, own.tools.identities) for turn in step.turns(own.steps)]
    unheard = tuple(tuple(_unheard(now) for now in turn) for turn in heard if turn)
    success = None if own.reason in INTERRUPTED else _OUTCOMES[own.outcome]
    return Run(own.trial, f"{own.task} {own.arm.name}", own.model, success, own.reason, unheard)


def _unheard(now: Round) -> Round:
    """Return a round as it would be if no guard had spoken in it: a call that one blocked has no result."""
    stopped = blocked(now.verdicts)
    results = tuple(None if i in stopped else wire.without_notice(body) for i, body in enumerate(now.results))
    return replace(now, results=results, verdicts=())


# --- contents to turns --------------------------------------------------------------------------------------


def turns(contents: Sequence[Any], declared: set[str] | None) -> tuple[tuple[Round, ...], ...]:
    """Return the turns that hold at least one round; an answer with text and no calls is no round, it answers the turn.

    A user's text opens a turn once the one before it was answered: a nudge is part of its turn.
    """
    found: list[list[_Answer | Round]] = [[]]
    waiting: dict[str, list[_Call]] = {}
    answered = True
    for group in wire.groups([_content(c) for c in contents]):
        if group.is_step:
            calls = [_Call(c, r) for c, r in wire.answered_calls(group)]
            waiting |= _by_id(calls)
            _settle(waiting, group)
            empty = "" if calls else "".join(_emptiness(c) for c in group.contents if wire.is_model(c))
            found[-1] += [calls] if calls else [Round((), empty=empty)] if empty else []
            answered = answered if not any(map(wire.is_model, group.contents)) else not (calls or empty)
        elif wire.opens_turn(group.contents[0]):
            found += [[]] if answered else []
            answered = False
    return tuple(tuple(_round(r, declared) for r in turn) for turn in found if turn)


@dataclass
class _Call:
    """A call, and the newest response to it."""

    call: dict[str, Any]
    response: dict[str, Any] | None


_Answer = list[_Call]


def _content(content: Any) -> wire.Content:
    role = need(content, dict, "content").get("role")
    if role and role not in ("user", "model", "function", "tool"):
        raise Broken(f"unknown role {role!r}")
    return content


def _by_id(calls: Sequence[_Call]) -> dict[str, list[_Call]]:
    """Return a step's calls by their ids: some sources use an id again, the newest calls are meant then."""
    found: dict[str, list[_Call]] = {}
    for made in calls:
        if made.call.get("id"):
            found.setdefault(str(made.call["id"]), []).append(made)
    return found


def _settle(waiting: Mapping[str, list[_Call]], group: wire.Group) -> None:
    """Let the last response under an id count: those before it said that the call is pending."""
    for response in (r for content in group.contents for r in wire.responses(content)):
        calls = waiting.get(str(response.get("id") or ""), [])
        if len(calls) == 1:
            calls[0].response = response


def _round(made: _Answer | Round, declared: set[str] | None) -> Round:
    if isinstance(made, Round):
        return made
    calls = tuple(_named(m.call) for m in made)
    results = tuple(_result(m.response) for m in made)
    unknown = () if declared is None else tuple(i for i, (name, _) in enumerate(calls) if name not in declared)
    return Round(calls, results, unknown=unknown)


def _named(call: dict[str, Any]) -> tuple[str, Any]:
    return str(call.get("name")), call.get("args") or {}


def _result(response: dict[str, Any] | None) -> Any:
    """Return what the tool gave: None where nothing did, a guard's block included; media by a hash of their bytes."""
    body = wire.without_notice((response or {}).get("response"))
    media = [media_print(part) for part in (response or {}).get("parts") or []]
    if media:
        return {**(body if isinstance(body, dict) else {"result": body}), MEDIA: media}
    return None if body == guards.BLOCKED else body


# The key under which a result's images and files stand, beside what the tool says of them.
MEDIA = "functionResponse.parts"


def media_print(part: Any) -> str:
    """Return a short text that is equal for parts that hold equal data: images can be very long."""
    held = part.get("inlineData") if isinstance(part, dict) else None
    if not isinstance(held, dict) or not isinstance(data := held.get("data"), str):
        return wire.canonical(part)
    try:
        raw = wire.decode_signature(data) or b""
    except wire.NotBase64:
        raw = data.encode()
    return f"{held.get('mimeType')} {hashlib.sha256(raw).hexdigest()}"


def _emptiness(content: dict[str, Any] | None) -> str:
    if content is None or not wire.parts(content):
        return "no parts"
    return "" if wire.answer_text(content).strip() else "thoughts only"


def declared(body: Mapping[str, Any]) -> set[str] | None:
    """Return the names of the declared functions, None where the record does not hold them."""
    tools = body.get("tools")
    if not isinstance(tools, list):
        return None
    return {str(d.get("name")) for tool in tools for d in tool.get("functionDeclarations") or []}
