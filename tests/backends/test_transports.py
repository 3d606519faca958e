"""A trial over the stream is the trial over unary requests: the same steps, calls and outcome."""

from __future__ import annotations

import pytest

from gemlab import backends
from gemlab.measure import metrics
from gemlab.runs import trials
from gemlab.wire import answers
from gemlab.wire import contents as wire


@pytest.mark.parametrize(("model", "task"), [("gemini-2.5-flash", "ecpm"), ("gemini-3.8-flash", "ecpm-two-turns")])
@pytest.mark.parametrize("history", ["preserve", "dummy"])
def test_stream_and_unary_come_to_the_same(tmp_path, model, task, history):
    arms = [{"name": name, "history": history, "transport": name} for name in ("unary", "stream")]
    traces = trials.run(trials.plan(arms, task, model, 8), backends.get("sim"), tmp_path / "t.jsonl", progress=None)
    by_arm = {name: {t.instance: t for t in traces if t.arm.name == name} for name in ("unary", "stream")}
    for instance, one in by_arm["unary"].items():
        other = by_arm["stream"][instance]
        assert (one.outcome, one.answer) == (other.outcome, other.answer)
        assert [wire.calls(c) for c in one.received] == [wire.calls(c) for c in other.received]
        assert all(isinstance(step.response, list) for step in other.steps)
        assert metrics.row(one)["output_tokens"] == metrics.row(other)["output_tokens"]


def test_the_trace_keeps_every_chunk(tmp_path):
    arms = [{"name": "x", "transport": "stream"}]
    (one,) = trials.run(
        trials.plan(arms, "ecpm", "gemini-3.6-flash", 1), backends.get("sim"), tmp_path / "t.jsonl", progress=None
    )
    first = one.steps[0].response
    assert len(first) >= 2 and len({chunk["responseId"] for chunk in first}) == 1
    assert answers.fold(first).content == one.received[1]


def test_an_unknown_transport_is_refused():
    with pytest.raises(ValueError, match="transport: input should be 'unary' or 'stream', not 'pigeon'"):
        trials.arm({"name": "x", "transport": "pigeon"})
