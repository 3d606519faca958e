"""Thought signatures: a model's thought sealed so that only the same family and service can open it.

AES-GCM with the family and service as associated data. The key is a constant of the emulator: the seal keeps
thoughts intact, not secret, and a history saved yesterday opens today. The nonce is derived from what is
sealed (synthetic IV), so that equal runs give equal bytes.
"""

from __future__ import annotations

import hashlib
import hmac

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ..wire.families import Profile

_SECRET = hashlib.sha256(b"gemlab emulator: thoughts are sealed, not secret").digest()
_AEAD = AESGCM(_SECRET)
_VERSION = b"\x12"
_NONCE = 12
# The shortest recorded signature has 72 characters, 54 bytes; nonce, tag and version take 29 of them.
_LEAST = 54 - 29
_FILL = b"\0"


def _bound_to(profile: Profile) -> bytes:
    return f"{profile.family}|{profile.service}".encode()


def seal(thought: str, profile: Profile) -> bytes:
    """Return the signature's bytes for a thought; about 5.3 base64 characters per token of four characters."""
    plain = thought.encode(errors="replace").ljust(_LEAST, _FILL)
    bound = _bound_to(profile)
    nonce = hmac.digest(_SECRET, bound + b"|" + plain, "sha256")[:_NONCE]
    return _VERSION + nonce + _AEAD.encrypt(nonce, plain, bound)


def open_(raw: bytes, profile: Profile) -> str | None:
    """Return the thought in a signature's bytes, or None if altered or of another family or service."""
    if raw[:1] != _VERSION or len(raw) < 1 + _NONCE + 16:
        return None
    try:
        plain = _AEAD.decrypt(raw[1 : 1 + _NONCE], raw[1 + _NONCE :], _bound_to(profile))
    except InvalidTag:
        return None
    return plain.rstrip(_FILL).decode()
