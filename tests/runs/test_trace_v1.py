"""Lines of version 1: four logs of one conversation, which are read as the steps that they came from."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from gemlab import backends, tasks
from gemlab.agent import loop
from gemlab.emulator.faults import Fault
from gemlab.emulator.minds.scripted import Parameters
from gemlab.guards.rounds import Verdict
from gemlab.measure import metrics, timeline
from gemlab.runs import trace, trials

MODEL = "gemini-2.5-flash"

# --- one by hand --------------------------------------------------------------------------------------------


def text(words, role="user"):
    return {"parts": [{"text": words}], "role": role}


def called(query, ident):
    return {"parts": [{"functionCall": {"name": "web_search", "args": {"query": query}, "id": ident}}], "role": "model"}


def gave(ident, **body):
    return {"role": "user", "parts": [{"functionResponse": {"name": "web_search", "id": ident, "response": body}}]}


def answer(content, prompt, **usage):
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": 2, **usage}
    candidate = {"finishReason": "STOP", "index": 0, **({"content": content} if content else {})}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": MODEL}


NUDGE = {"kind": "nudge", "reason": "repeated_call", "text": "Again?", "call": 0, "place": "user_text"}
BLOCK = {"kind": "block", "reason": "repeated_call", "text": "Not run.", "call": 0, "place": "response"}
POOL = [
    text("Where?"), called("x", "a"), gave("a", found=1), called("x", "b"), gave("b", found=1), text("Again?"),
    called("x", "c"), gave("c", error="blocked", notice="Not run."), text("Here.", "model"),
]  # fmt: skip


def packed(contents, response, seed, verdicts=(), failures=(), **changed):
    changed = {"generationConfig": {"seed": seed}, **changed} if seed else changed
    return {
        "contents": contents, "changed": changed, "model": MODEL, "response": response, "failures": list(failures),
        "verdicts": list(verdicts), "seconds": 0.25,
    }  # fmt: skip


BUSY = {"status": 503, "body": {"error": {"code": 503, "message": "busy"}}}
BY_HAND = {
    "version": 1, "trial": "x/3/0", "arm": {"name": "x", "guard": "nudge_text"}, "task": "search", "instance": 3,
    "repeat": 0, "seed": 100_003, "backend": "sim", "model": MODEL, "served": [MODEL], "warnings": [],
    "outcome": "wrong", "reason": None, "detail": "the diameter is 2.0", "answer": "Here.", "forced": True,
    "ended": "2026-11-30T12:00:00+00:00", "seconds": 1.5, "config": {"generationConfig": {"seed": 7}},
    "received": [0, 1, 2, 3, 4, 5, 6, 7, 8],
    "steps": [
        packed([0], answer(POOL[1], 10), None),
        packed([0, 1, 2], answer(None, 20, thoughtsTokenCount=3), 8),  # empty, asked for again
        packed([0, 1, 2], answer(POOL[3], 30), 9, [NUDGE], [BUSY]),
        packed([0, 1, 2, 3, 4, 5], answer(POOL[6], 40), 10, [BLOCK]),
        packed([*range(8)], answer(POOL[8], 50), 11, toolConfig={"functionCallingConfig": {"mode": "NONE"}}),
    ],
    "contents": POOL,
}  # fmt: skip


def test_a_line_by_hand():
    read = trace.load(BY_HAND)
    assert (read.trial, read.arm.guard, read.arm.thinking, read.source) == (
        "x/3/0",
        "nudge_text",
        "on",
        backends.SCRIPTED,
    )
    assert [s.messages for s in read.steps] == [(POOL[0],), (), (), (), ()]
    assert [s.kept for s in read.steps] == [True, False, True, True, True]
    assert [s.empty for s in read.steps] == ["", "no parts", "", "", ""]
    assert [(c.result, c.blocked) for s in read.steps for c in s.calls] == [
        ({"found": 1}, False), ({"found": 1}, False), ({"error": "blocked"}, True),
    ]  # fmt: skip
    assert read.steps[2].verdicts == (Verdict(**NUDGE),) and read.steps[2].nudge == "Again?"
    assert [s.final for s in read.steps] == [False] * 4 + [True] and read.forced
    assert [s.request["generationConfig"]["seed"] for s in read.steps] == [7, 8, 9, 10, 11]
    assert read.received == POOL and read.tools.first == "web_search"
    row = metrics.row(read)
    counted = ("calls", "redundant", "refetch", "blocks", "nudges", "requests", "resent", "output_tokens", "forced")
    assert [row[name] for name in counted] == [2, 1, 1, 1, 1, 5, 1, 13, True]
    assert trace.load(json.loads(trace.dumps(read))) == read


@pytest.mark.parametrize(
    "broken",
    [
        {"received": [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]},
        {"received": [1, 2]},
        {"received": [99]},
        {"steps": [*BY_HAND["steps"][:2]]},
        {"steps": None},
        {"contents": []},
    ],
)
def test_logs_that_do_not_line_up_are_refused_in_one_line(tmp_path, broken):
    (tmp_path / "t.jsonl").write_text(json.dumps({**BY_HAND, **broken}) + "\n")
    with pytest.raises(trace.TraceError, match=r"t\.jsonl, line 1: no trace") as caught:
        trace.read(tmp_path / "t.jsonl")
    assert "\n" not in str(caught.value)


def test_of_a_task_that_is_not_here_the_refetches_are_unknown():
    row = metrics.row(trace.load({**BY_HAND, "task": "somebody's own"}))
    assert row["refetch"] is None and row["redundant"] == 1


# --- whole runs ---------------------------------------------------------------------------------------------


def version_1(new):
    """The line that version 1 had for a trace."""
    pool = []

    def index(content):
        if content not in pool:
            pool.append(content)
        return pool.index(content)

    def settings(body):
        return {k: v for k, v in (body or {}).items() if k not in ("contents", "input")}

    config = settings(next((s.request for s in new.steps if s.request), None))
    received, steps = [index(c) for c in new.received], []
    for s in new.steps:
        given = {"input": [index(i) for i in s.request["input"]]} if "input" in (s.request or {}) else {}
        steps.append(
            {
                "contents": [index(c) for c in s.contents], **given,
                "changed": {k: v for k, v in settings(s.request).items() if config.get(k) != v},
                "model": s.model, "response": s.response, "failures": list(s.failures),
                "verdicts": [dict(vars(v)) for v in s.verdicts], "seconds": s.seconds,
            }
        )  # fmt: skip
    names = (
        "trial", "task", "instance", "repeat", "seed", "backend", "model", "served", "warnings", "outcome", "reason",
        "detail", "answer", "forced", "ended", "seconds",
    )  # fmt: skip
    header = {name: getattr(new, name) for name in names}
    line = {"version": 1, **header, "arm": dict(vars(new.arm)), "config": config, "received": received}
    return json.loads(json.dumps({**line, "steps": steps, "contents": pool}))


LOOPING = Parameters(repeat=0.6, quit=0.05, doubt=0.1, heed=0.3)
STUBBORN = Parameters(repeat=0.97, quit=0.0, heed=0.0)
DOWN = Fault("503", step=3, times=5, model="gemini-3.6-flash")
KINDS = {
    "plain": ({}, "ecpm", MODEL, LOOPING, ()),
    "two turns": ({"guard": "default"}, "ecpm-two-turns", MODEL, LOOPING, ()),
    "nudges by the user": ({"guard": "nudge_text"}, "search", MODEL, STUBBORN, ()),
    "stopped": ({"guard": "args_4"}, "dead-end", MODEL, STUBBORN, ()),
    "strip": ({"history": "strip", "pruning": "window(4)"}, "chain(6)", MODEL, LOOPING, ()),
    "stream": ({"transport": "stream", "guard": "default"}, "ecpm", MODEL, LOOPING, ()),
    "summaries": ({"pruning": "summarise(2)", "guard": "off"}, "chain(9)", "gemini-3.8-flash", Parameters(0, 0), ()),
    "summaries over turns": ({"pruning": "summarise(1)"}, "chain(8,turns=2)", MODEL, LOOPING, ()),
    "summaries of a stream": ({"pruning": "summarise(1)", "transport": "stream"}, "chain(6)", MODEL, LOOPING, ()),
    "refused": ({"history": "strip"}, "ecpm", "gemini-3.8-flash", LOOPING, ()),
    "failed": ({}, "ecpm", "gemini-3.6-flash", LOOPING, (Fault("503", step=2, times=9),)),
    "resent": ({}, "ecpm", "gemini-3.6-flash", LOOPING, (Fault("503", step=2, times=2),)),
    "rebuilt": ({"retry": "rebuild"}, "ecpm", MODEL, LOOPING, (Fault("503", step=3),)),
    "another model": ({"fallback": "any(gemini-3.5-flash-lite)"}, "ecpm", "gemini-3.6-flash", LOOPING, (DOWN,)),
    "begun anew": (
        {"fallback": "same_family(gemini-4-argon)"}, "ecpm-two-turns", "gemini-3.6-flash", Parameters(0, 0, 0, 0),
        (DOWN,),
    ),
    "begun anew on the server": (
        {"fallback": "same_family(gemini-4-argon)", "history": "server_state"}, "ecpm", "gemini-3.6-flash",
        Parameters(0, 0, 0, 0), (DOWN,),
    ),
    "interactions": ({"history": "server_state", "guard": "default"}, "ecpm-two-turns", MODEL, LOOPING, ()),
    "stateless": ({"history": "server_state_stateless"}, "ecpm", "gemini-3.6-flash", LOOPING, ()),
    "malformed": ({"guard": "default"}, "ecpm", MODEL, LOOPING, (Fault("malformed_after_call", 0.4),)),
    "empty": ({"guard": "default"}, "ecpm", MODEL, LOOPING, (Fault("thoughts_only", 0.4),)),
}  # fmt: skip


@pytest.mark.usefixtures("slept")
@pytest.mark.parametrize(("arm", "task", "model", "parameters", "faults"), KINDS.values(), ids=KINDS)
def test_an_old_line_is_read_as_the_trace_that_it_was(arm, task, model, parameters, faults):
    app = backends.emulator(parameters=parameters, faults=faults)
    for spec in trials.plan([{"name": "x", **arm}], task, model, 3, seed=4):
        trial = asyncio.run(loop.run(backends.simulated(app), spec))
        new = trace.of(trial, "sim", backends.SCRIPTED)
        old = trace.load(version_1(new))
        assert old == replace(new, gemlab="")
        assert metrics.row(old) == metrics.row(new) and timeline.text(old) == timeline.text(new)
    assert any(s.anew for s in new.steps) == ("same_family" in str(arm))
    assert any(s.covers for s in new.steps) == ("summarise" in str(arm))


def test_a_run_goes_on_in_a_file_of_old_lines(tmp_path):
    path = tmp_path / "t.jsonl"
    specs = trials.plan(["preserve", "strip"], "ecpm", MODEL, 4, seed=4)
    whole = trials.run(specs, backends.simulated(), path, progress=None)
    path.write_text("".join(json.dumps(version_1(t)) + "\n" for t in whole[:5]))
    again = trials.run(specs, backends.simulated(), path, progress=None)
    assert again[:5] == [replace(t, gemlab="") for t in whole[:5]]
    assert [t.outcome for t in again] == [t.outcome for t in whole] and len(trace.read(path)) == 8
    other = trials.plan(["preserve", "strip"], "ecpm", MODEL, 4, seed=5)
    with pytest.raises(ValueError, match="another seed"):
        trials.run(other, backends.simulated(), path, progress=None)


# --- measuring without the task -----------------------------------------------------------------------------


def test_a_trace_is_measured_without_its_task(tmp_path, monkeypatch):
    path = tmp_path / "t.jsonl"
    app = backends.emulator(parameters=LOOPING)
    done = trials.run(
        trials.plan(["preserve", "strip"], "polling", MODEL, 4), backends.simulated(app), path, progress=None
    )
    rows = [metrics.row(t) for t in done]
    polls = [c.key for t in done for s in t.steps for c in s.calls if c.name == "get_export_state"]
    assert len(set(polls)) < len(polls), "nothing was polled twice"

    def gone(name):
        raise ValueError(f"unknown task {name!r}")

    monkeypatch.setattr(tasks, "get", gone)
    on_disk = {t.trial: metrics.row(t) for t in trace.read(path)}
    assert [on_disk[t.trial] for t in done] == rows
