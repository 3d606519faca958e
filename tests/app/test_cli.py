"""The command line as a user meets it: one clear line for bad input, never a traceback, no key anywhere."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def gemlab(*words, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GEMINI_", "GOOGLE_"))}
    command = [sys.executable, "-c", "from gemlab.app.cli import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**clean, **environment}, timeout=120)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "nope"], "no experiment 'nope'"),
        (["run", "signature_ab", "-p", "foo=1"], "unknown parameter foo"),
        (["run", "signature_ab", "-p", "instances=many"], "whole number"),
        (["run", "signature_ab", "--backend", "nope"], "unknown backend"),
        (["run", "signature_ab", "--backend", "gemini"], "GEMINI_API_KEY"),
        (["run", "signature_ab", "--out", "/dev/null/x"], "cannot write"),
        (["run", "resilience", "--backend", "gguf:x"], "resilience uses sim alone, not gguf:x"),
        (["run", "guard_thresholds", "-p", "rules=nope"], "unknown rule 'nope'"),
        (["serve", "--port", "99999999"], "cannot serve"),
        (["model", "nope"], "unknown model 'nope'; known: smollm2-135m, gemma3-270m"),
        (["run", "signature_ab", "--backend", "gguf:gone.gguf"], "no file gone.gguf and no known model of that name"),
        (["run", "signature_ab", "--backend", "openai:http://127.0.0.1:9/v1"], "openai: takes URL#MODEL"),
        (["run", "signature_ab", "--backend", "openai:http://127.0.0.1:9/v1#m"], "no server at http://127.0.0.1:9/v1"),
        (["run", "signature_lm", "--backend", "sim"], "signature_lm uses gguf or openai alone, not sim"),
        (["run", "signature_lm", "--backend", "openai:http://h/v1#m", "-p", "setups=[]"], "there has to be one"),
        (["serve", "--model", "openai:http://h/v1"], "openai: takes URL#MODEL"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, says):
    done = gemlab(*words)
    assert done.returncode == 2
    assert says in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""


def test_no_network_is_one_line_and_shows_no_key():
    done = gemlab(
        *("run", "signature_ab", "-p", "instances=1", "--backend", "gemini", "--yes"),
        GEMINI_API_KEY="super-secret-key",
        GOOGLE_GEMINI_BASE_URL="http://127.0.0.1:9",
    )
    assert done.returncode == 2 and "no connection" in done.stderr
    assert "super-secret-key" not in done.stdout + done.stderr and "Traceback" not in done.stderr


def test_no_model_is_one_line_that_says_how_to_get_one(tmp_path):
    done = gemlab("run", "signature_lm", GEMLAB_CACHE=str(tmp_path), GEMLAB_GGUF="")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and done.stdout == ""
    assert "no model named and none fetched: get one with ./lab model smollm2-135m" in done.stderr


def test_a_language_model_s_key_is_shown_nowhere(tmp_path):
    key, out = "sk-very-secret", str(tmp_path / "run")
    for url in ("http://127.0.0.1:9/v1#m", f"http://me:{key}@127.0.0.1:9/v1#m"):
        done = gemlab("run", "signature_ab", "--backend", f"openai:{url}", "--out", out, OPENAI_API_KEY=key)
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert key not in done.stdout + done.stderr and not (tmp_path / "run").exists()


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom gemlab.app import cli\n"
        "sys.argv = ['gemlab', '--help']\n"
        "try: cli.main()\nexcept SystemExit: pass\n"
        "print({'google.genai', 'pandas', 'scipy', 'matplotlib', 'papermill', 'starlette'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "Commands:" in done.stdout and done.stdout.strip().endswith("set()")


def test_a_port_in_use_is_one_line():
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = gemlab("serve", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2 and "cannot serve" in done.stderr and done.stderr.count("\n") == 1


def test_models_are_listed_without_fetching_any(tmp_path):
    done = gemlab("model", GEMLAB_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0 and done.stderr == "" and not (tmp_path / "cache").exists()
    for says in ("smollm2-135m", "Apache-2.0", "gemma3-270m", "Gemma Terms of Use", "./lab model smollm2-135m"):
        assert says in done.stdout


def test_a_model_that_cannot_be_fetched_is_one_line_and_exit_code_1():
    done = gemlab("model", "smollm2-135m", GEMLAB_CACHE="/dev/null/cache")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "cannot fetch smollm2-135m: Not a directory" in done.stderr
