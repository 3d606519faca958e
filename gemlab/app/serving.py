"""The emulator behind uvicorn, on the loopback address only."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..wire import families
from .experiments import BadInput

HOST = "127.0.0.1"
# An open stream may go on for this many seconds after Ctrl-C.
_GRACE = 3


def serve(port: int, model: str, profiles: Sequence[str], faults: str, record: str) -> None:
    """Serve until Ctrl-C; raises BadInput for unknown names, broken files and a port that cannot be had."""
    import uvicorn

    app = build(model, profiles, faults, record)
    listener = _listen(port)
    base = f"http://{HOST}:{listener.getsockname()[1]}"
    print(instructions(base), flush=True)
    logging.getLogger("uvicorn.error").addFilter(_wanted)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_GRACE)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
    print("stopped", flush=True)


def build(model: str, profiles: Sequence[str] = (), faults: str = "", record: str = "") -> Any:
    """Return the app that the options ask for.

    `profiles`: a model id that serves every request, or FIELD=VALUE for an unsettled point of `families.Profile`.
    Raises BadInput.
    """
    from .. import backends
    from ..emulator import faults as faulty
    from ..emulator.recording import Recording

    routes, switches = _profiles(profiles)
    try:
        app = backends.emulator(
            mind=model, routes=routes, switches=switches, faults=faulty.load(Path(faults)) if faults else ()
        )
        return Recording(app, Path(record)) if record else app
    except ValueError as error:
        raise BadInput(str(error)) from None
    except OSError as error:
        raise BadInput(f"cannot record in {record}: {error.strerror}") from None


def _profiles(profiles: Sequence[str]) -> tuple[dict[str, str] | None, dict[str, str]]:
    routes, switches = None, {}
    for text in profiles:
        name, sign, value = text.partition("=")
        if sign:
            known = families.switches()
            if value not in known.get(name, ()):
                options = "; ".join(f"{n}={'|'.join(values)}" for n, values in known.items())
                raise BadInput(f"--profile {text}: known are {options}, or a model id")
            switches[name] = value
        elif families.is_known(text):
            routes = dict.fromkeys([*families.known_models(), *families.ROUTES], text)
        else:
            raise BadInput(f"--profile {text}: unknown model; known: {', '.join(families.known_models())}")
    return routes, switches


def _listen(port: int) -> socket.socket:
    # The protocol is named, as asyncio sends small pieces at once (no Nagle) only on sockets that say TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(2048)  # from here on a client is kept waiting, not refused
    except (OSError, OverflowError) as error:
        listener.close()
        raise BadInput(f"cannot serve on {HOST}:{port}: {getattr(error, 'strerror', None) or error}") from None
    return listener


def instructions(base: str) -> str:
    """Return what each client needs to be pointed at the emulator, a line each."""
    return "\n".join(
        (
            f"Gemini API emulator on {base} (any key is taken; Ctrl-C stops)",
            f"  environment  export GOOGLE_GEMINI_BASE_URL={base} GEMINI_API_KEY=emulator",
            f'  Python       genai.Client(api_key="emulator", http_options={{"base_url": "{base}"}})',
            f'  JavaScript   new GoogleGenAI({{apiKey: "emulator", httpOptions: {{baseUrl: "{base}"}}}})',
            f"  curl         curl {base}/v1beta/models/gemini-3.5-flash:generateContent -H 'content-type: "
            'application/json\' -d \'{"contents": [{"parts": [{"text": "Hello"}]}]}\'',
        )
    )


def _wanted(record: logging.LogRecord) -> bool:
    """Leave out the tracebacks of connections that were cut on purpose."""
    from ..emulator.faults import Cut

    error = record.exc_info[1] if record.exc_info else None
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return not isinstance(error, Cut)
