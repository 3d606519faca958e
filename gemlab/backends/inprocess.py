"""An ASGI app as an httpx2 transport whose answers stream: each piece arrives when the app sends it.

httpx2's own ASGITransport collects an answer before it hands it on, so that a stream cut in the middle would
look as if it had never begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2

# What an app has sent so far: its messages, or what it raised.
_Sent = asyncio.Queue[dict[str, Any] | BaseException]


class StreamingASGITransport(httpx2.AsyncBaseTransport):
    """Sends requests to an ASGI app in this process; a connection that the app breaks off is a protocol error."""

    def __init__(self, app: Any):
        self.app = app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        sent: _Sent = asyncio.Queue()
        task = asyncio.create_task(self._run(request, body, sent))
        start = await sent.get()
        if isinstance(start, BaseException):
            raise _lost(start)
        return httpx2.Response(
            start["status"], headers=start.get("headers", []), stream=_Body(sent, task), request=request
        )

    async def _run(self, request: httpx2.Request, body: bytes, sent: _Sent) -> None:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "headers": [(k.lower(), v) for k, v in request.headers.raw],
            "scheme": request.url.scheme,
            "path": request.url.path,
            "raw_path": request.url.raw_path.split(b"?")[0],
            "query_string": request.url.query,
            "server": (request.url.host, request.url.port),
            "client": ("127.0.0.1", 0),
            "root_path": "",
        }
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])
        never = asyncio.Event()

        async def receive() -> dict[str, Any]:
            for message in messages:
                return message
            await never.wait()  # the client stays until the answer is over
            return {"type": "http.disconnect"}

        try:
            await self.app(scope, receive, sent.put)
        except Exception as error:
            await sent.put(error)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, sent: _Sent, task: asyncio.Task[None]):
        self.sent, self.task = sent, task

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            message = await self.sent.get()
            if isinstance(message, BaseException):
                raise _lost(message)
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body"):
                break
        # A framework answers 500 before it raises: the exception says more.
        await self.task
        while not self.sent.empty():
            message = self.sent.get_nowait()
            if isinstance(message, BaseException):
                raise _lost(message)

    async def aclose(self) -> None:
        self.task.cancel()


def _lost(error: BaseException) -> BaseException:
    """Return what a client sees of an app's exception: a broken connection is one, anything else is our bug."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ConnectionError):
        return httpx2.RemoteProtocolError(str(error))
    return error
