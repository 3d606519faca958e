"""A study in a notebook's kernel: refused in one line, interrupted in one line, gone on with."""

from __future__ import annotations

import json
import time

import jupyter_client
import pytest

from gemlab.registry import BadInput
from gemlab.studies import base, session


@pytest.fixture(scope="module")
def running():
    """A kernel as JupyterLab starts it."""
    manager, client = jupyter_client.manager.start_new_kernel(kernel_name="python3", startup_timeout=120)
    try:
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(running, tmp_path):
    """Run a cell in a folder of the test's own: `kernel(code, stop_at="words")` returns the text and the error.

    The stop button is pressed when `stop_at` has been printed.
    """
    manager, client = running

    def run(code, stop_at=""):
        client.execute(f"import os; os.chdir({str(tmp_path)!r})")
        asked, text, error, pressed = client.execute(code), "", None, False
        while True:
            message = client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") != asked:
                continue
            kind, content = message["msg_type"], message["content"]
            text += content["text"] if kind == "stream" else ""
            text += content["data"].get("text/plain", "") if kind in ("execute_result", "display_data") else ""
            error = content if kind == "error" else error
            if stop_at and stop_at in text and not pressed:
                pressed = True
                manager.interrupt_kernel()
            if kind == "status" and content["execution_state"] == "idle":
                return text, error

    return run


def start(study="signature_ab", **parameters):
    words = "".join(f", {name}={value!r}" for name, value in parameters.items())
    return f"import gemlab\nstudy = gemlab.study({study!r}{words})"


@pytest.mark.parametrize(
    ("study", "given", "says"),
    [
        ("signature_ab", {"model": "gpt-5"}, "unknown model 'gpt-5'"),
        ("signature_ab", {"instances": "10"}, 'parameter instances is a whole number, "10" is a text'),
        ("signature_ab", {"instances": True}, "parameter instances is a whole number"),
        ("signature_ab", {"arms": ["nope"]}, "unknown history strategy"),
        ("signature_ab", {"task": "nope"}, "unknown task"),
        ("signature_ab", {"tusk": "ecpm"}, "unknown parameter tusk"),
        ("signature_ab", {"parts": ["gone.py"]}, "gone.py"),
        ("signature_ab", {"out": "/dev/null/x"}, "cannot write in /dev/null/x"),
        ("pruning", {"arms": [{"name": "a", "pruning": "window(0)"}]}, "at least 1"),
        ("resilience", {"backend": "gemini"}, "resilience uses sim alone"),
        ("nope", {}, "unknown study 'nope'"),
    ],
)
def test_bad_input_is_one_line_without_a_traceback_before_anything_is_made(kernel, tmp_path, study, given, says):
    text, error = kernel(start(study, **given))
    assert text == "" and error["ename"] == "BadInput" and says in error["evalue"]
    assert error["traceback"] == [f"BadInput: {error['evalue']}"] and "\n" not in error["evalue"]
    assert list(tmp_path.iterdir()) == []


def test_no_key_is_one_line(kernel):
    _, error = kernel("import os; os.environ.pop('GEMINI_API_KEY', None)\n" + start(backend="gemini"))
    assert error["ename"] == "BadInput" and "no API key" in error["evalue"] and len(error["traceback"]) == 1


def test_who_will_answer_and_where_results_go_is_one_line(kernel, tmp_path):
    text, error = kernel(start(name="mine", instances=2))
    assert error is None and text.count("\n") == 1
    (folder,) = (tmp_path / "runs" / "mine").iterdir()
    assert text == f"signature_ab: scripted model: shows the instrument, not Gemini. Results go to {folder}.\n"


@pytest.mark.slow
def test_the_stop_button_ends_in_one_line_and_running_all_again_goes_on(kernel, tmp_path):
    many = start(name="long", instances=400)
    kernel(many)
    text, error = kernel("findings = study.run()", stop_at="/800 trials")
    (folder,) = (tmp_path / "runs" / "long").iterdir()
    lines = (folder / "trials.jsonl").read_text().splitlines()
    assert error["ename"] == "Interrupted" and len(error["traceback"]) == 1 and "\n" not in error["traceback"][0]
    assert f"Interrupted: {len(lines)} trials are kept in {folder}" in error["traceback"][0]
    assert f'out = "{folder}"' in error["evalue"] and 80 <= len(lines) < 800
    time.sleep(1)
    assert len((folder / "trials.jsonl").read_text().splitlines()) == len(lines), "nothing goes on behind the prompt"

    text, _ = kernel(start(name="long", instances=399))
    assert f"Starts anew: the run in {folder}, which did not end, has other parameters." in text
    text, error = kernel(many)
    assert error is None and f"Results go to {folder}." in text
    assert f"Goes on with the run that did not end: {len(lines)} trials are kept there." in text
    text, error = kernel("findings = study.run()\nfindings.save()")
    assert error is None and f"{len(lines)} of 800 trials were there already" in text
    assert json.loads((folder / "summary.json").read_text())["arms"]["strip"]["trials"] == 400
    # What has ended is not gone on with.
    text, _ = kernel(many)
    assert f"Results go to {folder}" not in text and "Goes on" not in text and "anew" not in text


# --- without a kernel ---------------------------------------------------------------------------------------


def test_the_check_is_the_command_line_s(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(base, "check", lambda study, values: seen.append((study.name, dict(values))) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        session.start("pruning", instances=3, out=str(tmp_path / "x"))
    assert seen == [("pruning", {"instances": 3, "out": str(tmp_path / "x")})]


def test_trials_of_other_settings_are_refused_and_left_alone(tmp_path, capsys):
    session.start("signature_ab", instances=2, out=str(tmp_path)).run()
    before = (tmp_path / "trials.jsonl").read_bytes()
    with pytest.raises(BadInput, match="another seed"):
        session.start("signature_ab", instances=2, seed=2, out=str(tmp_path))
    assert (tmp_path / "trials.jsonl").read_bytes() == before
