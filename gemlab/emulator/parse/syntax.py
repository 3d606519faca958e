"""JSON as Google's front end reads it: which bytes are no JSON object, and in which words that is refused.

The words and their order are those of protobuf's json_stream_parser.cc (quoted in public reports for this
API). Stricter than it on purpose: single quotes, bare keys, trailing commas and unknown escapes are refused.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from ..errors import ApiError, bad_request

MAX_DEPTH = 100
_RECEIVED = "Invalid JSON payload received. "
_AROUND = 20
# Possessive, so that a string of megabytes leaves nothing to come back to.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]|[^"\[\]{},:\s]++', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_WORDS = {
    "Expecting property name enclosed in double quotes": "Expected an object key or }.",
    "Illegal trailing comma before end of object": "Expected an object key or }.",
    "Expecting ':' delimiter": "Expected : between key:value pair.",
    "Extra data": "Parsing terminated before end of input.",
    "Unterminated string starting at": "Closing quote expected in string.",
    "Invalid \\escape": "Invalid escape sequence.",
    "Invalid \\uXXXX escape": "Invalid escape sequence.",
}


class _Number(Exception):
    """A literal that JSON has no number for."""


def load(raw: bytes) -> dict[str, Any]:
    """Return the one object in the bytes; raises ApiError 400 in Google's words for anything else.

    No bytes at all are an empty object. Whole numbers beyond 64 bits become doubles, as they do there.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ApiError(400, _RECEIVED + "Encountered non UTF-8 code points.") from None
    if not text:
        return {}
    try:
        body = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _refused(*_explained(text, error)) from None
    except _Number as error:
        literal, words = error.args
        raise _refused(words, text, _place(text, literal)) from None
    except RecursionError:
        raise _too_deep("") from None
    if not isinstance(body, dict):
        raise bad_request([("", _RECEIVED + 'Unknown name "": Root element must be a message.')])
    if _SURROGATE.search(text):
        _whole_characters(body)
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH:  # with fewer, nothing can be too deep
        _depth(body)
    return body


def number(text: str) -> int | float | None:
    """Return the JSON number that a text is, or None."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError, _Number):
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _integer(literal: str) -> int | float:
    if len(literal) > 20:
        return _double(literal)
    value = int(literal)
    return value if -(2**63) <= value < 2**64 else float(value)


def _double(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise _Number(literal, "Number exceeds the range of double.")
    return value


def _constant(literal: str) -> None:
    raise _Number(literal, "Unexpected token.")


# Control characters inside of strings are read (strict=False), as they are there.
_DECODER = json.JSONDecoder(strict=False, parse_int=_integer, parse_float=_double, parse_constant=_constant)


def _refused(words: str, text: str, at: int | None) -> ApiError:
    """Return the 400 with what stands around the place and a caret below it; at the end there is nothing to show."""
    if at is None:
        return ApiError(400, f"{_RECEIVED}{words}\n\n^")
    begin = max(0, at - _AROUND)
    return ApiError(400, f"{_RECEIVED}{words}\n{text[begin : at + _AROUND]}\n{' ' * (at - begin)}^")


def _explained(text: str, error: json.JSONDecodeError) -> tuple[str, str, int | None]:
    """Return Google's words for the decoder's, the text, and the place in it (None for its end)."""
    at = error.pos + len(text[error.pos :]) - len(text[error.pos :].lstrip())
    ended = at >= len(text)
    if error.msg == "Expecting value":
        token = not ended and (text[at] in "]}:," or text[at].isalpha())
        words = "Unexpected token." if token else "Expected a value."
    elif error.msg == "Expecting ',' delimiter":
        in_array = _open_bracket(text, at) == "["
        words = "Expected , or ] after array value." if in_array else "Expected , or } after key:value pair."
    else:
        words = _WORDS.get(error.msg, "Unexpected token.")
    if words.startswith("Closing quote"):
        return words, text, len(text)
    return ("Unexpected end of string. " + words, text, None) if ended else (words, text, at)


def _open_bracket(text: str, at: int) -> str | None:
    opened: list[str] = []
    for token in _TOKEN.finditer(text, 0, at):
        if token[0] in "[{":
            opened.append(token[0])
        elif token[0] in "]}" and opened:
            opened.pop()
    return opened[-1] if opened else None


def _place(text: str, literal: str) -> int:
    return next(t.start() for t in _TOKEN.finditer(text) if t[0] == literal)


def _whole_characters(body: dict[str, Any]) -> None:
    try:
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        high = "\ud800" <= error.object[error.start] <= "\udbff"
        words = "Missing low surrogate." if high else "Invalid unicode code point."
        raise ApiError(400, _RECEIVED + words) from None
    except RecursionError:
        raise _too_deep("") from None


def _too_deep(key: str) -> ApiError:
    return ApiError(400, f"{_RECEIVED}Message too deep. Max recursion depth reached for key '{key}'")


def _depth(body: dict[str, Any]) -> None:
    """Refuse objects and lists nested over MAX_DEPTH; level by level, as recursion has a limit of its own."""
    level: list[Any] = [body]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise _too_deep(_deep_key(body))


def _deep_key(body: dict[str, Any]) -> str:
    """Return the key under which the first value over MAX_DEPTH stands."""
    level: list[tuple[str, Any]] = [("", body)]
    for _ in range(MAX_DEPTH):
        level = [
            (key, inner)
            for owner, value in level
            for key, inner in (value.items() if isinstance(value, dict) else ((owner, item) for item in value))
            if isinstance(inner, dict | list)
        ]
    return level[0][0]
