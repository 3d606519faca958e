"""Importers: the same runs from raw and normalised files, own traces as they ran, and what is broken is named."""

import asyncio
import gzip
import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gemlab import backends
from gemlab.agent import loop
from gemlab.guards.rounds import Round
from gemlab.replay import importers
from gemlab.replay.importers.base import Run
from gemlab.runs import trace, trials


@pytest.fixture
def load(tmp_path):
    """Write records as JSON lines and import them."""

    def do(*records, name="runs.jsonl"):
        path = tmp_path / name
        lines = [
            r if isinstance(r, str) else trace.dumps(r).strip() if isinstance(r, trace.Trace) else json.dumps(r)
            for r in records
        ]
        path.write_text("\n".join(lines) + "\n", "utf-8")
        return importers.read([path])

    return do


# --- other systems ------------------------------------------------------------------------------------------


def test_a_tau_bench_file_and_its_normalised_form_give_the_same_runs(shared):
    folder = shared / "data" / "traces"
    raw = importers.read([folder / "raw" / "taubench_gpt-4o-airline.json.gz"])
    normal = importers.read([folder / "tau.jsonl.gz"])
    assert raw.notes() == normal.notes() == [] and len(raw.runs) == 200
    for one, other in zip(raw.runs, normal.runs, strict=True):
        assert (f"airline/{one.id}", one.success, one.turns) == (other.id, other.success, other.turns)


def test_tau2_bench_files_and_their_normalised_form_give_the_same_runs(shared):
    folder = shared / "data" / "traces"
    raw, normal = importers.read([folder / "raw" / "tau2"]), importers.read([folder / "tau2.jsonl.gz"])
    assert raw.notes() == normal.notes() == [] and len(raw.runs) == 29
    for one, other in zip(raw.runs, normal.runs, strict=True):
        assert (one.success, one.end, one.model, one.turns) == (other.success, other.end, other.model, other.turns)
        assert other.id.split("/", 1)[1] in one.id.rsplit("/", 1)[0] + "/"
    assert {r.source for r in raw.runs} >= {"tau2-bench airline"}


CALLS = Round((("get", {"q": 1}), ("put", {"v": [2]})), ({"n": 1}, "Error: full"), failed=(False, True))


def test_chat_messages(load):
    def tool(ident, content):
        return {"role": "tool", "tool_call_id": ident, "content": content}

    def made(ident, name, arguments):
        return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}

    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [made("a", "get", '{"q": 1}'), made("b", "put", '{"v":[2]}')]},
        tool("b", "Error: full"),
        tool("a", '{"n": 1}'),
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "", "tool_calls": [made("c", "get", "{broken")]},
    ]
    turns = ((CALLS,), (Round((), empty="no parts"), Round((("get", "{broken"),), (None,), failed=(False,))))
    got = load({"id": "x", "messages": messages, "reward": 1.0, "model": "m", "source": "s", "end": "stop"}, messages)
    assert got.notes() == []
    assert got.runs == [
        Run("x", "s", "m", True, "stop", turns),
        Run("runs.jsonl, line 2", "chat", "unknown", None, None, turns),
    ]


def test_calls_of_the_simulated_user_are_none_of_the_agents(load):
    def calls(role, name):
        return {"role": role, "content": None, "tool_calls": [{"id": "1", "name": name, "arguments": {}}]}

    messages = [
        {"role": "user", "content": "go"},
        calls("user", "restart_phone"),
        {"role": "tool", "id": "1", "requestor": "user", "content": "restarted"},
        calls("assistant", "get"),
        {"role": "tool", "id": "1", "requestor": "assistant", "content": "x", "error": True},
    ]
    got = load({"simulations": [{"task_id": "t", "trial": 2, "messages": messages, "reward_info": None}]})
    assert got.notes() == []
    turns = ((Round((("get", {}),), ("x",), failed=(True,)),),)
    assert got.runs == [Run("t/2", "tau2-bench unknown", "unknown", None, None, turns)]


def test_gemini_contents(load):
    contents = [
        {"role": "user", "parts": [{"text": "go"}]},
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True},
                {"function_call": {"name": "get", "args": {"q": 1}, "id": "a"}, "thought_signature": "U2ln"},
                {"functionCall": {"name": "put", "args": {"v": [2]}, "id": "b"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "put", "id": "b", "response": {"error": "full"}}},
                {"function_response": {"name": "get", "id": "a", "response": {"n": 1}}},
            ],
        },
        {"role": "model", "parts": [{"text": "done"}]},
        {"role": "user", "parts": [{"text": "again"}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}]},
    ]
    body = {"contents": contents, "tools": [{"functionDeclarations": [{"name": "get"}]}], "success": False, "id": "x"}
    first, empty = Round(CALLS.calls, ({"n": 1}, {"error": "full"})), Round((), empty="thoughts only")
    got = load(contents, body)
    assert got.notes() == []
    assert got.runs[0].turns == ((first,), (empty,)) and got.runs[0].success is None
    assert got.runs[1] == Run("x", "contents", "unknown", False, None, ((replace(first, unknown=(1,)),), (empty,)))
    # The same as one JSON value over many lines, and compressed.
    assert load(json.dumps(contents, indent=1), name="one.json").runs[0].turns == got.runs[0].turns


def test_compressed_files_and_folders(load, tmp_path):
    record = {"id": "x", "segs": [[{"r": 0, "name": "a", "args": "{}", "result": "x", "err": False}]], "success": True}
    plain = load(record, record)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "runs.jsonl.gz").write_bytes(gzip.compress(json.dumps(record).encode()))
    (tmp_path / "more" / "notes.txt").write_text("no traces")
    assert [r.id for r in importers.read([tmp_path]).runs] == ["x"] * 3
    assert plain.runs[0].turns == ((Round((("a", {}),), ("x",), failed=(False,)),),)
    with pytest.raises(FileNotFoundError, match="no traces at"):
        importers.read([tmp_path / "nowhere"])


# --- own traces ---------------------------------------------------------------------------------------------


def played(scripted, answers, guard, task="search"):
    spec = trials.plan([{"name": "x", "guard": guard}], task, "gemini-2.5-flash", 1)[0]
    return asyncio.run(loop.run(backends.simulated(transport=scripted(*answers)), spec))


@pytest.mark.parametrize("guard", ["off", "default", "article", "nudge_text"])
def test_own_traces_give_the_rounds_as_they_ran(scripted, load, guard):
    def same(n):
        part = {"functionCall": {"name": "web_search", "args": {"query": "q"}, "id": f"i{n}"}}
        status, body = scripted.reply(part)
        return status, {**body, "usageMetadata": {"promptTokenCount": n, "candidatesTokenCount": 1}}

    answers = [same(0), scripted.reply({"text": "hm", "thought": True}), *[same(n) for n in range(1, 5)]]
    trial = played(scripted, [*answers, scripted.reply({"text": "done"})], guard)
    got = load(trace.of(trial, "sim", backends.SCRIPTED))
    assert got.notes() == []
    (run,) = got.runs
    assert (run.id, run.source, run.success) == ("x/0/0", "search x", False)
    (turn,) = run.turns
    # An empty answer is asked for again where a guard counts them, and ends the run elsewhere.
    assert [r.empty for r in turn][:2] == ["", "thoughts only"]
    assert len(turn) == (6 if guard in ("default", "nudge_text") else 2)
    # What guards said is left out, and what they blocked has no result: then both are seen alike.
    assert [r.seen for r in turn] == [r.seen for r in trial.rounds]
    assert [r.prompt_tokens for r in turn if r.calls] == list(range(len(turn) - 1))


def test_own_traces_of_a_whole_run(tmp_path):
    specs = trials.plan(["preserve", {"name": "s", "transport": "stream"}], "ecpm-two-turns", "gemini-2.5-flash", 4)
    done = trials.run(specs, backends.simulated(), tmp_path / "trials.jsonl", progress=None)
    got = importers.read([tmp_path / "trials.jsonl"])
    assert got.notes() == []
    assert {r.id: (r.success, r.source) for r in got.runs} == {
        t.trial: (t.outcome == "completed", f"ecpm-two-turns {t.arm.name}") for t in done
    }
    whole = [r for r in got.runs if r.success]
    assert whole and all(len(r.turns) == 2 and all(x.results for turn in r.turns for x in turn) for r in whole)


@pytest.mark.parametrize(("outcome", "success"), [("refused", None), ("failed", None), ("unfinished", False)])
def test_refusals_and_failures_are_no_failures_of_the_run(scripted, load, outcome, success):
    packed = trace.of(played(scripted, [scripted.reply({"text": "x"})], "off"), "sim", backends.SCRIPTED)
    assert load(replace(packed, outcome=outcome)).runs[0].success is success


# --- what cannot be read ------------------------------------------------------------------------------------

BROKEN = {
    "not JSON": '{"id": 1, "segs": [[',
    "unknown form": {"hello": 1},
    "segs is str": {"segs": "x"},
    "no name of a call": {"segs": [[{"r": 0}]]},
    "call is int": {"segs": [[1]]},
    "success is str": {"segs": [], "success": "yes"},
    "unknown role 'robot'": {"messages": [{"role": "robot"}]},
    "message is int": {"messages": [1]},
    "reward is str": {"messages": [], "reward": "1"},
    "a trace of version 99, and this gemlab reads 1 and 2": {
        "trial": "t",
        "arm": {},
        "steps": [],
        "contents": [],
        "version": 99,
    },
    "broken record (KeyError: 'messages')": {"simulations": [{"task_id": 1}]},
}


@pytest.mark.parametrize(("reason", "record"), BROKEN.items(), ids=BROKEN)
def test_what_is_broken_is_counted_and_named(load, reason, record):
    good = {"id": "x", "segs": []}
    got = load(good, record, good, record)
    assert len(got.runs) == 2
    assert got.notes() == [f"2 not read: {reason} (first: runs.jsonl, line 2)"]


def test_broken_files_are_counted_once(tmp_path):
    (tmp_path / "a.json").write_text('{\n"messages": [\n')
    (tmp_path / "b.jsonl.gz").write_bytes(b"no gzip")
    assert importers.read([tmp_path]).notes() == [
        "1 not read: not JSON (first: a.json)",
        "1 not read: not gzip (first: b.jsonl.gz)",
    ]


KEYS = [
    *("segs", "messages", "contents", "role", "parts", "functionCall", "functionResponse", "name", "args", "id"),
    *("tool_calls", "traj", "trial", "received", "steps", "simulations", "r", "function", "response"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "user", "model", "x", "tool"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(record=JSON)
def test_any_record_is_either_read_or_named(tmp_path, record):
    path = tmp_path / "any.jsonl"
    path.write_text(json.dumps(record) + "\n" + json.dumps({"segs": []}) + "\n")
    got = importers.read([path])
    assert all(isinstance(r.seen.calls, tuple) for run in got.runs for turn in run.turns for r in turn)
    assert len(got.runs) + sum(got.skipped.values()) >= 2
