"""How fast a sweep is against replaying every threshold by itself.

    python benchmarks/replay.py TRACES… [--sample 20]

Reads the traces, then times on one core: the fingerprints, the one pass over all runs for 3 rules × 20 thresholds,
and the live guards at each of these 60 settings. The latter only over every SAMPLE-th run, scaled up.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gemlab.guards import Guards
from gemlab.replay import firing, importers


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor seconds that the work took, and what it gave."""
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


def one_by_one(runs: list[importers.Run]) -> list[list[list[int]]]:
    """Replay every setting with live guards, each run to its first verdict."""
    return [
        [[_first(run, Guards((replace(rule, limit=n),))) for n in firing.THRESHOLDS] for run in runs]
        for rule in firing.named_rules(firing.DEFAULT_RULES).values()
    ]


def _first(run: importers.Run, guard: Guards) -> int:
    return next((step for step, _ in firing.live(run, guard)), firing.NEVER)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--sample", type=int, default=20)
    given = parser.parse_args()
    reading, got = timed(lambda: importers.read(given.traces))
    indexing, indexed = timed(lambda: firing.index(got.runs))
    sweeping, fires = timed(lambda: firing.sweep(indexed))
    sample = got.runs[:: given.sample]
    slow, found = timed(lambda: one_by_one(sample))
    same = [[row.tolist() for row in fires.steps[:: given.sample, i]] for i in range(len(fires.rules))] == found
    slow *= len(got.runs) / len(sample)
    settings = f"{len(fires.rules)} rules × {len(fires.thresholds)} thresholds"
    print(f"{len(got.runs)} runs, {sum(fires.rounds)} rounds, {settings}; processor seconds on one core")
    print(f"  reading the files            {reading:8.2f}")
    print(f"  fingerprints, once           {indexing:8.2f}")
    print(f"  one pass                     {sweeping:8.2f}")
    print(f"  fingerprints and one pass    {indexing + sweeping:8.2f}")
    settings_in_all = len(fires.rules) * len(fires.thresholds)
    cold = (slow + settings_in_all * indexing) / (sweeping + indexing)
    print(f"  every threshold by itself    {slow:8.2f}   (every {given.sample}th run, scaled; same result: {same})")
    print(f"  times faster                 {slow / sweeping:8.0f}   (fingerprints there already for both)")
    print(f"  times faster                 {cold:8.0f}   (each setting and the pass making its own fingerprints)")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
