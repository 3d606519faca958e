"""A running `gemlab serve` and one instance of the four-step task, for the clients in this folder.

The model behind the server makes no slips, so that whatever goes wrong is the client's or the emulator's. The
server records what came over the wire; from that, not from the clients, it is read which signatures and ids
came back.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from gemlab import tasks
from gemlab.agent.loop import call_tool
from gemlab.tasks import Called, Instance
from gemlab.wire import contents as wire

TASK = tasks.get("ecpm")

# `gemlab serve` as it is, but for the model's slips.
SERVER = """
import functools, sys
from gemlab import backends
from gemlab.app import serving
from gemlab.emulator.minds.scripted import Parameters
backends.emulator = functools.partial(backends.emulator, parameters=Parameters(0, 0, 0, 0))
serving.serve(port=0, model="scripted", profiles=[], faults="", record=sys.argv[1])
"""


@dataclass
class Wire:
    """What a client sent: of its requests, and of what the last one still holds of what the model had said."""

    requests: int
    model_contents: int
    signed: list[bool]
    call_ids: list[bool]
    response_ids: list[bool]


class Served:
    """The running server. An exchange is written down after its answer: the last one may take a moment."""

    def __init__(self, base, folder):
        self.base, self.path, self.read = base, folder / "exchanges.jsonl", 0

    def exchanges(self):
        """The exchanges since the last call, up to one without a call."""
        for _ in range(500):
            new = self.written()
            if new and '"functionCall":' not in json.dumps(new[-1]["response"]):
                self.read += len(new)
                return new
            time.sleep(0.01)
        raise AssertionError(f"no end in {len(new)} exchanges")

    def written(self):
        return [json.loads(line) for line in self.path.read_text("utf-8").splitlines()[self.read :]]

    def sent(self, model):
        exchanges = self.exchanges()
        assert [e["response"]["status"] for e in exchanges] == [200] * len(exchanges)
        assert all(model in e["request"]["path"] for e in exchanges)
        contents = wire.normalise(exchanges[-1]["request"]["body"]["contents"])
        parts = [part for _, _, part in wire.walk(contents)]
        first_calls = [next(p for p in wire.parts(c) if wire.call_of(p)) for c in contents if wire.calls(c)]
        return Wire(
            requests=len(exchanges),
            model_contents=sum(wire.is_model(c) for c in contents),
            signed=[wire.signature(p) is not None for p in first_calls],
            call_ids=["id" in c for p in parts if (c := wire.call_of(p))],
            response_ids=["id" in r for p in parts if (r := wire.response_of(p))],
        )

    def assert_nothing_lost(self, model, ids):
        """Five requests: four steps of five calls, and the answer; all signed, with ids where the model gives any."""
        assert self.sent(model) == Wire(5, 4, [True] * 4, [ids] * 5, [ids] * 5)

    def assert_refused_at_the_parallel_calls(self, job):
        """3.x sends one call a chunk, only the first of them signed, and each chunk came back as a content of its own.

        The calls were run; it is the request with their responses that is refused.
        """
        *before, last = self.exchanges()
        assert [e["response"]["status"] for e in before] == [200] * 4
        error = last["response"]["body"]["error"]
        assert error["code"] == 400 and "missing a thought_signature" in error["message"]
        assert "default_api:lookup_mediation" in error["message"]
        contents = [c for c in wire.normalise(last["request"]["body"]["contents"]) if wire.calls(c)]
        calls = [part for _, _, part in wire.walk(contents) if wire.call_of(part)]
        assert len(contents) == len(calls) == 5
        assert [wire.signature(p) is not None for p in calls] == [True] * 4 + [False]
        assert [c.name for c in job.called][-2:] == ["lookup_mediation"] * 2


def interruptible():
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(folder)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=interruptible,
    )  # fmt: skip
    try:
        base = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())[0]
        yield Served(base, folder)
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")


@dataclass
class Job:
    """One instance of the task, whose functions note who called them."""

    instance: Instance
    system: str = TASK.system
    declarations: Sequence[dict] = TASK.declarations
    called: list[Called] = field(default_factory=list)

    @property
    def message(self):
        return self.instance.messages[0]

    def call(self, name, args):
        response = call_tool(self.instance.functions, name, args)
        self.called.append(Called(name, args, response))
        return response

    def functions(self):
        """Python functions for automatic function calling."""

        def noting(name, function):
            @functools.wraps(function)
            def noted(*args, **kwargs):
                return self.call(name, inspect.signature(function).bind(*args, **kwargs).arguments)

            return noted

        return [noting(name, function) for name, function in self.instance.functions.items()]

    def finish(self, answer):
        assert self.instance.check(answer, self.called) is None
        names = [call.name for call in self.called]
        assert list(dict.fromkeys(names)) == [step.tool for step in TASK.plan.steps]
        assert len({call.key for call in self.called}) == len(self.called)


@pytest.fixture
def job(server):
    server.read += len(server.written())  # those of a test before that went wrong
    # Two outlying days, so that a step has parallel calls.
    instance = next(i for seed in range(20) if "2 found" in plan_answer(i := TASK.instance(seed)))
    return Job(instance)


def plan_answer(instance):
    """What the plan answers on its own, without a model."""
    results = {}
    for number, step in enumerate(TASK.plan.steps):
        facts = tasks.Facts(instance.messages[0], results)
        results[number] = [instance.functions[step.tool](**args) for args in step.args(facts)]
    return TASK.plan.goal(instance.messages)[1](tasks.Facts(instance.messages[0], results))
