"""Notebooks and experiments where they lie: beside the package in a checkout, within it once installed."""

from __future__ import annotations

import filecmp
import shutil
from pathlib import Path

from ..registry import BadInput

_PACKAGE = Path(__file__).resolve().parents[1]
HOME = _PACKAGE if (_PACKAGE / "notebooks").is_dir() else _PACKAGE.parent
NOTEBOOKS, EXPERIMENTS = HOME / "notebooks", HOME / "experiments"


def copy_notebooks(folder: Path, fresh: bool = False) -> tuple[list[str], list[str]]:
    """Copy the notebooks into a working folder; return the names copied, and those left since they were changed there.

    `fresh`: those that were changed are replaced too. Raises BadInput where the folder cannot be written.
    """
    copied, left = [], []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
            there = folder / notebook.name
            if there.exists() and not fresh and not filecmp.cmp(notebook, there, shallow=False):
                left.append(notebook.name)
            else:
                shutil.copyfile(notebook, there)
                copied.append(notebook.name)
    except OSError as error:
        raise BadInput(f"cannot write in {folder}: {error.strerror}") from None
    return copied, left
