"""Language models behind the emulator as backends: which model, in which runtime, with which prompt."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from . import gguf, weights
from .client import embedded
from .inprocess import StreamingASGITransport
from .seam import Source

if TYPE_CHECKING:
    from ..emulator.minds.language_model import LanguageModel
    from ..emulator.minds.runtimes import Runtime
    from .client import ClientBackend

KNOWN = "gguf:FILE, openai:URL#MODEL"
PROMPT = "worked"
SLOTS = 8


def is_language(name: str) -> bool:
    """Tell whether a backend's name stands for a language model."""
    return name.startswith(("gguf:", "openai:"))


def label(name: str, prompt: str = PROMPT) -> str:
    """Return what traces call a backend: its model and its prompt, without the model file's folder.

    Raises ValueError for names that are none.
    """
    return f"{_short(name)} prompt={prompt}"


def _short(name: str) -> str:
    kind, rest = _parts(name)
    return f"gguf:{weights.find(rest).name}" if kind == "gguf" else name


def _parts(name: str) -> tuple[str, str]:
    if not is_language(name):
        raise ValueError(f"{name!r} is no language model; known: {KNOWN}")
    kind, _, rest = name.partition(":")
    return kind, rest


def absolute(name: str) -> str:
    """Return a backend's name with the model file that it means now by its whole path; raises ValueError."""
    kind, rest = _parts(name)
    return f"gguf:{weights.find(rest)}" if kind == "gguf" else name


def backend(name: str, prompt: str = PROMPT, slots: int = SLOTS, runtime: Runtime | None = None) -> ClientBackend:
    """Return the emulator with a language model behind it; `runtime`: one that is loaded already.

    Raises ValueError for a name, a file or a prompt that cannot be used.
    """
    from ..emulator.app import create_app

    mind, source_ = model(name, prompt, slots, runtime)
    return embedded(label(name, prompt), StreamingASGITransport(create_app(mind)), source_, mind.runtime)


def gguf_mind(file: str) -> LanguageModel:
    """A GGUF file in this process; empty: $GEMLAB_GGUF or a fetched model."""
    return model(f"gguf:{file}")[0]


def openai_mind(address: str) -> LanguageModel:
    """A model of an OpenAI-compatible server: `openai:URL#MODEL`."""
    return model(f"openai:{address}")[0]


def model(
    name: str, prompt: str = PROMPT, slots: int = SLOTS, runtime: Runtime | None = None
) -> tuple[LanguageModel, Source]:
    """Return the language model of a backend's name, and what a report has to say of it; raises ValueError."""
    from .. import tasks
    from ..emulator.minds import prompts
    from ..emulator.minds.language_model import LanguageModel

    design = prompts.design(prompt)
    runtime = runtime or open_runtime(name, slots)
    told = f"{source(name).label}, prompt {design.name!r}, temperature {design.temperature}"
    settings = {"prompt": design.name, "temperature": design.temperature}
    return LanguageModel(runtime, design, tasks.worked(design.examples)), Source("language", told, settings)


def open_runtime(name: str, slots: int = SLOTS) -> Runtime:
    """Return the runtime of a backend's name, loading a file's model; raises ValueError."""
    from ..emulator.minds import runtimes

    kind, rest = _parts(name)
    return runtimes.gguf(weights.find(rest), slots) if kind == "gguf" else runtimes.openai(rest)


def source(name: str) -> Source:
    """Return who answers behind a backend's name, whatever the prompt."""
    return Source("language", f"measured on a language model behind the emulator, not on Gemini: {described(name)}")


def described(name: str) -> str:
    """Return the model in words: name and quantisation from the file itself, or the server's name for it.

    Raises ValueError for a name or a file that cannot be used.
    """
    from ..emulator.minds import runtimes

    kind, rest = _parts(name)
    if kind == "openai":
        runtime = runtimes.openai(rest)  # which refuses an address with a secret in it
        return f"{runtime.model} (at {runtime.url}, quantised as it is there)"
    found: dict[str, Any] = weights.describe(weights.find(rest))
    return f"{found['name']} ({found['file_type']})"


def check(name: str, prompt: str = PROMPT) -> None:
    """Check without loading anything that a backend can be had; raises ValueError with one line."""
    from ..emulator.minds import prompts, runtimes

    prompts.design(prompt)
    kind, rest = _parts(name)
    if kind == "gguf":
        gguf.metadata(weights.find(rest))
        if importlib.util.find_spec("xllamacpp") is None:
            raise ValueError('a GGUF file needs xllamacpp: install "gemlab[gguf]"')
        return
    runtime = runtimes.openai(rest)
    try:
        there = runtimes.served(runtime)
    except runtimes.RuntimeUnavailable as error:
        raise ValueError(str(error)) from None
    if runtime.model not in there:
        raise ValueError(f"{runtime.url} has no model {runtime.model!r}; it has {', '.join(there) or 'none'}")
