"""The embedded emulator as a backend: in this process, without a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx2

from . import minds
from .client import ClientBackend, embedded
from .inprocess import StreamingASGITransport
from .seam import SCRIPTED, Source

if TYPE_CHECKING:
    from ..emulator.minds.scripted import Parameters


def simulated(
    app: Any = None, transport: httpx2.AsyncBaseTransport | None = None, source: Source = SCRIPTED
) -> ClientBackend:
    """Return the embedded emulator as a backend, in-process (no socket); by default with all tasks' plans."""
    if transport is None:
        transport = StreamingASGITransport(app if app is not None else emulator())
    return embedded("sim", transport, source)


def emulator(mind: str = "scripted", parameters: Parameters | None = None, **options: Any) -> Any:
    """Return the emulator's ASGI app with a mind behind it (`minds.MINDS`); `options` are create_app's.

    `parameters`: the scripted mind's. Raises BadInput for an unknown mind.
    """
    from ..emulator.app import create_app

    return create_app(minds.scripted(parameters=parameters) if mind == "scripted" else minds.get(mind), **options)
