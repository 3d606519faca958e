"""How much of a runtime's own speed trials on a language model reach, measured in one run.

    python benchmarks/language.py --backend gguf:FILE

First the runtime by itself with all slots busy (tokens read from new prompts, tokens made), then trials of a task
through the whole stack: client, emulator, prompt, grammar. 100% would be: the stack costs nothing, no slot ever waits.
The trials' prompts lie in the slots' caches already, as they do for most of a long run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from gemlab.backends import language
from gemlab.studies.signature_lm import report, runs, speed

SETUP = {"task": "ecpm-handles", "prompt": "worked"}
ARMS = [{"name": "preserve", "guard": "cap_10"}, {"name": "strip", "history": "strip", "guard": "cap_10"}]
MODEL = "gemini-2.5-flash"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="gguf:", help="gguf:FILE (empty: a fetched model) or openai:URL#MODEL")
    parser.add_argument("--slots", type=int, default=language.SLOTS)
    parser.add_argument("--instances", type=int, default=24)
    given = parser.parse_args()
    backend = language.absolute(given.backend)
    runtime = language.open_runtime(backend, given.slots)

    def run(instances: int, seed: int) -> runs.Run:
        with tempfile.TemporaryDirectory() as folder:
            asked = runs.Parameters(
                backend=backend, setups=[SETUP], arms=ARMS, model=MODEL, instances=instances, seed=seed,
                slots=given.slots, block=instances,
            )  # fmt: skip
            (done,) = runs.run(asked, Path(folder), runtime)
            return done

    run(given.slots // 2 or 1, 8)  # every slot has read the examples once
    rates = speed.measure(runtime, given.slots)
    run(given.slots // 2 or 1, 9)
    print(report.speed_text(report.speed([run(given.instances, 7)], rates)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
