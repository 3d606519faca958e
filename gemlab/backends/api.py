"""The real API as a backend, by the SDK's own environment variables."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from ..wire.families import DEVELOPER, VERTEX
from .client import ClientBackend, sdk_client
from .seam import API, NO_KEY, NoKey, Source
from .wiretap import Pools


def gemini(base_url: str | None = None) -> ClientBackend:
    """Return the real API by the SDK's own environment variables; raises NoKey where there is none."""
    vertex = any(
        os.environ.get(name, "").lower() in ("1", "true")
        for name in ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE")
    )
    key = os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY")
    if not key and not (vertex and os.environ.get("GOOGLE_CLOUD_PROJECT")):
        raise NoKey(NO_KEY)
    base_url = base_url or os.environ.get("GOOGLE_GEMINI_BASE_URL")
    pools = Pools()
    client = sdk_client(pools, **({} if vertex else {"api_key": key}), base_url=base_url)
    label = f"answered by {_address(base_url)}, not by Google's own address" if base_url else ""
    source = Source("elsewhere", label) if base_url else API
    return ClientBackend("gemini", client, VERTEX if vertex else DEVELOPER, source, pools)


def _address(url: str) -> str:
    """Return a URL's scheme, host and port: what else stands in it may be a secret."""
    found = urlsplit(url)
    return f"{found.scheme}://{found.hostname}" + (f":{found.port}" if found.port else "")
