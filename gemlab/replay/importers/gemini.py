"""Gemini contents, one conversation a line, and gemlab's own traces, which hold them with what was sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ... import guards, tasks
from ...guards.fingerprints import Identity
from ...guards.rounds import Round
from ...runs import trace
from ...wire import answers
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
    turns = _turns(body["contents"], _declared(body), {}, set())
    source, model = str(body.get("source") or "contents"), str(body.get("model") or "unknown")
    return Run(str(body.get("id") or name), source, model, outcome(body), body.get("end"), turns)


# --- own traces ---------------------------------------------------------------------------------------------

_OUTCOMES = {"completed": True, "wrong": False, "unfinished": False, "refused": None, "failed": None}


def is_trace(record: Any) -> bool:
    """Tell whether a record is one of gemlab's own traces."""
    return isinstance(record, dict) and {"trial", "received", "steps", "contents"} <= set(record)


def trace_run(record: dict[str, Any]) -> Run:
    """Return the run of a trace; the API's refusals and failures of infrastructure say nothing of the run."""
    if record.get("version") != trace.VERSION:
        raise Broken(f"trace of version {record.get('version')}, not {trace.VERSION}")
    if record.get("outcome") not in _OUTCOMES:
        raise Broken(f"unknown outcome {record.get('outcome')!r}")
    known = tasks.get(record["task"]).identities if record["task"] in tasks.names() else {}
    nudges = {_said(step) for step in record["steps"]} - {""}
    turns = _turns(trace.received(record), _declared(record["config"]), known, nudges)
    turns = _with_usage(turns, record["steps"])
    source = f"{record['task']} {record['arm']['name']}"
    return Run(record["trial"], source, record["model"], _OUTCOMES[record["outcome"]], record["reason"], turns)


def _said(step: Mapping[str, Any]) -> str:
    """Return the user text with which guards nudged after a step: it opens no turn of the user's."""
    texts = [v["text"] for v in step["verdicts"] if v["kind"] == "nudge" and v.get("place") == "user_text"]
    return " ".join(texts)


def _with_usage(turns: tuple[tuple[Round, ...], ...], steps: Sequence[dict[str, Any]]) -> tuple[tuple[Round, ...], ...]:
    """Give each round the tokens of its request, and put the empty answers between them in their places."""
    left = iter(_steps(steps))

    def filled(turn: tuple[Round, ...]) -> Iterator[Round]:
        for one in turn:
            for calls, empty, tokens in left:
                if empty:
                    yield Round((), empty=empty, **tokens)
                elif calls == one.calls:
                    yield replace(one, **tokens)
                    break

    *earlier, newest = [tuple(filled(turn)) for turn in turns] or [()]
    # An empty answer that ended the run has no round after it.
    newest += tuple(Round((), empty=empty, **tokens) for _, empty, tokens in left if empty)
    return tuple(turn for turn in (*earlier, newest) if turn)


def _steps(steps: Sequence[dict[str, Any]]) -> Iterator[tuple[tuple, str, dict[str, int]]]:
    for step in steps:
        if step["response"] is None:
            continue
        answer = answers.of(step["response"])
        calls = tuple(_call(c) for c in wire.calls(answer.content)) if answer.content else ()
        empty = "" if calls else _emptiness(answer.content)
        usage = answer.usage
        output = usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0)
        yield calls, empty, {"prompt_tokens": usage.get("promptTokenCount", 0), "output_tokens": output}


# --- contents to turns --------------------------------------------------------------------------------------


def _turns(
    contents: Sequence[Any], declared: set[str] | None, identities: Mapping[str, Identity], nudges: set[str]
) -> tuple[tuple[Round, ...], ...]:
    """Return the turns that hold at least one round; an answer with text and no calls is no round."""
    found: list[list[Round]] = [[]]
    for group in wire.groups([need(c, dict, "content") for c in contents]):
        first = group.contents[0]
        if group.is_step:
            made = _step(group, declared, identities)
            found[-1] += [] if made is None else [made]
        elif wire.opens_turn(first) and wire.answer_text(first) not in nudges:
            found.append([])
    return tuple(tuple(turn) for turn in found if turn)


def _step(group: wire.Group, declared: set[str] | None, identities: Mapping[str, Identity]) -> Round | None:
    pairs = wire.answered_calls(group)
    if not pairs:
        empty = "".join(_emptiness(c) for c in group.contents if wire.is_model(c))
        return Round((), empty=empty) if empty else None
    calls = tuple(_call(call) for call, _ in pairs)
    results = tuple(_result(response) for _, response in pairs)
    unknown = () if declared is None else tuple(i for i, (name, _) in enumerate(calls) if name not in declared)
    return Round(calls, results, unknown=unknown, identities=identities)


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
