"""Keeping what a client sent and got: bodies only, never a header and never a query string."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


class Recording:
    """An ASGI app around another that appends each exchange as one line to `exchanges.jsonl` in a folder."""

    def __init__(self, app: Any, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.app, self.path = app, folder / "exchanges.jsonl"
        self.path.open("a").close()  # a folder that cannot be written shows now, not at the first request

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        asked, got, status = bytearray(), bytearray(), [0]

        async def hear() -> Any:
            message = await receive()
            asked.extend(message.get("body", b""))
            return message

        async def say(message: Any) -> None:
            status[0] = message.get("status", status[0])
            got.extend(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, hear, say)
        finally:
            self._write(scope, bytes(asked), bytes(got), status[0])

    def _write(self, scope: Any, asked: bytes, got: bytes, status: int) -> None:
        line = {
            "time": round(time.time(), 3),
            "request": {"method": scope["method"], "path": scope["path"], "body": _value(asked)},
            "response": {"status": status, **_answer(got)},
        }
        with self.path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _value(raw: bytes) -> Any:
    """Return the JSON value of a body, or its text where it is none."""
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw.decode("utf-8", "replace")


def _answer(raw: bytes) -> dict[str, Any]:
    if not raw.startswith(b"data:"):
        return {"body": _value(raw)}
    return {"chunks": [_value(line[5:].strip()) for line in raw.splitlines() if line.startswith(b"data:")]}
