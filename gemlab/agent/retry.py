"""Resending a request: what may pass is waited out and sent again."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import tenacity

from ..backends import ApiFailure, Exchange, Unavailable

ATTEMPTS = 5
_LONGEST = 60.0
# A server that asks for more than this means a quota of the day: the run ends sooner than it answers.
PATIENCE = 300.0


def server_delay(error: BaseException | None) -> float | None:
    """Return the seconds that a RetryInfo asks to wait, or None."""
    said = error.body.get("error") if isinstance(error, Unavailable) else None
    for detail in (said.get("details") or []) if isinstance(said, dict) else []:
        if str(detail.get("@type", "")).endswith("google.rpc.RetryInfo"):
            seconds = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(detail.get("retryDelay", "")))
            return float(seconds[1]) if seconds else None
    return None


def _wait(state: tenacity.RetryCallState) -> float:
    """Wait as long as the server asks, else exponentially with jitter."""
    asked = server_delay(state.outcome.exception()) if state.outcome else None
    return asked if asked is not None else tenacity.wait_exponential_jitter(0.5, _LONGEST, jitter=0.5)(state)


def _worth_it(error: BaseException) -> bool:
    """A stream of which something came is not asked for again: what came may have been used."""
    return isinstance(error, Unavailable) and not error.got and (server_delay(error) or 0.0) <= PATIENCE


async def resend(
    send: Callable[[int], Awaitable[Exchange]], attempts: int = ATTEMPTS
) -> tuple[Exchange | None, list[ApiFailure]]:
    """Call `send` with the number of the attempt, from 0, until it answers; return the answer and what failed before.

    What may pass (Unavailable) is tried again up to `attempts` times, unless the server asks for more than PATIENCE
    seconds; nothing else is. Without an answer in the end it is None, and the last failure tells why.
    """
    failures: list[ApiFailure] = []
    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(_worth_it),
        stop=tenacity.stop_after_attempt(attempts),
        wait=_wait,
        reraise=True,
    )
    try:
        async for attempt in retrying:
            with attempt:
                try:
                    return await send(len(failures)), failures
                except ApiFailure as error:
                    failures.append(error)
                    raise
    except ApiFailure:
        return None, failures
    raise AssertionError("unreachable: the last failure is raised")


def describe(error: ApiFailure) -> dict[str, Any]:
    """Return a failure as a trace keeps it: HTTP status and the API's own body, or what kind it was."""
    what = {"kind": error.kind} if error.status is None else {"body": error.body}
    return {"status": error.status, **what, **({"got": error.got} if error.got else {})}
