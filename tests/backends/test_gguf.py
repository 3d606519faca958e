"""GGUF headers written here byte by byte: what is read of them, and that damage is one line, not an allocation."""

from __future__ import annotations

import hashlib
import struct
import tracemalloc

import pytest

from gemlab.backends import gguf, weights

UINT32, FLOAT32, BOOL, TEXT, ARRAY, UINT64 = 4, 6, 7, 8, 9, 10


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key, kind, payload):
    return text(key) + struct.pack("<I", kind) + payload


def words(*values):
    return struct.pack("<IQ", TEXT, len(values)) + b"".join(map(text, values))


def header(*pairs, version=3, count=None):
    return b"GGUF" + struct.pack("<IQQ", version, 1, len(pairs) if count is None else count) + b"".join(pairs)


PAIRS = (
    pair("general.architecture", TEXT, text("llama")),
    pair("general.name", TEXT, text("Größe S")),
    pair("tokenizer.ggml.tokens", ARRAY, words("a", "", "bcd")),
    pair("tokenizer.ggml.scores", ARRAY, struct.pack("<IQ3f", FLOAT32, 3, 1, 2, 3)),
    pair("general.file_type", UINT32, struct.pack("<I", 15)),
    pair("llama.rope.freq_base", FLOAT32, struct.pack("<f", 0.5)),
    pair("tokenizer.ggml.add_bos_token", BOOL, b"\1"),
    pair("general.parameter_count", UINT64, struct.pack("<Q", 134_515_008)),
    pair("tokenizer.chat_template", TEXT, text("{% for m in messages %}")),
)


@pytest.fixture
def written(tmp_path):
    def write(content, name="tiny.gguf"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


@pytest.mark.parametrize("version", [2, 3])
def test_values_are_read_and_arrays_are_passed_over(written, version):
    assert gguf.metadata(written(header(*PAIRS, version=version) + b"tensors")) == {
        "general.architecture": "llama",
        "general.name": "Größe S",
        "general.file_type": 15,
        "llama.rope.freq_base": 0.5,
        "tokenizer.ggml.add_bos_token": True,
        "general.parameter_count": 134_515_008,
        "tokenizer.chat_template": "{% for m in messages %}",
    }


def test_every_number_type_is_read(written):
    numbers = {0: ("B", 200), 1: ("b", -100), 2: ("H", 60_000), 3: ("h", -30_000), 4: ("I", 4_000_000_000)}
    numbers |= {5: ("i", -2_000_000_000), 6: ("f", 0.25), 7: ("?", True), 10: ("Q", 1 << 63), 11: ("q", -(1 << 62))}
    numbers |= {12: ("d", 0.1)}
    pairs = [pair(str(kind), kind, struct.pack(f"<{form}", value)) for kind, (form, value) in numbers.items()]
    found = gguf.metadata(written(header(*pairs)))
    assert found == {str(kind): value for kind, (_, value) in numbers.items()}


def test_a_header_cut_anywhere_is_one_line(written):
    whole = header(*PAIRS)
    for length in range(len(whole)):
        with pytest.raises(ValueError, match=r"cut off|no GGUF file") as raised:
            gguf.metadata(written(whole[:length]))
        assert "\n" not in str(raised.value)


def test_damage_anywhere_is_at_most_one_line(written):
    whole, complaints = header(*PAIRS), []
    for at in range(4, len(whole)):
        damaged = whole[:at] + b"\xff" * min(8, len(whole) - at) + whole[at + 8 :]
        try:
            gguf.metadata(written(damaged))  # damage inside a text or a number cannot be told
        except ValueError as error:
            complaints.append(str(error))
    assert len(complaints) > 50 and all("header is" in c and "\n" not in c for c in complaints)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (header(*PAIRS, version=1), "version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version 50331648"),  # big-endian
        (header(count=1 << 40), "entries"),
        (header(pair("key", 13, b"\0" * 8)), "value type 13"),
        (header(pair("key", ARRAY, struct.pack("<IQ", ARRAY, 1))), "array of value type 9"),
        (header(pair("key", ARRAY, struct.pack("<IQ", UINT64, 1 << 61))), "cut off"),
        (header(pair("key", ARRAY, struct.pack("<IQ", TEXT, 1 << 61))), "cut off"),
        (header(pair("key", TEXT, struct.pack("<Q", (1 << 64) - 1))), "cut off"),
        (b"version https://git-lfs", "no GGUF file"),
        (b"", "no GGUF file"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_read_is_named(written, content, says):
    with pytest.raises(ValueError, match=says):
        gguf.metadata(written(content))


def test_a_damaged_length_is_no_allocation(written):
    path = written(header(pair("general.name", TEXT, struct.pack("<Q", 200_000_000))))
    with path.open("r+b") as file:
        file.truncate(300_000_000)  # sparse: the length lies within the file
    tracemalloc.start()
    with pytest.raises(ValueError, match="a text of 200000000 bytes"):
        gguf.metadata(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_file_types_have_their_names():
    # From llama.cpp's include/llama.h.
    names = {0: "F32", 1: "F16", 3: "Q4_1", 7: "Q8_0", 15: "Q4_K_M", 18: "Q6_K", 30: "IQ4_XS", 32: "BF16", 36: "TQ1_0"}
    assert {number: gguf.file_type(number) for number in names} == names
    assert gguf.file_type(33) == "file type 33" and gguf.file_type(None) == "unknown file type"


def test_a_file_is_described_from_its_header(written):
    content = header(*PAIRS, pair("general.license", TEXT, text("apache-2.0"))) + b"tensors"
    assert weights.describe(written(content)) == {
        "name": "Größe S",
        "architecture": "llama",
        "file_type": "Q4_K_M",
        "size": 134_515_008,
        "license": "apache-2.0",
        "chat_template": True,
        "file": "tiny.gguf",
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def test_a_header_that_says_little_is_described_by_the_file(written):
    found = weights.describe(written(header(), "some-model.gguf"))
    assert (found["name"], found["file_type"], found["chat_template"]) == ("some-model", "unknown file type", False)
    assert found["architecture"] is found["size"] is found["license"] is None


def test_a_changed_file_is_hashed_anew(written):
    first = weights.describe(written(header()))["sha256"]
    content = header() + b"more"
    assert weights.describe(written(content))["sha256"] == hashlib.sha256(content).hexdigest() != first
