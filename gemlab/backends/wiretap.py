"""What went over the wire: a transport that keeps the bodies of an exchange, and connections by event loop.

Headers and keys are never looked at.
"""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx2


@dataclass
class Taken:
    """The bodies of one exchange as bytes; a stream's grow as it is read. `pieces`: those that are still to come."""

    request: bytes = b""
    response: bytearray = field(default_factory=bytearray)
    pieces: AsyncIterator[bytes] | None = None

    async def drain(self) -> None:
        """Take what is still to come, where who read it gave up half-way."""
        if self.pieces is not None:
            async for piece in self.pieces:
                self.response += piece


taking: contextvars.ContextVar[Taken | None] = contextvars.ContextVar("taken", default=None)


class Recorder(httpx2.AsyncBaseTransport):
    """Passes requests on and lays their bodies, with the response's, where `Backend.send` finds them."""

    def __init__(self, inner: httpx2.AsyncBaseTransport):
        self.inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self.inner.handle_async_request(request)
        taken = taking.get()
        if taken is not None:
            taken.request, taken.response, taken.pieces = request.content, bytearray(), None
            try:
                taken.response = bytearray(response.content)  # a transport may hand over a whole answer
            except httpx2.ResponseNotRead:
                response.stream = _Tee(response.stream, taken)
        return response

    async def aclose(self) -> None:
        await self.inner.aclose()


class _Tee(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, taken: Taken):
        self.stream, self.taken = stream, taken

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.taken.pieces = pieces = aiter(self.stream)
        async for piece in pieces:
            self.taken.response += piece
            yield piece

    async def aclose(self) -> None:
        await self.stream.aclose()


class Pools(httpx2.AsyncBaseTransport):
    """A connection pool for each event loop: connections die with the loop that opened them.

    Every run has a loop of its own, so a second one in the same kernel must not get the first one's.
    """

    def __init__(self) -> None:
        self.pools: weakref.WeakKeyDictionary[Any, httpx2.AsyncHTTPTransport] = weakref.WeakKeyDictionary()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        loop = asyncio.get_running_loop()
        if loop not in self.pools:
            self.pools[loop] = httpx2.AsyncHTTPTransport()
        return await self.pools[loop].handle_async_request(request)

    async def aclose(self) -> None:
        pool = self.pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.aclose()
