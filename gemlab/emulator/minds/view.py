"""What a model sees of a request: user texts, steps with their results, and the thoughts that came back."""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...wire import contents as wire
from ...wire.contents import Content
from ...wire.families import Profile
from .. import signatures


@dataclass(frozen=True)
class SeenCall:
    """One call in the history and its response's body; None where it was not answered."""

    name: str
    args: dict[str, Any]
    response: Any


@dataclass(frozen=True)
class SeenStep:
    """One model answer in the history. `thought` is None where no signature came back or none is read."""

    turn: int
    calls: tuple[SeenCall, ...]
    text: str
    thought: str | None


@dataclass(frozen=True)
class View:
    """One request as a model reads it. `turns` are the user's texts; `readable` says whose thoughts count.

    `allowed` are the only functions that may be called, empty where all may. `system` is the system instruction's
    text; `temperature` and `most_tokens` are None where the request has none.
    """

    turns: tuple[str, ...]
    steps: tuple[SeenStep, ...]
    declared: tuple[dict[str, Any], ...]
    mode: str
    seed: int | None
    readable: str
    thinking: bool
    summaries: bool
    contents: Sequence[Content] = field(repr=False)
    system: str = ""
    temperature: float | None = None
    most_tokens: int | None = None
    allowed: tuple[str, ...] = ()

    def rng(self, purpose: str) -> random.Random:
        """Return the random stream of this request: of its seed and of what it says, signatures and ids aside.

        Leaving signatures out gives arms with the same visible history the same draws (common random numbers).
        """
        return _draws(self.seed, purpose, self._said)

    @functools.cached_property
    def _said(self) -> str:
        return _said(self.contents)


@dataclass(frozen=True)
class Spent:
    """Tokens as a runtime counted them: the prompt, how much of it was cached, output, and thoughts beside it."""

    prompt: int
    cached: int
    output: int
    thoughts: int


@dataclass(frozen=True)
class Reply:
    """A model's decision: calls (name, arguments), or a text; `thought` is sealed into the signature.

    `spent`: None where tokens are to be estimated. `finish`: a finish reason other than STOP comes without output,
    with `message` beside it.
    """

    thought: str | None = None
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    text: str | None = None
    spent: Spent | None = None
    finish: str = "STOP"
    message: str | None = None


def draws(seed: Any, purpose: str, contents: Sequence[Content]) -> random.Random:
    """Return the random stream for a seed, a purpose and what the contents say, signatures and ids aside."""
    return _draws(seed, purpose, _said(contents))


def _draws(seed: Any, purpose: str, said: str) -> random.Random:
    text = f"{seed}|{purpose}|{said}"
    return random.Random(hashlib.sha256(text.encode(errors="replace")).digest())


def _said(contents: Sequence[Content]) -> str:
    return wire.canonical(_visible(contents))


class Mind(Protocol):
    """Anything that answers a View, at once or later."""

    def respond(self, view: View) -> Reply | Awaitable[Reply]: ...


def _visible(contents: Sequence[Content]) -> list[Any]:
    out = []
    for content in contents:
        for part in wire.parts(content):
            call, response = wire.call_of(part), wire.response_of(part)
            if call is not None:
                out.append(["call", call.get("name"), call.get("args")])
            elif response is not None:
                out.append(["response", response.get("name"), response.get("response")])
            elif part.get("text") and not wire.is_thought(part):
                out.append([content.get("role"), part["text"]])
    return out


def read(body: dict[str, Any], profile: Profile) -> View:
    """Read a normalised request body as the given model would, opening the signatures that it reads."""
    contents = body["contents"]
    config = body.get("generationConfig") or {}
    calling = ((body.get("toolConfig") or {}).get("functionCallingConfig")) or {}
    return View(
        turns=tuple(wire.answer_text(c) for c in contents if wire.opens_turn(c)),
        steps=tuple(_steps(contents, profile)),
        declared=tuple(d for t in body.get("tools") or [] for d in t.get("functionDeclarations") or []),
        mode=str(calling.get("mode") or "AUTO").upper(),
        seed=config.get("seed"),
        readable=profile.thoughts,
        thinking=_thinking(profile, config),
        summaries=bool((config.get("thinkingConfig") or {}).get("includeThoughts")),
        contents=contents,
        system=wire.answer_text(body.get("systemInstruction") or {}),
        temperature=config.get("temperature"),
        most_tokens=config.get("maxOutputTokens"),
        allowed=tuple(calling.get("allowedFunctionNames") or ()),
    )


def _thinking(profile: Profile, config: dict[str, Any]) -> bool:
    thinking = config.get("thinkingConfig") or {}
    budget = thinking.get("thinkingBudget")
    if profile.strict:
        return True
    return budget != 0 if profile.thinks else bool(budget)


def _steps(contents: Sequence[Content], profile: Profile) -> list[SeenStep]:
    since = 0 if profile.thoughts == "all" else wire.current_turn(contents)
    turn, found = 0, []
    for group in wire.groups(contents):
        if not group.is_step:
            turn += wire.opens_turn(group.contents[0])
            continue
        seen = tuple(
            SeenCall(str(c.get("name")), c.get("args") or {}, wire.output((r or {}).get("response")))
            for c, r in wire.answered_calls(group)
        )
        text = "".join(wire.answer_text(c) for c in group.contents if wire.is_model(c))
        thought = _thought(group, profile) if group.start >= since else None
        found.append(SeenStep(turn, seen, text, thought))
    return found


def _thought(group: wire.Group, profile: Profile) -> str | None:
    for content in group.contents:
        for raw in wire.signatures(content):
            thought = signatures.open_(raw, profile)
            if thought is not None:
                return thought
    return None
