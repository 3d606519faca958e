"""The figures of a sweep: there whatever there is to show, and whose runs they are."""

from __future__ import annotations

import pytest

from gemlab.backends import Source
from gemlab.guards.rounds import Round
from gemlab.measure import style
from gemlab.replay import firing, sweep_figures, thresholds
from gemlab.replay.importers import Run


@pytest.mark.parametrize("labelled", [True, False])
def test_figures_of_sets_with_and_without_anything_to_show(tmp_path, labelled):
    made = [
        Run(f"r{n}", "s", "m", n % 2 == 0, "cap", (tuple(Round((("get", {}),), ("x",)) for _ in range(n)),))
        for n in range(1, 9 if labelled else 2)
    ]
    made += [] if labelled else [Run("h", "s", "m", True, None, ((Round((("get", {}),), ("x",)),),))]
    fires = firing.sweep(firing.index(made))
    rows = thresholds.table(fires)
    choices, kind = thresholds.recommend(rows, 0.5), thresholds.target(fires)
    about = sweep_figures.subject(made, Source("own", "own runs, as recorded"))
    drawn = [
        sweep_figures.frontier(rows, choices, kind, 0.5, about),
        sweep_figures.heat(rows, choices, kind, about),
        sweep_figures.firing(fires, choices, about),
        sweep_figures.by_source(fires, choices, about),
    ]
    for i, figure in enumerate(drawn):
        style.save(figure, tmp_path / f"{i}.png")
        assert (tmp_path / f"{i}.png").read_bytes().startswith(b"\x89PNG")
        caption = " ".join(figure.get_supxlabel().split())
        assert "own runs, as recorded" in caption and f"model m · {sweep_figures.counted(made)}" in caption
    texts = [t.get_text() for axes in drawn[2].axes for t in axes.texts]
    assert ("fires in no labelled run" in texts) != labelled
