"""The explorer in a notebook: sliders for a setting, its figure and numbers, and the runs that change sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets as widgets

from . import explorer
from .explorer import Explorer, Setting
from .importers import Run


class ExplorerWidget(widgets.VBox):
    """Moving a control shows the new setting at once, and lists the runs in which it differs from the one before."""

    def __init__(self, runs: Sequence[Run] | Explorer):
        self.explorer = runs if isinstance(runs, Explorer) else Explorer(runs)
        most = self.explorer.fires.thresholds[-1]
        wide = widgets.Layout(width="420px")
        self.controls: dict[str, Any] = {
            "rule": widgets.ToggleButtons(options=explorer.RULES, value="result", description="rule"),
            "threshold": widgets.IntSlider(value=3, min=2, max=most, description="threshold", layout=wide),
            "scope": widgets.ToggleButtons(options=explorer.SCOPES, description="scope"),
            "window": widgets.SelectionSlider(
                options=[("the turn", 0), *((f"{n} rounds", n) for n in explorer.WINDOWS[1:])],
                description="window",
                layout=wide,
            ),
            "source": widgets.Dropdown(options=self.explorer.sources, description="data set", layout=wide),
        }
        self.figure, self.numbers, self.timeline = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.flips = widgets.Select(options=[], rows=10, description="flipped", layout=widgets.Layout(width="420px"))
        self.setting = Setting()
        for control in self.controls.values():
            control.observe(self._changed, names="value")
        self.flips.observe(self._picked, names="value")
        left = widgets.VBox([self.figure, self.numbers])
        super().__init__([*self.controls.values(), widgets.HBox([left, self.flips]), self.timeline])
        self._draw(None)

    def _changed(self, _: Any) -> None:
        before, self.setting = self.setting, Setting(**{name: c.value for name, c in self.controls.items()})
        self._draw(before)

    def _draw(self, before: Setting | None) -> None:
        shown = self.explorer.show(self.setting, before)
        for name in ("scope", "window"):
            self.controls[name].disabled = self.setting.rule not in ("args", "result")
        self.figure.value, self.numbers.value = explorer.figure(shown), explorer.numbers(shown)
        # Without a selection first: the list of before may not hold what was picked.
        self.flips.value = None
        self.flips.options = shown.flips
        self.flips.value = None
        self.timeline.value = ""

    def _picked(self, change: dict[str, Any]) -> None:
        if change["new"] is not None:
            self.timeline.value = self.explorer.timeline(change["new"], self.setting)
