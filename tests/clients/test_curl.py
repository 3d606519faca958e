"""Plain curl against `gemlab serve`: what is on the wire, unary, as an array and as events."""

from __future__ import annotations

import json
import subprocess

import pytest

from gemlab.wire import contents as wire

pytestmark = pytest.mark.slow

OLD, STRICT = "gemini-2.5-flash", "gemini-3.8-flash"
MOST_STEPS = 20


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


@pytest.mark.parametrize("model", [OLD, STRICT])
@pytest.mark.parametrize("ask", [curl_unary, curl_array, curl_events])
def test_curl(server, job, ask, model):
    contents = [{"role": "user", "parts": [{"text": job.message}]}]
    body = {
        "contents": contents,
        "system_instruction": {"parts": {"text": job.system}},
        "tools": [{"function_declarations": job.declarations}],
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
    server.assert_nothing_lost(model, ids=model == STRICT)
