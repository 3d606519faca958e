"""How many requests a second the emulator answers, alone and through the client, and its share of a trial's time.

    python benchmarks/emulator.py [--rounds 60]

The requests are those of one trial of the four-step task, in turn. All ways are timed in every round, one after the
other, and told by their median, so that a slow minute of the machine strikes all of them. What runs in this process
alone is timed in processor seconds, what goes over a socket in seconds of the clock, with the server in a process
of its own. "google-genai alone" gets answers that were made before: what the client costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx2
from google import genai
from google.genai import types

from gemlab import backends, tasks
from gemlab.agent.arm import Arm
from gemlab.agent.loop import run
from gemlab.agent.trial import Spec
from gemlab.backends.inprocess import StreamingASGITransport
from gemlab.emulator.minds.scripted import Parameters

MODEL = "gemini-3.6-flash"
PATH = f"/v1/models/{MODEL}:"
UNARY, STREAM = f"{PATH}generateContent", f"{PATH}streamGenerateContent?alt=sse"
AT_ONCE = 16
SERVER = "import sys; from gemlab.app import serving; serving.serve(0, 'scripted', [], '', '')"


@dataclass(frozen=True)
class Case:
    """One request of the trial as bytes and as parameters of the client, and its answers."""

    raw: bytes
    contents: list[dict[str, Any]]
    config: types.GenerateContentConfig
    answers: dict[str, bytes]


class Timed:
    """An ASGI app that adds up the seconds spent in another; nothing in it waits, so they are its own."""

    def __init__(self, app: Any):
        self.app, self.seconds, self.requests = app, 0.0, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        started = time.process_time()
        await self.app(scope, receive, send)
        self.seconds += time.process_time() - started
        self.requests += 1


class Canned(httpx2.AsyncBaseTransport):
    """Answers with what it was given beforehand."""

    def __init__(self) -> None:
        self.next = b""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=self.next, headers={"content-type": "application/json; charset=UTF-8"})


# --- the requests -------------------------------------------------------------------------------------------


async def cases() -> list[Case]:
    """Return the requests of one trial without slips, with their answers."""
    app = backends.emulator(parameters=Parameters(0, 0, 0, 0))
    kept: list[bytes] = []

    class Keep(StreamingASGITransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            kept.append(request.content)
            return await super().handle_async_request(request)

    trial = await run(backends.simulated(transport=Keep(app)), Spec(Arm("bench"), "ecpm", MODEL, 0, 0, 0))
    assert trial.outcome == "completed", trial.detail
    task = tasks.get("ecpm")
    config = types.GenerateContentConfig(
        system_instruction=task.system,
        tools=[{"function_declarations": list(task.declarations)}],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        seed=1,
    )
    return [
        Case(raw, json.loads(raw)["contents"], config, {path: await asgi(app, path, raw) for path in (UNARY, STREAM)})
        for raw in kept
    ]


async def asgi(app: Any, target: str, raw: bytes) -> bytes:
    """Return an app's answer to one request, with nothing between."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(b"content-type", b"application/json")], "server": ("emulator", 80), "client": ("127.0.0.1", 0),
    }  # fmt: skip
    pieces: list[bytes] = []
    never = asyncio.Event()
    waiting = [{"type": "http.request", "body": raw, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not waiting:
            await never.wait()
        return waiting.pop()

    async def send(message: dict[str, Any]) -> None:
        assert message.get("status", 200) == 200
        pieces.append(message.get("body", b""))

    await app(scope, receive, send)
    return b"".join(pieces)


# --- the ways -----------------------------------------------------------------------------------------------

Way = Callable[[Case, str], Awaitable[Any]]


def straight(app: Any) -> Way:
    return lambda case, path: asgi(app, path, case.raw)


def over_http(client: httpx2.AsyncClient) -> Way:
    async def ask(case: Case, path: str) -> None:
        response = await client.post(path, content=case.raw)
        assert response.status_code == 200

    return ask


def by_client(client: genai.Client, canned: Canned | None = None) -> Way:
    """The client as gemlab calls it: contents as they are, by extra_body."""

    async def ask(case: Case, path: str) -> None:
        if canned is not None:
            canned.next = case.answers[path]
        options = types.HttpOptions(extra_body={"contents": case.contents})
        asked = {"model": MODEL, "contents": "", "config": case.config.model_copy(update={"http_options": options})}
        if path == UNARY:
            await client.aio.models.generate_content(**asked)
        else:
            async for _ in await client.aio.models.generate_content_stream(**asked):
                pass

    return ask


def by_backend(backend: backends.Backend) -> Way:
    return lambda case, path: backend.send(MODEL, case.contents, case.config, stream=path == STREAM)


async def seconds_a_request(way: Way, given: list[Case], path: str, at_once: int) -> float:
    """Time one pass; `at_once` 0: in this process alone."""
    clock = time.perf_counter if at_once else time.process_time
    started = clock()
    if at_once < 2:
        for case in given:
            await way(case, path)
        return (clock() - started) / len(given)
    await asyncio.gather(*(way(given[i % len(given)], path) for i in range(2 * at_once)))
    return (clock() - started) / (2 * at_once)


async def trials(count: int, transport: str) -> tuple[float, float, float]:
    """Return seconds a trial, the emulator's share of them, and requests a trial."""
    app = Timed(backends.emulator())
    backend = backends.simulated(app)
    started = time.process_time()
    for seed in range(count):
        await run(backend, Spec(Arm("bench", transport=transport), "ecpm", MODEL, seed, 0, seed))
    taken = time.process_time() - started
    return taken / count, app.seconds / taken, app.requests / count


# --- the table ----------------------------------------------------------------------------------------------


async def measure(rounds: int, base: str) -> None:
    given = await cases()
    app = backends.emulator()
    canned = Canned()

    def client(transport: httpx2.AsyncBaseTransport, base_url: str = "http://emulator") -> genai.Client:
        http = types.HttpOptions(base_url=base_url, async_client_args={"transport": transport})
        return genai.Client(api_key="emulator", http_options=http)

    alone = client(canned)
    served = client(httpx2.AsyncHTTPTransport(), base)
    socket = httpx2.AsyncClient(base_url=base, limits=httpx2.Limits(max_connections=AT_ONCE), timeout=60)
    ways: dict[str, tuple[Way, int]] = {
        "emulator alone": (straight(app), 0),
        "google-genai alone": (by_client(alone, canned), 0),
        "gemlab, google-genai, emulator": (by_backend(backends.simulated(app)), 0),
        "emulator over loopback": (over_http(socket), 1),
        f"emulator over loopback, {AT_ONCE} at once": (over_http(socket), AT_ONCE),
        "google-genai over loopback": (by_client(served), 1),
    }
    found: dict[tuple[str, str], list[float]] = {(name, path): [] for name in ways for path in (UNARY, STREAM)}
    for number in range(rounds + 1):
        for name, (way, at_once) in ways.items():
            for path in (UNARY, STREAM):
                taken = await seconds_a_request(way, given, path, at_once)
                if number:  # the first round fills caches and opens connections
                    found[name, path].append(taken)
    await socket.aclose()
    quiet = {key: statistics.quantiles(values, n=10)[0] for key, values in found.items()}
    report({key: statistics.median(values) for key, values in found.items()}, quiet, len(given), rounds)
    for transport in ("unary", "stream"):
        each, share, requests = await trials(40, transport)
        print(f"a trial, {transport}: {each * 1e3:.1f} ms, {requests:.1f} requests, {share:.0%} of it in the emulator")


Seconds = dict[tuple[str, str], float]


def overhead(seconds: Seconds, path: str) -> float:
    """Return what the emulator and gemlab add to the client's own cost, in milliseconds a request."""
    return (seconds["gemlab, google-genai, emulator", path] - seconds["google-genai alone", path]) * 1e3


def report(median: Seconds, quiet: Seconds, requests: int, rounds: int) -> None:
    print(f"{requests} requests of one trial in turn, median of {rounds} rounds\n")
    print(f"{'':36}{'unary':>23}{'streamed':>23}")
    print(f"{'':36}" + f"{'1/s':>7}{'ms':>7}{'ratio':>9}" * 2)
    for name in dict.fromkeys(name for name, _ in median):
        cells = (
            f"{1 / median[name, path]:7.0f}{median[name, path] * 1e3:7.2f}"
            f"{median[name, path] / median['google-genai alone', path]:9.2f}"
            for path in (UNARY, STREAM)
        )
        print(f"{name:36}" + "".join(cells))
    print("\nratio: to google-genai alone. Emulator and gemlab beside the client's own cost, ms a request:")
    for word, path in (("unary", UNARY), ("streamed", STREAM)):
        print(
            f"  {word:9}{overhead(median, path):6.2f}   {overhead(quiet, path):.2f} in the quietest tenth of the rounds"
        )
    print()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    given = parser.parse_args()
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        try:
            base = next(word for word in server.stdout.readline().split() if word.startswith("http"))
            asyncio.run(measure(given.rounds, base))
        finally:
            server.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
