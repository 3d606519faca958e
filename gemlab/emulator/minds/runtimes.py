"""Where a language model runs: an OpenAI-compatible server, or one that this process starts from a GGUF file.

Both are spoken to in the same protocol, so there is one client. The key of a server never reaches a log, an error
or a recording.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

# A small machine may take minutes for a long prompt; whoever asks decides how long to wait.
_TIMEOUT = 3600.0
# Tokens of context for each slot of a model that this process runs, where the model was trained on as many.
CONTEXT = 4096
# MiB of prompts that are kept beside those in the slots: the library's own limit, 8 GiB, fills a small machine.
_MOST_CACHED = 1024


class RuntimeUnavailable(Exception):
    """The runtime gave no answer: not reached, or an error of its own."""


class PromptTooLong(RuntimeUnavailable):
    """The prompt does not fit into the runtime's context, and will not the next time."""


@dataclass(frozen=True)
class Completion:
    """What a runtime answered: text, finish reason (stop or length), and its own token counts.

    `prompt` includes `cached`; `made` counts all tokens of the text.
    """

    text: str
    finish: str
    prompt: int
    cached: int
    made: int


# From the strictest form of structured output to none: a server that does not know one is asked in the next.
_FORMS = ("json_schema", "json_object", "text")


class Runtime:
    """A client of POST {url}/chat/completions. `url` ends in /v1; `model` is the server's name for it.

    `keep` is whatever has to live as long as this client does.
    """

    def __init__(self, url: str, model: str, key: str | None = None, keep: Any = None):
        self.url, self.model, self._key, self._keep = url.rstrip("/"), model, key, keep
        self._clients: weakref.WeakKeyDictionary[Any, httpx2.AsyncClient] = weakref.WeakKeyDictionary()
        # Only what worked is remembered: a server refuses a prompt that is too long in whatever form, too.
        self._form: int | None = None

    @property
    def form(self) -> str:
        """The form of structured output that the server takes: json_schema, json_object or text."""
        return _FORMS[self._form or 0]

    async def complete(
        self,
        messages: Sequence[dict[str, str]],
        schema: dict[str, Any] | None,
        seed: int | None,
        temperature: float,
        most: int,
    ) -> Completion:
        """Return the model's next message, structured as `schema` says if the server can; `most` tokens at most.

        Without a schema it is free text. Raises RuntimeUnavailable, of which PromptTooLong is one.
        """
        asked: dict[str, Any] = {
            "model": self.model, "messages": list(messages), "temperature": temperature, "max_tokens": most,
        }  # fmt: skip
        if seed is not None:
            asked["seed"] = seed
        if schema is None:
            return _completion(await self._post(asked))
        for form in range(self._form or 0, len(_FORMS)):
            response = await self._post({**asked, **_structured(_FORMS[form], schema)})
            if response.status_code not in (400, 422, 501) or _is_too_long(response):
                break
        made = _completion(response)
        self._form = form if self._form is None else self._form
        return made

    async def _post(self, body: dict[str, Any]) -> httpx2.Response:
        try:
            return await self._client().post(f"{self.url}/chat/completions", json=body)
        except httpx2.RequestError as error:
            raise RuntimeUnavailable(f"no answer from the model's server: {type(error).__name__}") from None

    async def aclose(self) -> None:
        """Close the connections that this event loop has opened; the next request opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def _client(self) -> httpx2.AsyncClient:
        """Return this event loop's client: connections die with the loop that opened them."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            # A proxy of the environment is not for what this process runs itself.
            self._clients[loop] = httpx2.AsyncClient(
                headers=_headers(self._key), timeout=_TIMEOUT, limits=_LIMITS, trust_env=self._keep is None
            )
        return self._clients[loop]


_LIMITS = httpx2.Limits(max_connections=None)


def _headers(key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def _structured(form: str, schema: dict[str, Any]) -> dict[str, Any]:
    if form == "json_schema":
        named = {"name": "step", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    return {"response_format": {"type": "json_object"}} if form == "json_object" else {}


def _completion(response: httpx2.Response) -> Completion:
    if _is_too_long(response):
        raise PromptTooLong("the prompt is longer than the context of the model's server")
    if response.status_code != 200:
        raise RuntimeUnavailable(f"the model's server answered HTTP {response.status_code}")
    try:
        body = response.json()
        choice = body["choices"][0]
        usage = body.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        return Completion(
            str(choice["message"].get("content") or ""),
            str(choice.get("finish_reason") or "stop"),
            int(usage.get("prompt_tokens") or 0),
            int(details.get("cached_tokens") or 0),
            int(usage.get("completion_tokens") or 0),
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RuntimeUnavailable(f"unreadable answer of the model's server: {type(error).__name__}") from None


def _is_too_long(response: httpx2.Response) -> bool:
    """Tell whether a prompt was refused for its length, as llama.cpp, OpenAI and vLLM say it."""
    said = response.text if response.status_code == 400 else ""
    return any(words in said for words in ("exceed_context_size", "context_length_exceeded", "maximum context length"))


# --- two ways in --------------------------------------------------------------------------------------------


def openai(address: str) -> Runtime:
    """Return the runtime at `URL#MODEL`; the key, where the server wants one, is OPENAI_API_KEY's.

    Raises ValueError for an address that cannot be used.
    """
    url, _, model = address.partition("#")
    try:
        found = urlsplit(url)
        whole = found.scheme in ("http", "https") and found.hostname and found.port != 0 and model
    except ValueError:
        whole = False
    if not whole:
        raise ValueError("openai: takes URL#MODEL, for example openai:http://localhost:11434/v1#qwen2.5-coder:0.5b")
    if found.username or found.password or found.query:
        raise ValueError("openai: no user, password or query in the URL; a key goes into OPENAI_API_KEY")
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ValueError("OPENAI_API_KEY is no key: it holds a line break or a character outside of ASCII")
    return Runtime(url, model, key or None)


def served(runtime: Runtime) -> list[str]:
    """Return the models that a server lists; raises RuntimeUnavailable."""
    try:
        response = httpx2.get(f"{runtime.url}/models", headers=_headers(runtime._key), timeout=30)
        response.raise_for_status()
        return [str(m["id"]) for m in response.json()["data"]]
    except httpx2.HTTPStatusError as error:
        raise RuntimeUnavailable(f"{runtime.url}/models answered HTTP {error.response.status_code}") from None
    except httpx2.RequestError as error:
        raise RuntimeUnavailable(f"no server at {runtime.url}: {type(error).__name__}") from None
    except (ValueError, LookupError, TypeError):
        raise RuntimeUnavailable(f"{runtime.url}/models is not a list of models") from None


def gguf(path: Path, slots: int = 8, threads: int | None = None) -> Runtime:
    """Load a GGUF file into this process and return a runtime over it, with `slots` requests at a time.

    The server inside listens on a free port of the loopback address, behind a key of its own. Each slot keeps its
    prompt's prefix. Raises ValueError where xllamacpp is missing or the file cannot be loaded.
    """
    # Threads that spin while they wait take the cores from everything else: read when the library is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import xllamacpp
    except ImportError:
        raise ValueError('a GGUF file needs xllamacpp: install "gemlab[gguf]"') from None
    key = secrets.token_urlsafe(32)
    settings = xllamacpp.CommonParams()
    settings.model.path = str(path)
    settings.n_parallel, settings.n_ctx = slots, slots * CONTEXT
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads or _cores()
    settings.hostnames, settings.api_keys, settings.ui = ["127.0.0.1"], [key], False
    settings.warmup, settings.verbosity, settings.cache_ram_mib = False, -1, _MOST_CACHED
    try:
        server = xllamacpp.Server(settings)
    except RuntimeError as error:
        raise ValueError(f"{path.name} cannot be loaded: {error}") from None
    return Runtime(f"{server.listening_address}/v1", path.name, key, server)


def _cores() -> int:
    """Return how many cores this process may use."""
    usable = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(usable(0)) if usable else os.cpu_count() or 1
