"""Forms of other systems that are known by what is in them and not read, so that they are named and not taken for
runs without a call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

# Where a record keeps its messages, and a message what it holds.
_LISTS = ("messages", "contents", "traj", "history", "input", "output", "input_messages", "output_messages")
_BLOCKS = ("content", "parts")
_BY_TYPE = {
    "tool_use": "Anthropic tool_use blocks",
    "server_tool_use": "Anthropic tool_use blocks",
    "mcp_tool_use": "Anthropic tool_use blocks",
    "tool_result": "Anthropic tool_use blocks",
    "tool_call": "OpenTelemetry parts",
    "tool_call_response": "OpenTelemetry parts",
    "dynamic-tool": "AI SDK tool parts",
}
_BY_KEY = {
    "part_kind": "pydantic-ai messages",
    "toolUse": "Bedrock toolUse blocks",
    "toolResult": "Bedrock toolUse blocks",
}
# Actions that an agent writes into its text: a line of its own, or tags around the call.
_ACTION = re.compile(
    r"^\W*action(?: input)?\s*\d*\s*:|<(?:tool_call|function_calls?|invoke|execute\w*)\b|<function=", re.I | re.M
)


def form(record: Any) -> str | None:
    """Return the name of the form that a record has and that no importer reads; None for any other record."""
    if isinstance(record, Mapping):
        if _is_spans(record):
            return "OpenTelemetry spans"
        if any("action" in step and "observation" in step for step in _mappings(record.get("trajectory"))):
            return "actions as text (a trajectory of action and observation)"
    messages = list(_messages(record))
    named = next((name for message in messages if (name := _of_message(message))), None)
    return named or ("actions as text" if _acts_in_text(messages) else None)


def _is_spans(record: Mapping[Any, Any]) -> bool:
    attributes = record.get("attributes")
    keys = [*record, *(attributes if isinstance(attributes, Mapping) else ())]
    return "resourceSpans" in record or any(isinstance(key, str) and key.startswith("gen_ai.") for key in keys)


def _messages(record: Any) -> Iterator[Mapping[str, Any]]:
    for value in [record.get(key) for key in _LISTS] if isinstance(record, Mapping) else [record]:
        yield from _mappings(value)


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    return (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else iter(())


def _of_message(message: Mapping[str, Any]) -> str | None:
    kind = message.get("type")
    if kind == "function_call_output" or (kind == "function_call" and isinstance(message.get("arguments"), str)):
        return "OpenAI Responses items"
    if kind in ("human", "ai") and "role" not in message:
        return "LangChain messages"
    if isinstance(message.get("function_call"), Mapping) and message.get("role") == "assistant":
        return "OpenAI function_call messages"
    blocks = [block for key in _BLOCKS for block in _mappings(message.get(key))]
    return next((name for block in blocks if (name := _of_block(block))), None)


def _of_block(block: Mapping[str, Any]) -> str | None:
    kind = block.get("type")
    if isinstance(kind, str):
        # The AI SDK's parts are named by their tool: tool-search.
        return _BY_TYPE.get(kind) or ("AI SDK tool parts" if kind.startswith("tool-") else None)
    return next((name for key, name in _BY_KEY.items() if key in block), None)


def _acts_in_text(messages: list[Mapping[str, Any]]) -> bool:
    """Tell whether an agent that makes no call writes actions into its text."""
    own = [m for m in messages if m.get("role") in ("assistant", "model")]
    if any(m.get("tool_calls") for m in own):
        return False
    return any(_ACTION.search(text) for m in own for text in _texts(m))


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    for key in _BLOCKS:
        value = message.get(key)
        if isinstance(value, str):
            yield value
        yield from (b["text"] for b in _mappings(value) if isinstance(b.get("text"), str) and "functionCall" not in b)
