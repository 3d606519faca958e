"""What the explorer shows for a setting: numbers, the curve, the runs that changed sides, and a run's timeline.

Every rule with every scope and window is swept once when the explorer is made; showing a setting only counts.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import stats
from ..guards import Cycle, RepeatedCall, RepeatedError, ResultStall, TurnBudget
from ..guards.ladder import Watch
from ..guards.rounds import Round
from . import firing, thresholds
from .firing import NEVER
from .importers import Run

WINDOWS = (0, 4, 6, 8, 10, 15, 20)
SCOPES = ("turn", "consecutive")
RULES = ("args", "result", "stall", "cycle", "error", "rounds")
MOST_FLIPS = 500
_PLAIN: dict[str, Watch] = {
    "stall": ResultStall(), "cycle": Cycle(), "error": RepeatedError(), "rounds": TurnBudget(),
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """Scope and window (in rounds; 0: the whole turn) matter for the rules `args` and `result` only, the window
    only within a turn."""

    rule: str = "result"
    threshold: int = 3
    scope: str = "turn"
    window: int = 0
    source: str = thresholds.ALL

    @property
    def key(self) -> str:
        """The name of the swept rule."""
        if self.rule in _PLAIN:
            return self.rule
        return f"{self.rule} consecutive" if self.scope == "consecutive" else f"{self.rule} {self.window}"


@dataclass(frozen=True)
class Shown:
    """A setting's counts by label as (fired, all), the share caught and stopped with intervals, calls saved.

    `curve`: (threshold, stopped, caught) of every threshold. `flips`: (id, index) of the runs in which exactly one
    of this setting and the one before fires, at most MOST_FLIPS; `flipped`: how many there are.
    """

    setting: Setting
    kind: str
    counts: dict[str, tuple[int, int]]
    caught: tuple[float, float, float]
    stopped: tuple[float, float, float]
    calls_saved: int
    curve: tuple[tuple[int, float, float], ...]
    flips: tuple[tuple[str, int], ...]
    flipped: int
    never: str = ""


def _rules() -> dict[str, Watch]:
    rules: dict[str, Watch] = dict(_PLAIN)
    for by in ("args", "result"):
        rules[f"{by} consecutive"] = RepeatedCall(by=by, scope="consecutive")
        rules |= {f"{by} {window}": RepeatedCall(by=by, window=window) for window in WINDOWS}
    return rules


class Explorer:
    """Recorded runs under every setting."""

    def __init__(self, runs: Sequence[Run], most: int = firing.THRESHOLDS[-1]):
        self.runs = list(runs)
        self.fires = firing.sweep(firing.index(self.runs), _rules(), range(2, most + 1))
        self.sources = (thresholds.ALL, *thresholds.sources(self.fires))

    def fired(self, setting: Setting) -> np.ndarray:
        """Tell of each run whether the rule fires in it; False outside of the data set."""
        rule, at = self.fires.of(setting.key, setting.threshold)
        return (self.fires.steps[:, rule, at] != NEVER) & self._inside(setting)

    def _inside(self, setting: Setting) -> np.ndarray:
        everything = setting.source == thresholds.ALL
        return np.ones(len(self.runs), bool) if everything else self.fires.sources == setting.source

    def show(self, setting: Setting, before: Setting | None = None) -> Shown:
        """Return what the setting does; `before` is the one that it is compared with, in this data set."""
        inside, labels = self._inside(setting), self.fires.labels
        rule, at = self.fires.of(setting.key, setting.threshold)
        kind = thresholds.target(self.fires, setting.source)
        fired = self.fired(setting)
        groups = {name: inside & (labels == name) for name in ("healthy", "capped", "failing", "unlabelled")}
        counts = {name: (int((fired & group).sum()), int(group.sum())) for name, group in groups.items()}
        lost = groups["capped"] | groups["failing"]
        every = self.fires.steps[:, rule] != NEVER
        shares = [every[groups[name]].mean(axis=0) if counts[name][1] else None for name in ("healthy", kind)]
        stopped, caught = (np.full(every.shape[1], np.nan) if share is None else share for share in shares)
        other = fired if before is None else self.fired(Setting(**{**vars(before), "source": setting.source}))
        flips = np.flatnonzero(fired != other)
        return Shown(
            setting,
            kind,
            counts,
            _share(*counts[kind]),
            _share(*counts["healthy"]),
            int(self.fires.saved_calls[lost, rule, at].sum()),
            tuple(zip(self.fires.thresholds, stopped.tolist(), caught.tolist(), strict=True)),
            tuple((self.fires.ids[i], int(i)) for i in flips[:MOST_FLIPS]),
            len(flips),
            _never(setting),
        )

    def timeline(self, at: int, setting: Setting) -> str:
        """Return a run by index as HTML, a line a call, with the round at which the setting fires marked."""
        rule, threshold = self.fires.of(setting.key, setting.threshold)
        return timeline(self.runs[at], int(self.fires.steps[at, rule, threshold]))


def _never(setting: Setting) -> str:
    windowed = setting.rule in ("args", "result") and setting.scope == "turn"
    if windowed and 0 < setting.window < setting.threshold:
        return f"It can never fire: the window holds {setting.window} rounds."
    return ""


def _share(k: int, n: int) -> tuple[float, float, float]:
    return (k / n if n else np.nan, *stats.wilson(k, n))


# --- as HTML ------------------------------------------------------------------------------------------------


def numbers(shown: Shown) -> str:
    """Return the counts and shares as HTML."""
    rows = [
        (f"caught ({shown.kind} runs)", _count(shown.counts[shown.kind]), _percent(shown.caught)),
        ("healthy runs stopped", _count(shown.counts["healthy"]), _percent(shown.stopped)),
        *([("failing runs stopped", _count(shown.counts["failing"]), "")] if shown.kind != "failing" else []),
        ("calls saved in runs without success", f"{shown.calls_saved:,}", ""),
        ("runs that changed sides", f"{shown.flipped:,}", ""),
    ]
    cells = "".join(
        f"<tr><td>{label}</td><td style='text-align:right;padding:0 1em'>{count}</td><td>{share}</td></tr>"
        for label, count, share in rows
    )
    return f"<table class='gemlab-numbers'>{cells}</table><b>{shown.never}</b>"


def _count(pair: tuple[int, int]) -> str:
    return f"{pair[0]:,} of {pair[1]:,}"


def _percent(share: tuple[float, float, float]) -> str:
    value, low, high = share
    return "–" if np.isnan(value) else f"{100 * value:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"


_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 520, 280, 58, 40, 12


def figure(shown: Shown) -> str:
    """Return the curve over all thresholds as SVG: healthy runs stopped by runs caught, the setting as a dot."""
    points = [(n, s, c) for n, s, c in shown.curve if not (np.isnan(s) or np.isnan(c))]
    # Up to the setting, and with room to see what the next smaller threshold would stop.
    here = next((s for n, s, _ in points if n == shown.setting.threshold), 0.0)
    next_one = next((s for n, s, _ in points if n == shown.setting.threshold - 1), here)
    top = min(1.0, 1.1 * max((c for _, s, c in points if s <= next_one), default=1.0)) or 1.0
    right = max(0.01, 1.15 * min(next_one, 4 * here + 0.01), 1.3 * here)

    def x(value: float) -> float:
        return _LEFT + min(value / right, 1.02) * (_WIDTH - _LEFT - 20)

    def y(value: float) -> float:
        return _TOP + (1 - min(value / top, 1.02)) * (_HEIGHT - _BOTTOM - _TOP)

    line = " ".join(f"{x(s):.1f},{y(c):.1f}" for _, s, c in points)
    dots = "".join(_dot(n, x(s), y(c), n == shown.setting.threshold) for n, s, c in points if s <= right)
    ticks = "".join(_tick(x(right * i / 4), f"{100 * right * i / 4:.2g}%") for i in range(5))
    marks = "".join(
        f"<text x='{_LEFT - 8}' y='{y(v) + 4:.1f}' text-anchor='end'>{100 * v:.3g}%</text>"
        f"<line x1='{_LEFT}' x2='{_WIDTH - 20}' y1='{y(v):.1f}' y2='{y(v):.1f}' stroke='#D9D9D9'/>"
        for v in (0, top / 4, top / 2, 3 * top / 4, top)
    )
    return (
        f"<svg class='gemlab-curve' viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' height='{_HEIGHT}' "
        f"font-family='sans-serif' font-size='11' fill='#222222'>{marks}{ticks}"
        f"<polyline points='{line}' fill='none' stroke='#0072B2' stroke-width='1.5'/>{dots}"
        f"<text x='{(_LEFT + _WIDTH) / 2}' y='{_HEIGHT - 6}' text-anchor='middle'>healthy runs stopped</text>"
        f"<text x='14' y='{_HEIGHT / 2}' transform='rotate(-90 14 {_HEIGHT / 2})' text-anchor='middle'>"
        f"{shown.kind} runs caught</text></svg>"
    )


def _dot(threshold: int, x: float, y: float, current: bool) -> str:
    size, colour = (6, "#E69F00") if current else (3, "#0072B2")
    text = f"<text x='{x + 8:.1f}' y='{y + 13:.1f}' font-weight='bold'>{threshold}</text>" if current else ""
    name = "class='gemlab-here' " if current else ""
    return f"<circle {name}cx='{x:.1f}' cy='{y:.1f}' r='{size}' fill='{colour}'/>{text}"


def _tick(x: float, text: str) -> str:
    return f"<text x='{x:.1f}' y='{_HEIGHT - _BOTTOM + 16}' text-anchor='middle'>{text}</text>"


def timeline(run: Run, fires_at: int = NEVER, most: int = 120) -> str:
    """Return a run as HTML; `fires_at`: index of the round, over all turns, to mark."""
    lines, step = [], 0
    for n, turn in enumerate(run.turns, 1):
        lines.append(f"<tr><td colspan='3'><b>turn {n}</b></td></tr>" if len(run.turns) > 1 else "")
        for one in turn:
            lines += _round(one, step, step == fires_at, most)
            step += 1
    outcome = {True: "succeeded", False: "failed", None: "outcome unknown"}[run.success]
    head = f"{html.escape(run.id)} · {html.escape(run.source)} · {html.escape(run.model)} · {outcome}"
    head += f" · {html.escape(run.end)}" if run.end else ""
    fired = "the setting does not fire" if fires_at == NEVER else f"fires in round {fires_at + 1} of {step}"
    table = f"<table style='font-family:monospace;line-height:1.3'>{''.join(lines)}</table>"
    return f"<div class='gemlab-timeline'><b>{head}</b> · {fired}{table}</div>"


def _round(one: Round, step: int, marked: bool, most: int) -> list[str]:
    style = " style='background:#FCE8C3'" if marked else ""
    mark = "▶" if marked else ""
    if not one.calls:
        return [f"<tr{style}><td>{mark} {step + 1}</td><td colspan='2'><i>{one.empty or 'no call'}</i></td></tr>"]
    results: list[Any] = [*one.results, *[None] * (len(one.calls) - len(one.results))]
    return [
        f"<tr{style}><td>{mark} {step + 1}</td><td>{_cut(f'{name}({_text(args)})', most)}</td>"
        f"<td>→ {_cut(_text(result), most)}</td></tr>"
        for (name, args), result in zip(one.calls, results, strict=True)
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def _cut(text: str, most: int) -> str:
    return html.escape(text if len(text) <= most else text[: most - 1] + "…")
