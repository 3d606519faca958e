"""The notebooks in the tree: stripped, one literal parameters cell, thin, and all names in them exist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemlab.app import experiments

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_notebooks_are_stripped_thin_and_parameterised(path):
    book = json.loads(path.read_text("utf-8"))
    code = [c for c in book["cells"] if c["cell_type"] == "code"]
    assert not any(c["outputs"] or c["execution_count"] for c in code)
    assert len(code) <= 14 and all(len(c["source"]) <= 20 for c in code)
    assert book["metadata"]["kernelspec"]["name"] == "python3"
    assert book["cells"][0]["cell_type"] == "markdown" and "?" in book["cells"][0]["source"][0]
    assert "out" in experiments.defaults(path)


@pytest.mark.parametrize("name", experiments.known())
def test_every_experiment_sets_parameters_that_its_notebook_has(name):
    chosen = experiments.load(name)
    checked = experiments.checked(chosen.parameters, chosen.notebook)
    assert {"backend", "model", "seed", "out"} <= set(checked) and {"task", "setups"} & set(checked)
    assert checked["name"] == name
