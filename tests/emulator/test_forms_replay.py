"""The emulator's answers beside recorded ones: the same reply to the same request, compared in form, field by field.

Form is: keys and their order at every level, calls and texts, which part is signed, the form of ids, finish
reasons and messages, usage keys, the number of chunks and what each holds. Numbers are not compared, nor where a
text is cut into chunks: the emulator is given the recorded cuts. What differs on purpose is named with its reason,
what is left out as well, and all of it is counted.
"""

from __future__ import annotations

import base64
import datetime
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from gemlab.emulator import signatures
from gemlab.emulator.answer import forms
from gemlab.emulator.app import create_app
from gemlab.emulator.minds.view import Reply
from gemlab.wire import contents as wire
from gemlab.wire import families

# What differs on purpose: the reason, and the recorded exchanges it was needed for.
DIFFERENCES = {
    "serviceTier": ("the Developer API names it since 6 to 12 May 2026; the emulator answers as of today", 155),
    "avgLogprobs": ("Vertex gave them for 3.x until March 2026 and no more in July", 10),
    "cached": ("nothing is cached here, so no tokens come from a cache", 2),
    "turnToken": ("seen in six answers of one day in June 2026, never again", 6),
    "safetyRatings": ("seen in two answers of October 2025", 2),
    "summary": ("3.5 and 3.6 do not sum up every short thought; the emulator always does where asked", 4),
    "flex": ("the flex tier: another trafficType, and the stream is one chunk; no tiers here", 2),
    "responseId": ("answers of 2.0-flash-exp in 2025 had none", 2),
    "served": ("one day in May 2026, 2.0-flash answered in the form of 3.x under its own name", 3),
}
SERVED_OTHERWISE = "test_sub_agent_session_id_not_overwritten_by_adk_internal_uuid.json"
TIER_SINCE = datetime.date(2026, 5, 12)
LOGPROBS_UNTIL = datetime.date(2026, 4, 1)
IDS_AS_OF = datetime.date(2026, 8, 10)

# What is left out: the reason, and the recorded exchanges.
LEFT_OUT = {
    "neither request nor model was recorded": 79,
    "made by hand in part, without a request": 36,
    "calls that stream their arguments piece by piece (streamFunctionCallArguments)": 4,
    "built-in tools, grounding, images: the emulator declares none": 20,
    "an answer that failed, made by a fault": 5,
    "another method": 4,
    "an error: in tests/test_errors_replay.py": 16,
}
BUILT_IN = {"toolCall", "toolResponse", "executableCode", "codeExecutionResult", "inlineData"}


@dataclass(frozen=True)
class Exchange:
    """One recorded exchange. `ordered`: the recording kept the order of keys."""

    file: str
    number: int
    trust: str
    ordered: bool
    request: dict[str, Any]
    response: dict[str, Any]

    @property
    def streamed(self) -> bool:
        return "chunks" in self.response

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return self.response["chunks"] if "chunks" in self.response else [self.response["body"]]

    @property
    def parts(self) -> list[dict[str, Any]]:
        return [p for b in self.bodies for c in b["candidates"] for p in c.get("content", {}).get("parts", [])]

    @property
    def service(self) -> str:
        if self.request["api"] == "other":
            return families.VERTEX if "createTime" in self.bodies[0] else families.DEVELOPER
        return {"gemini": families.DEVELOPER, "vertex": families.VERTEX}[self.request["api"]]

    @property
    def served(self) -> str:
        return "gemini-3.5-flash" if self.file.endswith(SERVED_OTHERWISE) else self.bodies[0]["modelVersion"]

    @property
    def day(self) -> datetime.date:
        """The day it was recorded, from the response id; answers without one are of early 2025."""
        ident = self.bodies[0].get("responseId")
        return stamp(ident).date() if ident else datetime.date(2025, 1, 1)

    def row(self) -> tuple[str, str, str]:
        kind = "stream" if self.streamed else "unary"
        what = "calls" if any(wire.call_of(p) for p in self.parts) else "text"
        return f"{kind}, {what}", families.profile(self.served).family, self.service

    def left_out(self) -> str | None:
        if self.trust == "vendor-mock":
            return "made by hand in part, without a request"
        if self.response["status"] != 200:
            return "an error: in tests/test_errors_replay.py"
        if self.request["api"] != "other" and self.request["rpc"] not in ("generateContent", "streamGenerateContent"):
            return "another method"
        if self.trust == "recorded through the JS SDK":
            return "neither request nor model was recorded"
        if {c.get("finishReason", "STOP") for b in self.bodies for c in b["candidates"]} != {"STOP"}:
            return "an answer that failed, made by a fault"
        grounded = any("groundingMetadata" in c for b in self.bodies for c in b["candidates"])
        if grounded or any(BUILT_IN & set(p) for p in self.parts):
            return "built-in tools, grounding, images: the emulator declares none"
        if any({"willContinue", "partialArgs"} & set(wire.call_of(p) or {}) for p in self.parts):
            return "calls that stream their arguments piece by piece (streamFunctionCallArguments)"
        return None


@pytest.fixture(scope="module")
def recorded(shared) -> list[Exchange]:
    folder = shared / "data" / "exchanges"
    found = []
    for entry in json.loads((folder / "index.json").read_text("utf-8"))["files"]:
        exchanges = json.loads((folder / entry["file"]).read_text("utf-8"))["exchanges"]
        for number, (said, e) in enumerate(zip(entry["exchanges"], exchanges, strict=True)):
            origin = (entry["file"], number, entry["trust"].split(" (")[0], said["wireKeyOrder"])
            found.append(Exchange(*origin, e["request"], e["response"]))
    assert len(found) == 559
    return found


# --- the emulator's answer to the same request --------------------------------------------------------------


def reply_of(e: Exchange) -> Reply:
    """The recorded answer as a model's decision; its thought is the recorded summary, or made up at its length."""
    spent = max(b["usageMetadata"].get("thoughtsTokenCount", 0) for b in e.bodies)
    signed = any("thoughtSignature" in p for p in e.parts)
    summary = "".join(p["text"] for p in e.parts if p.get("thought"))
    thought = summary or "mmmm" * spent if spent or signed else None
    calls = tuple((c["name"], c["args"]) for p in e.parts if (c := wire.call_of(p)))
    text = "".join(p["text"] for p in e.parts if "text" in p and not p.get("thought"))
    return Reply(thought, calls, None if calls and not text else text)


def resealed(body: dict[str, Any], profile: families.Profile) -> dict[str, Any]:
    """The request with the emulator's own signatures in the places of recorded ones."""
    body = wire.normalise(json.loads(json.dumps(body)))
    own = wire.encode_signature(signatures.seal("I remember.", profile))
    for content in body["contents"]:
        for part in content["parts"]:
            if "thoughtSignature" in part:
                part["thoughtSignature"] = own
    return body


def stand_in(e: Exchange) -> dict[str, Any]:
    """A request for an answer recorded without one: a question, and the functions that it called."""
    names = sorted({c["name"] for p in e.parts if (c := wire.call_of(p))})
    tools = [{"functionDeclarations": [{"name": name} for name in names]}] if names else []
    return {"contents": [{"role": "user", "parts": [{"text": "q"}]}], "tools": tools}


@dataclass(frozen=True)
class Says:
    reply: Reply

    def respond(self, view):
        return self.reply


def ids_of(e: Exchange) -> str:
    ids = {c.get("id") for p in e.parts if (c := wire.call_of(p))}
    return next((form for form, pattern in IDS.items() if all(i and re.fullmatch(pattern, i) for i in ids)), "none")


IDS = {"digits": r"call_\d+", "lower8": "[a-z0-9]{8}", "mixed8": "[A-Za-z0-9]{8}"}


async def emulated(e: Exchange, monkeypatch) -> list[dict[str, Any]]:
    """The emulator's answer over HTTP; the ids' form is that of the newest recordings, and for older ones a switch."""
    cuts = [p["text"] for p in e.parts if p.get("text") and not p.get("thought")]
    monkeypatch.setattr(forms, "_pieces", lambda text: cuts)
    switches = {"ids": ids_of(e)} if e.day < IDS_AS_OF else {}
    asked = stand_in(e) if e.request["api"] == "other" else e.request["body"]
    body = resealed(asked, families.profile(e.served, e.service))
    if e.request["api"] == "other":
        rpc = "streamGenerateContent?alt=sse" if e.streamed else "generateContent"
        place = "publishers/google/" if e.service == families.VERTEX else ""
        path, requested = f"/v1beta/{place}models/{e.served}:{rpc}", e.served
    else:
        url = urlsplit(e.request["url"])
        path, requested = f"{re.sub('[<>]', '', url.path)}?{url.query}", e.request["model"]
    app = create_app(Says(reply_of(e)), routes={requested: e.served}, switches=switches)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://emulator") as client:
        response = await client.post(path, json=body)
    assert response.status_code == 200, (e.file, e.number, response.text)
    assert e.response["content_type"] in (None, response.headers["content-type"])
    if e.response["framing"] == "sse":
        return [json.loads(event.removeprefix("data: ")) for event in response.text.split("\r\n\r\n")[:-1]]
    return response.json() if e.streamed else [response.json()]


# --- form ---------------------------------------------------------------------------------------------------


def form(value: Any, e: Exchange, key: str = "") -> Any:
    """Return the form of a JSON value: objects as pairs in order, what may vary replaced by its kind."""
    if isinstance(value, dict):
        if key == "args":
            return wire.canonical(value)
        pairs = [(k, form(v, e, k)) for k, v in value.items()]
        return pairs if e.ordered else sorted(pairs)
    if isinstance(value, list):
        kinds = [form(v, e, key) for v in value]
        # The order of modalities is not fixed: recorded answers to requests of one shape have both.
        return sorted(kinds, key=str) if key.endswith("TokensDetails") else kinds
    if key == "thoughtSignature":
        return "signature"
    if key == "id":
        return next((name for name, pattern in IDS.items() if re.fullmatch(pattern, value)), value)
    if key == "responseId":
        return stamp(value).date().year > 2024
    if key == "createTime":
        return datetime.datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%f%z").year > 2024
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "0" if value == 0 else "number"
    return value


def stamp(ident: str) -> datetime.datetime:
    """Return the time in a response id: seconds, then three varints, the first the microseconds."""
    raw = base64.urlsafe_b64decode(ident + "=" * (-len(ident) % 4))
    numbers, at = [0], 0
    for byte in raw[4:]:
        numbers[-1] |= (byte & 0x7F) << at
        at += 7
        if byte < 0x80:
            numbers.append(at := 0)
    micros, _, _, rest = numbers
    assert rest == 0
    seconds = int.from_bytes(raw[:4], "little")
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(microsecond=micros)


def origin(bodies: list[dict[str, Any]]) -> tuple[int, bool]:
    """Return how many response ids a stream has, and whether every createTime is the time of its response id."""
    ids = {b["responseId"] for b in bodies if "responseId" in b}
    created = [(b["createTime"], b["responseId"]) for b in bodies if "createTime" in b]
    return len(ids), all(f"{stamp(ident):%Y-%m-%dT%H:%M:%S.%fZ}" == time for time, ident in created)


def folded(bodies: list[dict[str, Any]], streamed: bool) -> list[dict[str, Any]]:
    """An unary text in several parts as one: where a text is cut is not compared."""
    bodies = json.loads(json.dumps(bodies))
    parts = [] if streamed else bodies[0]["candidates"][0]["content"]["parts"]
    for at in range(len(parts) - 1, 0, -1):
        if set(parts[at - 1]) == {"text"} and set(parts[at]) <= {"text", "thoughtSignature"}:
            parts[at - 1 : at + 1] = [{**parts[at], "text": parts[at - 1]["text"] + parts[at]["text"]}]
    return bodies


def without(bodies: list[dict[str, Any]], *path: str) -> bool:
    """Remove a key, within usageMetadata or the candidate, from all bodies; tell whether it was there."""
    owners = [b[path[0]][0] if path[0] == "candidates" else b[path[0]] if path[1:] else b for b in bodies]
    removed = [owner.pop(path[-1], None) for owner in owners]
    return any(value is not None for value in removed)


def reconciled(e: Exchange, ours: list[dict[str, Any]]) -> tuple[list, list, set[str]]:
    """Return both answers without what differs on purpose, and the names of those differences."""
    theirs = folded(e.bodies, e.streamed)
    tiered = any("serviceTier" in b["usageMetadata"] for b in theirs)
    vertex3 = e.service == families.VERTEX and families.profile(e.served).strict
    flex = theirs[-1]["usageMetadata"].get("trafficType") == "ON_DEMAND_FLEX"
    needed = {
        "serviceTier": not tiered and e.day < TIER_SINCE and without(ours, "usageMetadata", "serviceTier"),
        "avgLogprobs": vertex3 and e.day < LOGPROBS_UNTIL and without(theirs, "candidates", "avgLogprobs"),
        "cached": without(theirs, "usageMetadata", "cachedContentTokenCount")
        and without(theirs, "usageMetadata", "cacheTokensDetails"),
        "turnToken": without(theirs, "turnToken"),
        "safetyRatings": without(theirs, "candidates", "safetyRatings"),
        "responseId": "responseId" not in theirs[0] and without(ours, "responseId"),
        "served": theirs[0]["modelVersion"] != e.served,
        "flex": flex,
    }
    for body in theirs:
        body["modelVersion"] = e.served
    if e.streamed and not any(p.get("thought") for p in e.parts):
        kept = [b for b in ours if not any(p.get("thought") for p in b["candidates"][0]["content"]["parts"])]
        needed["summary"] = len(kept) < len(ours)
        ours = kept
    if flex:
        theirs = [{**b, "usageMetadata": {**b["usageMetadata"], "trafficType": "ON_DEMAND"}} for b in theirs]
        ours = [at_once(ours)]
    return theirs, ours, {name for name, found in needed.items() if found}


def at_once(bodies: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a streamed text as one chunk: the last one, with all the text."""
    last = bodies[-1]
    texts = [p["text"] for b in bodies for p in b["candidates"][0]["content"]["parts"]]
    last["candidates"][0]["content"]["parts"][0]["text"] = "".join(texts)
    return last


# --- the comparison -----------------------------------------------------------------------------------------


async def test_answers_have_the_form_of_recorded_ones(recorded, monkeypatch, capsys):
    left, needed, seen, equal = Counter(), Counter(), Counter(), Counter()
    unequal = {}
    for e in recorded:
        if reason := e.left_out():
            left[reason] += 1
            continue
        ours = await emulated(e, monkeypatch)
        times = origin(ours) == (1, True)
        theirs, ours, differences = reconciled(e, ours)
        needed.update(differences)
        seen[e.row()] += 1
        wanted, given = form(theirs, e), form(ours, e)
        equal[e.row()] += wanted == given and times
        if wanted != given or not times:
            unequal[e.file, e.number] = (wanted, given)
    with capsys.disabled():
        print("\n" + table(seen, equal, needed, left))
    assert not unequal
    assert seen.total() == 395
    assert left == LEFT_OUT
    assert needed == {name: count for name, (_, count) in DIFFERENCES.items()}


def table(seen: Counter, equal: Counter, needed: Counter, left: Counter) -> str:
    rows = [f"{k:<16} {f:<12} {s:<10} {equal[k, f, s]:>4} of {n} equal" for (k, f, s), n in sorted(seen.items())]
    rows.append(f"{'all':<40} {equal.total():>4} of {seen.total()} equal")
    rows += [f"on purpose: {name} ({needed[name]}): {reason}" for name, (reason, _) in DIFFERENCES.items()]
    return "\n".join([*rows, *(f"left out ({n}): {reason}" for reason, n in left.items())])


def test_recorded_response_ids_hold_their_time(recorded):
    seen = Counter()
    for e in recorded:
        if e.response["status"] == 200 and any("responseId" in b for b in e.bodies if b):
            seen[e.request["api"]] += 1
            assert origin(e.bodies) == (1, True), (e.file, e.number)
    assert seen == {"gemini": 346, "vertex": 59, "other": 16}
