"""Token counts of prompts and answers, and usageMetadata in each service's form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...wire import contents as wire
from ...wire.contents import Content, content_tokens, tokens
from ...wire.families import DEVELOPER, VERTEX, Profile
from ..minds import scripted
from ..minds.view import View

_MODALITIES = {"image": "IMAGE", "audio": "AUDIO", "video": "VIDEO"}


def thought_tokens(thought: str | None) -> int:
    """Return the token count of a thought: of its prose, which is what a model would have written."""
    return tokens(scripted.note(thought)) if thought else 0


def plain(profile: Profile) -> bool:
    """Tell whether candidates take the older form: Vertex AI, and 2.0 on both services.

    It has no index and no finishMessage, and counts candidates by modality.
    """
    return profile.service == VERTEX or profile.family == "gemini-2"


# --- counting -----------------------------------------------------------------------------------------------


def _media(contents: Sequence[Content], other: str) -> Iterator[str]:
    """Yield the modality of each medium, also of those inside function responses; `other` for documents."""
    for _, _, part in wire.walk(contents):
        inner = (wire.response_of(part) or {}).get("parts")
        for holder in (part, *(inner if isinstance(inner, list) else ())):
            for key in ("inlineData", "fileData"):
                blob = holder.get(key) if isinstance(holder, dict) else None
                if isinstance(blob, dict):
                    kind = str(blob.get("mimeType") or "").partition("/")[0]
                    yield _MODALITIES.get(kind, other)


def prompt_details(body: dict[str, Any], view: View, profile: Profile) -> dict[str, int]:
    """Return the prompt's tokens by modality: system text, declarations, contents, the thoughts that came back.

    A medium counts as one image does in recorded answers, 258 tokens on 2.x and 1,088 from 3 on: its true size
    is not looked at. From 3 on a PDF is an IMAGE, before it is a DOCUMENT.
    """
    declared = tokens(wire.canonical(list(view.declared))) if view.declared else 0
    contents = [body.get("systemInstruction") or {}, *body["contents"]]
    thoughts = sum(thought_tokens(step.thought) for step in view.steps)
    found = Counter({"TEXT": declared + content_tokens(contents) + thoughts})
    each, other = (1088, "IMAGE") if profile.strict else (258, "DOCUMENT")
    for modality in _media(contents, other):
        found[modality] += each
    return dict(found)


# --- usageMetadata ------------------------------------------------------------------------------------------


def metadata(profile: Profile, prompt: Mapping[str, int], made: int, thoughts: int, cached: int = 0) -> dict[str, Any]:
    """Return usageMetadata for a prompt (tokens by modality), `made` output tokens and `thoughts`.

    `cached`: how many of the prompt's tokens came from a cache. A key is absent where its count is zero;
    totalTokenCount is the sum of all.
    """
    total = sum(prompt.values())
    counts: dict[str, Any] = {"promptTokenCount": total}
    if made:
        counts["candidatesTokenCount"] = made
    counts["totalTokenCount"] = total + made + thoughts
    if cached:
        counts["cachedContentTokenCount"] = cached
    if profile.service == VERTEX:
        counts |= TRAFFIC
    counts["promptTokensDetails"] = details(prompt)
    if cached:
        counts["cacheTokensDetails"] = details({"TEXT": cached})
    if made and plain(profile):
        counts["candidatesTokensDetails"] = details({"TEXT": made})
    if thoughts:
        counts["thoughtsTokenCount"] = thoughts
    if profile.service == DEVELOPER:
        counts["serviceTier"] = "standard"
    return counts


# All that Vertex says of usage before the last chunk of a stream.
TRAFFIC = {"trafficType": "ON_DEMAND"}


def details(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return token counts by modality in their wire form."""
    return [{"modality": modality, "tokenCount": count} for modality, count in counts.items() if count]
