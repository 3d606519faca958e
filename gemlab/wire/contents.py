"""Reading wire contents: the only place that knows where things sit in a part.

A content is a dict as it travels in JSON (`{"role": …, "parts": […]}`), camelCase unless it came from
outside; `normalise` brings snake_case spellings into that form. Nothing here changes what it is given.
"""

from __future__ import annotations

import base64
import binascii
import json
import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Content = dict[str, Any]
Part = dict[str, Any]

# Values under these keys belong to the user or to a schema language: their keys are data, not field names.
OPAQUE = frozenset(
    [
        "args",
        "response",
        "parameters",
        "parametersJsonSchema",
        "responseSchema",
        "responseJsonSchema",
        "partMetadata",
        "labels",
    ]
)
_NOT_STANDARD = frozenset(
    {"functionCall", "functionResponse", "thought", "thoughtSignature", "toolCall", "toolResponse"}
)
DUMMY_SIGNATURES = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
# The key under which a guard speaks to the model inside a functionResponse.
NOTICE = "notice"


class NotBase64(ValueError):
    """The text of a thoughtSignature is not base64 in either alphabet."""


def _camel(key: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda m: m.group(1).upper(), key) if "_" in key else key


def normalise(value: Any) -> Any:
    """Return the JSON value with field names in camelCase; what is camelCase already is shared, not copied."""
    if isinstance(value, list):
        items = [normalise(v) if isinstance(v, dict | list) else v for v in value]
        return value if all(map(operator.is_, items, value)) else items
    if not isinstance(value, dict):
        return value
    out = {}
    same = True
    for key, item in value.items():
        name = _camel(key) if isinstance(key, str) else key
        read = normalise(item) if isinstance(item, dict | list) and name not in OPAQUE else item
        same = same and name == key and read is item
        out[name] = read
    return value if same else out


# --- one part -----------------------------------------------------------------------------------------------


def decode_signature(text: str | bytes | None) -> bytes | None:
    """Return the bytes of a signature, or None where there is none (missing or empty).

    Both base64 alphabets are read, padded or not; equality of signatures is equality of these bytes.
    Raises NotBase64 for text that is neither.
    """
    if not text:
        return None
    if not isinstance(text, str):
        raise NotBase64(f"a signature travels as text, not {type(text).__name__}")
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    if not plain:
        raise NotBase64(text)
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotBase64(text) from error


def encode_signature(raw: bytes) -> str:
    """Return the bytes as the API writes them: standard padded base64."""
    return base64.b64encode(raw).decode("ascii")


_DUMMY_BYTES = {
    form: name
    for name in DUMMY_SIGNATURES
    for form in (name.encode("ascii"), base64.b64decode(name.replace("_", "/").replace("-", "+")))
}


def dummy_name(raw: bytes | None) -> str | None:
    """Return which documented dummy the decoded bytes are (sent raw or as base64 of its ASCII), or None."""
    return _DUMMY_BYTES.get(raw) if raw else None


def signature(part: Part) -> bytes | None:
    """Return the part's signature as decoded bytes, or None; raises NotBase64."""
    return decode_signature(part.get("thoughtSignature"))


def readable_signature(part: Part) -> bytes | None:
    """Return the part's signature as decoded bytes; None where there is none, or none that can be read."""
    try:
        return signature(part)
    except NotBase64:
        return None


def encoded_twice(raw: bytes) -> bool:
    """Tell whether the bytes are themselves base64 text of something: a signature encoded twice."""
    if len(raw) < 16 or raw in _DUMMY_BYTES or not re.fullmatch(rb"[A-Za-z0-9+/_-]+={0,2}", raw):
        return False
    try:
        return decode_signature(raw.decode("ascii")) is not None
    except NotBase64:
        return False


def call_of(part: Part) -> dict[str, Any] | None:
    """Return the part's functionCall, or None."""
    call = part.get("functionCall")
    return call if isinstance(call, dict) else None


def response_of(part: Part) -> dict[str, Any] | None:
    """Return the part's functionResponse, or None."""
    response = part.get("functionResponse")
    return response if isinstance(response, dict) else None


def is_thought(part: Part) -> bool:
    """Tell whether the part is a thought summary (`"thought": true`)."""
    return part.get("thought") is True


def is_standard(part: Part) -> bool:
    """Tell whether the part is what a person sends: text or media."""
    return not is_thought(part) and any(key not in _NOT_STANDARD for key in part)


def is_blank(part: Part) -> bool:
    """Tell whether the part holds no data at all: nothing but empty text, and no signature."""
    rest = {k: v for k, v in part.items() if k not in ("thought", "thoughtSignature")}
    return rest in ({}, {"text": ""}) and not part.get("thoughtSignature")


# --- one content --------------------------------------------------------------------------------------------


def parts(content: Content) -> list[Part]:
    """Return the content's parts; a content without any gives an empty list."""
    found = content.get("parts")
    if not isinstance(found, list):
        return []
    for part in found:
        if not isinstance(part, dict):
            return [p for p in found if isinstance(p, dict)]
    return found


def is_model(content: Content) -> bool:
    """Tell whether the model wrote the content."""
    return content.get("role") == "model"


def calls(content: Content) -> list[dict[str, Any]]:
    """Return the content's function calls in order."""
    return [c for p in parts(content) if (c := call_of(p)) is not None]


def responses(content: Content) -> list[dict[str, Any]]:
    """Return the content's function responses in order."""
    return [r for p in parts(content) if (r := response_of(p)) is not None]


def answer_text(content: Content) -> str:
    """Return the text a reader sees: all text parts joined, thought summaries left out."""
    return "".join(p["text"] for p in parts(content) if isinstance(p.get("text"), str) and not is_thought(p))


def opens_turn(content: Content) -> bool:
    """Tell whether the content starts a turn: a user's standard content without any functionResponse."""
    return not is_model(content) and not responses(content) and any(is_standard(part) for part in parts(content))


def signatures(content: Content) -> list[bytes]:
    """Return the decoded signatures in the content in order; raises NotBase64."""
    return [s for p in parts(content) if (s := signature(p)) is not None]


# --- a history ----------------------------------------------------------------------------------------------


def current_turn(contents: Sequence[Content]) -> int:
    """Return the index of the first content after the newest one that opens a turn (0 where none does)."""
    for index in range(len(contents) - 1, -1, -1):
        if opens_turn(contents[index]):
            return index + 1
    return 0


@dataclass(frozen=True)
class Group:
    """Contents that stand or fall together, from index `start`: a user message or one whole step."""

    start: int
    contents: tuple[Content, ...]

    @property
    def is_step(self) -> bool:
        return is_model(self.contents[0]) or bool(responses(self.contents[0]))


def groups(contents: Sequence[Content]) -> list[Group]:
    """Split a history into user messages and whole steps (the model's contents and the responses to them)."""
    found: list[Group] = []
    index = 0
    while index < len(contents):
        end = index
        while end < len(contents) and is_model(contents[end]):
            end += 1
        while end < len(contents) and not is_model(contents[end]) and responses(contents[end]):
            end += 1
        end = max(end, index + 1)
        found.append(Group(index, tuple(contents[index:end])))
        index = end
    return found


# --- size -----------------------------------------------------------------------------------------------------

_CHARS_PER_TOKEN = 4
_NOT_COUNTED = frozenset({"thoughtSignature", "thought", "inlineData", "fileData", "videoMetadata", "mediaResolution"})


def tokens(text: str) -> int:
    """Return the estimated token count of a text: a quarter of its characters, rounded up."""
    return -(-len(text) // _CHARS_PER_TOKEN)


def content_tokens(contents: Sequence[Content]) -> int:
    """Return the estimated tokens of all parts, texts as they are and others as JSON; no media, no signatures."""
    return sum(_part_tokens(part) for _, _, part in walk(contents))


def _part_tokens(part: Part) -> int:
    data = {k: v for k, v in part.items() if k not in _NOT_COUNTED}
    response = response_of(part)
    if response is not None and "parts" in response:
        data["functionResponse"] = {k: v for k, v in response.items() if k != "parts"}
    if not data:
        return 0
    return tokens(part["text"] if set(data) == {"text"} else canonical(data))


# --- values -------------------------------------------------------------------------------------------------


def canonical(value: Any) -> str:
    """Return one text per JSON value: keys sorted, arrays in order; what JSON cannot hold goes by its repr.

    5.0 and 5 are one number: the API writes a whole number either way.
    """
    text = _canonical(value)
    return _canonical(_whole(value)) if ".0" in text else text


_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=repr)


def _canonical(value: Any) -> str:
    return _ENCODER.encode(value)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _whole(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(v) for v in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def call_key(call: dict[str, Any]) -> tuple[str, str]:
    """Return (name, canonical arguments): what makes two calls the same; the id never counts."""
    return str(call.get("name")), canonical(call.get("args") or {})


def is_error(response: Any) -> bool:
    """Tell whether a functionResponse's body reports an error: it has the key `error`, the API's convention."""
    return isinstance(response, dict) and bool(response.get("error"))


def output(response: Any) -> Any:
    """Return what a function gave back: the object under `output` (the API's convention) or `result` (what
    google-genai's automatic calling sends) where it stands alone, else the whole body. A notice stays with it.
    """
    if not isinstance(response, dict):
        return response
    given = without_notice(response)
    inner = next((given[k] for k in ("output", "result") if set(given) == {k}), None)
    return {**inner, **{k: v for k, v in response.items() if k == NOTICE}} if isinstance(inner, dict) else response


def without_notice(response: Any) -> Any:
    """Return a response's body without what a guard put into it."""
    if isinstance(response, dict) and NOTICE in response:
        return {k: v for k, v in response.items() if k != NOTICE}
    return response


def pair(
    made: Sequence[dict[str, Any]], given: Sequence[dict[str, Any]]
) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Pair calls with their responses: by id where the response has one, else in order within the name."""
    left = list(given)
    pairs = []
    for call in made:
        match = next((r for r in left if r.get("id") and r["id"] == call.get("id")), None)
        match = match or next(
            (r for r in left if r.get("name") == call.get("name") and not (r.get("id") and call.get("id"))),
            None,
        )
        if match is not None:
            left.remove(match)
        pairs.append((call, match))
    return pairs


def answered_calls(group: Group) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Return the calls of a step with their responses."""
    made = [c for content in group.contents if is_model(content) for c in calls(content)]
    return pair(made, [r for content in group.contents for r in responses(content)])


def walk(contents: Sequence[Content]) -> Iterator[tuple[int, int, Part]]:
    """Yield (content index, part index, part) for every part."""
    for i, content in enumerate(contents):
        for j, part in enumerate(parts(content)):
            yield i, j, part
