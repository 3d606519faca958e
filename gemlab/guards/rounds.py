"""A round: one model answer with the results of its calls, and what guards need to see of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from ..wire import contents as wire
from . import fingerprints
from .fingerprints import Identity, is_brief, is_trivial

Kind = Literal["nudge", "block", "finish", "stop"]
Place = Literal["response", "user_text", "unanswered"]


@dataclass(frozen=True)
class Verdict:
    """What a guard says. `call`: index of the offending call in its round, None for the round as a whole.

    `nudge`: a notice, inside the response, as a user text after it, or as one in place of it, the call left unanswered
    (`place`); `block`: a synthetic error in place of the result; `finish`: one forced final answer; `stop`: the run
    ends with the reason.
    """

    kind: Kind
    reason: str
    text: str
    call: int | None = None
    place: Place = "response"


def blocked(verdicts: Iterable[Verdict]) -> frozenset[int]:
    """Return the indices of the calls that a guard answered in their tool's place."""
    return frozenset(v.call or 0 for v in verdicts if v.kind == "block")


class Seen(NamedTuple):
    """A round as guards compare it; fingerprints are any hashable values.

    `calls`: (call, result) of each call that may count as a repetition, result None where unknown. `stall`: all
    results together, None where they are trivial or unknown. `brief`: none of them failed, and all say so little that
    different calls may well give the same. `errors`: (tool, its error or None) by call with a known result.
    """

    calls: tuple[tuple[Hashable, Hashable | None], ...]
    stall: Hashable | None
    brief: bool
    errors: tuple[tuple[str, Hashable | None], ...]
    unknown: int
    empty: str
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Round:
    """Calls of one answer as (name, args), their results in the same order, and what guards said of them.

    `failed`: which results are errors, where the body does not say so by itself. `unknown`: indices of calls to
    functions that were not declared. `empty`: why an answer without calls and without text is one. Tokens are
    those of the request. `identities`: what tools declare about their calls.
    """

    calls: tuple[tuple[str, Any], ...]
    results: tuple[Any, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    failed: tuple[bool, ...] | None = None
    unknown: tuple[int, ...] = ()
    empty: str = ""
    prompt_tokens: int = 0
    output_tokens: int = 0
    identities: Mapping[str, Identity] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """The calls' fingerprints."""
        return tuple(fingerprints.call_print(name, args, self.identities) for name, args in self.calls)

    @cached_property
    def seen(self) -> Seen:
        """The round as guards compare it: what a guard blocked has no result, polling tools do not repeat."""
        results = self._results()
        names = [name for name, _ in self.calls]
        prints = [fingerprints.result_print(n, r, self.identities) for n, r in zip(names, results, strict=True)]
        counted = [i for i, name in enumerate(names) if not fingerprints.is_polling(name, self.identities)]
        failed = self.failed or [wire.is_error(r) for r in results]
        known = [(i, p, wire.without_notice(results[i])) for i in counted if (p := prints[i]) is not None]
        telling = sorted({p for _, p, result in known if not is_trivial(result)})
        return Seen(
            tuple((self.keys[i], prints[i]) for i in counted),
            tuple(telling) or None,
            all(not failed[i] and is_brief(names[i], result, self.identities) for i, _, result in known),
            tuple((n, p if bad else None) for n, p, bad in zip(names, prints, failed, strict=True) if p is not None),
            len(self.unknown),
            self.empty,
            self.prompt_tokens,
            self.output_tokens,
        )

    def _results(self) -> list[Any]:
        stopped = blocked(self.verdicts)
        known = [None if i in stopped else result for i, result in enumerate(self.results)]
        return known + [None] * (len(self.calls) - len(known))
