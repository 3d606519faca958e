"""Whose signatures an arm sends in the place of its own: another trial's (placebo), or of empty thoughts (neutral).

A run takes them by the name of the arm's history: `{"placebo": placebo(traces), "neutral": neutral(model)}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..agent import history
from ..agent.trial import Spec
from ..wire import contents as wire
from ..wire import families
from .trace import Trace

Donor = Callable[[Spec], Sequence[str]]
Donors = Mapping[str, Donor]

NEUTRAL = "…"


def given(spec: Spec, donors: Donors | None) -> tuple[str, ...]:
    """Return the donor's signatures for a trial, none for an arm that sends its own; raises ValueError without any."""
    name = spec.arm.history
    if name not in history.DONATED:
        return ()
    donor = (donors or {}).get(name)
    if donor is None:
        raise ValueError(f"arm {spec.arm.name!r} sends a donor's signatures, and the run has no donors for {name!r}")
    return tuple(donor(spec))


def signatures_of(trace: Trace) -> list[str]:
    """Return the signatures (base64) that a trial received: of each answer that has any its first, in order."""
    signed = [wire.signatures(step.content) for step in trace.steps if step.kept and step.content]
    return [wire.encode_signature(raw[0]) for raw in signed if raw]


def placebo(traces: Sequence[Trace]) -> Donor:
    """Return donors out of completed trials: for each trial one on the same task and model with another seed.

    They take turns by instance, so all arms and repeats of an instance get the same one, in whatever order the
    traces come. The donor raises ValueError where none is left for a trial.
    """
    # One that answered too early would lend that too: its last thought, to answer now, stands for all later ones.
    done = [trace for trace in traces if trace.outcome == "completed"]
    done.sort(key=lambda trace: (trace.seed, trace.repeat, trace.arm.name))
    pool = [(trace, signed) for trace in done if (signed := signatures_of(trace))]

    def choose(spec: Spec) -> list[str]:
        same = [(t.seed, signed) for t, signed in pool if (t.task, t.model) == (spec.task, spec.model)]
        others = [signed for seed, signed in same if seed != spec.seed]
        if not others:
            wanted = f"completed and signed, of another instance of {spec.task} on {spec.model}"
            raise ValueError(f"no donor for {spec.id}: no trial is there that is {wanted}")
        return others[spec.instance % len(others)]

    return choose


def neutral(model: str, service: str = families.DEVELOPER) -> Donor:
    """Return a donor whose every thought is "…", sealed for the family that serves `model`.

    For the emulator alone, whose seal it is: the real API refuses it as altered. Raises ValueError for unknown models.
    """
    from ..emulator import signatures  # its cryptography is slow to import, and few runs need it

    sealed = wire.encode_signature(signatures.seal(NEUTRAL, families.profile(families.serve(model), service)))
    return lambda spec: [sealed]
