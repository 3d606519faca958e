"""Runs by papermill: complete, resumed, and ended in every way a kernel can end."""

from __future__ import annotations

import json

import nbformat
import pytest

from gemlab.app import experiments, notebooks
from gemlab.app.experiments import Experiment
from gemlab.registry import BadInput

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
    where = notebooks.run(tested, notebooks.prepare(tested, {"x": 7}, False), str(tmp_path / "run"))
    assert capfd.readouterr().out.strip() == f"7 {where}"
    assert experiments.is_done(where) and "<html" in (where / "report.html").read_text()


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
    with pytest.raises(notebooks.RunFailed, match=words) as failed:
        notebooks.run(tested, {"x": 1}, str(tmp_path / "run"))
    assert f"--out {tmp_path / 'run'}" in str(failed.value) and "\n" not in str(failed.value)
    assert not experiments.is_done(tmp_path / "run") and not (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize(
    ("name", "given", "files"),
    [
        ("guard_thresholds", {"traces": ["a.jsonl"]}, ["traces"]),
        ("canary", {"baseline_file": "a.jsonl", "today_file": "a.jsonl"}, ["baseline_file", "today_file"]),
        ("signature_ab", {"parts": ["parts.py"]}, ["parts"]),
    ],
)
def test_files_among_the_parameters_are_found_from_where_the_user_stands(tmp_path, monkeypatch, name, given, files):
    (tmp_path / "a.jsonl").write_text('{"served": "m", "calls": 4, "redundant": 0}\n')
    (tmp_path / "parts.py").touch()
    monkeypatch.chdir(tmp_path)
    chosen = experiments.load(name)
    found = notebooks.prepare(chosen, given, False)
    for file in files:
        whole = str(tmp_path / ("parts.py" if file == "parts" else "a.jsonl"))
        assert found[file] == ([whole] if isinstance(given[file], list) else whole)
        gone = ["gone"] if isinstance(given[file], list) else "gone"
        with pytest.raises(BadInput, match="gone"):
            notebooks.prepare(chosen, {**given, file: gone}, False)


@pytest.mark.parametrize("name", ["resilience", "canary", "validity"])
def test_a_study_that_cannot_use_a_backend_refuses_it(name):
    with pytest.raises(BadInput, match=f"{name} uses sim alone, not gemini: ") as error:
        notebooks.prepare(experiments.load(name), {"backend": "gemini"}, False)
    assert "\n" not in str(error.value)


def test_recorded_runs_need_no_backend(tmp_path):
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(BadInput, match="replayed without a call"):
        notebooks.prepare(
            experiments.load("guard_thresholds"), {"backend": "gemini", "traces": [str(tmp_path / "a.jsonl")]}, False
        )


def ab(tmp_path, **given):
    chosen = experiments.load("signature_ab")
    return chosen, notebooks.prepare(chosen, {"instances": 3, **given}, False, str(tmp_path / "run"))


@pytest.mark.slow
def test_a_small_run_leaves_everything_and_goes_on_where_it_stopped(tmp_path):
    where = notebooks.run(*ab(tmp_path), str(tmp_path / "run"))
    lines = (where / "trials.jsonl").read_text().splitlines(keepends=True)
    summary = json.loads((where / "summary.json").read_text())
    assert len(lines) == 6 and summary["arms"]["strip"]["trials"] == 3
    assert {"estimates.png", "outcomes.png", "differences.png", "report.html"} <= {p.name for p in where.iterdir()}

    # As after a kill: a lost summary, two trials missing, one line cut.
    (where / "summary.json").unlink()
    (where / "trials.jsonl").write_text("".join(lines[:3]) + lines[3][:50])
    notebooks.run(*ab(tmp_path), str(where))
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


# --- on a language model ------------------------------------------------------------------------------------

SMALL = {"instances": 2, "pilot": 2, "block": 2, "slots": 2}
SETUPS = [{"task": "ecpm-handles", "prompt": "worked"}, {"task": "ecpm-handles", "prompt": "bare"}]


def lm(tmp_path, model_server, **given):
    chosen = experiments.load("signature_lm")
    backend = f"openai:{model_server.url}#small"
    return chosen, notebooks.prepare(
        chosen, {"backend": backend, "setups": SETUPS, **SMALL, **given}, False, str(tmp_path / "run")
    )


def test_a_language_model_is_looked_for_before_anything_is_made_and_nothing_is_asked_of_it(tmp_path, model_server):
    backend = f"openai:{model_server.url}#small"
    assert ab(tmp_path, backend=backend)[1]["backend"] == backend
    assert lm(tmp_path, model_server)[1]["setups"] == SETUPS
    assert model_server.asked == [] and len(model_server.listed) == 2 and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"backend": "sim"}, "uses gguf or openai alone, not sim: it needs a language model"),
        ({"backend": "gemini"}, "uses gguf or openai alone, not gemini: it needs a language model"),
        ({"backend": "openai:http://127.0.0.1:9/v1#small"}, "no server at http://127.0.0.1:9/v1: ConnectError"),
        ({"backend": "gguf:gone.gguf"}, r"no file gone\.gguf"),
        ({"setups": []}, "there has to be one"),
        ({"setups": [*SETUPS, SETUPS[0]]}, "set-ups are to differ"),
        ({"setups": [{"task": "triage", "prompt": "nope"}]}, "unknown prompt 'nope'"),
        ({"setups": [{"task": "nope", "prompt": "bare"}]}, "unknown task 'nope'"),
        ({"arms": ["preserve"]}, "a control and other arms"),
        ({"arms": ["preserve", "nope"]}, "unknown history strategy"),
        ({"model": "gemini-3.8-flash"}, 'no thinking "off" for none'),
        ({"model": "gpt-5", "arms": ["preserve", "strip"]}, "unknown model"),
        ({"alpha": 2}, "alpha lies between 0 and 1"),
        ({"pilot": 0}, "start at 1"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_made(tmp_path, model_server, given, words):
    with pytest.raises(BadInput, match=words) as error:
        lm(tmp_path, model_server, **given)
    assert "\n" not in str(error.value) and not (tmp_path / "run").exists()


def test_a_model_that_the_server_has_not_is_refused_for_any_experiment(tmp_path, model_server):
    model_server.models = ["large"]
    for prepare in (
        lambda: lm(tmp_path, model_server),
        lambda: ab(tmp_path, backend=f"openai:{model_server.url}#small"),
    ):
        with pytest.raises(BadInput, match="has no model 'small'; it has large"):
            prepare()


def test_a_model_s_file_goes_by_its_whole_path_into_the_kernel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gemlab.backends.language.check", lambda name: None)
    (tmp_path / "my.gguf").write_bytes(b"GGUF")
    assert ab(tmp_path, backend="gguf:my.gguf")[1]["backend"] == f"gguf:{tmp_path / 'my.gguf'}"


@pytest.mark.slow
def test_the_experiment_on_a_language_model_runs_goes_on_and_says_who_was_measured(
    tmp_path, model_server, following, monkeypatch, capfd
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    follow = following(early=1.0)
    free = "one, two, three"
    model_server.answers = [lambda body: follow(body) if "response_format" in body else free]
    where = notebooks.run(*lm(tmp_path, model_server), str(tmp_path / "run"))
    summary = json.loads((where / "summary.json").read_text())
    counts = {
        (s["prompt"], s["arm"]): (s["completed"], s["trials"], s["only_control"]) for s in summary["tables"]["setups"]
    }
    arms = ["preserve", "strip", "placebo", "neutral", "none", "pruned", "dummy"]
    assert list(counts) == [(one["prompt"], arm) for one in SETUPS for arm in arms]
    lost = {"strip", "none", "dummy"}
    for (_, arm), found in counts.items():
        assert found == ((0, 2, 2) if arm in lost else (2, 2, None if arm == "preserve" else 0)), arm
    assert (
        summary["backend"] == f"openai:{model_server.url}#small" and summary["tables"]["speed"][0]["runtime_share"] > 0
    )
    assert sum("not on Gemini: small (at" in note for note in summary["notes"]) == len(SETUPS)
    made = {p.name for p in where.iterdir()}
    assert {"report.html", "notebook.ipynb", "summary.json", "setups.png"} <= made
    assert {
        f"{kind}-ecpm-handles-{prompt}.jsonl" for kind in ("trials", "pilot") for prompt in ("worked", "bare")
    } <= made
    shown = (where / "report.html").read_text()
    assert "tokens read anew and" in shown and "1 done for app-" in shown and "no difference shown" in shown
    everything = shown + "".join(p.read_text("utf-8", "replace") for p in where.iterdir()) + "".join(capfd.readouterr())
    assert "sk-very-secret" not in everything and set(model_server.keys) == {"Bearer sk-very-secret"}

    # As after a kill: trials that are there are not made again, and the same comes out.
    path = where / "trials-ecpm-handles-bare.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-3]) + lines[-3][:50])
    (where / "summary.json").unlink()
    model_server.asked.clear()
    notebooks.run(*lm(tmp_path, model_server), str(where))
    again = json.loads((where / "summary.json").read_text())
    assert again["tables"] == {**summary["tables"], "speed": []} and again["notes"] == summary["notes"]
    assert len([a for a in model_server.asked if "response_format" in a]) <= 3 * 5

    before = {p.name: p.read_bytes() for p in where.iterdir()}
    with pytest.raises(BadInput, match="another seed"):
        lm(tmp_path, model_server, seed=2)
    assert {p.name: p.read_bytes() for p in where.iterdir()} == before, "other settings must not touch a finished run"
