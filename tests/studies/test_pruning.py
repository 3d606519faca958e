import math
from types import SimpleNamespace

import pytest
from matplotlib.colors import to_rgb

from gemlab import backends
from gemlab.agent.arm import Arm
from gemlab.measure import style
from gemlab.measure.results import Results
from gemlab.runs import trials
from gemlab.studies import pruning

ARMS = [
    {"name": "all", "guard": "off"},
    {"name": "few", "pruning": "steps(2)", "guard": "budget"},
    {"name": "some", "pruning": "steps(5)", "guard": "budget"},
    {"name": "cut", "pruning": "window(4)", "guard": "off"},
    {"name": "past", "pruning": "strip_past(steps)", "guard": "off"},
]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    specs = trials.plan(ARMS, "chain(6)", "gemini-3.8-flash", 3, seed=2)
    backend = backends.simulated()
    traces = trials.run(specs, backend, tmp_path_factory.mktemp("run") / "t.jsonl", progress=None)
    return Results(traces, [a["name"] for a in ARMS], backend.source)


def test_the_table_has_variant_budget_and_what_came_of_it(results):
    found = pruning.table(results)
    assert list(found.variant) == ["none", "steps", "steps", "window", "strip_past(steps)"]
    assert [None if math.isnan(b) else b for b in found.budget] == [None, 2, 5, 4, None]
    assert found.refused.to_dict() == {"all": 0, "few": 0, "some": 0, "cut": 1, "past": 0}
    for arm, row in found.iterrows():
        rows = results.of(arm)
        assert row.completion == pytest.approx(rows.completed.mean(), abs=1e-5)
        assert row.tokens == pytest.approx(rows.total_tokens.mean())


def arm(completion, tokens):
    outcomes = dict.fromkeys(("completed", "wrong", "unfinished", "refused", "failed"), 0)
    return {
        "trials": 10, "outcomes": outcomes, "completion_rate": completion, "completion_ci": [0, 1],
        "tokens": {"total": 10 * tokens},
    }  # fmt: skip


class Made:
    """Results with figures made up."""

    def __init__(self, **arms):
        self.arms = arms
        self.traces = [SimpleNamespace(arm=Arm(a), outcome="completed") for a in arms]

    @property
    def summarised(self):
        return self.arms


def test_the_front_holds_what_nothing_beats():
    made = Made(
        cheap=arm(0.2, 100), good=arm(0.9, 500), dear=arm(0.9, 501), worse=arm(0.8, 500), between=arm(0.5, 300),
        below=arm(0.2, 300), nothing=arm(0.0, 10), unknown=arm(None, 5), twin=arm(0.9, 500),
    )  # fmt: skip
    found = pruning.table(made)
    assert set(found.index[found.front]) == {"cheap", "good", "between", "twin"}
    said = pruning.reading(made)
    assert [line.split(" completed")[0] for line in said[:-1]] == [
        "On the front: cheap, 20%", "On the front: between, 50%", "On the front: good, 90%", "On the front: twin, 90%",
    ]  # fmt: skip
    assert all("(n = 10)" in line for line in said[:-1]) and said[-1] == "Refused at least once: none."


def texts(axes):
    return [t.get_text() for t in axes.texts]


def test_every_arm_has_its_cell_with_its_budget(results, tmp_path):
    figure = pruning.heat_maps(results)
    refused, completed, tokens = figure.axes
    assert [t.get_text() for t in refused.get_yticklabels()] == ["none", "steps", "window", "strip_past(steps)"]
    assert texts(refused) == ["0%", "0%", "2", "0%", "5", "100%", "4", "0%"]
    shown = [f"{rate:.0%}" for rate in pruning.table(results).completion]
    assert [t for t in texts(completed) if "%" in t] == shown
    assert [t for t in texts(tokens) if len(t) > 1] == [f"{n:,.0f}" for n in pruning.table(results).tokens]
    # What is refused altogether is as dark as it gets, what never was is white.
    colours = [patch.get_facecolor()[:3] for patch in refused.patches]
    assert colours[3] == pytest.approx(to_rgb(style.RED), abs=0.01) and colours[0] == (1, 1, 1)
    style.save(figure, tmp_path / "f.png")
    assert (tmp_path / "f.png").read_bytes()[:4] == b"\x89PNG"


def test_the_frontier_names_every_arm_and_says_whose_numbers_these_are(results):
    figure = pruning.frontier(results)
    named = ", ".join(texts(figure.axes[0])).replace("\n", " ").split(", ")
    assert sorted(named) == sorted(a["name"] for a in ARMS)
    assert "scripted model" in figure.get_supxlabel()
