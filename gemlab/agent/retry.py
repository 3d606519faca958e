"""Resending the same request: what failed on the way is sent again as it was, nothing is rebuilt."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import tenacity

from ..backends import ApiFailure, Unavailable

ATTEMPTS = 5
_LONGEST = 60.0
# A server that asks for more than this means a quota of the day: the run ends sooner than it answers.
PATIENCE = 300.0


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


def _worth_it(error: BaseException) -> bool:
    """A stream of which something came is not asked for again: what came may have been used."""
    return isinstance(error, Unavailable) and not error.got and (server_delay(error) or 0.0) <= PATIENCE


async def resend(
    send: Callable[[], Awaitable[Any]], again: Callable[[], None] = lambda: None, attempts: int = ATTEMPTS
) -> tuple[Any, list[dict[str, Any]]]:
    """Call `send` until it answers; return the answer and what failed before it. `again` is called in between.

    What may pass (Unavailable) is tried again up to `attempts` times, unless the server asks for more than
    PATIENCE seconds; nothing else is. Raises the last ApiFailure, with all of them in its `failures`.
    """
    failures: list[dict[str, Any]] = []
    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(_worth_it),
        stop=tenacity.stop_after_attempt(attempts),
        wait=_wait,
        reraise=True,
    )
    async for attempt in retrying:
        if failures:
            again()
        with attempt:
            try:
                return await send(), failures
            except ApiFailure as error:
                failures.append(describe(error))
                error.failures = failures
                raise
    raise AssertionError("unreachable: the last failure is raised")


def describe(error: ApiFailure) -> dict[str, Any]:
    """Return a failure as a trace keeps it: HTTP status and the API's own body, or what kind it was."""
    what = {"kind": error.kind} if error.status is None else {"body": error.body}
    return {"status": error.status, **what, **({"got": error.got} if error.got else {})}
