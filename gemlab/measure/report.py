"""From traces to what a run leaves behind: tables, `summary.json`, and the sentences that read them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import stats
from ..agent.trial import OUTCOMES
from ..backends import Source
from ..runs.trace import Trace
from . import metrics, tables

if TYPE_CHECKING:
    import pandas as pd

# Differences inside of this region matter to nobody: 5 points of completion, a fifth of a call.
EQUIVALENCE = {"completed": 0.05, "redundant": 0.2}
_NOTE_SCRIPTED = (
    "Scripted model: shows the instrument, not Gemini. Its parameters are calibrated to figures that an article "
    "reports (90% and 60% completed, 0.3 and 1.4 redundant calls a trial); the effect here was put in, not found."
)


class Results:
    """A run's traces and what follows from them; shows itself as a table in a notebook."""

    def __init__(self, experiment: str, traces: Sequence[Trace], arms: Sequence[str], source: Source):
        """`arms` in the order to show them, the first being the control; `source`: who answered."""
        self.experiment, self.traces, self.source = experiment, list(traces), source
        self.rows = metrics.frame(self.traces)
        self.arms = list(arms)

    # --- per arm --------------------------------------------------------------------------------------------

    def of(self, arm: str) -> pd.DataFrame:
        """Return the rows of one arm."""
        return self.rows[self.rows.arm == arm]

    def per_instance(self, arm: str, metric: str, outcomes: Sequence[str]) -> pd.Series:
        """Return the metric averaged over the repeats of each instance, of trials with these outcomes."""
        rows = self.of(arm)
        rows = rows[rows.outcome.isin(outcomes)]
        return rows.groupby("instance")[metric].mean().astype(float)

    def summary(self) -> dict[str, Any]:
        """Return the summary as JSON values (NaN becomes null)."""
        first = self.traces[0]
        return {
            "experiment": self.experiment,
            "backend": first.backend,
            "model": first.model,
            "task": first.task,
            "served": sorted({s for t in self.traces for s in t.served}),
            "arms": {arm: self._arm(arm) for arm in self.arms},
            "comparisons": self.comparisons(),
            "notes": self.notes(),
        }

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
            "completion_rate": _json(completion.value),
            "completion_ci": _json(completion.ci),
            "redundant_mean": _json(redundant.value),
            "redundant_ci": _json(redundant.ci),
            "refetch_mean": _json(refetch.value),
            "requests_mean": _json(float(rows.requests.mean())),
            "prompt_tokens_per_request": _json(float(rows.prompt_tokens.sum() / max(1, rows.answered.sum()))),
            "signatures_returned": _json(float(rows.signatures_returned.dropna().astype(float).mean())),
            "tokens": {name.removesuffix("_tokens"): int(rows[name].sum()) for name in counted},
            "flip_rate": _json(stats.flip_rate(repeats)),
            "pass_k": _json(stats.pass_k(repeats)),
            "pin": _pin(rows),
        }

    # --- between arms ---------------------------------------------------------------------------------------

    def comparisons(self) -> list[dict[str, Any]]:
        """Return every arm against the first one, on completion and redundant calls, paired by instance.

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
            "difference": _json(c.difference),
            "ci": _json(c.ci),
            "p": _json(c.p),
            "test": c.test,
            "instances": c.n,
            "higher": c.b,
            "lower": c.c,
            "equivalence": EQUIVALENCE[metric],
        }

    # --- in words -------------------------------------------------------------------------------------------

    def notes(self) -> list[str]:
        """Return what has to be read beside the numbers."""
        notes = [_NOTE_SCRIPTED if self.source.kind == "scripted" else self.source.sentence]
        warnings = sorted({w for t in self.traces for w in t.warnings})
        notes += [f"Model pin: {w}." for w in warnings]
        for arm in self.arms:
            rows = self.of(arm)
            refused, failed = (int((rows.outcome == o).sum()) for o in ("refused", "failed"))
            if refused:
                detail = next(t.detail for t in self.traces if t.arm.name == arm and t.outcome == "refused")
                notes.append(
                    f"{arm}: the API refused {refused} of {len(rows)} trials ({_short(detail)}). A refusal is counted "
                    "as not completed, and left out of the redundant calls."
                )
            if failed:
                notes.append(f"{arm}: {failed} of {len(rows)} trials failed for infrastructure; left out of all rates.")
        first = self.traces[0].config.get("generationConfig", {})
        temperature = first.get("temperature", "left unset")
        notes.append(f"Temperature: {temperature}. Signatures sent back are billed again as prompt tokens.")
        return notes

    def table(self) -> pd.DataFrame:
        """Return the arms as a table for people."""
        import pandas as pd

        return pd.DataFrame.from_dict(tables.arms(self.summary()), orient="index")

    def comparison_table(self) -> pd.DataFrame:
        """Return the comparisons as a table for people."""
        import pandas as pd

        return pd.DataFrame(tables.comparisons(self.comparisons()))

    def reading(self) -> str:
        """Return one paragraph that reads the comparisons, with the region of practical equivalence."""
        lines = []
        for c in self.comparisons():
            percent = c["metric"] == "completed"
            size, low, high = c["difference"], *c["ci"]
            shown = (
                tables.percent(size, (low, high), sign=True) if percent else tables.number(size, (low, high), sign=True)
            )
            unit = "points of completion" if percent else "redundant calls a trial"
            refused = int((self.of(c["arm"]).outcome == "refused").sum())
            cause = f" ({refused} trials were refused, not failed by the model)" if percent and refused else ""
            verdict = _verdict(low, high, c["equivalence"], c["p_adjusted"])
            lines.append(f"{c['arm']} against {c['control']}: {shown} {unit}, {verdict}{cause}.")
        lines += [
            n for n in self.notes() if "refused" in n or n.startswith(("Scripted", "Measured", "Answered", "Model pin"))
        ]
        return "\n".join(f"- {line}" for line in lines)

    def write(self, path: Path) -> dict[str, Any]:
        """Write the summary and return it."""
        summary = self.summary()
        write(path, summary)
        return summary

    def _repr_html_(self) -> str:
        return self.table().to_html()

    def __repr__(self) -> str:
        return self.table().to_string()


def write(path: Path, summary: dict[str, Any]) -> None:
    """Write a summary next to its final name and move it there: it is whole or it is not there."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
    partial.replace(path)


def study(name: str, model: str, **tables: pd.DataFrame) -> dict[str, Any]:
    """Return the summary of a study on the scripted model whose results are tables, not arms."""
    found = {key: json.loads(table.to_json(orient="records", double_precision=6)) for key, table in tables.items()}
    return {"experiment": name, "backend": "sim", "model": model, **found, "notes": [_NOTE_SCRIPTED]}


# Outcomes that say something of the arm (not of the infrastructure), and those of trials that ran on.
_JUDGED = ("completed", "wrong", "unfinished", "refused")
_RAN = ("completed", "wrong", "unfinished")


def _pin(rows: pd.DataFrame) -> str:
    known = rows.pin.dropna()
    if len(known) < len(rows):
        return "unknown"
    served = {model for names in rows.served.dropna() for model in names.split(", ")}
    return "match" if known.all() else f"differs: {', '.join(sorted(served))}"


def _json(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_json(v) for v in value]
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    # Significant digits, not places: a p-value of 1e-12 is not zero.
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _verdict(low: float, high: float, region: float, p: float) -> str:
    """Read an interval and a test together: the test shows a difference, the interval its size."""
    if p < 0.05:
        beyond = low > region or high < -region
        return "a difference" + (" beyond practical equivalence" if beyond else "")
    if -region < low and high < region:
        return "practically equivalent"
    return f"no difference shown ({tables.p_text(p)}), and none excluded"


def _short(text: str | None, most: int = 110) -> str:
    text = text or ""
    return text if len(text) <= most else text[: most - 1] + "…"
