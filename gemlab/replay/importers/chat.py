"""Chat messages with tool calls: OpenAI's form, and the result files of tau-bench and tau2-bench built on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...guards.rounds import Round
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
    return Run(ident, "tau-bench", "unknown", outcome(record), None, turns(record["traj"]))


def _tau2(record: dict[str, Any]) -> Iterator[Run]:
    info = record.get("info") or {}
    domain = (info.get("environment_info") or {}).get("domain_name") or "unknown"
    model = str((info.get("agent_info") or {}).get("llm") or "unknown")
    for one in need(record["simulations"] or None, list, "simulations"):
        ident = f"{one.get('task_id')}/{one.get('trial', 0)}"
        success = outcome(one.get("reward_info") or {})
        yield Run(ident, f"tau2-bench {domain}", model, success, one.get("termination_reason"), turns(one["messages"]))


# --- messages to turns --------------------------------------------------------------------------------------


def turns(messages: Sequence[Any]) -> tuple[tuple[Round, ...], ...]:
    """Return the turns that hold at least one round; a user's text opens one, a text of the assistant is no round.

    A simulated user may call tools too; those calls are none of the agent's.
    """
    found: list[list[Round]] = [[]]
    results = _results(messages)
    for message in need(messages, list, "messages"):
        role = need(message, dict, "message").get("role")
        if role not in _ROLES:
            raise Broken(f"unknown role {role!r}")
        if role == "user" and not message.get("tool_calls"):
            found.append([])
        elif role == "assistant" and message.get("tool_calls"):
            found[-1].append(_round(message["tool_calls"], results))
        elif role == "assistant" and not message.get("content"):
            found[-1].append(Round((), empty="no parts"))
    return tuple(tuple(turn) for turn in found if turn)


def _round(made: Sequence[Any], results: dict[str, list[dict[str, Any]]]) -> Round:
    calls, answers = [], []
    for call in need(made, list, "tool_calls"):
        function = need(need(call, dict, "tool call").get("function", call), dict, "function")
        calls.append((need(function.get("name"), str, "name of a call"), arguments(function.get("arguments"))))
        left = results.get(str(call.get("id")))
        answers.append(left.pop(0) if left else {})
    return Round(
        tuple(calls),
        tuple(value(answer.get("content")) for answer in answers),
        failed=tuple(_failed(answer) for answer in answers),
    )


def _results(messages: Sequence[Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the tool messages by call id, in order: some sources use an id again."""
    found: dict[str, list[dict[str, Any]]] = {}
    for message in messages:
        if isinstance(message, dict) and message.get("role") == "tool" and message.get("requestor") != "user":
            ident = str(message.get("tool_call_id", message.get("id")))
            found.setdefault(ident, []).append(message)
    return found


def _failed(answer: dict[str, Any]) -> bool:
    """Tell whether a tool message is an error: it says so, or begins as both benchmarks let errors begin."""
    return bool(answer.get("error")) or str(answer.get("content") or "").startswith("Error")
