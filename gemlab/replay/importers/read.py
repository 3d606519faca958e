"""Files to runs: gzip or not, one JSON value or one a line; each record by the first form that it has."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...registry import Kind
from . import chat, gemini, interaction, normalised, unread
from .base import Broken, Imported, Run


def read(paths: Sequence[Path | str]) -> Imported:
    """Return the runs of the files (of a folder: its .json, .jsonl files, also as .gz, at any depth).

    What cannot be read is counted and named in the result. Raises FileNotFoundError for a path that is not there.
    """
    found = Imported()
    for path in _files([Path(p) for p in paths]):
        for place, record in _records(path, found):
            try:
                found.runs += _runs(record, place)
            except Broken as error:
                found.skip(str(error), place)
    return found


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.is_file() and set(p.suffixes) & {".json", ".jsonl"})
        elif path.is_file():
            yield path
        else:
            raise FileNotFoundError(f"no traces at {path}")


def _records(path: Path, found: Imported) -> Iterator[tuple[str, Any]]:
    """Yield (place, record): the lines of a file of JSON lines; else the file's value, or the values in its list."""
    raw = path.read_bytes()
    if path.suffix == ".gz":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error):
            return found.skip("not gzip", path.name)
    try:
        whole = json.loads(raw)
    except ValueError:
        return (yield from _lines(raw, path, found))
    if isinstance(whole, list) and not _is_known(whole):
        yield from ((f"{path.name}, item {i}", record) for i, record in enumerate(whole, 1))
    else:
        yield path.name, whole


def _lines(raw: bytes, path: Path, found: Imported) -> Iterator[tuple[str, Any]]:
    if ".json" in path.suffixes:
        return found.skip("not JSON", path.name)
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        place = f"{path.name}, line {number}"
        try:
            record = json.loads(line)
        except ValueError:
            found.skip("not JSON", place)
            continue
        yield place, record


def _is_known(record: Any) -> bool:
    return chat.is_mine(record) or gemini.is_contents(record)


def _runs(record: Any, place: str) -> list[Run]:
    """Return the runs of one record; raises Broken where it has no known form, or not what its form needs."""
    try:
        for ours in (False, True):
            # What is known and not read would look like one of our forms, without the calls in it.
            unread_form = unread.form(record) if ours else None
            if unread_form:
                raise Broken(unread_form)
            for name, importer in IMPORTERS.parts():
                runs = importer(record, place) if (name in _OURS) == ours else None
                if runs is not None:
                    return list(runs)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise Broken(f"broken record ({type(error).__name__}: {error})") from None
    raise Broken("unknown form")


# --- the forms ------------------------------------------------------------------------------------------------

# A function of a record and its place in the files: its runs, or None where the record is of another form. The first
# one that takes a record counts. Raises Broken for a record of the form that lacks what the form needs.
Importer = Callable[[Any, str], Sequence[Run] | None]
IMPORTERS: Kind[Importer] = Kind("importer", "gemlab.importers", skip=2)


@IMPORTERS.register
def gemlab_traces(record: Any, place: str) -> Sequence[Run] | None:
    """Read gemlab's own traces, a trial a line."""
    return [gemini.trace_run(record)] if gemini.is_trace(record) else None


@IMPORTERS.register
def normalised_runs(record: Any, place: str) -> Sequence[Run] | None:
    """Read the normalised form: `{id, source, model, success, end, segs}`, a run a line."""
    return [normalised.run(record)] if normalised.is_mine(record) else None


@IMPORTERS.register
def gemini_contents(record: Any, place: str) -> Sequence[Run] | None:
    """Read Gemini contents, or request bodies that hold them."""
    return [gemini.contents_run(record, place)] if gemini.is_contents(record) else None


@IMPORTERS.register
def interactions(record: Any, place: str) -> Sequence[Run] | None:
    """Read bodies of the Interactions API that hold a whole conversation."""
    return [interaction.run(record, place)] if interaction.is_mine(record) else None


@IMPORTERS.register
def chat_messages(record: Any, place: str) -> Sequence[Run] | None:
    """Read OpenAI chat messages, and the result files of tau-bench and tau2-bench."""
    return list(chat.runs(record, place)) if chat.is_mine(record) else None


# A user's own importer is asked before them: it may know better what its records are.
_OURS = frozenset(f.__name__ for f in (gemlab_traces, normalised_runs, gemini_contents, interactions, chat_messages))
