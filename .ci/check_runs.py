"""Check what the small experiments left behind: complete, labelled as simulated, and with the expected outcomes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gemlab.app import experiments

FILES = ("notebook.ipynb", "report.html", "trials.jsonl", "summary.json", "estimates.png", "outcomes.png")


def main(ab: Path, strict: Path) -> int:
    for run in (ab, strict):
        missing = [name for name in FILES if not (run / name).stat().st_size]
        assert not missing and experiments.is_done(run), f"{run} is not complete: {missing}"
    loose, hard = (json.loads((run / "summary.json").read_text("utf-8")) for run in (ab, strict))
    assert any("not Gemini" in note for note in loose["notes"] + hard["notes"])
    assert loose["arms"]["strip"]["outcomes"]["refused"] == 0
    refused = hard["arms"]["strip"]["outcomes"]["refused"]
    assert refused == hard["arms"]["strip"]["trials"] > 0, "a strict model has to refuse a stripped current turn"
    assert hard["arms"]["dummy"]["outcomes"]["refused"] == 0
    print("both runs are complete; the strict model refused every stripped trial")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:3])))
