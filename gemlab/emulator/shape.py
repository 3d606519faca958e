"""The shape of a request: what Google's JSON parser refuses before anything is judged."""

from __future__ import annotations

import json
from typing import Any

from .. import contents as wire
from ..models import Profile
from .errors import ApiError, bad_request

_MAX_DEPTH = 100
_CONTENT = {"parts", "role"}
_PART = {
    "text", "thought", "thoughtSignature", "functionCall", "functionResponse", "inlineData", "fileData",
    "executableCode", "codeExecutionResult", "toolCall", "toolResponse", "videoMetadata", "partMetadata",
    "mediaResolution",
}  # fmt: skip
_CALL = {"name", "args", "id", "partialArgs", "willContinue", "thoughtSignature"}
_RESPONSE = {"name", "response", "id", "parts", "willContinue", "scheduling"}
_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1beta."


def parse(raw: bytes) -> dict[str, Any]:
    """Return the request body with camelCase field names; raises ApiError 400 for what is not one object."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise bad_request([("", "Invalid JSON payload received. Invalid UTF-8.")]) from None
    try:
        body = json.loads(text)
    except RecursionError:
        raise bad_request([("", "Invalid JSON payload received. Message too deep.")]) from None
    except ValueError:
        at = text[:40].replace("\n", " ")
        raise bad_request(
            [("", f"Invalid JSON payload received. Parsing terminated before end of input.\n{at}")]
        ) from None
    if not isinstance(body, dict):
        raise bad_request([("", "Invalid JSON payload received. Root element must be a message.")])
    if _too_deep(body):
        raise bad_request([("", "Invalid JSON payload received. Message too deep.")])
    body = _present(wire.normalise(body))
    problems = _problems(body)
    if problems:
        raise bad_request(problems)
    if not body.get("contents"):
        raise ApiError(400, "* GenerateContentRequest.contents: contents is not specified\n")
    return body


def _too_deep(body: Any) -> bool:
    level = [body]
    for _ in range(_MAX_DEPTH):
        nested = (v.values() if isinstance(v, dict) else v for v in level)
        level = [x for values in nested for x in values if isinstance(x, dict | list)]
        if not level:
            return False
    return True


def _present(value: Any) -> Any:
    """Leave out fields that are null, as proto JSON does; what is data of the user's stays."""
    if isinstance(value, list):
        return [_present(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {k: v if k in wire.OPAQUE else _present(v) for k, v in value.items() if v is not None}


def _problems(body: dict[str, Any]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for i, content in enumerate(_list(body, "contents", "contents", found)):
        at = f"contents[{i}]"
        if _object(content, at, "Content", found):
            _content(content, at, found)
    if _object(body.get("systemInstruction", {}), "system_instruction", "Content", found):
        _content(body.get("systemInstruction", {}), "system_instruction", found)
    _config(body, found)
    return found


def _content(content: dict[str, Any], at: str, found: list) -> None:
    _unknown(content, _CONTENT, at, found)
    _string(content, "role", at, found)
    for j, part in enumerate(_list(content, "parts", f"{at}.parts", found)):
        here = f"{at}.parts[{j}]"
        if _object(part, here, "Part", found):
            _part(part, here, found)


def _part(part: dict[str, Any], at: str, found: list) -> None:
    _unknown(part, _PART, at, found)
    _string(part, "text", at, found)
    _string(part, "thoughtSignature", at, found, kind="TYPE_BYTES")
    if "thought" in part and not isinstance(part["thought"], bool):
        found.append(_invalid(f"{at}.thought", "TYPE_BOOL", part["thought"]))
    for key, snake, known, payload in (
        ("functionCall", "function_call", _CALL, "args"),
        ("functionResponse", "function_response", _RESPONSE, "response"),
    ):
        if key in part and _object(part[key], f"{at}.{snake}", key[0].upper() + key[1:], found):
            _unknown(part[key], known, f"{at}.{snake}", found)
            _string(part[key], "name", f"{at}.{snake}", found)
            _string(part[key], "id", f"{at}.{snake}", found)
            struct = part[key].get(payload)
            if struct is not None and not isinstance(struct, dict):
                found.append(_invalid(f"{at}.{snake}.{payload}", "type.googleapis.com/google.protobuf.Struct", struct))


def _config(body: dict[str, Any], found: list) -> None:
    for i, tool in enumerate(_list(body, "tools", "tools", found)):
        if _object(tool, f"tools[{i}]", "Tool", found):
            at = f"tools[{i}].function_declarations"
            for j, one in enumerate(_list(tool, "functionDeclarations", at, found)):
                if _object(one, f"{at}[{j}]", "FunctionDeclaration", found):
                    _string(one, "name", f"{at}[{j}]", found)
    config, tooling = body.get("generationConfig", {}), body.get("toolConfig", {})
    if _object(config, "generation_config", "GenerationConfig", found):
        seed = config.get("seed")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or abs(seed) >= 2**31):
            found.append(_invalid("generation_config.seed", "TYPE_INT32", seed))
        thinking = config.get("thinkingConfig", {})
        if _object(thinking, "generation_config.thinking_config", "ThinkingConfig", found):
            budget = thinking.get("thinkingBudget")
            if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int)):
                found.append(_invalid("generation_config.thinking_config.thinking_budget", "TYPE_INT32", budget))
            _string(thinking, "thinkingLevel", "generation_config.thinking_config", found)
    if _object(tooling, "tool_config", "ToolConfig", found):
        calling = tooling.get("functionCallingConfig", {})
        _object(calling, "tool_config.function_calling_config", "FunctionCallingConfig", found)


def thinking(body: dict[str, Any], profile: Profile) -> None:
    """Refuse a thinkingConfig that the served model does not take; raises ApiError 400."""
    config = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    level = config.get("thinkingLevel")
    if level is not None and config.get("thinkingBudget") is not None:
        raise ApiError(400, "You can only set only one of thinking budget and thinking level.")
    if level is None or level.upper() in ("", "THINKING_LEVEL_UNSPECIFIED"):
        return
    if not profile.levels:
        raise ApiError(400, "Thinking level is not supported for this model.")
    if level.upper() not in profile.levels:
        raise ApiError(
            400,
            f"Thinking level {level.upper()} is not supported for this model. Please retry with other thinking level.",
        )


# --- one value ----------------------------------------------------------------------------------------------


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:200]


def _invalid(field: str, kind: str, value: Any) -> tuple[str, str]:
    return field, f"Invalid value at '{field}' ({kind}), {_shown(value)}"


def _list(owner: dict, key: str, field: str, found: list) -> list:
    value = owner.get(key, [])
    if isinstance(value, dict):  # proto JSON takes one message where a list is due
        value = owner[key] = [value]
    if isinstance(value, list):
        return value
    found.append((field, f"Invalid value at '{field}', {_shown(value)}"))
    return []


def _object(value: Any, field: str, message: str, found: list) -> bool:
    if not isinstance(value, dict):
        found.append(_invalid(field, _TYPE + message, value))
    return isinstance(value, dict)


def _string(owner: dict, key: str, at: str, found: list, kind: str = "TYPE_STRING") -> None:
    value = owner.get(key)
    if value is not None and not isinstance(value, str):
        snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in key)
        found.append(_invalid(f"{at}.{snake}", kind, value))


def _unknown(owner: dict, known: set[str], at: str, found: list) -> None:
    for name in owner:
        if name not in known:
            text = f"Invalid JSON payload received. Unknown name \"{name}\" at '{at}': Cannot find field."
            found.append((at, text))
