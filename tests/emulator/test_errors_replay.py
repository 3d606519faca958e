"""Recorded error bodies beside the emulator's own: the same keys in the same order, the same words.

What the emulator does not refuse is named with its reason; every recorded error is in one of the two tables.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from gemlab.emulator.app import create_app
from gemlab.emulator.faults import Fault
from gemlab.emulator.minds.view import Reply

_PYDANTIC, _RUBY = "pydantic__pydantic-ai/", "crmne__ruby_llm/chat_real_error_scenarios_"
_CONTEXT = "gemini-2_5-flash_handles_context_length_exceeded_errors"
_UNKNOWN = "anUnknownField"

# File and number of the exchange: what brings the emulator to say the same, and in which words it differs.
MADE: dict[tuple[str, int], tuple[Fault | str | None, str | None]] = {
    (f"{_PYDANTIC}test_model_name_suggestion_google_.json", 0): (None, None),
    (f"{_PYDANTIC}TestGoogle.test_count_tokens_error.json", 0): (None, "older words: Call ListModels"),
    (f"{_PYDANTIC}test_google_recursive_schema_native_output_gemini_2_5.json", 0): (Fault("500"), None),
    (f"{_PYDANTIC}test_google_model_file_search_tool.json", 3): (Fault("503"), "words of before 2026"),
    (f"{_RUBY}gemini_{_CONTEXT}.json", 0): (Fault("429", seconds=48.939935699), None),
    # A part has had a mediaResolution since: another field stands for it.
    (f"{_PYDANTIC}test_google_model_binary_image_detail.json", 0): (_UNKNOWN, None),
}
NOT_MADE = {
    (f"{_PYDANTIC}TestGoogle.test_embed_error.json", 0): "another method",
    (f"{_PYDANTIC}test_model_sees_multiple_images_google_vertex_.json", 1): "no URL is fetched",
    (f"{_PYDANTIC}test_image_as_binary_content_tool_response.json", 0): "no key is checked",
    ("crmne__ruby_llm/chat_error_handling_with_gemini_gemini-2_5-flash_raises_appropriate_auth_error.json", 0): (
        "no key is checked"
    ),
    ("google__adk-go/TestModel_TrackingHeaders_verifies_headers_are_set_vertex_enabled.json", 0): (
        "no credentials are checked"
    ),
    (f"{_RUBY}gemini_{_CONTEXT}-3.json", 0): "no limit of the context's length",
    (f"{_RUBY}vertexai_{_CONTEXT}.json", 0): "no limit of the context's length",
    (f"{_RUBY}vertexai_{_CONTEXT}-3.json", 0): "no limit of the context's length",
    (f"{_RUBY}gemini_{_CONTEXT}-2.json", 0): "a form of September 2025: details in another order",
    (f"{_RUBY}vertexai_{_CONTEXT}-2.json", 0): "a 429 of Vertex, without details: faults speak as the Developer API",
}


class Silent:
    def respond(self, view):
        return Reply(text="")


@pytest.fixture(scope="module")
def failed(shared) -> dict[tuple[str, int], tuple[bool, dict, dict]]:
    """Recorded errors that were asked for: whether the order of keys was kept, request, response."""
    folder = shared / "data" / "exchanges"
    found = {}
    for entry in json.loads((folder / "index.json").read_text("utf-8"))["files"]:
        exchanges = json.loads((folder / entry["file"]).read_text("utf-8"))["exchanges"]
        for number, (said, e) in enumerate(zip(entry["exchanges"], exchanges, strict=True)):
            if e["response"]["status"] != 200 and e["request"]["api"] != "other":
                found[entry["file"], number] = (said["wireKeyOrder"], e["request"], e["response"])
    return found


async def emulated(request: dict[str, Any], how: Fault | str | None) -> httpx2.Response:
    url, body = urlsplit(request["url"]), request["body"]
    if isinstance(how, str):
        body = json.loads(json.dumps(body).replace("mediaResolution", how).replace("media_resolution", how))
    app = create_app(Silent(), faults=[how] if isinstance(how, Fault) else [])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://emulator") as client:
        return await client.post(f"{re.sub('[<>]', '', url.path)}", json=body)


def keys(value: Any, ordered: bool) -> Any:
    if isinstance(value, dict):
        pairs = [(k, keys(v, ordered)) for k, v in value.items()]
        return pairs if ordered else sorted(pairs)
    return [keys(v, ordered) for v in value] if isinstance(value, list) else type(value).__name__


def test_every_recorded_error_is_compared_or_named(failed):
    assert set(failed) == set(MADE) | set(NOT_MADE)


@pytest.mark.parametrize(("key", "how", "other_words"), [(k, *v) for k, v in MADE.items()], ids=lambda v: str(v)[:70])
async def test_errors_are_the_recorded_ones(failed, key, how, other_words):
    ordered, request, recorded = failed[key]
    response = await emulated(request, how)
    ours, theirs = response.json(), recorded["body"]
    assert response.status_code == recorded["status"]
    assert response.headers["content-type"] == "application/json; charset=UTF-8"
    assert keys(ours, ordered) == keys(theirs, ordered)
    if other_words is None:
        said = json.dumps(ours).replace(_UNKNOWN, "mediaResolution")
        assert json.loads(said) == json.loads(json.dumps(theirs).replace("<GOOGLE_CLOUD_LOCATION>", "global"))
    else:
        assert ours["error"]["message"] != theirs["error"]["message"]
        assert {**ours["error"], "message": ""} == {**theirs["error"], "message": ""}
