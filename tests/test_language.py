"""Language models as backends: names, labels, checks, what is told of them; and a real small one, end to end."""

from __future__ import annotations

import importlib.util
import re
import struct

import pytest

from gemlab import backends, language, plots, report, trials

KEY = "sk-very-secret"
SERVED = "openai:http://127.0.0.1:9/v1#small"


def header(**texts):
    """A GGUF header with these texts, and a file type."""
    pairs = [(key, struct.pack("<I", 8) + struct.pack("<Q", len(v)) + v.encode()) for key, v in texts.items()]
    pairs.append(("general.file_type", struct.pack("<II", 4, 15)))
    packed = b"".join(struct.pack("<Q", len(key)) + key.encode() + value for key, value in pairs)
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + packed


@pytest.fixture(autouse=True)
def settings(monkeypatch, tmp_path):
    """No key, no model that was fetched, and none that the environment names."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("GEMLAB_GGUF", raising=False)
    monkeypatch.setenv("GEMLAB_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "a folder" / "my model.gguf"
    path.parent.mkdir()
    path.write_bytes(header(**{"general.name": "My Model 0.1B"}))
    return path


# --- names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sim", "gemini", "openai", "gguf", "", "my.gguf", "GGUF:x"])
def test_other_names_are_no_language_models(name):
    assert not language.is_language(name)
    for use in (language.label, language.absolute, language.described, language.check, language.backend):
        with pytest.raises(ValueError, match=r"is no language model; known: gguf:FILE, openai:URL#MODEL$"):
            use(name)


def test_a_label_names_model_and_prompt_and_neither_folder_nor_key(model_file, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert language.label(f"gguf:{model_file}") == "gguf:my model.gguf prompt=worked"
    assert language.label(SERVED, "bare") == f"{SERVED} prompt=bare"


def test_a_file_goes_by_its_whole_path_from_where_the_user_stands(model_file, monkeypatch):
    monkeypatch.chdir(model_file.parent.parent)
    assert language.absolute("gguf:a folder/my model.gguf") == f"gguf:{model_file}"
    assert language.absolute(SERVED) == SERVED
    with pytest.raises(ValueError, match=r"no model named and none fetched: get one with \./lab model"):
        language.absolute("gguf:")
    monkeypatch.setenv("GEMLAB_GGUF", "a folder/my model.gguf")
    assert language.absolute("gguf:") == f"gguf:{model_file}"
    assert language.label("gguf:", "silent") == "gguf:my model.gguf prompt=silent"


def test_a_model_is_described_by_its_own_file_or_by_its_server_s_name_for_it(model_file):
    assert language.described(f"gguf:{model_file}") == "My Model 0.1B (Q4_K_M)"
    assert language.described(SERVED) == "small (at http://127.0.0.1:9/v1, quantised as it is there)"
    with pytest.raises(ValueError, match="a key goes into OPENAI_API_KEY") as error:
        language.described(f"openai:http://me:{KEY}@host/v1#small")
    assert KEY not in str(error.value)


def test_backends_go_by_these_names_too(model_server):
    backend = backends.get(f"openai:{model_server.url}#small")
    assert backend.name == f"openai:{model_server.url}#small prompt=worked"
    for name in ("nope", "openai", "gguf"):
        with pytest.raises(ValueError, match="known: sim, gemini, gguf:FILE, openai:URL#MODEL"):
            backends.get(name)
    with pytest.raises(ValueError, match="openai: takes URL#MODEL"):
        backends.get("openai:localhost")
    with pytest.raises(ValueError, match=r"no file gone\.gguf"):
        backends.get("gguf:gone.gguf")


# --- checking without loading -------------------------------------------------------------------------------


def test_what_can_be_had_passes_and_nothing_is_asked_of_the_model(model_server, model_file, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "xllamacpp" or pytest.fail(name))
    model_server.models = ["large", "small"]
    language.check(f"openai:{model_server.url}#small", "transcript")
    language.check(f"gguf:{model_file}")
    assert model_server.asked == [] and len(model_server.listed) == 1


def test_what_cannot_be_had_is_one_line(model_server, model_file, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (tmp_path / "damaged.gguf").write_bytes(model_file.read_bytes()[:40])
    model_server.models = ["large", "other"]
    empty = f"openai:{model_server.url}#"
    for name, prompt, says in (
        (SERVED, "worked", "no server at http://127.0.0.1:9/v1: ConnectError"),
        (f"{empty}small", "worked", f"{model_server.url} has no model 'small'; it has large, other"),
        (f"{empty}large", "nope", "unknown prompt 'nope'; known: worked"),
        (empty, "worked", "openai: takes URL#MODEL"),
        ("gguf:gone.gguf", "worked", "no file gone.gguf and no known model of that name"),
        ("gguf:smollm2-135m", "worked", "./lab model smollm2-135m fetches it"),
        (f"gguf:{tmp_path / 'damaged.gguf'}", "worked", "header is cut off"),
        (f"gguf:{model_file}", "nope", "unknown prompt 'nope'"),
    ):
        with pytest.raises(ValueError, match=re.escape(says)) as error:
            language.check(name, prompt)
        assert "\n" not in str(error.value) and KEY not in str(error.value)
    model_server.models = []
    with pytest.raises(ValueError, match="it has none"):
        language.check(f"{empty}small")


def test_a_file_without_the_library_says_how_to_get_it(model_file, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "xllamacpp" else find(name))
    with pytest.raises(ValueError, match=r'needs xllamacpp: install "gemlab\[gguf\]"'):
        language.check(f"gguf:{model_file}")


def test_an_unknown_prompt_is_refused_before_a_model_is_loaded(model_file, monkeypatch):
    monkeypatch.setattr(language, "open_runtime", lambda *given: pytest.fail("loaded"))
    with pytest.raises(ValueError, match="unknown prompt 'nope'"):
        language.backend(f"gguf:{model_file}", "nope")


def test_a_runtime_that_is_loaded_serves_several_prompts(model_server, monkeypatch):
    name = f"openai:{model_server.url}#small"
    runtime = language.open_runtime(name)
    monkeypatch.setattr(language, "open_runtime", lambda *given: pytest.fail("loaded again"))
    made = [language.model(name, prompt, runtime=runtime)[0] for prompt in ("worked", "bare", "silent")]
    assert all(model.runtime is runtime for model in made)
    assert [len(model.worked) > 0 for model in made] == [True, False, True]
    assert [model.design.name for model in made] == ["worked", "bare", "silent"]


# --- what a run says of it ----------------------------------------------------------------------------------


def test_a_run_names_its_model_everywhere_and_the_key_nowhere(model_server, following, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model_server.answers = [following()]
    name = f"openai:{model_server.url}#small"
    specs = trials.plan(["preserve", "strip"], "ecpm-handles", "gemini-2.5-flash", 2)
    backend = language.backend(name, "silent")
    traces = trials.run(specs, backend, tmp_path / "t.jsonl", progress=None)
    assert set(model_server.keys) == {f"Bearer {KEY}"} and KEY not in (tmp_path / "t.jsonl").read_text()
    assert {t["backend"] for t in traces} == {f"{name} prompt=silent"}
    assert {t["outcome"] for t in traces} == {"completed"} and {tuple(t["warnings"]) for t in traces} == {()}
    results = report.Results("signature_ab", traces, ["preserve", "strip"], backend.simulated)
    told = f"easured on a language model behind the emulator, not on Gemini: small (at {model_server.url}, "
    assert f"{told}quantised as it is there), prompt 'silent', temperature 0.7." in results.notes()[0]
    assert f"- M{told}" in results.reading()
    figure = plots.estimates(results)
    assert f"m{told}" in figure.get_supxlabel()


def test_without_a_server_trials_fail_and_the_trace_holds_no_key(monkeypatch, tmp_path, slept):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    specs = trials.plan(["preserve"], "ecpm-handles", "gemini-2.5-flash", 1)
    (one,) = trials.run(specs, language.backend(SERVED), tmp_path / "t.jsonl", progress=None)
    assert one["outcome"] == "failed" and KEY not in (tmp_path / "t.jsonl").read_text()
    assert one["detail"].endswith("(no answer from the model's server: ConnectError)")


def test_traces_of_another_model_or_prompt_are_not_gone_on_from(model_server, following, tmp_path):
    model_server.answers = [following()]
    specs = trials.plan(["preserve"], "ecpm-handles", "gemini-2.5-flash", 1)
    name = f"openai:{model_server.url}#small"
    trials.run(specs, language.backend(name), tmp_path / "t.jsonl", progress=None)
    for other in (language.backend(name, "bare"), language.backend(name + "er"), backends.simulated()):
        with pytest.raises(ValueError, match="another backend"):
            trials.run(specs, other, tmp_path / "t.jsonl", progress=None)
