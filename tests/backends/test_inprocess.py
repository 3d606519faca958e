"""The in-process transport: pieces arrive as the app sends them, and breaks look like a network's."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from gemlab.backends.inprocess import StreamingASGITransport


def client(handler):
    app = Starlette(routes=[Route("/{path:path}", handler, methods=["GET", "POST"])])
    return httpx2.AsyncClient(transport=StreamingASGITransport(app), base_url="http://app")


async def test_a_whole_answer_comes_with_status_headers_and_the_requests_body():
    async def echo(request):
        return Response(await request.body(), 201, {"x-path": str(request.url)})

    async with client(echo) as http:
        answer = await http.post("/a/b?c=d", content=b"xyz" * 100_000)
    assert answer.status_code == 201 and answer.content == b"xyz" * 100_000
    assert answer.headers["x-path"] == "http://app/a/b?c=d"


async def test_pieces_arrive_before_the_answer_ends():
    more = asyncio.Event()

    async def pieces():
        yield b"one"
        await more.wait()  # would hang if the answer were collected first
        yield b"two"

    async def handler(request):
        return StreamingResponse(pieces())

    async with client(handler) as http, http.stream("GET", "/") as answer:
        got = []
        async for piece in answer.aiter_raw():
            got.append(piece)
            more.set()
    assert got == [b"one", b"two"]


async def test_a_broken_connection_is_a_protocol_error_after_what_came():
    async def pieces():
        yield b"one"
        raise ConnectionResetError("cut")

    async def handler(request):
        return StreamingResponse(pieces())

    async with client(handler) as http, http.stream("GET", "/") as answer:
        pieces_got = answer.aiter_raw()
        assert await anext(pieces_got) == b"one"
        with pytest.raises(httpx2.RemoteProtocolError, match="cut"):
            await anext(pieces_got)


async def test_an_apps_own_error_is_not_hidden():
    async def handler(request):
        raise KeyError("bug")

    async with client(handler) as http:
        with pytest.raises(KeyError, match="bug"):
            await http.get("/")


async def test_what_an_app_sends_after_the_end_is_left_and_what_it_raises_then_counts():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one", "more_body": False})
        await send({"type": "http.response.body", "body": b"late", "more_body": False})
        if scope["path"] == "/raises":
            raise LookupError("a bug")

    async with httpx2.AsyncClient(transport=StreamingASGITransport(app), base_url="http://app") as http:
        assert (await http.get("/")).content == b"one"
        with pytest.raises(LookupError, match="a bug"):
            await http.get("/raises")
