"""`gemlab serve`: what it prints, what its options do, and that it ends when asked."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import httpx2
import pytest

from gemlab.app import serving
from gemlab.registry import BadInput
from gemlab.wire import families

ASK = {"contents": [{"parts": [{"text": "q"}]}], "tools": [{"functionDeclarations": [{"name": "own"}]}]}


def interruptible():
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_it_serves_on_loopback_says_how_to_reach_it_records_and_stops_on_interrupt(tmp_path):
    (tmp_path / "faults.toml").write_text('[[fault]]\nkind = "503"\n')
    command = [
        sys.executable,
        "-c",
        "from gemlab.app.cli import main; main()",
        "serve",
        "--port",
        "0",
        "--record",
        str(tmp_path),
    ]
    command += ["--faults", str(tmp_path / "faults.toml"), "--profile", "gemini-3.8-flash"]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=interruptible
    )
    try:
        lines = [server.stdout.readline() for _ in range(5)]
        base = re.search(r"http://127\.0\.0\.1:\d+", lines[0])[0]
        assert all(base in line for line in lines)
        url = f"{base}/v1beta/models/gemini-2.5-flash:generateContent?key=AIza-secret"
        first, second = (
            httpx2.post(url, json=ASK, headers={"x-goog-api-key": "AIza-secret"}, timeout=60) for _ in range(2)
        )
        assert (first.status_code, second.status_code) == (503, 200)
        assert second.json()["modelVersion"] == "gemini-3.8-flash"
    finally:
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=20)
    assert server.returncode == 0 and out == "stopped\n" and err == ""
    kept = (tmp_path / "exchanges.jsonl").read_text()
    assert "secret" not in kept
    exchanges = [json.loads(line) for line in kept.splitlines()]
    assert [e["response"]["status"] for e in exchanges] == [503, 200]
    assert exchanges[1]["request"]["body"] == ASK and exchanges[1]["response"]["body"] == second.json()


def test_a_model_id_serves_everything_and_a_field_switches_a_rule():
    routes, switches = serving._profiles(["gemini-3.8-flash", "id_mismatch=ignore"])
    assert set(routes.values()) == {"gemini-3.8-flash"} and switches == {"id_mismatch": "ignore"}
    assert serving._profiles([]) == (None, {})


@pytest.mark.parametrize("text", ["nope", "id_mismatch=nope", "strict=false", "x=y", "gemini-9"])
def test_unknown_profiles_are_refused(text):
    with pytest.raises(BadInput, match="--profile"):
        serving._profiles([text])


def test_every_switch_is_a_field_of_the_profile():
    profile = families.profile("gemini-3.6-flash")
    for name, values in families.switches().items():
        assert getattr(profile, name) in values and len(values) >= 2


async def test_a_language_model_serves_any_client_and_its_key_is_kept_nowhere(model_server, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    model_server.answers = ['{"thought": "Its own.", "call": {"name": "own", "args": {}}}']
    app = serving.build(f"openai:{model_server.url}#small", ["gemini-3.6-flash"], record=str(tmp_path))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://emulator") as client:
        answer = await client.post("/v1beta/models/gemini-2.5-flash:generateContent", json=ASK)
    (part,) = answer.json()["candidates"][0]["content"]["parts"]
    assert part["functionCall"]["name"] == "own" and part["thoughtSignature"]
    assert answer.json()["modelVersion"] == "gemini-3.6-flash"
    assert model_server.keys == ["Bearer sk-very-secret"]
    assert "secret" not in (tmp_path / "exchanges.jsonl").read_text() + answer.text
    await app.app.routes[0].endpoint.__self__.mind.runtime.aclose()


def test_broken_options_are_one_line(tmp_path):
    (tmp_path / "file").touch()
    for options in (
        {"model": "nope"},
        {"model": "openai:http://host/v1"},
        {"model": "openai:http://me:secret@host/v1#m"},
        {"model": "gguf:gone.gguf"},
        {"model": "tour", "faults": "gone.toml"},
        {"model": "tour", "record": str(tmp_path / "file")},
    ):
        with pytest.raises(BadInput) as error:
            serving.build(**options)
        assert "\n" not in str(error.value) and "secret" not in str(error.value)
