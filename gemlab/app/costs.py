"""What a run on the real API will take: requests, tokens and dollars, estimated before anything is spent."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .. import backends
from ..agent import history
from ..agent.trial import Spec
from ..measure import metrics
from ..runs import trials
from ..wire import families

# The scripted model thinks in about 40 tokens an answer; recorded Gemini answers run to a few hundred.
THOUGHTS_PER_REQUEST = 300
_SAMPLED_INSTANCES = 5


@dataclass(frozen=True)
class CostEstimate:
    """Counts of a whole run; `dollars` is None where the price list does not know the model."""

    trials: int
    requests: int
    input_tokens: int
    output_tokens: int
    dollars: float | None

    def __str__(self) -> str:
        price = "at an unknown price" if self.dollars is None else f"about ${self.dollars:.2f}"
        return (
            f"{self.trials} trials: about {self.requests} requests, {self.input_tokens:,} input and "
            f"{self.output_tokens:,} output tokens, {price}"
        )


def estimate(specs: Sequence[Spec]) -> CostEstimate:
    """Estimate a run from its first instances on the emulator, with real thoughts allowed for.

    Every thought is billed once as output and again as input of each later request of its trial.
    """
    sample = [_own(s) for s in specs if s.instance < _SAMPLED_INSTANCES and s.repeat == 0]
    with tempfile.TemporaryDirectory() as folder:
        traces = trials.run(sample, backends.simulated(), Path(folder) / "sample.jsonl", progress=None)
    rows = metrics.frame(traces)
    share = len(specs) / len(rows)
    requests = int(rows.requests.sum())
    thoughts = THOUGHTS_PER_REQUEST * requests
    again = sum(THOUGHTS_PER_REQUEST * n * (n - 1) // 2 for n in rows.requests)
    sent = round(share * (int(rows.prompt_tokens.sum()) + again))
    made = round(share * (int(rows.output_tokens.sum()) + thoughts))
    return CostEstimate(len(specs), round(share * requests), sent, made, _dollars(specs[0].model, sent, made))


def _own(spec: Spec) -> Spec:
    """Let a trial send its own signatures in the place of a donor's, which is not there yet: they cost the same."""
    donated = spec.arm.history in history.DONATED
    return replace(spec, arm=replace(spec.arm, history="preserve")) if donated else spec


def _dollars(model: str, sent: int, made: int) -> float | None:
    from genai_prices import Usage, calc_price

    try:
        usage = Usage(input_tokens=sent, output_tokens=made)
        return float(calc_price(usage, model_ref=families.serve(model), provider_id="google").total_price)
    except LookupError:
        return None
