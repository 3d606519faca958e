"""The embedded emulator as a backend: in this process, without a socket."""

from __future__ import annotations

from typing import Any

import httpx2

from ..wire.families import DEVELOPER
from .client import ClientBackend, sdk_client
from .inprocess import StreamingASGITransport
from .seam import SCRIPTED, Source


def simulated(
    app: Any = None, transport: httpx2.AsyncBaseTransport | None = None, source: Source = SCRIPTED
) -> ClientBackend:
    """Return the embedded emulator as a backend, in-process (no socket); by default with all tasks' plans."""
    if transport is None:
        transport = StreamingASGITransport(app if app is not None else emulator())
    return embedded("sim", transport, source)


def embedded(name: str, transport: httpx2.AsyncBaseTransport, source: Source, pools: Any = None) -> ClientBackend:
    """Return a backend over an emulator's transport; `source` says what stands behind it.

    `pools`: what holds connections of its own by event loop, closed by its `aclose` when a run is over.
    """
    client = sdk_client(transport, api_key="emulator", base_url="http://emulator")
    return ClientBackend(name, client, DEVELOPER, source, pools)


def emulator(model: str = "scripted", parameters: Any = None, **options: Any) -> Any:
    """Return the emulator's ASGI app with all tasks' plans behind it; `options` are create_app's.

    `model`: `scripted`, which follows the plan of a task it knows by its tools and is the tour for any other,
    `tour` for every request, or a language model by the name of its backend. Raises ValueError for any other.
    """
    from .. import tasks
    from ..emulator.app import create_app
    from ..emulator.minds.scripted import ScriptedModel
    from ..emulator.minds.tour import TourModel
    from . import language

    if language.is_language(model):
        return create_app(language.model(model)[0], **options)
    if model not in ("scripted", "tour"):
        raise ValueError(f"unknown model {model!r}; known: scripted, tour, {language.KNOWN}")
    tour = TourModel()
    chosen = tour if model == "tour" else ScriptedModel(tasks.plans(), parameters, otherwise=tour)
    return create_app(chosen, **options)
