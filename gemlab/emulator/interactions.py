"""The Interactions API as far as an agent needs it: create and get, with the history on the server or sent along.

An interaction is read as the generateContent request that it stands for, so that the same judge and the same
models serve it, and answered with the steps of what they say. Documented by Google: the statuses, the error
codes, settings that hold for one interaction, steps that `get` returns with the input's and `create` without.
Recorded or reported: the form of a body, of an id (two response ids), of an error (message, code), the refusal of
an unsigned thought. Inferred: the order of checks, that a thought dropped before a call is refused by the models
that refuse unsigned calls and in the same words, the words of a 404, codes and words of 5xx, that `model` echoes
the requested one, and how a malformed call is told (status `failed` with an error).
"""

from __future__ import annotations

import base64
import json
import random
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ..wire import families, interaction_steps
from ..wire.contents import Content
from ..wire.interaction_steps import Step
from . import errors
from .answer import forms
from .errors import ApiError
from .parse import interaction_shape, shape, syntax
from .parse.interaction_shape import INVALID_ARGUMENT, UnknownParameter

# How many interactions are kept; the oldest go first.
MOST_KEPT = 10_000


@dataclass(frozen=True)
class Asked:
    """A request as read. `body`: the generateContent request that it stands for; `steps`: those of its input."""

    model: str
    body: dict[str, Any]
    steps: list[Step]
    store: bool
    previous: str | None
    root: str | None


@dataclass(frozen=True)
class _Kept:
    body: dict[str, Any]
    steps: list[Step]
    contents: list[Content]
    root: str


class Interactions:
    """The interactions that one emulator keeps in memory."""

    def __init__(self, most: int = MOST_KEPT):
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self.most = most

    def read(self, raw: bytes) -> Asked:
        """Return a request as read, with the history that it goes on from; raises ApiError 400 or 404."""
        body = syntax.load(raw)
        interaction_shape.check(body)
        previous = body.get("previous_interaction_id") or None
        before = self._find(previous) if previous else None
        steps = interaction_shape.read_input(body.get("input"))
        contents = [*(before.contents if before else []), *interaction_steps.contents(steps)]
        request = json.dumps({**interaction_shape.settings(body), "contents": contents}).encode()
        store = body.get("store") is not False
        return Asked(body["model"], shape.parse(request), steps, store, previous, before.root if before else None)

    def answer(self, asked: Asked, response: Mapping[str, Any]) -> dict[str, Any]:
        """Return the interaction for a generateContent response to it, and keep it where it is to be stored."""
        own = response.get("responseId") or forms.response_id(time.time_ns() // 1000, random.Random())
        candidate = response["candidates"][0]
        steps = _steps(candidate, own)
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        body = {
            "id": _ident(asked.root or own, own),
            "status": _status(candidate, steps),
            "usage": _usage(response["usageMetadata"]),
            "created": now,
            "updated": now,
            **_errors(candidate),
            "steps": steps,
            "object": "interaction",
            "model": asked.model,
            **({"previous_interaction_id": asked.previous} if asked.previous else {}),
        }
        if asked.store:
            contents = [*asked.body["contents"], *interaction_steps.contents(steps)]
            self._kept[body["id"]] = _Kept(body, asked.steps, contents, asked.root or own)
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
        return body

    def get(self, ident: str) -> dict[str, Any]:
        """Return a stored interaction with the steps of its input before its own; raises ApiError 404."""
        kept = self._find(ident)
        return {**kept.body, "steps": [*kept.steps, *kept.body["steps"]]}

    def _find(self, ident: str) -> _Kept:
        if ident not in self._kept:
            raise ApiError(404, "Requested entity was not found.")
        return self._kept[ident]


# --- answers ------------------------------------------------------------------------------------------------

_FINISHED = ("STOP", "MAX_TOKENS")


def _steps(candidate: Mapping[str, Any], seed: str) -> list[Step]:
    """Return the answer's steps: every thought signed (documented), every call with an id, whatever the family."""
    rng = random.Random(seed)
    made = interaction_steps.steps([{"role": "model", "parts": (candidate.get("content") or {}).get("parts") or []}])
    found = []
    for step in made:
        if step["type"] == "function_call" and not step.get("id"):
            step = {"type": "function_call", "id": forms.call_id(_WITH_IDS, rng), **step}
        if step["type"] != "thought" or step.get("signature"):
            found.append(step)
    return found


_WITH_IDS = replace(families.profile("gemini-3.5-flash"), ids="lower8")


def _status(candidate: Mapping[str, Any], steps: list[Step]) -> str:
    reason = candidate.get("finishReason")
    if reason not in _FINISHED:
        return "failed"
    if reason == "MAX_TOKENS":
        return "incomplete"
    return "requires_action" if any(s["type"] == "function_call" for s in steps) else "completed"


def _errors(candidate: Mapping[str, Any]) -> dict[str, Any]:
    reason = candidate.get("finishReason")
    if reason in _FINISHED:
        return {}
    return {"errors": [{"code": str(reason).lower(), "message": candidate.get("finishMessage") or str(reason)}]}


def _ident(root: str, own: str) -> str:
    """Return an id: the response ids of the chain's first interaction and of its own, as two protobuf strings.

    So in a recorded first one, where both are its own; that the first field is the chain's is inferred.
    """
    raw = b"".join(tag + bytes([len(text)]) + text.encode() for tag, text in ((b"\x0a", root), (b"\x12", own)))
    return "v1_" + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _usage(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a generateContent answer's counts under this API's names, zeros written out."""
    return {
        "total_tokens": counts.get("totalTokenCount", 0),
        "total_input_tokens": counts.get("promptTokenCount", 0),
        "input_tokens_by_modality": [
            {"modality": d["modality"].lower(), "tokens": d["tokenCount"]}
            for d in counts.get("promptTokensDetails", [])
        ],
        "total_cached_tokens": counts.get("cachedContentTokenCount", 0),
        "total_output_tokens": counts.get("candidatesTokenCount", 0),
        "total_tool_use_tokens": counts.get("toolUsePromptTokenCount", 0),
        "total_thought_tokens": counts.get("thoughtsTokenCount", 0),
    }


# --- errors -------------------------------------------------------------------------------------------------

_CODES = {
    400: "invalid_request", 403: "permission_denied", 404: "not_found", 429: "rate_limit_exceeded",
    500: "internal_error", 503: "service_unavailable",
}  # fmt: skip


def error_body(error: ApiError) -> dict[str, Any]:
    """Return an error in this API's form: message and code, no status and no details."""
    message, code = error.message, _CODES.get(error.code, "unknown")
    if error.rule in ("unsigned", "altered", "base64"):
        message = INVALID_ARGUMENT
    if isinstance(error, UnknownParameter):
        code = "parameter_unknown"
    if isinstance(error, errors.UnknownModel):
        code = "model_not_found"
    return {"error": {"message": message, "code": code}}
