import threading
import time

import pytest
import uvicorn

from gemlab import backends
from gemlab.runs import trials


@pytest.fixture
def served(monkeypatch):
    """The address of an emulator behind a socket, and a key for it."""
    server = uvicorn.Server(uvicorn.Config(backends.emulator(), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-test")
    for name in ("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        monkeypatch.delenv(name, raising=False)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_one_backend_serves_several_runs(served, tmp_path):
    backend = backends.gemini(served)
    for number in range(3):
        specs = trials.plan(["preserve"], "ecpm", "gemini-2.5-flash", 4, seed=number)
        traces = trials.run(specs, backend, tmp_path / f"{number}.jsonl", progress=None)
        assert {t.outcome for t in traces} <= {"completed", "wrong"}


async def test_one_backend_serves_several_runs_inside_an_event_loop(served, tmp_path):
    test_one_backend_serves_several_runs(served, tmp_path)


def test_another_address_than_googles_is_named_without_what_may_be_secret(monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    monkeypatch.delenv("GOOGLE_GENAI_USE_VERTEXAI", raising=False)
    monkeypatch.delenv("GOOGLE_GEMINI_BASE_URL", raising=False)
    assert backends.gemini().source == backends.API
    other = backends.gemini("https://user:secret@proxy.test:8443/path?key=secret")
    assert other.source.label == "answered by https://proxy.test:8443, not by Google's own address"
