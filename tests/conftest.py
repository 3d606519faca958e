"""Fixtures shared by the tests."""

from __future__ import annotations

import functools
import os
import types
from pathlib import Path
from typing import Any

import httpx2
import pytest
import tenacity

from gemlab import retry

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded data, which is no part of the repository; CI must not go without it."""
    folder = Path(os.environ.get("GEMLAB_SHARED") or REPOSITORY.parent / "shared")
    if not (folder / "data" / "exchanges" / "index.json").is_file():
        reason = f"no recorded data in {folder}: set GEMLAB_SHARED to the folder that holds data/exchanges"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


class Scripted(httpx2.AsyncBaseTransport):
    """Answers with the given ones in turn, the last one for ever; `sent` holds the requests' bytes.

    An answer is (status, body), body being bytes or JSON, or an exception to raise.
    """

    def __init__(self, *answers: tuple[int, Any] | Exception):
        self.answers, self.sent = list(answers), []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request.content)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        status, body = answer
        return httpx2.Response(status, **({"content": body} if isinstance(body, bytes) else {"json": body}))

    @staticmethod
    def reply(*parts: dict[str, Any], finish: str = "STOP", served: str | None = "gemini-2.5-flash", **candidate):
        """Return an answer with these parts."""
        content = {"content": {"parts": list(parts), "role": "model"}} if parts else {}
        body = {"candidates": [{**content, "finishReason": finish, "index": 0, **candidate}]}
        return 200, {**body, **({"modelVersion": served} if served else {})}


@pytest.fixture
def scripted() -> type[Scripted]:
    """The transport class for answers written by hand."""
    return Scripted


@pytest.fixture
def slept(monkeypatch):
    """The seconds that the retry would have waited."""
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    quick = functools.partial(tenacity.AsyncRetrying, sleep=sleep)
    monkeypatch.setattr(retry, "tenacity", types.SimpleNamespace(**{**vars(tenacity), "AsyncRetrying": quick}))
    return waited
