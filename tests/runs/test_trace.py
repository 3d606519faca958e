import asyncio
import dataclasses
import json

import httpx2
import pytest

from gemlab import backends
from gemlab.agent import loop, trial
from gemlab.emulator.faults import Fault
from gemlab.emulator.minds.scripted import Parameters
from gemlab.measure import metrics
from gemlab.runs import trace, trials
from gemlab.wire.families import DEVELOPER

LOOPING = Parameters(repeat=0.7, quit=0.0, heed=0.0)


class Tap(httpx2.AsyncBaseTransport):
    """Passes on to the emulator; keeps the bodies of requests and responses."""

    def __init__(self, parameters=None):
        self.inner = httpx2.ASGITransport(backends.emulator(parameters=parameters))
        self.sent, self.got = [], []

    async def handle_async_request(self, request):
        self.sent.append(json.loads(request.content))
        answer = await self.inner.handle_async_request(request)
        self.got.append(json.loads(await answer.aread()))
        return answer


def spec(task="ecpm", model="gemini-2.5-flash", **arm):
    return trials.plan([{"name": "x", **arm}], task, model, 1, seed=2)[0]


def packed(tap, one):
    """Run a trial and return its trace as it is read from disk."""
    trial = asyncio.run(loop.run(backends.simulated(transport=tap), one))
    return trace.load(json.loads(trace.dumps(trace.of(trial, "sim", backends.SCRIPTED)))), trial


@pytest.mark.parametrize("task", ["ecpm", "ecpm-two-turns", "search"])
@pytest.mark.parametrize(
    "arm",
    [
        {},
        {"history": "strip"},
        {"history": "rebuild"},
        {"history": "dummy", "pruning": "steps(1)"},
        {"history": "first_only", "pruning": "window(3)"},
        {"guard": "default"},
    ],
    ids=str,
)
def test_a_trace_holds_exactly_what_was_sent_and_received(task, arm):
    tap = Tap(LOOPING)
    found, trial = packed(tap, spec(task, **arm))
    assert found.requests == tap.sent
    answered = [i for i, step in enumerate(found.steps) if step.response]
    assert [found.steps[i].response for i in answered] == [tap.got[i] for i in answered] != []
    assert found.received == trial.received


def test_a_forced_answer_changes_one_request_only():
    tap = Tap(LOOPING)
    found, trial = packed(tap, spec(guard="default"))
    assert trial.forced and "toolConfig" not in found.config
    assert ["toolConfig" in step.request for step in found.steps] == [False] * (len(tap.sent) - 1) + [True]


def test_each_content_is_kept_once():
    found, trial = packed(Tap(LOOPING), spec())
    line = json.loads(trace.dumps(found))
    sent = trial.received[:-1]
    assert all(c in line["contents"] for c in sent) and all(c in sent for c in line["contents"])
    assert not any(c in line["contents"][:i] for i, c in enumerate(line["contents"]))
    assert sum(len(step["contents"]) for step in line["steps"]) > 2 * len(line["contents"])


def test_a_refused_request_is_kept_as_it_was_sent():
    tap = Tap()
    found, _ = packed(tap, spec(model="gemini-3.8-flash", history="strip"))
    assert found.outcome == "refused"
    last = found.steps[-1]
    assert found.requests == tap.sent
    assert last.response is None and last.failures == [{"status": 400, "body": tap.got[-1]}]


def test_a_trace_is_no_way_back_into_the_arm():
    one = spec()
    asyncio.run(loop.run(backends.simulated(), one))
    made = trace.of(trial.Trial(one), "sim", backends.SCRIPTED)
    assert made.arm == one.arm and made.arm is not one.arm
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.arm.name = "other"


def test_no_key_and_no_header_gets_into_the_file(tmp_path, scripted):
    key = "AIza-secret-0123456789"
    seen = []

    class Headers(Tap):
        async def handle_async_request(self, request):
            seen.append(dict(request.headers))
            return await super().handle_async_request(request)

    busy = {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}
    path = tmp_path / "trials.jsonl"
    for name, transport in (("good", Headers()), ("bad", scripted((400, busy)))):
        client = backends.sdk_client(transport, api_key=key, base_url="http://emulator")
        arms = [{"name": name, "history": "strip"}]
        target = path.with_name(f"{name}.jsonl")
        trials.run(
            trials.plan(arms, "ecpm", "gemini-3.8-flash", 2),
            backends.ClientBackend("sim", client, DEVELOPER, backends.SCRIPTED),
            target,
            progress=None,
        )
        text = target.read_text("utf-8").lower()
        assert len(text) > 1000
        for secret in (key.lower(), "aiza", "x-goog", "user-agent", "authorization", "http://emulator"):
            assert secret not in text
    assert any(key in headers.values() for headers in seen), "the key was not sent at all"


@pytest.mark.parametrize(
    "arm",
    [
        {"transport": "stream", "guard": "default"},
        {"history": "server_state"},
        {"history": "server_state_stateless", "guard": "nudge_text"},
        {"pruning": "summarise(1)"},
        {"retry": "rebuild", "guard": "article"},
        {"thinking": "off"},
    ],
    ids=str,
)
def test_what_is_read_is_what_was_written(arm):
    app = backends.emulator(parameters=LOOPING, faults=[Fault("503", step=2)])
    trial = asyncio.run(loop.run(backends.simulated(app), spec("chain(6,turns=2)", **arm)))
    written = trace.of(trial, "sim", backends.SCRIPTED)
    assert trace.load(json.loads(trace.dumps(written))) == written
    assert [s.calls for s in written.steps] == [s.calls for s in trial.steps]
    assert sum(s.resent for s in written.steps) > 0


def test_a_request_that_never_went_out_is_kept_as_it_was_handed_over(tmp_path):
    class Shut:
        name, service, source = "shut", DEVELOPER, backends.Source("own", "nobody")

        async def send(self, model, contents, settings, stream=False):
            raise backends.Rejected(None, {}, None, "ValueError: no such setting")

    trial = asyncio.run(loop.run(Shut(), spec()))
    written = trace.of(trial, "shut", Shut.source)
    (only,) = written.steps
    assert only.request is None and only.contents == list(only.messages) != []
    (tmp_path / "t.jsonl").write_text(trace.dumps(written))
    assert trace.read(tmp_path / "t.jsonl") == [written] and written.requests == []
    assert (written.outcome, written.source.label, metrics.row(written)["answered"]) == ("failed", "nobody", 0)


# --- files --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def some():
    return packed(Tap(), spec())[0]


@pytest.fixture(scope="module")
def line(some):
    """The line of a trace by its trial's id and answer."""
    return lambda name, answer=None: trace.dumps(dataclasses.replace(some, trial=name, answer=answer)).encode()


def test_read_takes_the_later_of_two_and_leaves_a_cut_line_out(tmp_path, line):
    path = tmp_path / "t.jsonl"
    path.write_bytes(line("a", "1") + line("b", "2") + line("a", "3") + line("c", "4")[:-5])
    assert [(t.trial, t.answer) for t in trace.read(path)] == [("a", "3"), ("b", "2")]
    path.write_bytes(b"")
    assert trace.read(path) == []


def test_read_keeps_every_character(tmp_path, line):
    path = tmp_path / "t.jsonl"
    odd = "line\u2028paragraph\u2029next\x85tab\tnull\x00 newline\n\r 日本 😀 é"
    path.write_bytes(line("a", odd) + line("b", odd))
    assert [t.answer for t in trace.read(path)] == [odd, odd]


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"{oops}\n", "line 2: no trace .JSONDecodeError"),
        (b"[]\n", "line 2: no trace .TypeError"),
        (b'{"arm": 1}\n', "line 2: no trace .KeyError"),
        (b"\n", "line 2: no trace"),
        (b'{"trial": "\xff"}\n', "line 2: no trace .UnicodeDecodeError"),
        (b'{"version": 3}\n', "line 2: a trace of version 3, and this gemlab reads 1 and 2"),
        (b'{"version": 2}\n', "line 2: no trace .KeyError"),
        (b'{"version": 1}\n', "line 2: no trace .KeyError"),
    ],
)
def test_any_other_broken_line_is_told_with_its_place(tmp_path, raw, what, line):
    path = tmp_path / "t.jsonl"
    path.write_bytes(line("a") + raw + line("b"))
    with pytest.raises(trace.TraceError, match=what) as caught:
        trace.read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cut", [0, 1, 5, 13, -1])
def test_mend_cuts_back_to_whole_lines(tmp_path, cut, line):
    path = tmp_path / "t.jsonl"
    whole = line("a") + line("b")
    path.write_bytes(whole + line("c")[:cut])
    trace.mend(path)
    assert path.read_bytes() == whole
