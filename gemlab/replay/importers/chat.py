"""Chat messages with tool calls: OpenAI's form, and the result files of tau-bench and tau2-bench built on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...guards.rounds import Round
from ...wire import contents as wire
from .base import Broken, Run, need
from .normalised import arguments, value

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def is_conversation(record: Any) -> bool:
    """Tell whether a record is a list of chat messages."""
    return (
        isinstance(record, list)
        and bool(record)
        and all(isinstance(m, dict) and m.get("role") in _ROLES and "parts" not in m for m in record)
    )


def is_mine(record: Any) -> bool:
    """Tell whether a record is a conversation by itself or under `messages`, or a result of either benchmark."""
    if isinstance(record, dict):
        return any(isinstance(record.get(key), list) for key in ("messages", "traj", "simulations"))
    return is_conversation(record)


def runs(record: Any, name: str) -> Iterator[Run]:
    """Yield the record's runs; `name` is where it stands. Raises Broken."""
    if isinstance(record, list):
        yield Run(name, "chat", "unknown", None, None, turns(record))
    elif "simulations" in record:
        yield from _tau2(record)
    elif "traj" in record:
        yield _tau(record)
    else:
        source, model = str(record.get("source") or "chat"), str(record.get("model") or "unknown")
        end = record.get("end")
        yield Run(str(record.get("id") or name), source, model, outcome(record), end, turns(record["messages"]))


def outcome(record: dict[str, Any]) -> bool | None:
    """Return whether a run succeeded: its `success`, or a `reward` of 1; None where it has neither."""
    if record.get("success") is not None:
        return need(record["success"], bool, "success")
    reward = record.get("reward")
    return None if reward is None else need(reward, (int, float), "reward") >= 1


def _tau(record: dict[str, Any]) -> Run:
    ident = f"{record.get('task_id')}/{record.get('trial', 0)}"
    return Run(ident, "tau-bench", "unknown", outcome(record), None, turns(record["traj"], tau=True))


def _tau2(record: dict[str, Any]) -> Iterator[Run]:
    info = record.get("info") or {}
    domain = (info.get("environment_info") or {}).get("domain_name") or "unknown"
    model = str((info.get("agent_info") or {}).get("llm") or "unknown")
    for one in need(record["simulations"] or None, list, "simulations"):
        ident = f"{one.get('task_id')}/{one.get('trial', 0)}"
        success = outcome(one.get("reward_info") or {})
        yield Run(
            ident,
            f"tau2-bench {domain}",
            model,
            success,
            one.get("termination_reason"),
            turns(one["messages"], tau=True),
        )


# --- messages to turns --------------------------------------------------------------------------------------


def turns(messages: Sequence[Any], tau: bool = False) -> tuple[tuple[Round, ...], ...]:
    """Return the turns that hold at least one round; a text of the assistant is no round, it answers the turn.

    A user's text opens a turn once the one before it was answered: a nudge is part of its turn. A simulated user may
    call tools too; those calls are none of the agent's. `tau`: errors begin as both benchmarks let them begin.
    """
    found: list[list[_Answer]] = [[]]
    asked: dict[str, list[_Call]] = {}
    answered = True
    for message in need(messages, list, "messages"):
        role = need(message, dict, "message").get("role")
        if role not in _ROLES:
            raise Broken(f"unknown role {role!r}")
        calls = message.get("tool_calls")
        if role == "user" and not calls:
            found += [[]] if answered else []
            answered = False
        elif role == "assistant" and (calls or not message.get("content")):
            found[-1].append([_call(call) for call in need(calls or [], list, "tool_calls")])
            asked |= _by_id(found[-1][-1])
            answered = False
        elif role == "assistant":
            answered = True
        elif role == "tool" and message.get("requestor") != "user":
            _answer(asked.get(str(message.get("tool_call_id", message.get("id"))), ()), message)
    return tuple(tuple(_round(calls, tau) for calls in turn) for turn in found if turn)


@dataclass
class _Call:
    """A call, and the newest tool message on it: a later one under the same id takes the place of a "pending"."""

    ident: str
    name: str
    args: Any
    answer: dict[str, Any] = field(default_factory=dict)


_Answer = list[_Call]


def _call(call: Any) -> _Call:
    function = need(need(call, dict, "tool call").get("function", call), dict, "function")
    name = need(function.get("name"), str, "name of a call")
    return _Call(str(call.get("id")), name, arguments(function.get("arguments")))


def _by_id(calls: Sequence[_Call]) -> dict[str, list[_Call]]:
    """Return an answer's calls by their ids: some sources use an id again, the newest calls are meant then."""
    found: dict[str, list[_Call]] = {}
    for call in calls:
        found.setdefault(call.ident, []).append(call)
    return found


def _answer(calls: Sequence[_Call], message: dict[str, Any]) -> None:
    """Give a tool message to the first call of an id that has none yet, else to the last."""
    if calls:
        next((call for call in calls if not call.answer), calls[-1]).answer = message


def _round(calls: Sequence[_Call], tau: bool) -> Round:
    if not calls:
        return Round((), empty="no parts")
    results = [_result(call.answer.get("content")) for call in calls]
    return Round(
        tuple((call.name, call.args) for call in calls),
        tuple(results),
        failed=tuple(_failed(call.answer, result, tau) for call, result in zip(calls, results, strict=True)),
    )


def _result(content: Any) -> Any:
    """Return what a tool message says: blocks of text as the text that they are, JSON as its value."""
    if isinstance(content, list) and all(isinstance(b, dict) and b.get("type") == "text" for b in content):
        content = "".join(str(b.get("text") or "") for b in content)
    return value(content)


def _failed(answer: dict[str, Any], result: Any, tau: bool) -> bool:
    """Tell whether a tool message is an error: it says so, or its object has the key `error`.

    A text that begins with "Error" is one in the benchmarks alone, whose tools are written so; elsewhere it may be what
    was read from a log.
    """
    said = next((answer[key] for key in ("error", "is_error") if key in answer), None)
    if said is None and answer.get("status") == "error":
        said = True
    if said is not None:
        return bool(said)
    return str(answer.get("content") or "").startswith("Error:") if tau else wire.is_error(result)
