"""The emulator behind uvicorn, on the loopback address only."""

from __future__ import annotations

import socket

from .experiment import BadInput

HOST = "127.0.0.1"


def serve(port: int) -> None:
    """Serve until Ctrl-C; raises BadInput where the port cannot be had."""
    import uvicorn

    from . import backends

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except (OSError, OverflowError) as error:
        raise BadInput(f"cannot serve on {HOST}:{port}: {getattr(error, 'strerror', None) or error}") from None
    base = f"http://{HOST}:{listener.getsockname()[1]}"
    print(f"serving on {base} (Ctrl-C stops)", flush=True)
    uvicorn.Server(uvicorn.Config(backends.emulator(), log_level="warning")).run(sockets=[listener])
