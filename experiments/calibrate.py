"""Calibrate the scripted model to the article's figures, and check the committed parameters by running it.

    python experiments/calibrate.py [--instances 2000]

The article reports, on its four-step task: signatures preserved, 90% completed and 0.3 redundant calls a trial;
stripped, 60% and 1.4. In the scripted model each request after the first repeats a step with probability a,
answers too early with probability q, and goes on otherwise. With s steps done it leaves by going on with
probability x = (1 − a − q) / (1 − a), so completion is x³ (after the fourth step an early answer is the answer),
and each visit of s costs a / (1 − a) repeats of w_s calls. Two equations for each of the two pairs (a, q):
thoughts known, the newest step is repeated; thoughts lost, one of the steps so far.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from gemlab import backends, tasks
from gemlab.emulator.minds.scripted import Parameters
from gemlab.measure import metrics
from gemlab.runs import trials

TARGETS = {"preserve": (0.90, 0.3), "strip": (0.60, 1.4)}
# Calls a step makes; the fourth looks up one or two days, equally often.
CALLS = (1, 1, 1, 1.5)


def solve(completion: float, redundant: float, lost: bool) -> tuple[float, float]:
    """Return (a, q) for a completion rate and a mean number of redundant calls."""
    x = completion ** (1 / 3)
    weights = [sum(CALLS[:s]) / s if lost else CALLS[s - 1] for s in (1, 2, 3, 4)]
    visits = sum(x**s * w for s, w in enumerate(weights))
    odds = redundant / visits
    a = odds / (1 + odds)
    return a, (1 - x) * (1 - a)


def calibrated() -> dict[str, float]:
    """Return the four parameters that give the targets, rounded to four places."""
    a_known, q_known = solve(*TARGETS["preserve"], lost=False)
    a_lost, q_lost = solve(*TARGETS["strip"], lost=True)
    found = {"repeat": a_known, "quit": q_known, "doubt": a_lost - a_known, "lose_thread": q_lost - q_known}
    return {name: round(value, 4) for name, value in found.items()}


def measured(instances: int) -> dict[str, tuple[float, float]]:
    """Run both arms on the 2.5 profile; return completion and redundant calls by arm."""
    specs = trials.plan(list(TARGETS), "ecpm", "gemini-2.5-flash", instances, seed=77)
    with tempfile.TemporaryDirectory() as folder:
        traces = trials.run(specs, backends.simulated(), Path(folder) / "trials.jsonl")
    rows = metrics.frame(traces)
    means = rows.groupby("arm")[["completed", "redundant"]].mean()
    return {arm: tuple(means.loc[arm]) for arm in TARGETS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=2000)
    instances = parser.parse_args().instances
    found, committed = calibrated(), asdict(Parameters())
    print("parameter     solved  committed")
    for name, value in found.items():
        print(f"{name:12} {value:7.4f} {committed[name]:10.4f}")
    print(f"task steps: {len(tasks.get('ecpm').plan.steps)}; {instances} instances an arm, scripted model")
    for arm, (completion, redundant) in measured(instances).items():
        target = TARGETS[arm]
        print(f"{arm:10} completed {completion:.3f} (target {target[0]}), redundant {redundant:.3f} ({target[1]})")
    same = all(abs(committed[name] - value) < 5e-5 for name, value in found.items())
    print("committed parameters are the solved ones" if same else "DIFFERENT: set the defaults of Parameters")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
