"""What the API says where it refuses a history (HTTP 400), and how such words are told from those about anything else.

The texts are the API's own, letter for letter, where they are known; where one was never recorded it says so.
"""

from __future__ import annotations

import re

COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts "
    "of the function call turn."
)
CALL_ORDER = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)
RESPONSE_ORDER = "Please ensure that function response turn comes immediately after a function call turn."
OLD_ROLE = "Please use a valid role: user, model."
NEW_ROLE = (
    "Role '{role}' is not supported. Please use a valid role: SYSTEM, SYSTEM_1, USER, ASSISTANT, DEVELOPER, "
    "CONTEXT, USER_CONTEXT, MODEL, USER."
)
LAST_UNLESS_RESPONSE = (
    "Requests ending with a model turn are not supported unless the last part is a function response."
)
LAST_REFUSED = "Requests ending with a model turn are not supported."
MISSING_DEVELOPER = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
    "correctly, and missing thought_signature may lead to degraded model performance. Additional data, "
    "function call `default_api:{name}` , position {position}. Please refer to "
    "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
)
MISSING_VERTEX = (
    "Unable to submit request because function call `default_api:{name}` in the {position}. content block is "
    "missing a `thought_signature`. Learn more: "
    "https://docs.cloud.google.com/vertex-ai/generative-ai/docs/thought-signatures"
)
ALTERED_DEVELOPER = "Corrupted thought signature."
ALTERED_VERTEX = "Invalid thought signature."
BASE64 = (
    "Invalid value at 'contents[{content}].parts[{part}].thought_signature' (TYPE_BYTES), "
    'Base64 decoding failed for "{value}"'
)
INSIDE_CALL = (
    'Invalid JSON payload received. Unknown name "{name}" at '
    "'contents[{content}].parts[{part}].function_call': Cannot find field."
)
EMPTY_PARTS = "* GenerateContentRequest.contents[{content}].parts: contents.parts must not be empty.\n"
NO_DATA = (
    "* GenerateContentRequest.contents[{content}].parts[{part}].data: required oneof field 'data' must have "
    "one initialized field\n"
)
EMPTY_NAME = (
    "* GenerateContentRequest.contents[{content}].parts[{part}].function_response.name: Name cannot be empty.\n"
)
# No recorded text is known for this one: the wording is ours.
ID_MISMATCH = "The id of a function response does not match the id of its function call."


# --- which text is about a history ----------------------------------------------------------------------------

# How lines begin that name no field, as recorded or reported; older and Vertex AI's wordings too.
_KNOWN = re.compile(
    r"(?:Unable to submit request because )?(?:"
    r"Please ensure that (?:the number of )?function (?:call|response) "
    r"|Please ensure that (?:multiturn|single turn) requests "
    r"|Please use a valid role"
    r"|Role '[^']*' is not supported"
    r"|Content with \w+ role is not supported"
    r"|Requests ending with a model turn are not supported"
    r"|(?:Corrupted|Invalid) thought signature"
    r"|Thought signature is not valid"
    r"|it must include at least one parts field"
    r"|Model input cannot be empty"
    r"|The id of a function response does not match"
    r"|Missing call_id in content of type function_result"
    r")"
)
# What the Interactions API says of a thought that comes back unsigned or altered, and of a result without a name;
# generateContent says the first of settings as well.
_OF_INTERACTIONS = re.compile(r"Request contains an invalid argument\.?$|Invalid input received(?:$|: input\b)")

_RECEIVED = "Invalid JSON payload received. "
# Values that a message repeats and addresses: what stands in them is no word of the API's.
_ECHOED = re.compile(r"""\"(?:[^"\\]|\\.)*(?:"|$)|https?://\S+|unknown enum value: .*""")
_PATH = re.compile(r"(?P<quote>`|\bat ')?(?P<path>[A-Za-z_]\w*(?:\[[^\]]*\])*(?:\.[A-Za-z_]\w*(?:\[[^\]]*\])*)*)")
_REQUEST = re.compile(r"^(?:GenerateContentRequest|generate_content_request|generateContentRequest)\.")
# A declaration's names are the user's own, and may be any of those below.
_DECLARED = re.compile(r"function_?declaration|schema", re.IGNORECASE)
_FIELDS = frozenset(
    ("function_call", "functionCall", "function_response", "functionResponse", "function_result",
     "thought_signature", "thoughtSignature", "tool_call", "toolCall", "tool_response", "toolResponse")
)  # fmt: skip
# Ordinary words too, so they count as fields only with another one behind them or in the API's quotation marks.
_WORDS = frozenset(("content", "parts", "role"))


def is_of_history(message: str, interactions: bool = False) -> bool:
    """Tell whether the message of a 400 is about the history: by a known text, or by the field that it points at.

    `interactions`: the Interactions API says it. A parser lists all that is wrong, one a line: one line is enough.
    """
    if message.startswith(_RECEIVED) and not message.startswith(f"{_RECEIVED}Unknown name"):
        return False  # no JSON: the lines that follow are the request's own
    return any(
        _KNOWN.match(line) or _points_at_history(line) or (interactions and _OF_INTERACTIONS.match(line))
        for line in message.splitlines()
    )


def _points_at_history(line: str) -> bool:
    own = _ECHOED.sub(" ", line)
    declared = _DECLARED.search(own) is not None
    return any(_is_of_history(m["path"], m["quote"] is not None, declared) for m in _PATH.finditer(own))


def _is_of_history(path: str, quoted: bool, declared: bool) -> bool:
    """Tell by a path's first field: that of `tools[0]…properties[function_call]` is a setting."""
    inner = _REQUEST.sub("", path)
    first = re.split(r"[.\[]", inner, maxsplit=1)[0]
    if first in ("contents", "input", "steps"):
        return inner.startswith(f"{first}[") or (first == "contents" and (quoted or inner != path or inner != first))
    return not declared and (first in _FIELDS or (first in _WORDS and (quoted or inner != first)))
