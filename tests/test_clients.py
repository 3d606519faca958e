"""Real clients against `gemlab serve`: each completes the four-step task, and what each loses on the way is told.

The model behind the server makes no slips, so that whatever goes wrong is the client's or the emulator's. The
server records what came over the wire; from that, not from the clients, it is read which signatures and ids
came back.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import http.server
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gemlab import contents as wire
from gemlab import tasks
from gemlab.loop import call_tool
from gemlab.tasks import Called, Instance

pytestmark = pytest.mark.slow

OLD, STRICT = "gemini-2.5-flash", "gemini-3.8-flash"
MODELS = [OLD, STRICT]
TASK = tasks.get("ecpm")
MOST_STEPS = 20
CLIENTS = Path(__file__).parent / "clients"

# `gemlab serve` as it is, but for the model's slips.
SERVER = """
import functools, sys
from gemlab import backends, serving
from gemlab.emulator.scripted import Parameters
backends.emulator = functools.partial(backends.emulator, parameters=Parameters(0, 0, 0, 0))
serving.serve(port=0, model="scripted", profiles=[], faults="", record=sys.argv[1])
"""


class Served:
    """The running server. An exchange is written down after its answer: the last one may take a moment."""

    def __init__(self, base, folder):
        self.base, self.path, self.read = base, folder / "exchanges.jsonl", 0

    def exchanges(self, ended=lambda new: True):
        """The exchanges since the last call, once they have `ended`."""
        for _ in range(500):
            lines = self.path.read_text("utf-8").splitlines()[self.read :]
            new = [json.loads(line) for line in lines]
            if ended(new):
                self.read += len(lines)
                return new
            time.sleep(0.01)
        raise AssertionError(f"no end in {len(new)} exchanges")


def refused_or_answered(exchanges):
    return bool(exchanges) and "functionCall" not in json.dumps(exchanges[-1]["response"])


def interruptible():
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(folder)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=interruptible,
    )  # fmt: skip
    try:
        base = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())[0]
        yield Served(base, folder)
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")


@dataclass
class Job:
    """One instance of the task, whose functions note who called them."""

    instance: Instance
    called: list[Called] = field(default_factory=list)

    @property
    def message(self):
        return self.instance.messages[0]

    def call(self, name, args):
        response = call_tool(self.instance.functions, name, args)
        self.called.append(Called(name, args, response))
        return response

    def functions(self):
        """Python functions for automatic function calling."""

        def noting(name, function):
            @functools.wraps(function)
            def noted(*args, **kwargs):
                return self.call(name, inspect.signature(function).bind(*args, **kwargs).arguments)

            return noted

        return [noting(name, function) for name, function in self.instance.functions.items()]

    def finish(self, answer):
        assert self.instance.check(answer, self.called) is None
        names = [call.name for call in self.called]
        assert list(dict.fromkeys(names)) == [step.tool for step in TASK.plan.steps]
        assert len({call.key for call in self.called}) == len(self.called)


@pytest.fixture
def job(server):
    server.exchanges()  # those of a test before that went wrong
    # Two outlying days, so that a step has parallel calls.
    instance = next(i for seed in range(20) if "2 found" in plan_answer(i := TASK.instance(seed)))
    return Job(instance)


def plan_answer(instance):
    """What the plan answers on its own, without a model."""
    results = {}
    for number, step in enumerate(TASK.plan.steps):
        facts = tasks.Facts(instance.messages[0], results)
        results[number] = [instance.functions[step.tool](**args) for args in step.args(facts)]
    return TASK.plan.goal(instance.messages)[1](tasks.Facts(instance.messages[0], results))


@dataclass
class Wire:
    """What a client sent: of the call contents in its last request, what is left of what the model had said."""

    requests: int
    signed: list[bool]
    call_ids: list[bool]
    response_ids: list[bool]
    model_contents: int


def on_the_wire(server, model):
    exchanges = server.exchanges(refused_or_answered)
    assert [e["response"]["status"] for e in exchanges] == [200] * len(exchanges)
    assert all(model in e["request"]["path"] for e in exchanges)
    sent = wire.normalise(exchanges[-1]["request"]["body"]["contents"])
    parts = [p for _, _, p in wire.walk(sent)]
    first_calls = [next(p for p in wire.parts(c) if wire.call_of(p)) for c in sent if wire.calls(c)]
    return Wire(
        len(exchanges),
        [wire.signature(p) is not None for p in first_calls],
        ["id" in c for p in parts if (c := wire.call_of(p))],
        ["id" in r for p in parts if (r := wire.response_of(p))],
        sum(wire.is_model(c) for c in sent),
    )


def assert_nothing_lost(sent, model):
    """Five requests: four steps of five calls and the answer. Ids are 3.x's, signatures everyone's."""
    assert (sent.requests, sent.model_contents) == (5, 4)
    assert sent.signed == [True] * 4
    assert sent.call_ids == sent.response_ids == [model == STRICT] * 5


# --- google-genai, the loop written out ---------------------------------------------------------------------


def python(server):
    from google import genai

    return genai.Client(api_key="emulator", http_options={"base_url": server.base})


def options(**more):
    from google.genai import types

    return types.GenerateContentConfig(
        system_instruction=TASK.system, tools=[{"function_declarations": list(TASK.declarations)}],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True), **more,
    )  # fmt: skip


class Conversation:
    """The contents of a loop over the SDK's own types; `take` returns the answer's text, or None for calls."""

    def __init__(self, job):
        from google.genai import types

        self.types, self.job = types, job
        self.contents = [types.Content(role="user", parts=[types.Part(text=job.message)])]

    def take(self, parts):
        types = self.types
        self.contents.append(types.Content(role="model", parts=parts))
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            return "".join(part.text or "" for part in parts)
        responses = [
            types.FunctionResponse(id=c.id, name=c.name, response=self.job.call(c.name, c.args)) for c in calls
        ]
        answered = [types.Part(function_response=response) for response in responses]
        self.contents.append(types.Content(role="user", parts=answered))
        assert len(self.contents) < 2 * MOST_STEPS
        return None


def sync_loop(server, model, job):
    with python(server) as client:
        talk, answer = Conversation(job), None
        while answer is None:
            got = client.models.generate_content(model=model, contents=talk.contents, config=options())
            answer = talk.take(got.candidates[0].content.parts)
    return answer


def stream_loop(server, model, job):
    with python(server) as client:
        talk, answer = Conversation(job), None
        while answer is None:
            parts = []
            for chunk in client.models.generate_content_stream(model=model, contents=talk.contents, config=options()):
                parts += chunk.candidates[0].content.parts
            answer = talk.take(parts)
    return answer


def async_loop(server, model, job):
    async def run():
        async with python(server).aio as client:
            talk, answer = Conversation(job), None
            while answer is None:
                got = await client.models.generate_content(model=model, contents=talk.contents, config=options())
                answer = talk.take(got.candidates[0].content.parts)
        return answer

    return asyncio.run(run())


def async_stream_loop(server, model, job):
    async def run():
        async with python(server).aio as client:
            talk, answer = Conversation(job), None
            while answer is None:
                parts = []
                stream = await client.models.generate_content_stream(
                    model=model, contents=talk.contents, config=options()
                )
                async for chunk in stream:
                    parts += chunk.candidates[0].content.parts
                answer = talk.take(parts)
        return answer

    return asyncio.run(run())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("loop", [sync_loop, stream_loop, async_loop, async_stream_loop])
def test_google_genai_with_a_loop_of_its_own(server, job, loop, model):
    job.finish(loop(server, model, job))
    assert_nothing_lost(on_the_wire(server, model), model)


# --- google-genai, automatic function calling ---------------------------------------------------------------


def automatic(job):
    from google.genai import types

    return types.GenerateContentConfig(system_instruction=TASK.system, tools=job.functions())


def generate(client, model, job):
    return client.models.generate_content(model=model, contents=job.message, config=automatic(job)).text


def chat(client, model, job):
    return client.chats.create(model=model, config=automatic(job)).send_message(job.message).text


def chat_stream(client, model, job):
    talk = client.chats.create(model=model, config=automatic(job))
    chunks = list(talk.send_message_stream(job.message))
    return "".join(part.text or "" for chunk in chunks for part in chunk.candidates[0].content.parts)


@pytest.mark.parametrize(
    ("way", "model"), [(generate, OLD), (generate, STRICT), (chat, OLD), (chat, STRICT), (chat_stream, OLD)]
)
def test_google_genai_with_automatic_function_calling(server, job, way, model):
    """It keeps the signatures and drops the ids of its responses, which 3.8 lets pass as long as none is wrong."""
    with python(server) as client:
        job.finish(way(client, model, job))
    sent = on_the_wire(server, model)
    assert (sent.requests, sent.model_contents, sent.signed) == (5, 4, [True] * 4)
    assert sent.call_ids == [model == STRICT] * 5
    assert sent.response_ids == [False] * 5


def assert_refused_at_the_parallel_calls(server, job):
    """3.x sends one call a chunk, only the first of them signed, and each chunk came back as a content of its own.

    The calls were run; it is the request with their responses that is refused.
    """
    *before, last = server.exchanges(refused_or_answered)
    assert [e["response"]["status"] for e in before] == [200] * 4
    error = last["response"]["body"]["error"]
    assert error["code"] == 400 and "missing a thought_signature" in error["message"]
    assert "default_api:lookup_mediation" in error["message"]
    contents = wire.normalise(last["request"]["body"]["contents"])
    found = [p for c in contents if wire.is_model(c) for p in wire.parts(c) if wire.call_of(p)][-2:]
    assert [wire.call_of(p)["name"] for p in found] == ["lookup_mediation"] * 2
    assert [wire.signature(p) is not None for p in found] == [True, False]
    assert sum(len(wire.calls(c)) > 1 for c in contents) == 0
    assert [c.name for c in job.called][-2:] == ["lookup_mediation"] * 2


def test_google_genai_streaming_with_automatic_function_calling_is_refused_by_3x(server, job):
    from google.genai import errors

    with python(server) as client, pytest.raises(errors.ClientError, match="missing a thought_signature"):
        chat_stream(client, STRICT, job)
    assert_refused_at_the_parallel_calls(server, job)


# --- @google/genai on Node ----------------------------------------------------------------------------------


class Tools(http.server.BaseHTTPRequestHandler):
    """POST /name with the arguments runs the job's function."""

    job: Job

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
    package = (CLIENTS / "package.json").read_bytes()
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
        "base": server.base, "tools": tools, "model": model, "message": job.message, "system": TASK.system,
        "declarations": TASK.declarations,
    }  # fmt: skip
    return subprocess.run(
        ["node", str(CLIENTS / "agent.cjs"), way], input=json.dumps(task), capture_output=True, text=True, timeout=60,
        env={**os.environ, "NODE_PATH": str(modules)},
    )  # fmt: skip


JAVASCRIPT = [(way, model) for way in ("loop", "stream", "automatic") for model in MODELS] + [("automaticStream", OLD)]


@pytest.mark.parametrize(("way", "model"), JAVASCRIPT)
def test_google_genai_for_javascript(server, job, tools, modules, way, model):
    done = javascript(way, server, job, tools, modules, model)
    assert done.returncode == 0, done.stderr
    job.finish(json.loads(done.stdout)["answer"])
    assert_nothing_lost(on_the_wire(server, model), model)


def test_javascript_streaming_with_automatic_function_calling_is_refused_by_3x(server, job, tools, modules):
    done = javascript("automaticStream", server, job, tools, modules, STRICT)
    assert done.returncode == 1 and "missing a thought_signature" in done.stderr
    assert_refused_at_the_parallel_calls(server, job)


# --- curl ---------------------------------------------------------------------------------------------------


def curl(url, body):
    command = ["curl", "--silent", "--show-error", "--fail-with-body", "--no-buffer", "-H", "x-goog-api-key: emulator"]
    sent = [*command, "-H", "content-type: application/json", "--data-binary", "@-", url]
    return subprocess.run(sent, input=json.dumps(body), capture_output=True, text=True, check=True, timeout=60).stdout


def curl_unary(base, body):
    return json.loads(curl(f"{base}:generateContent", body))["candidates"][0]["content"]


def curl_array(base, body):
    return folded(json.loads(curl(f"{base}:streamGenerateContent", body)))


def curl_events(base, body):
    events = curl(f"{base}:streamGenerateContent?alt=sse", body).replace("\r\n", "\n").strip().split("\n\n")
    return folded([json.loads(event.removeprefix("data: ")) for event in events])


def folded(chunks):
    return {"role": "model", "parts": [p for chunk in chunks for p in chunk["candidates"][0]["content"]["parts"]]}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("ask", [curl_unary, curl_array, curl_events])
def test_curl(server, job, ask, model):
    contents = [{"role": "user", "parts": [{"text": job.message}]}]
    body = {
        "contents": contents,
        "system_instruction": {"parts": {"text": TASK.system}},
        "tools": [{"function_declarations": TASK.declarations}],
    }
    for _ in range(MOST_STEPS):
        content = ask(f"{server.base}/v1beta/models/{model}", body)
        contents.append(content)
        calls = wire.calls(content)
        if not calls:
            break
        responses = [
            {**{k: c[k] for k in ("id", "name") if k in c}, "response": job.call(c["name"], c["args"])} for c in calls
        ]
        contents.append({"role": "user", "parts": [{"functionResponse": response} for response in responses]})
    job.finish(wire.answer_text(content))
    assert_nothing_lost(on_the_wire(server, model), model)
