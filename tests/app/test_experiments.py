"""Experiment files, parameters and run folders: bad input is refused in one line before a kernel starts."""

from __future__ import annotations

import json

import nbformat
import pytest

from gemlab.agent.pruning import PRUNINGS
from gemlab.app import experiments, notebooks
from gemlab.registry import BadInput
from gemlab.studies import session
from gemlab.studies.base import STUDIES

LITERALS = 'name: str = "x"\ncount: int = 3\nratio: float = 0.5\nflag: bool = True\narms: list = ["a"]\nnone = None'


def notebook(path, *parameter_cells):
    cells = [nbformat.v4.new_code_cell(source, metadata={"tags": ["parameters"]}) for source in parameter_cells]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


@pytest.fixture
def small(tmp_path):
    return notebook(tmp_path / "small.ipynb", LITERALS)


def test_defaults_are_the_literals_of_the_parameters_cell(small):
    assert experiments.defaults(small) == {
        "name": "x", "count": 3, "ratio": 0.5, "flag": True, "arms": ["a"], "none": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "cells", [(), (LITERALS, LITERALS), ("count = 3\nseeds = list(range(count))",), ("import os",)]
)
def test_no_cell_two_cells_and_derived_values_are_refused(tmp_path, cells):
    with pytest.raises(BadInput):
        experiments.defaults(notebook(tmp_path / "bad.ipynb", *cells))


def test_what_is_no_notebook_is_refused(tmp_path):
    (tmp_path / "x.ipynb").write_text("{")
    for path in (tmp_path / "x.ipynb", tmp_path / "missing.ipynb"):
        with pytest.raises(BadInput, match="not a notebook"):
            experiments.defaults(path)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cuont": 3}, "unknown parameter cuont"),
        ({"count": 1.5}, "whole number"),
        ({"count": True}, "true or false"),
        ({"flag": "false"}, "a text"),
        ({"flag": 0}, "true or false"),
        ({"arms": "a"}, "a list"),
        ({"ratio": float("nan")}, "finite"),
        ({"arms": [float("inf")]}, "finite"),
        ({"arms": ("a",)}, "JSON"),
        ({"none": {1: "x"}}, "not a text"),
        ({"none": b"x"}, "JSON"),
    ],
)
def test_names_types_and_values_are_checked(small, given, words):
    with pytest.raises(BadInput, match=words):
        experiments.checked(given, small)


def test_given_values_overlay_the_defaults_and_a_whole_number_serves_as_number(small):
    found = experiments.checked({"ratio": 2, "none": {"a": [1]}}, small)
    assert (found["ratio"], found["none"], found["count"]) == (2, {"a": [1]}, 3)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("count=4", 4),
        ("flag=false", False),
        ("name=7", "7"),
        ("name=a=b", "a=b"),
        ("arms=preserve,strip", ["preserve", "strip"]),
        ('arms=["preserve"]', ["preserve"]),
        ("count=many", "many"),
    ],
)
def test_values_from_the_command_line(small, text, value):
    assert experiments.override(text, experiments.defaults(small))[1] == value


def test_a_value_without_a_sign_is_refused(small):
    with pytest.raises(BadInput, match="key=value"):
        experiments.override("count", experiments.defaults(small))


def test_experiments_are_found_by_name_and_by_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shipped = experiments.load("signature_ab")
    assert shipped.notebook.name == "signature_ab.ipynb" and shipped.parameters["arms"] == ["preserve", "strip"]
    notebook(tmp_path / "own.ipynb", LITERALS)
    (tmp_path / "own.toml").write_text('notebook = "own.ipynb"\n[parameters]\ncount = 9\n')
    assert experiments.load("own.toml").parameters == {"count": 9}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('notebook = "gone.ipynb"', "no notebook"),
        ("notebook = ", "Invalid value"),
        ("[parameters]\nx = 1", "needs notebook"),
        ('notebook = "a"\nnotebok = 1', "notebok"),
        ('study = "nope"', "no notebook 'nope.ipynb'"),
        ('notebook = "signature_ab.ipynb"\nstudy = "nope"', "unknown study 'nope'"),
        ('study = "pruning"\nparts = "x.py"', "parts: input should be a valid array"),
        ('study = "pruning"\nparts = ["gone.py"]', "gone.py"),
    ],
)
def test_broken_experiment_files_are_refused(tmp_path, text, words):
    (tmp_path / "e.toml").write_text(text)
    with pytest.raises(BadInput, match=words):
        experiments.load(str(tmp_path / "e.toml"))


PARTS = """
import gemlab

@gemlab.pruning
def from_a_file(contents):
    "Leave nothing out."
    return list(contents)
"""


def test_a_file_may_name_a_study_and_parts_of_one_s_own(tmp_path):
    (tmp_path / "mine.py").write_text(PARTS)
    (tmp_path / "e.toml").write_text(
        'study = "pruning"\nparts = ["mine.py"]\n[parameters]\n'
        'arms = [{name = "a"}, {name = "b", pruning = "from_a_file"}]'
    )
    try:
        chosen = experiments.load(str(tmp_path / "e.toml"))
        assert (chosen.study, chosen.notebook.name) == ("pruning", "pruning.ipynb")
        assert chosen.parameters["parts"] == [str(tmp_path / "mine.py")]
        assert notebooks.prepare(chosen, {}, False)["arms"][1]["pruning"] == "from_a_file"
    finally:
        PRUNINGS.remove("from_a_file")


def test_a_notebook_names_its_study():
    assert experiments.load("signature_strict").study == "signature_ab"
    # The notebook on one's own parts makes several small comparisons, which no study is.
    assert [name for name in experiments.known() if experiments.load(name).study not in STUDIES] == ["own_parts"]


def test_an_unknown_experiment_names_the_known_ones():
    with pytest.raises(BadInput, match="signature_ab, signature_lm, signature_strict"):
        experiments.load("nope")


def test_run_folders_do_not_collide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = session.folder("", "x"), session.folder("", "x")
    assert first != second and first.is_absolute() and first.parent == tmp_path / "runs" / "x"


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="cannot write"):
        session.folder(tmp_path / "file", "x")


def executed(count, outputs=()):
    cell = nbformat.v4.new_code_cell("1", execution_count=count, outputs=list(outputs))
    return json.loads(nbformat.writes(nbformat.v4.new_notebook(cells=[cell])))


@pytest.mark.parametrize(
    ("notebook", "summary", "done"),
    [
        (executed(3), "{}", True),
        (executed(None), "{}", False),  # a dead kernel or sys.exit: later cells never ran
        (executed(3), None, False),
        (executed(3), "{", False),
        (executed(3, [nbformat.v4.new_output("error", ename="E", evalue="", traceback=[])]), "{}", False),
    ],
)
def test_a_run_is_done_only_with_its_summary_and_its_last_cell(tmp_path, notebook, summary, done):
    (tmp_path / "notebook.ipynb").write_text(json.dumps(notebook))
    if summary is not None:
        (tmp_path / "summary.json").write_text(summary)
    assert experiments.is_done(tmp_path) is done
