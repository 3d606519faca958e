"""Recorded runs of other systems as rounds: read(paths) knows the form of a file by what is in it."""

from __future__ import annotations

from .base import Imported, Run
from .read import IMPORTERS, read

__all__ = ["IMPORTERS", "Imported", "Run", "read"]
