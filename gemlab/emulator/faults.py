"""Faults on purpose: what fails between a client and a model, seeded, and gone again when its time is over.

A fault is drawn from what the request says, signatures and ids aside, so that arms with the same visible
history meet the same faults; it strikes the same request `times` times, so that sending it again can help.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..registry import validated
from ..wire.families import VERTEX, Profile
from . import errors
from .errors import ApiError
from .minds.view import draws

KINDS = (
    "429", "503", "500", "slow", "cut", "error_chunk", "malformed", "malformed_after_call",
    "unexpected_tool_call", "empty", "thoughts_only", "served_model", "no_model_version", "duplicate_ids",
)  # fmt: skip


_OF_STREAMS = ("cut", "error_chunk")


class Cut(ConnectionResetError):
    """The connection ends in the middle of a stream."""


@dataclass(frozen=True)
class Fault:
    """One fault. `probability` a request; `step`: only for the nth model answer of a history (from 1).

    `times`: how often one and the same request meets it. `seconds`: of a slow first byte, or that a 429 asks to
    wait. `after`: chunks before a stream is cut or fails. `served`: the model that answers instead.
    `model`: only for requests that this model serves.
    """

    kind: str
    probability: float = 1.0
    step: int | None = None
    times: int = 1
    seconds: float = 1.0
    after: int = 1
    served: str = ""
    model: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r}; known: {', '.join(KINDS)}")
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability {self.probability} is not within 0 and 1")
        if (1 if self.step is None else self.step) < 1 or self.times < 1 or self.after < 0 or self.seconds < 0:
            raise ValueError("step and times start at 1, after and seconds at 0")
        if (self.kind == "served_model") != bool(self.served):
            raise ValueError("served names the other model of served_model, and only of it")


def fault(value: Mapping[str, Any]) -> Fault:
    """Return a fault from its JSON form; raises BadInput for unknown fields, kinds and types."""
    kind = value.get("kind") if isinstance(value, Mapping) else None
    return validated(Fault, value, f"fault {kind}" if kind in KINDS else "fault")


def load(path: Path) -> list[Fault]:
    """Return the faults of a TOML file with one [[fault]] table each; raises ValueError with one line."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
        tables = found["fault"]
        return [fault(table) for table in tables]
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (KeyError, TypeError, AttributeError):
        raise ValueError(f"{path}: needs one [[fault]] table for each fault") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


class Faults:
    """Chooses a request's fault; remembers how often one and the same request has met it."""

    _MOST_REMEMBERED = 100_000

    def __init__(self, faults: Sequence[Fault] = (), seed: int = 0):
        self.faults, self.seed = tuple(faults), seed
        self._met: Counter[tuple[int, int]] = Counter()

    def choose(self, body: Mapping[str, Any], model: str, streamed: bool) -> Fault | None:
        """Return the first fault that strikes this request, or None."""
        if not self.faults:
            return None
        answers = sum(content.get("role") == "model" for content in body["contents"])
        seed = (body.get("generationConfig") or {}).get("seed")
        said = draws(f"{seed}|{model}|{streamed}", "request", body["contents"]).getrandbits(128)
        for index, one in enumerate(self.faults):
            if (one.kind in _OF_STREAMS and not streamed) or one.model not in ("", model):
                continue
            if one.step is not None and one.step != answers + 1:
                continue
            if self._met[said, index] >= one.times:
                continue
            rng = draws(f"{seed}|{self.seed}", f"fault {index}", body["contents"])
            if rng.random() < one.probability:
                if len(self._met) > self._MOST_REMEMBERED:
                    self._met.clear()
                self._met[said, index] += 1
                return one
        return None


# --- what a fault does --------------------------------------------------------------------------------------


def refuse(one: Fault | None, profile: Profile) -> None:
    """Raise the HTTP error that a fault stands for, if it stands for one."""
    if one is None:
        return
    if one.kind == "429" and profile.service == VERTEX:
        raise ApiError(429, "Resource has been exhausted (e.g. check quota).")
    if one.kind == "429":
        raise errors.exhausted(profile.model, one.seconds)
    if one.kind == "503":
        raise ApiError(503, errors.OVERLOADED)
    if one.kind == "500":
        raise ApiError(500, errors.INTERNAL)


def spoil(one: Fault | None, bodies: list[dict[str, Any]], profile: Profile) -> list[dict[str, Any]]:
    """Return the bodies (one, or a stream's chunks) as the fault leaves them."""
    if one and one.kind == "unexpected_tool_call" and profile.service == VERTEX:
        return _unexpected_on_vertex(bodies)
    change = _CHANGES.get(one.kind) if one else None
    return change(bodies) if change else bodies


def _ended(bodies: list[dict[str, Any]], spent: bool = False, **candidate: Any) -> list[dict[str, Any]]:
    """Return one body that ends without output; `spent`: its usage still counts the thoughts."""
    last = bodies[-1]
    gone = {"candidatesTokenCount", "candidatesTokensDetails"} | (set() if spent else {"thoughtsTokenCount"})
    usage = {k: v for k, v in last["usageMetadata"].items() if k not in gone}
    if "promptTokenCount" in usage:
        usage["totalTokenCount"] = usage["promptTokenCount"] + usage.get("thoughtsTokenCount", 0)
    return [{**last, "candidates": [candidate], "usageMetadata": usage}]


def _parts(bodies: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [p for body in bodies for p in body["candidates"][0].get("content", {}).get("parts", [])]


def _call_text(bodies: Sequence[Mapping[str, Any]]) -> str:
    call = next((p["functionCall"] for p in _parts(bodies) if "functionCall" in p), {"name": "tool"})
    return f"call:default_api:{call['name']}{{"


def _malformed(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    text = f"Malformed function call: {_call_text(bodies)}"
    return _ended(bodies, content={}, finishReason="MALFORMED_FUNCTION_CALL", index=0, finishMessage=text)


def _malformed_after_call(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    *earlier, last = bodies
    text = f"Malformed function call: {_call_text(bodies)}"
    candidate = {**last["candidates"][0], "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": text}
    return [*earlier, {**last, "candidates": [candidate]}]


def _unexpected(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    (body,) = _ended(bodies, finishReason="UNEXPECTED_TOOL_CALL", index=0)
    return [{k: v for k, v in body.items() if k not in ("modelVersion", "responseId")}]


def _unexpected_on_vertex(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Vertex AI sends the call along, signed, and names the function."""
    *earlier, last = bodies
    name = next((p["functionCall"]["name"] for p in _parts(bodies) if "functionCall" in p), "tool")
    text = f"Unexpected tool call: Model tried to call an undeclared function: {name}"
    candidate = {**last["candidates"][0], "finishReason": "UNEXPECTED_TOOL_CALL", "finishMessage": text}
    return [*earlier, {**last, "candidates": [candidate]}]


def _empty(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return _ended(bodies, True, content={"role": "model"}, finishReason="STOP", index=0)


def _thoughts_only(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    content = {"parts": [{"text": "I know what to do.", "thought": True}], "role": "model"}
    return _ended(bodies, True, content=content, finishReason="STOP", index=0)


def _no_model_version(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in body.items() if k != "modelVersion"} for body in bodies]


def _duplicate_ids(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def same(part: dict[str, Any]) -> dict[str, Any]:
        return {**part, "functionCall": {**part["functionCall"], "id": "call_1"}} if "functionCall" in part else part

    out = []
    for body in bodies:
        candidate = body["candidates"][0]
        content = candidate.get("content", {})
        if "parts" in content:
            content = {**content, "parts": [same(p) for p in content["parts"]]}
            candidate = {**candidate, "content": content}
        out.append({**body, "candidates": [candidate]})
    return out


_CHANGES: dict[str, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {
    "malformed": _malformed,
    "malformed_after_call": _malformed_after_call,
    "unexpected_tool_call": _unexpected,
    "empty": _empty,
    "thoughts_only": _thoughts_only,
    "no_model_version": _no_model_version,
    "duplicate_ids": _duplicate_ids,
}
