"""The shape of an interaction's request, and the generateContent request that it stands for.

Field names are those of google-genai's types. Known of the API's words (public reports): an unknown field is
`no such field: 'NAME'`, an unknown value `unknown enum value: 'VALUE'`, a result without its call's id `Missing
call_id in content of type function_result`, one without a name `Invalid input received`, and a thought that
comes back unsigned `Request contains an invalid argument.`; what follows a colon after `Invalid input received`
is ours. What is not emulated (agents, streams, background) is refused and says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...wire.interaction_steps import Step
from ..errors import ApiError

INVALID_ARGUMENT = "Request contains an invalid argument."
INVALID_INPUT = "Invalid input received"

REQUEST = frozenset(
    ("model", "input", "previous_interaction_id", "store", "tools", "system_instruction", "generation_config",
     "stream", "background", "cached_content", "continuation_token", "environment", "labels", "response_format",
     "response_mime_type", "response_modalities", "safety_settings", "service_tier", "webhook_config", "agent",
     "agent_config")
)  # fmt: skip
_NOT_EMULATED = ("stream", "background", "agent", "agent_config", "continuation_token", "cached_content")
CONFIG = {
    "seed": "seed", "temperature": "temperature", "top_p": "topP", "max_output_tokens": "maxOutputTokens",
    "stop_sequences": "stopSequences", "thinking_level": None, "thinking_summaries": None, "tool_choice": None,
    "image_config": None, "speech_config": None, "transcription_config": None, "video_config": None,
}  # fmt: skip
FUNCTION = frozenset(("type", "name", "description", "parameters", "defer_loading", "short_description"))
BUILT_IN = frozenset(
    ("code_execution", "url_context", "google_search", "file_search", "google_maps", "computer_use", "tool_search",
     "mcp_server", "retrieval")
)  # fmt: skip
# Each step's fields and their types; those it must have are in _NEEDED.
STEPS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "user_input": {"content": (list, str)},
    "model_output": {"content": list, "error": dict},
    "thought": {"signature": str, "summary": list},
    "function_call": {"id": str, "name": str, "arguments": dict},
    "function_result": {"call_id": str, "name": str, "result": (dict, str, list), "is_error": bool},
}
_NEEDED = {"function_call": ("id", "name", "arguments"), "function_result": ("name", "result")}
_MEDIA = ("image", "audio", "video", "document")


class UnknownParameter(ApiError):
    """The 400 for a field that the API does not have."""

    def __init__(self, name: str):
        super().__init__(400, f"no such field: '{name}'")


def check(body: Mapping[str, Any]) -> None:
    """Refuse fields that are not the API's or not emulated, and a model, id or store of another type."""
    _only(body, REQUEST)
    for name in _NOT_EMULATED:
        if body.get(name):
            raise ApiError(400, f"{name} is not emulated for interactions.")
    for name, kind in (("model", str), ("previous_interaction_id", str), ("store", bool), ("system_instruction", str)):
        if body.get(name) is not None and not isinstance(body[name], kind):
            raise _invalid(name, body[name])
    if not body.get("model"):
        raise ApiError(400, "model is required.")


def _only(value: Mapping[str, Any], known: Any) -> None:
    unknown = next((name for name in value if name not in known), None)
    if unknown is not None:
        raise UnknownParameter(unknown)


def _invalid(where: str, value: Any) -> ApiError:
    return ApiError(400, f"{INVALID_INPUT}: {where} is {json.dumps(value, ensure_ascii=False)[:200]}")


# --- the input ----------------------------------------------------------------------------------------------


def read_input(given: Any) -> list[Step]:
    """Return the steps of an input: a text, one content block, a list of blocks, or a list of steps."""
    if isinstance(given, str):
        given = {"type": "text", "text": given}
    items = [given] if isinstance(given, dict) else given
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        raise _invalid("input", given)
    if all(item.get("type") in ("text", *_MEDIA) for item in items):
        items = [{"type": "user_input", "content": items}]
    return [_step({k: v for k, v in item.items() if v is not None}, f"input[{i}]") for i, item in enumerate(items)]


def _step(step: Step, where: str) -> Step:
    kind = step.get("type")
    if not isinstance(kind, str) or kind not in STEPS:
        raise _invalid(f"{where}.type", kind)
    _only(step, ("type", *STEPS[kind]))
    for name, types in STEPS[kind].items():
        if name in step and not isinstance(step[name], types):
            raise _invalid(f"{where}.{name}", step[name])
    if kind == "function_result" and not step.get("call_id"):
        raise ApiError(400, "Missing call_id in content of type function_result")
    if any(step.get(name) is None for name in _NEEDED.get(kind, ())):
        raise ApiError(400, INVALID_INPUT)
    if kind == "thought" and not step.get("signature"):
        raise ApiError(400, INVALID_ARGUMENT)
    for name in ("content", "summary", "result"):
        for j, block in enumerate(step[name] if isinstance(step.get(name), list) else ()):
            _block(block, f"{where}.{name}[{j}]")
    return step


def _block(block: Any, where: str) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return
    texts = [block[name] for name in ("data", "uri", "mime_type") if block.get(name)] if kind in _MEDIA else []
    if not texts or not all(isinstance(text, str) for text in texts):
        raise _invalid(where, block)


# --- the settings -------------------------------------------------------------------------------------------


def settings(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request's settings as those of a generateContent request; contents are not among them.

    They hold for one interaction and are not taken over from the previous one (documented).
    """
    config = body.get("generation_config") or {}
    if not isinstance(config, dict):
        raise _invalid("generation_config", config)
    _only(config, CONFIG)
    generation = {to: config[name] for name, to in CONFIG.items() if to and config.get(name) is not None}
    found: dict[str, Any] = {"generationConfig": {**generation, **_thinking(config)}}
    calling = _calling(config.get("tool_choice"))
    if calling:
        found["toolConfig"] = {"functionCallingConfig": calling}
    if body.get("system_instruction"):
        found["systemInstruction"] = {"parts": [{"text": body["system_instruction"]}]}
    declared = _declared(body.get("tools"))
    if declared:
        found["tools"] = [{"functionDeclarations": declared}]
    return found


def _thinking(config: Mapping[str, Any]) -> dict[str, Any]:
    level, summaries = config.get("thinking_level"), config.get("thinking_summaries")
    if summaries not in (None, "auto", "none"):
        raise _unknown_value(summaries)
    thinking: dict[str, Any] = {"includeThoughts": True} if summaries == "auto" else {}
    if level is not None:
        thinking["thinkingLevel"] = _word(level, ("minimal", "low", "medium", "high", "xhigh"))
    return {"thinkingConfig": thinking} if thinking else {}


def _calling(choice: Any) -> dict[str, Any]:
    if choice is None:
        return {}
    allowed = choice
    if isinstance(choice, dict):
        _only(choice, ("allowed_tools",))
        allowed = choice.get("allowed_tools") or {}
    if not isinstance(allowed, dict):
        return {"mode": _word(allowed, _CHOICES)}
    _only(allowed, ("mode", "tools"))
    names = {"allowedFunctionNames": allowed["tools"]} if allowed.get("tools") else {}
    return {"mode": _word(allowed.get("mode") or "auto", _CHOICES), **names}


_CHOICES = ("auto", "any", "none", "validated")


def _word(value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise _unknown_value(value)
    return value.upper()


def _unknown_value(value: Any) -> ApiError:
    return ApiError(400, f"unknown enum value: '{value}'")


def _declared(tools: Any) -> list[dict[str, Any]]:
    """Return the function declarations; built-in tools are taken and do nothing."""
    if not isinstance(tools or [], list):
        raise _invalid("tools", tools)
    found = []
    for i, tool in enumerate(tools or []):
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind != "function" and not (isinstance(kind, str) and kind in BUILT_IN):
            raise _invalid(f"tools[{i}]", tool)
        if kind == "function":
            _only(tool, FUNCTION)
            names = (("name", "name"), ("description", "description"), ("parameters", "parametersJsonSchema"))
            found.append({to: tool[name] for name, to in names if tool.get(name) is not None})
    return found
