"""Resending the same request: what failed on the way is sent again as it was, nothing is rebuilt."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import tenacity

from .backends import Refused, Unavailable

ATTEMPTS = 5
_LONGEST = 60.0


def server_delay(error: BaseException | None) -> float | None:
    """Return the seconds that a RetryInfo asks to wait, or None."""
    said = error.body.get("error") if isinstance(error, Unavailable) else None
    for detail in (said.get("details") or []) if isinstance(said, dict) else []:
        if str(detail.get("@type", "")).endswith("google.rpc.RetryInfo"):
            found = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(detail.get("retryDelay", "")))
            return float(found[1]) if found else None
    return None


def _wait(state: tenacity.RetryCallState) -> float:
    """Wait as long as the server asks, else exponentially with jitter."""
    asked = server_delay(state.outcome.exception())
    return asked if asked is not None else tenacity.wait_exponential_jitter(0.5, _LONGEST, jitter=0.5)(state)


async def resend(send: Callable[[], Awaitable[Any]], attempts: int = ATTEMPTS) -> tuple[Any, list[dict[str, Any]]]:
    """Call `send` until it answers; return the answer and what failed before it.

    Errors of the way (429, 5xx, lost connections, what is no JSON) are tried again up to `attempts` times; a
    refusal is not, nor is an answer that the client cannot read (ValueError).
    Raises the last error with the failures so far in its attribute `failures`.
    """
    failures: list[dict[str, Any]] = []
    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type((Unavailable, httpx2.TransportError, json.JSONDecodeError)),
        stop=tenacity.stop_after_attempt(attempts),
        wait=_wait,
        reraise=True,
    )
    try:
        async for attempt in retrying:
            with attempt:
                try:
                    answer = await send()
                except (Unavailable, Refused, httpx2.TransportError, ValueError) as error:
                    failures.append(describe(error))
                    raise
    except (Unavailable, Refused, httpx2.TransportError, ValueError) as error:
        error.failures = failures
        raise
    return answer, failures


def describe(error: BaseException) -> dict[str, Any]:
    """Return an error as a trace keeps it: HTTP status and the API's own body, or the kind of transport error."""
    if isinstance(error, Unavailable | Refused):
        return {"status": error.status, "body": error.body}
    return {"status": None, "kind": type(error).__name__}
