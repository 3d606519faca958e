import asyncio
import json
import re
from collections import Counter
from dataclasses import replace

import httpx2
import pytest

from gemlab import backends, tasks
from gemlab.measure import metrics
from gemlab.runs import trace, trials

MODEL = "gemini-2.5-flash"
ARMS = ["preserve", "strip", {"name": "guarded", "guard": "default"}]


def timeless(found):
    """A trace without what the clock put into it."""
    steps = [
        replace(s, seconds=0, response={k: v for k, v in (s.response or {}).items() if k != "responseId"})
        for s in found.steps
    ]
    return replace(found, steps=steps, ended="", seconds=0)


def run(specs, path, backend=None, **options):
    return trials.run(specs, backend or backends.simulated(), path, progress=None, **options)


@pytest.fixture(scope="module")
def specs():
    return trials.plan(ARMS, "ecpm", MODEL, 4, repeats=2, seed=5)


@pytest.fixture(scope="module")
def whole(specs, tmp_path_factory):
    """An uninterrupted run: its file and traces."""
    path = tmp_path_factory.mktemp("whole") / "trials.jsonl"
    return path, run(specs, path)


# --- the plan -----------------------------------------------------------------------------------------------


def test_every_pair_has_all_arms_one_seed_and_an_order_of_its_own():
    specs = trials.plan(ARMS, "ecpm", MODEL, 30, repeats=2, seed=5)
    assert len({s.id for s in specs}) == len(specs) == 30 * 2 * 3
    pairs = [specs[i : i + 3] for i in range(0, len(specs), 3)]
    for pair in pairs:
        assert {s.arm.name for s in pair} == {"preserve", "strip", "guarded"}
        assert len({(s.instance, s.repeat, s.seed) for s in pair}) == 1
    assert [(p[0].instance, p[0].repeat) for p in pairs] == [(i, r) for i in range(30) for r in range(2)]
    assert len({s.seed for s in specs}) == 30
    # Each of the six orders is due ten times in sixty; all six at least once, none in most pairs.
    orders = Counter(tuple(s.arm.name for s in pair) for pair in pairs)
    assert len(orders) == 6 and max(orders.values()) < 25


def test_a_plan_depends_on_its_seed_alone():
    def plan(seed):
        return trials.plan(ARMS, "ecpm", MODEL, 20, seed=seed)

    assert plan(1) == plan(1)
    assert not {s.seed for s in plan(1)} & {s.seed for s in plan(2)}
    assert [s.arm.name for s in plan(1)] != [s.arm.name for s in plan(2)]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"arms": ["strip", {"name": "strip", "guard": "off"}]}, "a name of its own: strip"),
        ({"arms": []}, "there is none"),
        ({"arms": ["keep"]}, "unknown history strategy 'keep'"),
        ({"arms": [{"name": "a", "history": "strip", "retries": "2"}]}, "an arm has name, history, pruning, guard"),
        ({"arms": [{"history": "strip"}]}, "an arm has name"),
        ({"arms": [{"name": "a", "pruning": "window(0)"}]}, r"window\(0\): n is at least 1, not 0"),
        ({"arms": [{"name": "a", "guard": "strict"}]}, "unknown guard 'strict'; known: off"),
        ({"arms": [3]}, "not 3"),
        ({"arms": [{"name": "a", "thinking": "0"}]}, "thinking: input should be 'on' or 'off', not '0'"),
        ({"arms": [{"name": "a", "thinking": "off"}], "model": "gemini-3.8-flash"}, "thinks whatever is asked: .* a"),
        ({"arms": [{"name": "a", "thinking": "off"}], "model": "gemini-flash-latest"}, "thinks whatever is asked"),
        ({"task": "chess"}, "unknown task 'chess'; known: ecpm"),
        ({"instances": 0}, "start at 1"),
        ({"repeats": 0}, "start at 1"),
    ],
)
def test_a_plan_refuses_what_it_cannot_run(changes, why):
    settings = {"arms": ["preserve"], "task": "ecpm", "model": MODEL, "instances": 1, **changes}
    with pytest.raises(ValueError, match=why):
        trials.plan(**settings)


def test_two_trials_of_one_id_are_refused_before_the_run(tmp_path):
    specs = trials.plan(["preserve"], "ecpm", MODEL, 2)
    with pytest.raises(ValueError, match="preserve/0/0, preserve/1/0"):
        run([*specs, *specs], tmp_path / "t.jsonl")
    assert not (tmp_path / "t.jsonl").exists()


# --- running and going on -----------------------------------------------------------------------------------


def test_the_file_and_the_result_hold_every_trial(specs, whole):
    path, traces = whole
    assert [t.trial for t in traces] == [s.id for s in specs]
    on_disk = {t.trial: t for t in trace.read(path)}
    assert [on_disk[s.id] for s in specs] == traces


def test_repeats_are_not_one_answer_twice(whole):
    by_pair = {}
    for t in whole[1]:
        by_pair.setdefault((t.arm.name, t.instance), []).append(timeless(t).steps)
    assert any(a != b for a, b in by_pair.values())


def test_one_after_the_other_gives_the_same_as_at_once(specs, whole, tmp_path):
    alone = run(specs[:9], tmp_path / "t.jsonl", concurrency=1)
    assert [timeless(t) for t in alone] == [timeless(t) for t in whole[1][:9]]


def failed(line):
    return json.dumps({**json.loads(line), "outcome": "failed"}).encode() + b"\n"


@pytest.mark.parametrize(
    ("interrupt", "left"),
    [
        pytest.param(lambda lines: [*lines[:10], lines[10][:200]], 14, id="cut last line"),
        pytest.param(lambda lines: [*lines[:10], lines[10][:-1]], 14, id="no last newline"),
        pytest.param(lambda lines: [lines[0], *lines[5:9], lines[20]], 18, id="holes"),
        pytest.param(lambda lines: [failed(lines[0]), *lines[1:]], 1, id="a failed trial"),
        pytest.param(lambda lines: [lines[0], failed(lines[0]), *lines[1:]], 1, id="failed after all"),
        pytest.param(lambda lines: [], 24, id="empty file"),
        pytest.param(lambda lines: lines, 0, id="nothing left"),
    ],
)
def test_a_run_goes_on_where_it_stopped(specs, whole, tmp_path, interrupt, left):
    path = tmp_path / "trials.jsonl"
    path.write_bytes(b"".join(interrupt(whole[0].read_bytes().splitlines(keepends=True))))
    said = []
    traces = trials.run(specs, backends.simulated(), path, progress=said.append)
    assert [timeless(t) for t in traces] == [timeless(t) for t in whole[1]]
    assert {t.trial: timeless(t) for t in trace.read(path)} == {t.trial: timeless(t) for t in traces}
    rows = metrics.frame(traces).drop(columns="seconds")
    assert rows.equals(metrics.frame(whole[1]).drop(columns="seconds"))
    assert any(text.startswith(f"{left} trials in") for text in said) == bool(left)
    assert (f"{24 - left} of 24 trials were there already" in said) == (left < 24)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model": "gemini-2.5-pro"}, "another model"),
        ({"task": "search"}, "another task"),
        ({"seed": 6}, "another seed"),
        ({"arms": [*ARMS[:2], {"name": "guarded", "guard": "article"}]}, "another arm"),
        ({"arms": [*ARMS[:2], {"name": "guarded", "guard": "default", "thinking": "off"}]}, "another arm"),
        ({"instances": 3}, "holds trial .*/3/.*, which this run does not"),
        ({"arms": ARMS[:2]}, "holds trial guarded/"),
    ],
)
def test_a_file_of_other_settings_is_refused_and_left_alone(whole, tmp_path, changes, why):
    path = tmp_path / "trials.jsonl"
    path.write_bytes(whole[0].read_bytes())
    settings = {"arms": ARMS, "task": "ecpm", "model": MODEL, "instances": 4, "repeats": 2, "seed": 5, **changes}
    with pytest.raises(ValueError, match=why):
        run(trials.plan(**settings), path)
    assert path.read_bytes() == whole[0].read_bytes()


def test_a_file_of_another_backend_is_refused(specs, whole, tmp_path):
    path = tmp_path / "trials.jsonl"
    path.write_bytes(whole[0].read_bytes())
    other = backends.simulated()
    other.name = "gemini"
    with pytest.raises(ValueError, match="another backend"):
        run(specs, path, other)


def rewritten(path, target, change):
    """The file's traces with their arms changed."""
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    target.write_text("".join(json.dumps({**r, "arm": change(r["arm"])}) + "\n" for r in records), "utf-8")


def test_traces_from_before_a_field_was_there_go_on_as_its_default(specs, whole, tmp_path):
    path = tmp_path / "t.jsonl"
    rewritten(whole[0], path, lambda arm: {k: v for k, v in arm.items() if k != "thinking"})
    assert len(trials.finished(specs, "sim", path)) == len(specs)
    off = trials.plan(
        [{"name": a if isinstance(a, str) else a["name"], "thinking": "off"} for a in ARMS], "ecpm", MODEL, 4, 2, 5
    )
    with pytest.raises(ValueError, match="another arm"):
        trials.finished(off, "sim", path)


@pytest.mark.parametrize("change", [lambda arm: {**arm, "mood": "good"}, lambda arm: None, lambda arm: {}])
def test_an_arm_that_is_not_understood_is_another(specs, whole, tmp_path, change):
    rewritten(whole[0], tmp_path / "t.jsonl", change)
    with pytest.raises(ValueError, match="another arm"):
        trials.finished(specs, "sim", tmp_path / "t.jsonl")


# --- parts of a plan ----------------------------------------------------------------------------------------


def test_a_part_of_a_plan_runs_in_the_file_of_the_whole(specs, whole, tmp_path):
    path = tmp_path / "t.jsonl"
    for part in (specs[:5], specs[12:18], specs[3:14]):
        found = run(part, path, whole=specs)
        assert [t.trial for t in found] == [s.id for s in part]
    assert {t.trial for t in trace.read(path)} == {s.id for s in specs[:18]}
    assert set(trials.finished(specs[4:6], "sim", path, specs)) == {s.id for s in specs[4:6]}
    with pytest.raises(ValueError, match="which this run does not"):
        run(specs[:5], path)
    assert [timeless(t) for t in run(specs, path)] == [timeless(t) for t in whole[1]]


def test_a_part_is_refused_where_the_file_or_itself_is_of_another_plan(specs, whole, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(whole[0].read_bytes())
    for other, why in (
        (trials.plan(ARMS, "ecpm", MODEL, 4, repeats=2, seed=6), "another seed"),
        (trials.plan(ARMS, "ecpm", MODEL, 3, repeats=2, seed=5), "holds trial .*/3/"),
        (trials.plan(ARMS[:2], "ecpm", MODEL, 4, repeats=2, seed=5), "holds trial guarded/"),
    ):
        with pytest.raises(ValueError, match=why):
            run(other[:4], path, whole=other)
    with pytest.raises(ValueError, match=r"trials that the whole plan does not hold: [^,]*/3/1"):
        run([specs[0], specs[-1]], path, whole=specs[:-1])
    assert path.read_bytes() == whole[0].read_bytes()


def test_a_trial_without_infrastructure_is_failed_and_run_again(specs, whole, tmp_path, monkeypatch):
    monkeypatch.setattr("gemlab.agent.retry._wait", lambda state: 0)
    app = re.search(r"app-\d+", tasks.get("ecpm").instance(specs[0].seed).messages[0])[0].encode()

    class Down(httpx2.AsyncBaseTransport):
        inner = httpx2.ASGITransport(backends.emulator())

        async def handle_async_request(self, request):
            if app in request.content:
                return httpx2.Response(503, json={"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}})
            return await self.inner.handle_async_request(request)

    path = tmp_path / "t.jsonl"
    traces = run(specs, path, backends.simulated(transport=Down()))
    assert [t.outcome == "failed" for t in traces] == [t.instance == 0 for t in traces]
    assert [timeless(t) for t in run(specs, path)] == [timeless(t) for t in whole[1]]


def test_a_bug_shows_as_itself_and_leaves_a_file_to_go_on_with(specs, whole, tmp_path, scripted):
    path = tmp_path / "t.jsonl"
    run(specs[:3], path)
    with pytest.raises(RuntimeError, match="a bug"):
        run(specs, path, backends.simulated(transport=scripted(RuntimeError("a bug"))))
    assert len(trace.read(path)) == 3
    assert [timeless(t) for t in run(specs, path)] == [timeless(t) for t in whole[1]]


# --- event loops --------------------------------------------------------------------------------------------


async def test_runs_inside_a_running_event_loop(specs, whole, tmp_path):
    asyncio.get_running_loop()
    backend = backends.simulated()
    traces = run(specs[:6], tmp_path / "t.jsonl", backend)
    assert [timeless(t) for t in traces] == [timeless(t) for t in whole[1][:6]]
    again = run(specs[:9], tmp_path / "t.jsonl", backend)
    assert [timeless(t) for t in again] == [timeless(t) for t in whole[1][:9]]


async def test_runs_in_the_callers_event_loop(specs, whole, tmp_path):
    traces = await trials.run_async(specs[:3], backends.simulated(), tmp_path / "t.jsonl", progress=None)
    assert [timeless(t) for t in traces] == [timeless(t) for t in whole[1][:3]]
