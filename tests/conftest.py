"""Fixtures shared by the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded data, which is no part of the repository; CI must not go without it."""
    folder = Path(os.environ.get("GEMLAB_SHARED") or REPOSITORY.parent / "shared")
    if not (folder / "data" / "exchanges" / "index.json").is_file():
        reason = f"no recorded data in {folder}: set GEMLAB_SHARED to the folder that holds data/exchanges"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
