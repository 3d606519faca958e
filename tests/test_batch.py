"""Runs by papermill: complete, resumed, and ended in every way a kernel can end."""

from __future__ import annotations

import json

import nbformat
import pytest

from gemlab import batch, experiment
from gemlab.experiment import BadInput, Experiment

END = 'open(out + "/summary.json", "w").write("{}")'


def tiny(tmp_path, *cells, parameters='out: str = ""\nx: int = 1'):
    """Return an experiment on a notebook with these code cells after the parameters."""
    made = [nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})]
    made += [nbformat.v4.new_code_cell(c) for c in cells]
    path = tmp_path / "tiny.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)
    return Experiment("tiny", path, {})


def test_the_notebook_gets_its_parameters_and_its_folder(tmp_path, capfd):
    tested = tiny(tmp_path, "import os; print(x, os.getcwd())", END)
    where = batch.run(tested, batch.prepare(tested, {"x": 7}, False), str(tmp_path / "run"))
    assert capfd.readouterr().out.strip() == f"7 {where}"
    assert experiment.is_done(where) and "<html" in (where / "report.html").read_text()


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (("1 / 0", END), "ZeroDivisionError"),
        (("import sys; sys.exit(0)", END), None),
        (("import os; os._exit(1)", END), "DeadKernelError"),
        (("pass",), "before its last cell"),
    ],
    ids=["error", "exit", "dead kernel", "no summary"],
)
def test_a_notebook_that_does_not_end_is_a_failed_run(tmp_path, cells, words):
    tested = tiny(tmp_path, *cells)
    with pytest.raises(batch.RunFailed, match=words) as failed:
        batch.run(tested, {"x": 1}, str(tmp_path / "run"))
    assert f"--out {tmp_path / 'run'}" in str(failed.value) and "\n" not in str(failed.value)
    assert not experiment.is_done(tmp_path / "run") and not (tmp_path / "run" / "report.html").exists()


def test_files_among_the_parameters_are_found_from_where_the_user_stands(tmp_path, monkeypatch):
    tested = tiny(tmp_path, END, parameters='out: str = ""\ntraces: list = []\nday_file: str = ""')
    (tmp_path / "a.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    found = batch.prepare(tested, {"traces": ["a.jsonl"], "day_file": "a.jsonl"}, False)
    assert found["traces"] == [str(tmp_path / "a.jsonl")] and found["day_file"] == str(tmp_path / "a.jsonl")
    with pytest.raises(BadInput, match="gone"):
        batch.prepare(tested, {"traces": ["gone"]}, False)


def ab(tmp_path, **given):
    chosen = experiment.load("signature_ab")
    return chosen, batch.prepare(chosen, {"instances": 3, **given}, False, str(tmp_path / "run"))


def test_a_small_run_leaves_everything_and_goes_on_where_it_stopped(tmp_path):
    where = batch.run(*ab(tmp_path), str(tmp_path / "run"))
    lines = (where / "trials.jsonl").read_text().splitlines(keepends=True)
    summary = json.loads((where / "summary.json").read_text())
    assert len(lines) == 6 and summary["arms"]["strip"]["trials"] == 3
    assert {"estimates.png", "outcomes.png", "differences.png", "report.html"} <= {p.name for p in where.iterdir()}

    # As after a kill: a lost summary, two trials missing, one line cut.
    (where / "summary.json").unlink()
    (where / "trials.jsonl").write_text("".join(lines[:3]) + lines[3][:50])
    batch.run(*ab(tmp_path), str(where))
    again = json.loads((where / "summary.json").read_text())
    assert again == summary
    assert (where / "trials.jsonl").read_text().startswith("".join(lines[:3]))

    before = {p.name: p.read_bytes() for p in where.iterdir()}
    with pytest.raises(BadInput, match="another model"):
        ab(tmp_path, model="gemini-3.8-flash")
    assert {p.name: p.read_bytes() for p in where.iterdir()} == before, "other settings must not touch a finished run"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": "gpt-5"}, "unknown model"),
        ({"task": "nope"}, "unknown task"),
        ({"arms": ["preserve", "preserve"]}, "name of its own"),
        ({"arms": [{"name": "x", "pruning": "window(0)"}]}, "at least 1"),
        ({"arms": [{"name": "x", "gaurd": "off"}]}, "gaurd"),
        ({"instances": 0}, "start at 1"),
        ({"backend": "nope"}, "unknown backend"),
    ],
)
def test_unknown_names_are_refused_before_anything_is_made(tmp_path, given, words):
    with pytest.raises(BadInput, match=words):
        ab(tmp_path, **given)
    assert not (tmp_path / "run").exists()


def test_the_real_api_needs_a_key_and_a_yes(tmp_path, monkeypatch, capsys):
    from gemlab.backends import NoKey

    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NoKey, match="GEMINI_API_KEY"):
        ab(tmp_path, backend="gemini")
    monkeypatch.setenv("GEMINI_API_KEY", "not-a-key-but-secret")
    with pytest.raises(BadInput, match="--yes"):
        ab(tmp_path, backend="gemini")
    shown = capsys.readouterr().out
    assert "requests" in shown and "$" in shown and "secret" not in shown
