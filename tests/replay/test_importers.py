"""Importers: the same runs from raw and normalised files, own traces as they ran, and what is broken is named."""

import asyncio
import base64
import gzip
import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gemlab import backends
from gemlab.agent import loop
from gemlab.guards.rounds import Round
from gemlab.replay import firing, importers
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


def records(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_a_tau_bench_file_and_its_normalised_form_give_the_same_runs(shared):
    folder = shared / "data" / "traces"
    raw = importers.read([folder / "raw" / "taubench_gpt-4o-airline.json.gz"])
    normal = importers.read([folder / "tau.jsonl.gz"])
    assert not raw.skipped and not normal.skipped and len(raw.runs) == 200
    idle = sum(not record["segs"] or not any(record["segs"]) for record in records(folder / "tau.jsonl.gz"))
    assert [note.split(" (")[0] for note in raw.notes() + normal.notes()] == [
        f"{idle} of 200 runs are without a call"
    ] * 2
    # The benchmark's tools let errors begin so, and nothing else says what failed.
    failed = [bad for run in raw.runs for turn in run.turns for r in turn for bad in r.failed]
    said = [call["err"] for record in records(folder / "tau.jsonl.gz") for seg in record["segs"] for call in seg]
    assert (sum(failed), len(failed)) == (sum(said), len(said)) == (73, 1164)
    for one, other in zip(raw.runs, normal.runs, strict=True):
        assert (f"airline/{one.id}", one.success, one.turns) == (other.id, other.success, other.turns)


def test_tau2_bench_files_and_their_normalised_form_give_the_same_runs(shared):
    folder = shared / "data" / "traces"
    raw, normal = importers.read([folder / "raw" / "tau2"]), importers.read([folder / "tau2.jsonl.gz"])
    assert not raw.skipped and not normal.skipped and len(raw.runs) == 29
    failed = [bad for run in raw.runs for turn in run.turns for r in turn for bad in r.failed]
    said = [call["err"] for record in records(folder / "tau2.jsonl.gz") for seg in record["segs"] for call in seg]
    assert (sum(failed), len(failed)) == (sum(said), len(said)) == (4, 98)
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
    first = replace(CALLS, failed=(False, False))
    turns = ((first,), (Round((), empty="no parts"), Round((("get", "{broken"),), (None,), failed=(False,))))
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


def contents_of(*results, between=(), **call):
    """Return contents in which one call is made again and again, with these functionResponses."""
    made = {"functionCall": {"name": "look", "args": {}, **call}}
    steps = [
        [
            {"role": "model", "parts": [made]},
            {"role": "user", "parts": [{"functionResponse": r} for r in given]},
            *between,
        ]
        for given in results
    ]
    return [{"role": "user", "parts": [{"text": "go"}]}, *[content for step in steps for content in step]]


def fired(got, *rules, at=3):
    fires = firing.sweep(firing.index(got.runs), firing.named_rules(rules), [at])
    return [rule for i, rule in enumerate(rules) if fires.steps[0][i][0] >= 0]


def look(body, *data, **more):
    parts = [{"inlineData": {"mimeType": "image/png", "data": text}} for text in data]
    return {"name": "look", "response": body, **({"parts": parts} if parts else {}), **more}


def test_two_images_are_two_results_and_the_same_bytes_are_one(load):
    rules = ("args", "result", "stall", "cycle")
    body = {"output": "screen attached"}
    images = [base64.b64encode(f"image {n}\xff".encode("latin-1")).decode() for n in range(4)]
    assert fired(load(contents_of(*[[look(body, data)] for data in images])), *rules) == ["args"]
    assert fired(load(contents_of(*[[look(body, images[0])] for _ in images])), *rules) == list(rules)
    # Either alphabet of base64, and either spelling of the fields, is the same image.
    other = images[0].replace("/", "_").replace("+", "-").rstrip("=")
    assert other != images[0]
    snake = {"name": "look", "response": body, "parts": [{"inline_data": {"mime_type": "image/png", "data": other}}]}
    mixed = load(contents_of([look(body, images[0])], [snake], [look(body, images[0])]))
    assert fired(mixed, *rules) == list(rules)
    # Two images in one response are two, in their order; a file is what its address says.
    pairs = load(contents_of([look({}, *images[:2])], [look({}, *images[1::-1])], [look({}, *images[2:])]))
    assert fired(pairs, *rules) == ["args"]
    file = {"name": "look", "response": {}, "parts": [{"fileData": {"fileUri": "gs://a", "mimeType": "image/png"}}]}
    assert fired(load(contents_of([file], [file], [file])), *rules) == list(rules)
    assert len(str(mixed.runs[0].turns[0][0].results[0])) < 200


def test_an_error_beside_an_image_stays_one(load):
    got = load(contents_of(*[[look({"error": "dark"}, "QUJD")]] * 3))
    assert fired(got, "error", "failures") == ["error", "failures"]


def results_of(got):
    return [r.results for turn in got.runs[0].turns for r in turn]


def test_of_responses_under_one_id_the_final_one_counts(load):
    pending, done = {"status": "pending"}, {"rows": 3}
    same = load(contents_of([look(pending, id="k"), look(done, id="k")], id="k"))
    assert results_of(same) == [(done,)]
    # Later too, with words of the model or of the user between, and with the next call already made.
    late = [{"role": "model", "parts": [{"text": "I wait."}]}, {"role": "user", "parts": [{"text": "Is it there?"}]}]
    last = {"role": "user", "parts": [{"functionResponse": look(done, id="k")}]}
    assert results_of(load([*contents_of([look(pending, id="k")], id="k"), *late, last])) == [(done,)]
    other = {"role": "model", "parts": [{"functionCall": {"name": "other", "args": {}, "id": "o"}}]}
    both = {
        "role": "user",
        "parts": [{"functionResponse": {"name": "other", "id": "o", "response": {"n": 1}}}, *last["parts"]],
    }
    assert results_of(load([*contents_of([look(pending, id="k")], id="k"), other, both])) == [(done,), ({"n": 1},)]
    # An id used again is the newest call's; two equal ids in one answer go in order.
    assert results_of(load(contents_of([look(pending, id="k")], [look(done, id="k")], id="k"))) == [(pending,), (done,)]
    twice = {
        "role": "model",
        "parts": [{"functionCall": {"name": "look", "args": {"n": n}, "id": "k"}} for n in (1, 2)],
    }
    given = {"role": "user", "parts": [{"functionResponse": look(body, id="k")} for body in (pending, done)]}
    assert results_of(load([twice, given])) == [(pending, done)]


def asked(*idents, role="assistant", content=None, name="look"):
    calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": "{}"}} for i in idents]
    return {"role": role, "content": content, "tool_calls": calls}


def told(ident, content, **more):
    return {"role": "tool", "tool_call_id": ident, "content": content, **more}


def test_of_tool_messages_under_one_id_the_final_one_counts(load):
    messages = [
        *[asked("k"), told("k", "pending"), told("k", "done")],
        *[asked("k", "k"), told("k", "first"), told("k", "second")],
        *[asked("k", "m"), told("m", "m1"), told("k", "pending"), told("m", "m2"), told("k", "k2")],
    ]
    assert results_of(load(messages)) == [("done",), ("first", "second"), ("k2", "m2")]


def test_a_nudge_by_the_user_is_part_of_its_turn(load):
    nudge = {"role": "user", "parts": [{"text": "You repeat yourself."}]}
    got = load(contents_of(*[[look({"v": 1})]] * 6, between=[nudge]))
    assert [len(turn) for turn in got.runs[0].turns] == [6] and fired(got, "result", at=6) == ["result"]
    # Also where the call was left unanswered, or nothing was said in between but a thought.
    bare = [
        {"role": "user", "parts": [{"text": "go"}]},
        *[{"role": "model", "parts": [{"functionCall": {"name": "a"}}]}, nudge] * 3,
    ]
    assert [len(turn) for turn in load(bare).runs[0].turns] == [3]
    thought = {"role": "model", "parts": [{"text": "hm", "thought": True}]}
    assert [len(turn) for turn in load([nudge, thought, nudge, thought]).runs[0].turns] == [2]
    # An answer ends the turn.
    answer = {"role": "model", "parts": [{"text": "done"}]}
    assert [len(t) for t in load(contents_of(*[[look({"v": 1})]] * 3, between=[answer, nudge])).runs[0].turns] == [
        1
    ] * 3
    chat = [{"role": "user", "content": "go"}, *[asked("k"), told("k", "v"), {"role": "user", "content": "Again?"}] * 4]
    assert [len(turn) for turn in load(chat).runs[0].turns] == [4]
    chat.insert(3, {"role": "assistant", "content": "done"})
    assert [len(turn) for turn in load(chat).runs[0].turns] == [1, 3]


@pytest.mark.parametrize(
    ("more", "content", "failed"),
    [
        ({}, "Error analysis of March: none", False),
        ({}, "Error: full", False),
        ({}, '{"error": "down"}', True),
        ({}, '{"error": ""}', False),
        ({"error": True}, "x", True),
        ({"is_error": True}, "x", True),
        ({"status": "error"}, "x", True),
        ({"status": "success"}, "Error: x", False),
        ({"error": False}, '{"error": "down"}', False),
    ],
)
def test_a_tool_message_is_an_error_where_it_says_so(load, more, content, failed):
    got = load([asked("k"), told("k", content, **more)])
    assert got.runs[0].turns[0][0].failed == (failed,)


def test_in_the_benchmarks_a_text_that_begins_with_error_is_one(load):
    chat = [asked("k"), told("k", "Error: no seats")]
    got = load({"traj": chat, "reward": 0.0}, {"simulations": [{"task_id": 1, "messages": chat}]}, {"messages": chat})
    assert [run.turns[0][0].failed for run in got.runs] == [(True,), (True,), (False,)]
    flagged = [asked("k"), told("k", "Error: no seats", error=False)]
    assert load({"simulations": [{"task_id": 1, "messages": flagged}]}).runs[0].turns[0][0].failed == (False,)


def test_text_in_blocks_is_the_text(load):
    blocks = [{"type": "text", "text": '{"n"'}, {"type": "text", "text": ": 1}"}]
    assert results_of(load([asked("k"), told("k", blocks)])) == [({"n": 1},)]


def test_bodies_of_interactions(load):
    call = {"type": "function_call", "id": "k1", "name": "look", "arguments": {"q": 1}}
    result = {"type": "function_result", "call_id": "k1", "name": "look", "result": {"v": 1}}
    body = {"model": "gemini-3.5-flash", "input": [{"type": "user_input", "content": "go"}, call, result]}
    answered = {**body, "input": "go", "steps": [{"type": "thought", "signature": "QUJD"}, call, result], "id": "i1"}
    tools = [{"type": "function", "name": "other", "parameters": {}}]
    got = load(body, answered, {**body, "tools": tools, "success": True})
    turns = ((Round((("look", {"q": 1}),), ({"v": 1},)),),)
    assert got.notes() == [] and [r.turns for r in got.runs[:2]] == [turns] * 2
    assert got.runs[0] == Run("runs.jsonl, line 1", "interactions", "gemini-3.5-flash", None, None, turns)
    assert got.runs[1].id == "i1"
    assert got.runs[2].success is True and got.runs[2].turns[0][0].unknown == (0,)
    failed = {**result, "result": "down", "is_error": True}
    seen = load({**body, "input": [call, {**result, "result": [{"type": "text", "text": "x"}]}, call, failed]})
    assert results_of(seen) == [({"result": "x"},), ({"error": "down"},)]
    images = [{"type": "image", "mime_type": "image/png", "data": data} for data in ("QUJD", "REVG", "QUJD")]
    three = load({**body, "input": [s for i in images for s in (call, {**result, "result": [i]})]})
    first, second, third = results_of(three)
    assert first == third != second
    # A turn goes on until the model has answered here too.
    nudge, answer = {"type": "user_input", "content": "go"}, {"type": "model_output", "content": "done"}
    turns = (
        load({**body, "input": [nudge, call, result, nudge, call, result, answer, nudge, call, result]}).runs[0].turns
    )
    assert [len(turn) for turn in turns] == [2, 1]


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


@pytest.mark.parametrize("guard", ["off", "default", "article", "article_text", "nudge_text"])
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
    "unknown role 'assistant'": [{"role": "assistant", "parts": [{"text": "hi"}]}],
    "an interaction that goes on from another, whose steps the server keeps": {
        "previous_interaction_id": "i1",
        "input": [{"type": "function_result", "call_id": "k", "result": {}}],
    },
}


@pytest.mark.parametrize(("reason", "record"), BROKEN.items(), ids=BROKEN)
def test_what_is_broken_is_counted_and_named(load, reason, record):
    good = {"id": "x", "segs": []}
    got = load(good, record, good, record)
    assert len(got.runs) == 2
    idle = "2 of 2 runs are without a call (first: x)"
    assert got.notes() == [f"2 not read: {reason} (first: runs.jsonl, line 2)", idle]


def assistant(**block):
    return {"role": "assistant", "content": [{"type": "text", "text": "I look."}, block]}


USER = {"role": "user", "content": "go"}
REACT = "Thought: I look.\nAction: search[the Bronx]"
UNREAD = {
    "Anthropic tool_use blocks": [
        {"messages": [USER, assistant(type="tool_use", id="t", name="look", input={})]},
        [USER, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}],
        {"system": "s", "messages": [assistant(type="server_tool_use", id="t", name="web_search", input={})]},
    ],
    "OpenTelemetry parts": [
        [{"role": "assistant", "parts": [{"type": "tool_call", "id": "t", "name": "look", "arguments": {}}]}],
        {"messages": [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "t", "response": "x"}]}]},
        {"input_messages": [{"role": "assistant", "parts": [{"type": "tool_call", "name": "look"}]}]},
    ],
    "OpenTelemetry spans": [
        {"name": "chat", "attributes": {"gen_ai.input.messages": "[]"}},
        {"gen_ai.tool.name": "look"},
        {"resourceSpans": []},
    ],
    "pydantic-ai messages": [
        [
            {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "go"}]},
            {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "look", "args": "{}"}]},
        ],
        {"messages": [{"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "look"}]}]},
    ],
    "AI SDK tool parts": [
        [USER, assistant(type="tool-call", toolCallId="t", toolName="look", input={})],
        [{"role": "assistant", "parts": [{"type": "tool-look", "toolCallId": "t", "state": "output-available"}]}],
    ],
    "Bedrock toolUse blocks": [
        {"messages": [USER, assistant(toolUse={"toolUseId": "t", "name": "look", "input": {}})]}
    ],
    "OpenAI function_call messages": [
        [USER, {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}]
    ],
    "OpenAI Responses items": [
        {"input": [USER, {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}]},
        {"output": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
    ],
    "LangChain messages": [{"messages": [{"type": "human", "content": "go"}, {"type": "ai", "content": ""}]}],
    "actions as text": [
        [USER, {"role": "assistant", "content": REACT}, {"role": "user", "content": "Observation: none"}],
        {"traj": [{"role": "assistant", "content": [{"type": "text", "text": "Action 1: Search[x]"}]}], "reward": 1},
        [USER, {"role": "assistant", "content": '<tool_call>{"name": "look"}</tool_call>'}],
        [{"role": "model", "parts": [{"text": "Action: look()"}]}],
    ],
    "actions as text (a trajectory of action and observation)": [
        {"trajectory": [{"action": "ls", "observation": "x", "thought": ""}], "history": []}
    ],
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_is_known_and_not_read_is_named(load, name):
    got = load(*[json.dumps(record) for record in UNREAD[name]])
    assert got.runs == [] and dict(got.skipped) == {name: len(UNREAD[name])}
    # Each as a file of its own, too.
    whole = load(json.dumps(UNREAD[name][0]), name="one.json")
    assert whole.notes() == [f"1 not read: {name} (first: one.json)"]


def test_what_can_be_read_is_not_taken_for_what_cannot(load):
    words = {"role": "assistant", "content": "Here are the actions to take. Action items follow."}
    log = told("k", "Action: reboot\n<tool_call>")
    got = load([USER, asked("k", content="Action: look"), log, words], [USER, words])
    assert [len(run.turns) for run in got.runs] == [1, 0]
    assert got.notes() == ["1 of 2 runs are without a call (first: runs.jsonl, line 2)"]


def test_a_users_own_importer_reads_what_ours_only_name(load):
    def blocks(record, place):
        if not isinstance(record, dict) or "messages" not in record:
            return None
        return [Run(place, "mine", "m", True, None, ())]

    importers.IMPORTERS.register(blocks)
    try:
        got = load(*[json.dumps(record) for record in UNREAD["Anthropic tool_use blocks"]])
    finally:
        importers.IMPORTERS.remove("blocks")
    assert [run.source for run in got.runs] == ["mine"] * 2 and got.skipped == {"Anthropic tool_use blocks": 1}


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
    *("input", "type", "content", "trajectory", "action", "attributes"),
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
