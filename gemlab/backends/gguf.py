"""Reading what a GGUF file says of its model: the key-value section of its header, never its tensors.

Own code, as the library for the format turns every word of the vocabulary into an object of its own: seconds and
hundreds of megabytes where this takes a tenth of a second. Layout:
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

MAGIC = b"GGUF"

# The format's value types by number; 8 is a text, 9 an array.
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_TEXT, _ARRAY = 8, 9

# Far above what a real header holds: a damaged length must not become an allocation or an endless loop.
_MOST_PAIRS, _MOST_TEXT = 1 << 16, 1 << 20

Scalar = int | float | bool | str

# llama.cpp's enum llama_ftype (include/llama.h); the numbers left out were given up.
_FILE_TYPES: dict[Scalar, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS",
    20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M",
    28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE",
    39: "NVFP4", 40: "Q1_0", 41: "Q2_0",
}  # fmt: skip


def file_type(number: Scalar | None) -> str:
    """Return the quantisation that `general.file_type` stands for, such as Q4_K_M."""
    if number is None:
        return "unknown file type"
    return _FILE_TYPES.get(number, f"file type {number}")


def metadata(path: Path) -> dict[str, Scalar]:
    """Return the header's key-value pairs, arrays left out (they hold the vocabulary).

    Raises ValueError with one line for a header that is damaged, cut off or of another version than 2 and 3;
    OSError where the file cannot be read.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise ValueError(f"{path} is no GGUF file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _pairs(data)
            except struct.error:  # every read past the end
                raise ValueError(f"{path}: the GGUF header is cut off") from None
            except _Damaged as error:
                raise ValueError(f"{path}: the GGUF header is damaged: {error}") from None


class _Damaged(Exception):
    pass


def _pairs(data: mmap.mmap) -> dict[str, Scalar]:
    version, _tensors, count = struct.unpack_from("<IQQ", data, len(MAGIC))
    if version not in (2, 3):
        raise _Damaged(f"version {version}, not 2 or 3")
    if count > _MOST_PAIRS:
        raise _Damaged(f"{count} entries")
    found: dict[str, Scalar] = {}
    at = len(MAGIC) + struct.calcsize("<IQQ")
    for _ in range(count):
        key, at = _text(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        at += 4
        if kind == _ARRAY:
            at = _past_array(data, at)
        else:
            found[key], at = _value(data, at, kind)
    return found


def _value(data: mmap.mmap, at: int, kind: int) -> tuple[Scalar, int]:
    """Return the value that begins at a byte, and the byte after it."""
    if kind == _TEXT:
        return _text(data, at)
    if kind not in _SCALARS:
        raise _Damaged(f"value type {kind}")
    (value,) = struct.unpack_from(_SCALARS[kind], data, at)
    return value, at + struct.calcsize(_SCALARS[kind])


def _text(data: mmap.mmap, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", data, at)
    end = _within(data, at + 8 + length)
    if length > _MOST_TEXT:
        raise _Damaged(f"a text of {length} bytes")
    return data[at + 8 : end].decode("utf-8", "replace"), end


def _past_array(data: mmap.mmap, at: int) -> int:
    """Return the byte after an array."""
    kind, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if kind in _SCALARS:
        return _within(data, at + count * struct.calcsize(_SCALARS[kind]))
    if kind != _TEXT:  # arrays of arrays among them: llama.cpp reads none
        raise _Damaged(f"an array of value type {kind}")
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", data, at)
        at = _within(data, at + 8 + length)
    return at


def _within(data: mmap.mmap, at: int) -> int:
    if at > len(data):
        raise struct.error
    return at
