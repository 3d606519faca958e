"""What a model can tell from a request of its own repetitions, and of what a guard said about them."""

from __future__ import annotations

from typing import Any

from ...wire import contents as wire
from .view import SeenStep, View


def questions(view: View) -> tuple[str, ...]:
    """Return the user's texts without those that follow a response at once: those are notices, not questions."""
    texts, after_response = [], False
    for content in view.contents:
        if wire.opens_turn(content) and not after_response:
            texts.append(wire.answer_text(content))
        after_response = bool(wire.responses(content))
    return tuple(texts)


def is_noticed(view: View) -> bool:
    """Tell whether a guard spoke after the newest step: in its responses, or as a user text right after them."""
    if any(isinstance(c.response, dict) and wire.NOTICE in c.response for c in view.steps[-1].calls):
        return True
    return len(view.contents) > 1 and wire.opens_turn(view.contents[-1]) and bool(wire.responses(view.contents[-2]))


def same_again(view: View) -> bool:
    """Tell whether the newest two steps were the same calls with the same results, or the newest was blocked."""
    if len(view.steps) < 2 or not view.steps[-1].calls:
        return False
    before, newest = view.steps[-2:]
    if _keys(before) != _keys(newest):
        return False
    return _results(before) == _results(newest) or any(_is_blocked(c.response) for c in newest.calls)


def _keys(step: SeenStep) -> list[Any]:
    return [wire.call_key({"name": c.name, "args": c.args}) for c in step.calls]


def _results(step: SeenStep) -> list[str]:
    return [wire.canonical(wire.without_notice(c.response)) for c in step.calls]


def _is_blocked(response: Any) -> bool:
    return isinstance(response, dict) and wire.NOTICE in response and wire.is_error(response)
