"""Every study's findings: one form of summary, captions and labels, and a study of one's own."""

from __future__ import annotations

import json

import pytest

from gemlab import backends
from gemlab.measure import summary
from gemlab.registry import BadInput
from gemlab.studies import base, session
from gemlab.studies.base import STUDIES

SMALL = {
    "signature_ab": {"instances": 2},
    "pruning": {"instances": 1, "task": "chain(4)"},
    "resilience": {"instances": 1, "troubles": {"none": [], "empty": [{"kind": "empty", "probability": 0.2}]}},
    "canary": {"runs": 10, "looks": [5, 10], "repetitions": 3},
    "validity": {"instances": 6, "size": 4, "repetitions": 3, "grid_instances": 2, "factors": [0, 1]},
    "guard_ab": {"instances": 2, "more_tasks": ["polling"]},
    "guard_thresholds": {"instances": 3, "more_tasks": ["polling"]},
}
KEYS = [
    "schema", "gemlab", "experiment", "study", "question", "source", "backend", "model", "models", "served", "task",
    "tasks", "seed", "parameters", "arms", "comparisons", "tables", "shown", "reading", "notes",
]  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The findings of every study that needs no language model, small."""
    return {
        name: session.start(name, name=f"my {name}", out=str(tmp_path_factory.mktemp(name)), **given).run()
        for name, given in SMALL.items()
    }


def test_all_studies_are_here():
    assert set(STUDIES.names()) == {*SMALL, "signature_lm"}
    assert all(line.endswith("?") for line in STUDIES.describe().values())


@pytest.mark.parametrize("name", SMALL)
def test_the_summary_has_one_form(found, name):
    written = json.loads(found[name].save().read_text("utf-8"))
    assert list(written) == KEYS and written["schema"] == summary.SCHEMA
    assert (written["study"], written["experiment"], written["seed"]) == (name, f"my {name}", 1)
    assert written["source"]["kind"] == "scripted" and written["source"]["label"] == backends.SCRIPTED.label
    assert written["models"] == [written["model"]] and written["task"] in written["tasks"] and written["served"]
    assert written["parameters"].items() >= {k: v for k, v in SMALL[name].items() if k != "factors"}.items()
    assert written["backend"] == "sim" and "out" not in written["parameters"]
    assert written["arms"] or written["tables"]
    assert all(isinstance(text, str) and "\n" not in text for text in [*written["notes"], *written["reading"]])
    printed = summary.text(written)
    assert all(printed.count(text) >= 1 for text in [*written["notes"], *written["reading"]])
    assert str(next(iter(written["shown"][0].values()))) in printed


@pytest.mark.parametrize("name", SMALL)
def test_who_answered_stands_under_every_figure_and_in_the_reading(found, name):
    for figure in found[name].figures:
        caption = " ".join(found[name].figure(figure).get_supxlabel().split())
        assert caption.startswith("scripted model: shows the instrument, not Gemini model gemini-"), figure
        assert "served gemini-" in caption and "task" in caption, figure
    assert any("not Gemini" in line for line in found[name].reading())
    assert "90%" not in found[name].notes()[0].text or name in ("signature_ab", "canary", "validity")


@pytest.mark.parametrize("name", SMALL)
def test_all_that_is_found_is_saved(found, name, tmp_path):
    findings = found[name]
    findings.save(tmp_path / "there")
    names = {path.name for path in (tmp_path / "there").iterdir()}
    assert names == {"summary.json", "tables.md", *(f"{figure}.png" for figure in findings.figures)}
    text = (tmp_path / "there" / "tables.md").read_text("utf-8")
    assert all(f"## {table}" in text for table in findings.tables) and "not Gemini" in text
    assert len(findings.table()) and len(findings.frame()) and "<table" in findings._repr_html_()
    assert findings.figure() is findings.figure(next(iter(findings.figures)))
    with pytest.raises(BadInput, match=f"{name} has no figure 'nope'; it has "):
        findings.figure("nope")


class Mine(base.Study):
    """A study of one's own is a class and a line."""

    name = "mine"
    question = "Mine?"

    def plan(self, parameters):
        return STUDIES.find("signature_ab")[0].plan(parameters)

    def run(self, parameters, folder, backend):
        return STUDIES.find("signature_ab")[0].run(parameters, folder, backend)


def test_a_study_of_one_s_own_is_checked_and_run_like_ours(tmp_path, capsys):
    STUDIES.register(Mine())
    try:
        assert "Mine?" in STUDIES.describe()["mine"]
        with pytest.raises(BadInput, match="unknown task"):
            session.start("mine", task="nope", out=str(tmp_path))
        findings = session.start("mine", instances=1, out=str(tmp_path)).run()
        assert findings.summary()["arms"]["preserve"]["trials"] == 1
    finally:
        STUDIES.remove("mine")
