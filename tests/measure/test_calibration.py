import importlib.util
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from gemlab import backends
from gemlab.emulator.minds.scripted import Parameters
from gemlab.measure import metrics
from gemlab.runs import trials

SCRIPT = Path(__file__).resolve().parents[2] / "experiments" / "calibrate.py"
TARGETS = {"preserve": (0.9, 0.3), "strip": (0.6, 1.4)}


@pytest.fixture(scope="module")
def calibrate():
    spec = importlib.util.spec_from_file_location("calibrate", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def chain(repeat, leave, repeated_calls):
    """Completion and redundant calls of the absorbing chain over 1 to 4 steps done, by its fundamental matrix.

    `repeated_calls[s]`: the calls of one repeat with s + 1 steps done. With four done, leaving is the answer.
    """
    stay = np.diag([repeat] * 4)
    onward = np.diag([1 - repeat - leave] * 3, k=1)
    visits = np.linalg.inv(np.eye(4) - stay - onward)[0]
    return visits[3] * (1 - repeat), float(visits @ (repeat * np.array(repeated_calls)))


# Calls of the steps: one each, at the end one or two days. Known: the newest is repeated; lost: any so far.
NEWEST = (1, 1, 1, 1.5)
ANY = (1, 1, 1, 4.5 / 4)


def test_the_committed_parameters_are_the_solved_ones(calibrate):
    committed = asdict(Parameters())
    assert calibrate.calibrated() == {name: committed[name] for name in ("repeat", "quit", "doubt", "lose_thread")}
    assert calibrate.TARGETS == TARGETS


def test_the_committed_parameters_give_the_targets():
    p = Parameters()
    assert chain(p.repeat, p.quit, NEWEST) == pytest.approx(TARGETS["preserve"], abs=2e-3)
    assert chain(p.repeat + p.doubt, p.quit + p.lose_thread, ANY) == pytest.approx(TARGETS["strip"], abs=2e-3)


@pytest.mark.parametrize("completion", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("redundant", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("lost", [False, True])
def test_the_closed_form_inverts_the_chain(calibrate, completion, redundant, lost):
    a, q = calibrate.solve(completion, redundant, lost)
    assert 0 < a < 1 and 0 < q < 1 - a
    assert chain(a, q, ANY if lost else NEWEST) == pytest.approx((completion, redundant))


@pytest.mark.parametrize("instances", [50, pytest.param(300, marks=pytest.mark.slow)])
def test_a_run_lies_near_the_targets(instances, tmp_path):
    specs = trials.plan(list(TARGETS), "ecpm", "gemini-2.5-flash", instances, seed=11)
    rows = metrics.frame(trials.run(specs, backends.simulated(), tmp_path / "t.jsonl", progress=None))
    for arm, (completion, redundant) in TARGETS.items():
        found = rows[rows.arm == arm]
        assert len(found) == instances
        error = np.sqrt(completion * (1 - completion) / instances)
        assert abs(found.completed.mean() - completion) < 4 * error
        assert abs(found.redundant.mean() - redundant) < 4 * found.redundant.std(ddof=1) / np.sqrt(instances)
