"""Old steps replaced by the model's own summary of them: the pure halves before and after its request.

The words come from a request of their own, which is a request like any other: recorded, and judged by the same
rules. `Summarise.request` says when one is due and what it sends, `Summarise.apply` puts the words in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..wire import contents as wire
from ..wire.contents import Content
from .pruning import AtLeast1, cannot_prune
from .step import Step

ASK = (
    "Summarise the work so far for your own use: what was asked, what each call found, with every value that "
    "later steps may need, and what is left to do. Answer in text, without calls."
)
INTRODUCTION = "Summary of the work so far: "


def summarise(contents: Sequence[Content], n: AtLeast1) -> list[Content]:
    """Let the model's own summary stand for all but the newest n steps, as soon as more than 2n stand in full.

    As a mere function it changes nothing: the words come from a request, which a trial makes (`Summarise`).
    """
    return list(contents)


@dataclass(frozen=True)
class Summary:
    """The model's words for the first `steps` whole steps of a history."""

    steps: int
    text: str

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("the model answered nothing where a summary was asked for")


def of(step: Step) -> Summary:
    """Return the summary that a step's answer is; raises ValueError for an empty one."""
    return Summary(step.covers, step.text.strip())


@dataclass(frozen=True)
class Due:
    """A summary to be asked for: the request's contents, and how many steps the answer will stand for."""

    steps: int
    contents: list[Content]

    def answered(self, text: str) -> Summary:
        """Return the summary that the answer's text makes; raises ValueError for an empty one."""
        return Summary(self.steps, text.strip())


@dataclass(frozen=True)
class Summarise:
    """`summarise(n)`: as soon as more than 2n steps stand in full, all but the newest n give way to a summary.

    So a request is made every n + 1 steps, not every step. A later summary is made from the one before it and the
    steps since. User messages always stay; raises ValueError for n below 1.
    """

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"summarise({self.n}) would summarise what was not answered yet: at least 1")

    def request(self, contents: Sequence[Content], made: Sequence[Summary]) -> Due | None:
        """Return the request for a summary that is due, given those made so far; None where none is.

        None as well for a history that cannot be cut (`pruning.cannot_prune` tells).
        """
        groups = wire.groups(contents)
        found = [g for g in groups if g.is_step]
        covered = made[-1].steps if made else 0
        if len(found) - covered <= 2 * self.n or cannot_prune(contents):
            return None
        last = found[-self.n - 1]
        told = contents[: last.start + len(last.contents)]
        ask = {"role": "user", "parts": [{"text": ASK}]}
        return Due(len(found) - self.n, [*self.apply(told, made), ask])

    def apply(self, contents: Sequence[Content], made: Sequence[Summary]) -> list[Content]:
        """Return the contents with the newest summary in the place of the steps that it stands for.

        It joins the first user message as a text part of its own: a content of its own would start a turn.
        """
        if not made or cannot_prune(contents):
            return list(contents)
        out: list[Content] = []
        left = made[-1].steps
        for group in wire.groups(contents):
            if group.is_step and left:
                left -= 1
            else:
                out += group.contents
        told = {"text": INTRODUCTION + made[-1].text}
        return [{**out[0], "parts": [*wire.parts(out[0]), told]}, *out[1:]]
