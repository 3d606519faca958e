"""Language models as backends: names, labels, checks, what is told of them; and a real small one, end to end."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import struct
import subprocess
import sys

import jsonschema
import pytest

from gemlab import backends, tasks
from gemlab.backends import language
from gemlab.measure import figures
from gemlab.measure.results import Results
from gemlab.runs import trials

KEY = "sk-very-secret"
SERVED = "openai:http://127.0.0.1:9/v1#small"
# As it is outside of these tests: a model that was fetched once is not fetched again.
ENVIRONMENT = dict(os.environ)


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
    with pytest.raises(ValueError, match="known: sim, gemini, gguf:FILE, openai:URL#MODEL"):
        backends.get("nope")
    for name in ("openai", "openai:localhost"):
        with pytest.raises(ValueError, match="openai: takes URL#MODEL"):
            backends.get(name)
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
    assert {t.backend for t in traces} == {f"{name} prompt=silent"}
    assert {t.outcome for t in traces} == {"completed"} and {tuple(t.warnings) for t in traces} == {()}
    results = Results(traces, ["preserve", "strip"], backend.source)
    told = f"easured on a language model behind the emulator, not on Gemini: small (at {model_server.url}, "
    assert f"{told}quantised as it is there), prompt 'silent', temperature 0.7." in results.notes()[0].text
    assert results.notes()[0].text.startswith(f"M{told}") and results.notes()[0].is_caveat
    figure = figures.estimates(results)
    assert f"m{told}".replace(" ", "") in "".join(figure.get_supxlabel().split())


def test_without_a_server_trials_fail_and_the_trace_holds_no_key(monkeypatch, tmp_path, slept):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    specs = trials.plan(["preserve"], "ecpm-handles", "gemini-2.5-flash", 1)
    (one,) = trials.run(specs, language.backend(SERVED), tmp_path / "t.jsonl", progress=None)
    assert one.outcome == "failed" and KEY not in (tmp_path / "t.jsonl").read_text()
    assert one.detail.endswith("(no answer from the model's server: ConnectError)")


def test_traces_of_another_model_or_prompt_are_not_gone_on_from(model_server, following, tmp_path):
    model_server.answers = [following()]
    specs = trials.plan(["preserve"], "ecpm-handles", "gemini-2.5-flash", 1)
    name = f"openai:{model_server.url}#small"
    trials.run(specs, language.backend(name), tmp_path / "t.jsonl", progress=None)
    for other in (language.backend(name, "bare"), language.backend(name + "er"), backends.simulated()):
        with pytest.raises(ValueError, match="another backend"):
            trials.run(specs, other, tmp_path / "t.jsonl", progress=None)


# --- a real model, end to end -------------------------------------------------------------------------------

# In a process of its own: its threads, what it prints and how it ends are a part of what is tested.
REAL = """
import asyncio, json, sys
from pathlib import Path
import httpx2, psutil
from google.genai import types
from gemlab.agent import history
from gemlab.backends import language, weights
from gemlab.measure import metrics
from gemlab.runs import trials
from gemlab.wire import answers
from gemlab.emulator.minds.runtimes import PromptTooLong

name = f"gguf:{weights.fetch(weights.known('smollm2-135m'))}"
runtime = language.open_runtime(name, 2)
backend = language.backend(name, runtime=runtime)
asked, complete = [], runtime.complete

async def kept(messages, schema, *rest):
    made = await complete(messages, schema, *rest)
    asked.append({"messages": messages, "schema": schema, "text": made.text, "finish": made.finish})
    return made

runtime.complete = kept
specs = trials.plan(["preserve", "strip"], "ecpm-handles", "gemini-2.5-flash", 1)
traces = trials.run(specs, backend, Path(sys.argv[1]), 2, None)

async def two_steps(strategy):
    "Two requests that have to be answered with a call, the second with the first one's step."
    calling = types.FunctionCallingConfig(mode="ANY")
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[types.FunctionDeclaration(name="look", description="Look.")])],
        tool_config=types.ToolConfig(function_calling_config=calling), seed=1,
    )
    said = [{"role": "user", "parts": [{"text": "Look twice."}]}]
    content = answers.of((await backend.send("gemini-2.5-flash", said, config)).response).content
    made = [p["functionCall"] for p in content["parts"] if "functionCall" in p]
    back = {"role": "user", "parts": [history.response_part(call, {"seen": "nothing"}) for call in made]}
    await backend.send("gemini-2.5-flash", history.get(strategy)([*said, content, back]), config)
    await backend.release()

async def long():
    try:
        await complete([{"role": "user", "content": "word " * 20000}], None, None, 0.0, 1)
    except PromptTooLong:
        return True
    finally:
        await runtime.aclose()

rows = [metrics.row(t) for t in traces]
trials_asked = len(asked)
for strategy in ("preserve", "strip"):
    asyncio.run(two_steps(strategy))

def status(key, path, **body):
    headers = {"authorization": f"Bearer {key}"} if key else {}
    with httpx2.Client(trust_env=False, headers=headers, timeout=60) as client:
        url = runtime.url + path
        return (client.post(url, json=body) if body else client.get(url)).status_code

hello = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
print(json.dumps({
    "rows": rows, "asked": asked, "trials_asked": trials_asked, "told": backend.source.label,
    "received": [t.received for t in traces],
    "long": asyncio.run(long()),
    "listening": [c.laddr.ip for c in psutil.Process().net_connections("inet") if c.status == "LISTEN"],
    "statuses": [status(k, "/chat/completions", **hello) for k in (None, "wrong", runtime._key)],
    "listed": [status(k, "/models") for k in (None, "wrong", runtime._key)],
    "key": runtime._key,
}))
"""


@pytest.mark.slow
def test_a_real_model_runs_trials_under_its_grammar_in_private_and_ends_without_a_word(tmp_path):
    if importlib.util.find_spec("xllamacpp") is None:
        unavailable("xllamacpp is not installed")
    done = subprocess.run(
        [sys.executable, "-c", REAL, str(tmp_path / "t.jsonl")],
        capture_output=True, text=True, timeout=600, env=ENVIRONMENT,
    )  # fmt: skip
    if "FetchFailed" in done.stderr:
        unavailable(done.stderr.splitlines()[-1])
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    (line,) = done.stdout.splitlines()  # nothing of the library's own beside it
    found = json.loads(line)

    # Judged, whatever it came to: a model this small need not know what to do.
    assert [row["arm"] for row in found["rows"]].count("strip") == 1 and len(found["rows"]) == 2
    for row in found["rows"]:
        assert row["outcome"] in ("completed", "wrong", "unfinished") and row["resent"] == 0 and row["pin"]
        assert row["prompt_tokens"] > 500 * row["requests"] and row["total_tokens"] > row["prompt_tokens"]
        assert row["output_tokens"] >= row["thought_tokens"]
    assert "Smollm2 135M" in found["told"] and "(Q4_1), prompt 'worked'" in found["told"]

    # The grammar holds: whatever was not cut off is what the schema says, and so are all calls.
    assert found["trials_asked"] == sum(row["requests"] for row in found["rows"]) and len(found["asked"]) > 4
    whole = [one for one in found["asked"] if one["finish"] == "stop"]
    assert whole
    for one in whole:
        jsonschema.validate(json.loads(one["text"]), one["schema"])
    declared = {d["name"]: d["parametersJsonSchema"] for d in tasks.get("ecpm-handles").declarations}
    for contents in found["received"]:
        for call in (p["functionCall"] for c in contents for p in c["parts"] if "functionCall" in p):
            jsonschema.validate(call["args"], declared[call["name"]])
            assert set(call["args"]) == set(declared[call["name"]]["properties"])

    # The thought of an earlier step comes back where its signature does, and only there.
    first, kept, again, lost = (json.loads(m) for m in two_steps(found["asked"][found["trials_asked"] :]))
    assert kept == first and "thought" in first and lost == {"call": again["call"]}

    assert found["listening"] == ["127.0.0.1"]
    assert found["statuses"] == [401, 401, 200] and found["listed"] == [401, 401, 200]
    assert found["long"] is True
    assert found["key"] not in (tmp_path / "t.jsonl").read_text()


def two_steps(asked):
    """Of two exchanges of two requests each: what was answered first, and how that stands in the second prompt."""
    for first, second in (asked[:2], asked[2:]):
        yield first["text"]
        yield next(m["content"] for m in second["messages"] if m["role"] == "assistant")


def unavailable(reason):
    pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
