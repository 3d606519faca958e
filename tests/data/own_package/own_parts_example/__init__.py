"""Parts as another package would bring them along."""

import re

from gemlab import instance
from gemlab.emulator.minds.view import Reply
from gemlab.guards import TurnBudget
from gemlab.tasks import task


def newest_signed(contents):
    """Send only the newest answer's signatures back."""
    last = max((i for i, c in enumerate(contents) if c.get("role") == "model"), default=-1)
    return [c if i == last else bare(c) for i, c in enumerate(contents)]


def bare(content):
    parts = [{k: v for k, v in part.items() if k != "thoughtSignature"} for part in content["parts"]]
    return {**content, "parts": parts}


def halve(contents, at_least: int):
    """Keep the newer half of the contents once there are so many."""
    return list(contents) if len(contents) < at_least else list(contents[len(contents) // 2 :])


def six():
    """Six rounds a turn."""
    return TurnBudget(6)


@task
def sums(seed: int):
    """Add two numbers with a tool."""
    a, b = seed % 7, seed % 11

    def add(a: int, b: int) -> int:
        """Add two whole numbers."""
        return a + b

    def check(answer, calls):
        return None if str(a + b) in re.findall(r"\d+", answer) and calls else f"{a} + {b} is {a + b}"

    return instance(f"What is {a} + {b}?", [add], check)


class Adder:
    """A mind that can add."""

    def respond(self, view):
        a, b = map(int, re.findall(r"\d+", view.turns[0]))
        results = [call.response for step in view.steps for call in step.calls]
        if results:
            return Reply(thought="The sum is there.", text=f"It is {results[-1]['result']}.")
        return Reply(thought="To be added.", calls=(("add", {"a": a, "b": b}),))
