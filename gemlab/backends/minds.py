"""What stands behind the emulator and decides, by name: a mind has `respond(view)`, which returns a Reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import tasks
from ..registry import Kind, bind
from .seam import SCRIPTED, Source

if TYPE_CHECKING:
    from ..emulator.minds.scripted import Parameters
    from ..emulator.minds.view import Mind

# A function of a name's arguments, or a class without any, that returns a mind.
MINDS: Kind[Callable[..., Mind]] = Kind("mind", "gemlab.minds")


# Imports within: the emulator's cryptography and web framework take a second that most commands do not need.


@MINDS.register
def scripted(*, parameters: Parameters | None = None) -> Mind:
    """Follow the plan of a task known by its tools, with assumed slips; the tour for any other tools."""
    from ..emulator.minds.scripted import ScriptedModel
    from ..emulator.minds.tour import TourModel

    return ScriptedModel(tasks.plans(), parameters, otherwise=TourModel())


@MINDS.register
def tour() -> Mind:
    """Call every declared function, whatever it is: single, parallel, then one after the other."""
    from ..emulator.minds.tour import TourModel

    return TourModel()


MINDS.offer("gguf", "gemlab.backends.language:gguf_mind", address=True)
MINDS.offer("openai", "gemlab.backends.language:openai_mind", address=True)


def get(text: str) -> Mind:
    """Return a mind by its text, such as `tour` or `gguf:FILE`; raises BadInput for any other."""
    part, name = MINDS.find(text)
    return part(**bind(part, name))


def source(text: str) -> Source:
    """Return who answers where a mind stands behind the emulator; raises BadInput for an unknown one."""
    _, name = MINDS.find(text)
    if name.base == "scripted":
        return SCRIPTED
    if name.base == "tour":
        return Source("tour", "tour model: shows the wire, decides nothing")
    if name.base in ("gguf", "openai"):
        from . import language

        return language.source(text)
    return Source("mind", f"mind {text!r} behind the emulator: not Gemini")
