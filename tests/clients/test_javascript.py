"""@google/genai on Node against `gemlab serve`: loops over contents keep everything, its own streamed one does not."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

OLD, STRICT = "gemini-2.5-flash", "gemini-3.8-flash"
HERE = Path(__file__).parent


class Tools(http.server.BaseHTTPRequestHandler):
    """POST /name with the arguments runs the job's function."""

    job = None

    def do_POST(self):
        args = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = json.dumps(self.job.call(self.path.removeprefix("/"), args)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def tools(job):
    handler = type("JobTools", (Tools,), {"job": job})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def modules():
    """The folder with the JavaScript client, installed once for each package.json."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gemlab"
    package = (HERE / "package.json").read_bytes()
    folder = cache / f"clients-{hashlib.sha256(package).hexdigest()[:12]}"
    missing = [program for program in ("node", "npm") if not shutil.which(program)]
    if missing and os.environ.get("CI"):
        pytest.fail(f"not installed: {', '.join(missing)}")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if not folder.is_dir():
        install(package, cache, folder)
    return folder / "node_modules"


def install(package, cache, folder):
    """Install aside and rename: another process may be doing the same."""
    aside = cache / f"clients-{os.getpid()}"
    aside.mkdir(parents=True)
    (aside / "package.json").write_bytes(package)
    quiet = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(["npm", "install", "--engine-strict", *quiet], cwd=aside, check=True, timeout=300)
    try:
        aside.rename(folder)
    except OSError:
        shutil.rmtree(aside)


def javascript(way, server, job, tools, modules, model):
    task = {
        "base": server.base, "tools": tools, "model": model, "message": job.message, "system": job.system,
        "declarations": job.declarations,
    }  # fmt: skip
    return subprocess.run(
        ["node", str(HERE / "agent.cjs"), way], input=json.dumps(task), capture_output=True, text=True, timeout=60,
        env={**os.environ, "NODE_PATH": str(modules)},
    )  # fmt: skip


JAVASCRIPT = [(way, model) for way in ("loop", "stream", "automatic") for model in [OLD, STRICT]] + [
    ("automaticStream", OLD)
]


@pytest.mark.parametrize(("way", "model"), JAVASCRIPT)
def test_google_genai_for_javascript(server, job, tools, modules, way, model):
    done = javascript(way, server, job, tools, modules, model)
    assert done.returncode == 0, done.stderr
    job.finish(json.loads(done.stdout)["answer"])
    server.assert_nothing_lost(model, ids=model == STRICT)


def test_javascript_streaming_with_automatic_function_calling_is_refused_by_3x(server, job, tools, modules):
    done = javascript("automaticStream", server, job, tools, modules, STRICT)
    assert done.returncode == 1 and "missing a thought_signature" in done.stderr
    server.assert_refused_at_the_parallel_calls(job)
