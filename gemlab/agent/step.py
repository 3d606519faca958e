"""A step: one request to the model and everything that came of it. A trial is a list of them and nothing beside.

What was received, called, judged and counted are views of the steps, here as pure functions and properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from ..guards.fingerprints import Identity
from ..guards.rounds import Round, Verdict, blocked
from ..tasks import Called
from ..wire import answers
from ..wire import contents as wire
from ..wire.answers import Answer, Fault
from ..wire.contents import Content
from ..wire.families import Pin
from . import history


@dataclass(frozen=True)
class Call:
    """A call of an answer and what became of it.

    `result`: what the tool gave, without what guards added; None where nothing answered. `blocked`: a guard did.
    """

    name: str
    args: Any
    result: dict[str, Any] | None
    blocked: bool

    @property
    def key(self) -> tuple[str, str]:
        """What makes two calls the same: name and canonical arguments."""
        return wire.call_key({"name": self.name, "args": self.args})

    @property
    def is_executed(self) -> bool:
        """Tell whether the call reached its tool."""
        return self.result is not None and not self.blocked


@dataclass(frozen=True)
class Step:
    """One request to `model`, resends of it included, its answer, and what became of the answer's calls.

    `messages`: the user's contents that came before it; with `anew` a conversation begins with them that knows
    nothing of the steps before (a fallback). `contents`: the history it carried, as on the wire, or as handed to the
    client where nothing went out. `request`, `response`: the bodies as on the wire (a stream's chunks as a list), None
    where there was none. `failures`: what failed, in order. `covers`: how many whole steps the answer stands for, as a
    summary; 0 where it is no summary. `final`: a text was asked for, calls forbidden. `kept`: the answer stands in the
    history. `results`: the bodies of the responses to the calls in order, as the model got them, those included that a
    guard left unsent. `verdicts`: what guards said of the calls.
    """

    model: str
    messages: tuple[Content, ...] = ()
    anew: bool = False
    contents: Sequence[Content] = ()
    request: dict[str, Any] | None = None
    response: dict[str, Any] | list[dict[str, Any]] | None = None
    failures: Sequence[dict[str, Any]] = ()
    seconds: float = 0.0
    covers: int = 0
    final: bool = False
    kept: bool = False
    results: tuple[dict[str, Any], ...] = ()
    verdicts: tuple[Verdict, ...] = ()

    # --- the request ----------------------------------------------------------------------------------------

    @property
    def purpose(self) -> Literal["answer", "summary"]:
        """What the model was asked for."""
        return "summary" if self.covers else "answer"

    @property
    def resent(self) -> int:
        """How often the request was sent again."""
        return max(len(self.failures) - (self.response is None), 0)

    @property
    def kept_by_server(self) -> bool:
        """Tell whether the request left the history to the server: what it holds is then not the history."""
        return "previous_interaction_id" in (self.request or {})

    @property
    def declared(self) -> frozenset[str]:
        """The names of the functions that the request declares."""
        tools = (self.request or {}).get("tools") or []
        named = [d for tool in tools for d in tool.get("functionDeclarations") or [tool]]
        return frozenset(str(d["name"]) for d in named if "name" in d)

    # --- the answer -----------------------------------------------------------------------------------------

    @cached_property
    def answer(self) -> Answer | None:
        """The response as read; None where there was none."""
        return None if self.response is None else answers.of(self.response)

    @property
    def content(self) -> Content | None:
        """The answer's content; None where there was none."""
        return self.answer.content if self.answer else None

    @property
    def text(self) -> str:
        """The answer's text, thoughts left out."""
        return wire.answer_text(self.content) if self.content else ""

    @property
    def pin(self) -> Pin | None:
        """Requested against served; None where nobody answered."""
        return Pin(self.model, self.answer.served) if self.answer else None

    @cached_property
    def fault(self) -> Fault | None:
        """Why the answer is not whole: none of its calls runs then, and none of its text counts."""
        return self.answer.fault if self.answer else None

    @cached_property
    def empty(self) -> str:
        """Why an answer that came to its end is neither calls nor a text: malformed, no parts, thoughts only; empty
        where it is one, or did not come to its end.
        """
        if self.answer is None or self.fault:
            return "malformed" if self.fault == "malformed" else ""
        if self.text.strip() or (self.content and wire.calls(self.content)):
            return ""
        return "thoughts only" if self.content else "no parts"

    # --- its calls ------------------------------------------------------------------------------------------

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The answer's calls with what became of each."""
        stopped = blocked(self.verdicts)
        asked = wire.calls(self.content) if self.content else []
        gave = [_without(body, _words(self.verdicts, i)) for i, body in enumerate(self.results)]
        return tuple(
            Call(str(call.get("name")), call.get("args") or {}, gave[i] if i < len(gave) else None, i in stopped)
            for i, call in enumerate(asked)
        )

    @property
    def nudge(self) -> str:
        """The user's text with which guards nudged after the responses or in their place; empty where they did not."""
        return " ".join(v.text for v in self.verdicts if v.kind == "nudge" and v.place != "response")

    @property
    def unanswered(self) -> frozenset[int]:
        """The indices of the calls whose responses a guard left out, to nudge by a text instead."""
        return frozenset(v.call or 0 for v in self.verdicts if v.kind == "nudge" and v.place == "unanswered")

    def round(self, identities: Mapping[str, Identity]) -> Round:
        """Return the step as guards see it, given what tools declare about their calls."""
        answer = self.answer or Answer(None, None, None)
        calls = () if self.empty else tuple((call.name, call.args) for call in self.calls)
        declared = self.declared
        return Round(
            calls,
            self.results,
            self.verdicts,
            unknown=tuple(i for i, (name, _) in enumerate(calls) if name not in declared),
            empty=self.empty,
            prompt_tokens=answer.prompt_tokens,
            output_tokens=answer.output_tokens,
            identities=identities,
        )

    # --- the history ----------------------------------------------------------------------------------------

    @cached_property
    def responses(self) -> tuple[Content, ...]:
        """The user's content with the responses to all its calls, also to those left unanswered; none without calls."""
        if not self.results or self.content is None:
            return ()
        pairs = zip(wire.calls(self.content), self.results, strict=True)
        return ({"role": "user", "parts": [history.response_part(c, r) for c, r in pairs]},)

    @cached_property
    def after(self) -> tuple[Content, ...]:
        """The user's contents after the answer: the responses to its calls, and a nudge."""
        sent = self.responses
        if self.unanswered:
            left = [[p for i, p in enumerate(c["parts"]) if i not in self.unanswered] for c in sent]
            sent = tuple({"role": "user", "parts": parts} for parts in left if parts)
        return (*sent, user(self.nudge)) if self.nudge else sent

    @property
    def received(self) -> tuple[Content, ...]:
        """What the step adds to the history: messages, the answer if it is kept, and what came after it."""
        return (*self.messages, self.content, *self.after) if self.kept and self.content else self.messages


def user(text: str) -> Content:
    """Return a user's message."""
    return {"role": "user", "parts": [{"text": text}]}


def noticed(gave: Sequence[dict[str, Any]], verdicts: Sequence[Verdict]) -> tuple[dict[str, Any], ...]:
    """Return the bodies of the responses to a step's calls: what tools gave, with what guards say of it added."""
    return tuple(_with(body, _words(verdicts, i)) for i, body in enumerate(gave))


def _words(verdicts: Sequence[Verdict], call: int) -> list[str]:
    """Return what guards say inside the response to one call of a step."""
    return [v.text for v in verdicts if v.place == "response" and (v.call or 0) == call and v.text]


def _with(body: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Return a response's body with the guards' words behind those already there."""
    own = [body[wire.NOTICE]] if body.get(wire.NOTICE) else []
    return {**body, wire.NOTICE: " ".join(map(str, [*own, *words]))} if words else body


def _without(body: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Undo `_with`: a tool may say something under the same key."""
    own = str(body.get(wire.NOTICE, "")).removesuffix(" ".join(words)).removesuffix(" ")
    return {**wire.without_notice(body), **({wire.NOTICE: own} if own else {})} if words else body


# --- views of the steps -------------------------------------------------------------------------------------


def received(steps: Iterable[Step]) -> list[Content]:
    """Return the history as it came: messages, answers, responses to their calls, nudges."""
    return [content for step in steps for content in step.received]


def conversation(steps: Sequence[Step]) -> Sequence[Step]:
    """Return the steps since a conversation began anew: all of them where none did."""
    start = next((i for i in range(len(steps) - 1, -1, -1) if steps[i].anew), 0)
    return steps[start:]


def turns(steps: Iterable[Step]) -> list[list[Step]]:
    """Return the steps by the user's turn; a conversation that begins anew is still the same turn."""
    found: list[list[Step]] = []
    for step in steps:
        if not found or (step.messages and not step.anew):
            found.append([])
        found[-1].append(step)
    return found


def rounds(turn: Iterable[Step], identities: Mapping[str, Identity]) -> list[Round]:
    """Return a turn as guards see it: the answers with calls that were run, and the empty ones."""
    return [s.round(identities) for s in turn if s.purpose == "answer" and (s.results or s.empty)]


def called(steps: Iterable[Step]) -> list[Called]:
    """Return the calls that reached their tools, in order."""
    return [Called(c.name, c.args, c.result) for s in steps for c in s.calls if c.result is not None and not c.blocked]


def question(steps: Sequence[Step]) -> str:
    """Return the user's newest message."""
    return next((wire.answer_text(s.messages[-1]) for s in reversed(steps) if s.messages), "")


def is_forced(steps: Iterable[Step]) -> bool:
    """Tell whether a final answer was forced."""
    return any(step.final and step.purpose == "answer" for step in steps)
