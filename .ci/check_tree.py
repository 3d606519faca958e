"""Refuse what must not be in the tree: notebook outputs, derived parameters, long cells, keys."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from gemlab.app import experiments

MOST_CODE_CELLS, MOST_LINES = 14, 20


def notebook_problems(path: Path) -> list[str]:
    code = [c for c in json.loads(path.read_text("utf-8"))["cells"] if c["cell_type"] == "code"]
    found = []
    if any(c["outputs"] or c["execution_count"] for c in code):
        found.append(f"{path}: outputs are not stripped")
    if len(code) > MOST_CODE_CELLS or any(len(c["source"]) > MOST_LINES for c in code):
        found.append(f"{path}: over {MOST_CODE_CELLS} code cells, or one over {MOST_LINES} lines")
    try:
        experiments.defaults(path)
    except experiments.BadInput as error:
        found.append(str(error))
    return found


def main() -> int:
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    files = [Path(name) for name in tracked if Path(name).is_file()]
    found = [p for f in files if f.suffix == ".ipynb" for p in notebook_problems(f)]
    for file in files:
        if re.search(rb"AIza[0-9A-Za-z_-]{30}", file.read_bytes()):
            found.append(f"{file}: holds what looks like an API key")
    print("\n".join(found) or f"{len(files)} files: notebooks stripped, no keys")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
