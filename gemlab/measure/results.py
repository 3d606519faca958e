"""From traces to what they say of arms: rates and means, comparisons, and the sentences that read them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import stats
from ..agent.trial import OUTCOMES
from ..backends import Source
from ..runs.trace import Trace
from . import metrics, tables
from .subject import Note, of_source, of_traces
from .summary import json_value

if TYPE_CHECKING:
    import pandas as pd

# Differences inside of this region matter to nobody: 5 points of completion, a fifth of a call.
EQUIVALENCE = {"completed": 0.05, "redundant": 0.2}
_ARMS_ONE_BY_ONE = 6
# Fewer pairs cannot carry equivalence: where all are equal, an interval of means has no width at all.
_PAIRS_FOR_EQUIVALENCE = 30


class Results:
    """A run's traces and what follows from them for its arms."""

    def __init__(self, traces: Sequence[Trace], arms: Sequence[str], source: Source, n: str = ""):
        """`arms` in the order to show them, the first being the control; `source`: who answered; `n`: in words."""
        self.traces, self.arms = list(traces), list(arms)
        self.rows = metrics.frame(self.traces)
        self.subject = of_traces(self.traces, source, n)

    # --- per arm --------------------------------------------------------------------------------------------

    def of(self, arm: str) -> pd.DataFrame:
        """Return the rows of one arm."""
        return self.rows[self.rows.arm == arm]

    def per_instance(self, arm: str, metric: str, outcomes: Sequence[str]) -> pd.Series:
        """Return the metric averaged over the repeats of each instance, of trials with these outcomes.

        Instances for which it is not known are left out.
        """
        rows = self.of(arm)
        rows = rows[rows.outcome.isin(outcomes)]
        return rows[metric].astype(float).groupby(rows["instance"]).mean().dropna()

    @functools.cached_property
    def summarised(self) -> dict[str, dict[str, Any]]:
        """The numbers of each arm, in order."""
        return {arm: self._arm(arm) for arm in self.arms}

    def _arm(self, arm: str) -> dict[str, Any]:
        rows = self.of(arm)
        completion = stats.rate(self.per_instance(arm, "completed", _JUDGED))
        redundant = stats.mean(self.per_instance(arm, "redundant", _RAN))
        refetch = stats.mean(self.per_instance(arm, "refetch", _RAN))
        repeats = [list(group.completed) for _, group in rows.groupby("instance")]
        counted = ("prompt_tokens", "cached_tokens", "output_tokens", "thought_tokens", "total_tokens")
        return {
            "trials": len(rows),
            "outcomes": {o: int((rows.outcome == o).sum()) for o in OUTCOMES},
            "reasons": {str(k): int(v) for k, v in rows.reason.dropna().value_counts().items()},
            "completion_rate": json_value(completion.value),
            "completion_ci": json_value(completion.ci),
            "redundant_mean": json_value(redundant.value),
            "redundant_ci": json_value(redundant.ci),
            "refetch_mean": json_value(refetch.value),
            "requests_mean": json_value(float(rows.requests.mean())),
            "prompt_tokens_per_request": json_value(float(rows.prompt_tokens.sum() / max(1, rows.answered.sum()))),
            "signatures_returned": json_value(float(rows.signatures_returned.dropna().astype(float).mean())),
            "tokens": {name.removesuffix("_tokens"): int(rows[name].sum()) for name in counted},
            "flip_rate": json_value(stats.flip_rate(repeats)),
            "pass_k": json_value(stats.pass_k(repeats)),
            "pin": _pin(rows),
        }

    # --- between arms ---------------------------------------------------------------------------------------

    @functools.cached_property
    def comparisons(self) -> list[dict[str, Any]]:
        """Every arm against the first one, on completion and redundant calls, paired by instance.

        p-values of one metric are adjusted together (Benjamini–Hochberg) in `p_adjusted`.
        """
        found = []
        for metric, outcomes in (("completed", _JUDGED), ("redundant", _RAN)):
            made = [c for arm in self.arms[1:] if (c := self._compare(metric, arm, outcomes)) is not None]
            adjusted = stats.false_discovery([c["p"] for c in made])
            found += [{**c, "p_adjusted": p} for c, p in zip(made, adjusted, strict=True)]
        return found

    def _compare(self, metric: str, arm: str, outcomes: Sequence[str]) -> dict[str, Any] | None:
        control = self.arms[0]
        pair = [self.per_instance(a, metric, outcomes) for a in (arm, control)]
        common = pair[0].index.intersection(pair[1].index)
        if not len(common):
            return None
        binary = metric == "completed" and not (self.rows.repeat > 0).any()
        c = stats.compare(pair[0][common].to_numpy(), pair[1][common].to_numpy(), binary)
        return {
            "metric": metric,
            "arm": arm,
            "control": control,
            "difference": json_value(c.difference),
            "ci": json_value(c.ci),
            "p": json_value(c.p),
            "test": c.test,
            "instances": c.n,
            "higher": c.b,
            "lower": c.c,
            "equivalence": EQUIVALENCE[metric],
        }

    # --- in words -------------------------------------------------------------------------------------------

    def notes(self, put_in: str = "") -> list[Note]:
        """Return what has to be read beside the numbers; `put_in` as in `subject.of_source`."""
        notes = [of_source(self.subject, put_in) if put_in else of_source(self.subject)]
        warnings = sorted({w for t in self.traces for w in t.warnings})
        notes += [Note("pin", f"Model pin: {warning}.") for warning in warnings]
        for arm in self.arms:
            rows = self.of(arm)
            refused, failed = (int((rows.outcome == o).sum()) for o in ("refused", "failed"))
            if refused:
                detail = next(t.detail for t in self.traces if t.arm.name == arm and t.outcome == "refused")
                text = (
                    f"{arm}: the API refused {refused} of {len(rows)} trials ({_short(detail)}). A refusal is counted "
                    "as not completed, and left out of the redundant calls."
                )
                notes.append(Note("refused", text))
            if failed:
                text = f"{arm}: {failed} of {len(rows)} trials failed for infrastructure; left out of all rates."
                notes.append(Note("failed", text))
        config = self.traces[0].config.get("generationConfig", {}) if self.traces else {}
        temperature = config.get("temperature", "left unset")
        text = f"Temperature: {temperature}. Signatures sent back are billed again as prompt tokens."
        return [*notes, Note("method", text)]

    def sentences(self) -> list[str]:
        """Return one sentence a comparison, read against the region of practical equivalence.

        Of many arms, those that show nothing are named together.
        """
        lines, silent = [], [c for c in self.comparisons if self._shows_nothing(c)]
        together = silent if len(self.arms) > _ARMS_ONE_BY_ONE else []
        for c in self.comparisons:
            if c in together:
                continue
            percent = c["metric"] == "completed"
            low, high = c["ci"]
            shown = (
                tables.points(c["difference"], c["ci"]) if percent else tables.number(c["difference"], c["ci"], True)
            )
            unit = "points of completion" if percent else "redundant calls a trial"
            refused = int((self.of(c["arm"]).outcome == "refused").sum())
            cause = f" ({refused} trials were refused, not failed by the model)" if percent and refused else ""
            verdict = _verdict(low, high, c["equivalence"], c["p_adjusted"], c["instances"])
            pairs = f"on {c['instances']} instances"
            lines.append(f"{c['arm']} against {c['control']}: {shown} {unit} {pairs}, {verdict}{cause}.")
        for metric in dict.fromkeys(c["metric"] for c in together):
            named = [c for c in together if c["metric"] == metric]
            arms = ", ".join(c["arm"] for c in named)
            fewest = min(c["instances"] for c in named)
            lines.append(f"{metric}, on {fewest} or more instances, no difference shown, and none excluded: {arms}.")
        return lines

    def _shows_nothing(self, c: dict[str, Any]) -> bool:
        low, high = c["ci"]
        return _verdict(low, high, c["equivalence"], c["p_adjusted"], c["instances"]).endswith("none excluded")


# Outcomes that say something of the arm (not of the infrastructure), and those of trials that ran on.
_JUDGED = ("completed", "wrong", "unfinished", "refused")
_RAN = ("completed", "wrong", "unfinished")


def _pin(rows: pd.DataFrame) -> str:
    known = rows.pin.dropna()
    if len(known) < len(rows):
        return "unknown"
    served = {model for names in rows.served.dropna() for model in names.split(", ")}
    return "match" if known.all() else f"differs: {', '.join(sorted(served))}"


def _verdict(low: float, high: float, region: float, p: float, pairs: int) -> str:
    """Read an interval and a test together: the test shows a difference, the interval its size."""
    if p < 0.05:
        beyond = low > region or high < -region
        return "a difference" + (" beyond practical equivalence" if beyond else "")
    if pairs >= _PAIRS_FOR_EQUIVALENCE and -region < low and high < region:
        return "practically equivalent"
    return f"no difference shown ({tables.p_text(p)}), and none excluded"


def _short(text: str | None, most: int = 110) -> str:
    text = text or ""
    return text if len(text) <= most else text[: most - 1] + "…"
