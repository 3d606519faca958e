"""A language model behind the emulator: every effect of a history comes from what it makes of its prompt.

It decodes a thought and a decision. The thought leaves sealed in the signature; it stands in a later prompt where
the request brings it back, and nowhere else.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from .. import errors
from ..errors import ApiError
from . import prompts
from .prompts import Design, Example
from .runtimes import Completion, PromptTooLong, Runtime, RuntimeUnavailable
from .view import Reply, Spent, View

# Enough for a thought, several calls or an answer in words.
MOST_TOKENS = 512
# The API's words as far as they hold here: it names both numbers.
TOO_LONG = "The input token count exceeds the maximum number of tokens allowed."


class LanguageModel:
    """Answers a View by a model in a runtime, with a prompt design and worked examples for tools it may meet."""

    def __init__(self, runtime: Runtime, design: Design, worked: Sequence[Example] = ()):
        self.runtime, self.design, self.worked = runtime, design, list(worked)

    async def respond(self, view: View) -> Reply:
        """Return the model's decision; a runtime that does not answer is the API's 503, too long a prompt its 400."""
        chat = prompts.messages(view, self.design, self.worked)
        temperature = self.design.temperature if view.temperature is None else view.temperature
        most = min(view.most_tokens or MOST_TOKENS, MOST_TOKENS)
        try:
            made = await self.runtime.complete(chat, prompts.schema(view, self.design), view.seed, temperature, most)
        except PromptTooLong:
            raise ApiError(400, TOO_LONG) from None
        except RuntimeUnavailable as error:
            raise ApiError(503, f"{errors.OVERLOADED} ({error})") from None
        return _reply(made, view)


def _reply(made: Completion, view: View) -> Reply:
    if made.finish == "length":
        reply = Reply(thought="" if view.thinking else None, finish="MAX_TOKENS")
    else:
        reply = prompts.read(made.text, view)
    thoughts = _share(reply.thought, made)
    return dataclasses.replace(reply, spent=Spent(made.prompt, made.cached, made.made - thoughts, thoughts))


def _share(thought: str | None, made: Completion) -> int:
    """Return how many of the answer's tokens are its thought's: runtimes count the whole, so by characters."""
    if not thought or not made.text:
        return 0
    return min(made.made, round(made.made * len(json.dumps(thought, ensure_ascii=False)) / len(made.text)))
