"""What a language model is shown of a request, what it may decode, and how its text is read: pure functions.

One JSON object an answer, `{"thought": …, "call": …}` or `{"thought": …, "answer": …}`. An earlier step stands in
the prompt in the same form, with its thought where the signature came back and without where it did not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .arguments import json_schema
from .view import Reply, SeenCall, SeenStep, View

Message = dict[str, str]
MOST_PARALLEL = 8
# Of a malformed call, so many characters stand in the message.
_SHOWN = 200


class ExampleStep(Protocol):
    """One step of an example: the thought before it, its calls (name, arguments), and their results."""

    @property
    def thought(self) -> str: ...
    @property
    def calls(self) -> Sequence[tuple[str, dict[str, Any]]]: ...
    @property
    def results(self) -> Sequence[dict[str, Any]]: ...


class Example(Protocol):
    """A run that went right, to be shown to a model that is asked about the same tools."""

    @property
    def tools(self) -> frozenset[str]: ...
    @property
    def question(self) -> str: ...
    @property
    def steps(self) -> Sequence[ExampleStep]: ...
    @property
    def thought(self) -> str: ...
    @property
    def answer(self) -> str: ...


@dataclass(frozen=True)
class Design:
    """How the prompt is made. `examples`: how many worked ones, `thoughts`: with theirs or without.

    `place`: `turns` (as earlier turns of the conversation) or `system` (as text before it). `temperature`: where the
    request names none. `thought_length`: the most characters of a thought.
    """

    name: str
    examples: int = 2
    thoughts: bool = True
    place: str = "turns"
    temperature: float = 0.7
    thought_length: int = 200


DESIGNS = {
    design.name: design
    for design in (
        Design("worked"),
        Design("silent", thoughts=False),
        Design("transcript", place="system"),
        Design("transcript-silent", place="system", thoughts=False),
        Design("bare", examples=0),
    )
}


def design(name: str) -> Design:
    """Return a prompt design by name; raises ValueError that names the known ones."""
    if name not in DESIGNS:
        raise ValueError(f"unknown prompt {name!r}; known: {', '.join(DESIGNS)}")
    return DESIGNS[name]


# --- the prompt ---------------------------------------------------------------------------------------------


def messages(view: View, design: Design, worked: Sequence[Example]) -> list[Message]:
    """Return the chat for a request: system text, worked examples, then turns and steps in order.

    Where thinking is off, the examples do not think either. No two messages of one role follow each other, as many
    chat templates ask for.
    """
    shown = [w for w in worked if w.tools <= {d.get("name") for d in view.declared}][: design.examples]
    examples = [_example(one, design.thoughts and view.thinking) for one in shown]
    system = [view.system, _tools(view), _form(view)]
    if design.place == "system":
        system += [f"Example {i}:\n{_transcript(one)}" for i, one in enumerate(examples, 1)]
        examples = []
    chat = [{"role": "system", "content": "\n\n".join(text for text in system if text)}]
    return _merged([*chat, *(m for one in examples for m in one), *_conversation(view)])


def _tools(view: View) -> str:
    """Return the declared functions, a line each: name, arguments with their types, description."""
    lines = [f"- {d['name']}({_arguments(json_schema(d))}): {d.get('description') or ''}" for d in view.declared]
    return "Tools:\n" + "\n".join(lines) if lines else ""


def _arguments(schema: Mapping[str, Any]) -> str:
    required = schema.get("required") or ()
    properties = schema.get("properties") or {}
    return ", ".join(f"{n}{'' if n in required else '?'}: {_type(s)}" for n, s in properties.items())


def _type(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if "enum" in schema:
        return "|".join(map(str, schema["enum"]))
    kind = schema.get("type")
    kind = "|".join(kind) if isinstance(kind, list) else kind or "any"
    return f"{_type(schema['items'])}[]" if kind == "array" and "items" in schema else kind


def _form(view: View) -> str:
    """Say in words what to reply: what stands for a value in a pattern, small models copy as the value."""
    thought = "thought (one short sentence: what is known, what comes next), " if view.thinking else ""
    call, answer = "call (with name and args)", "answer (a sentence)"
    if view.mode == "NONE" or not view.declared:
        asked = f"{thought}{answer}"
    elif view.mode == "ANY":
        asked = f"{thought}{call}"
    else:
        asked = f"{thought}{call} to use a tool, or {answer} when all is done"
    return f"Reply with one JSON object on one line. Its keys: {asked}."


def _example(one: Example, thoughts: bool) -> list[Message]:
    made = [{"role": "user", "content": one.question}]
    for step in one.steps:
        made += _exchange(step.thought if thoughts else None, step.calls, step.results)
    return [*made, {"role": "assistant", "content": _line(one.thought if thoughts else None, answer=one.answer)}]


def _transcript(chat: Sequence[Message]) -> str:
    names = {"user": "", "assistant": "You: "}
    return "\n".join(names[m["role"]] + m["content"] for m in chat)


def _conversation(view: View) -> list[Message]:
    said = [m for step in view.steps if step.turn == 0 for m in _seen(step)]
    for turn, text in enumerate(view.turns, 1):
        said.append({"role": "user", "content": text})
        said += [m for step in view.steps if step.turn == turn for m in _seen(step)]
    return said


def _seen(step: SeenStep) -> list[Message]:
    if not step.calls:
        return [{"role": "assistant", "content": _line(step.thought, answer=step.text)}]
    return _exchange(step.thought, [(c.name, c.args) for c in step.calls], [_result(c) for c in step.calls])


def _result(call: SeenCall) -> Any:
    return {"error": "not answered"} if call.response is None else call.response


def _exchange(thought: str | None, calls: Sequence[tuple[str, Any]], results: Sequence[Any]) -> list[Message]:
    made = [{"name": name, "args": args} for name, args in calls]
    told = "\n".join(f"Result: {_json(result)}" for result in results)
    return [
        {"role": "assistant", "content": _line(thought, call=made[0] if len(made) == 1 else made)},
        {"role": "user", "content": told},
    ]


def _line(thought: str | None, **decided: Any) -> str:
    return _json({**({} if thought is None else {"thought": thought}), **decided})


def _json(value: Any) -> str:
    """Return compact JSON: a model writes as it reads, and every space costs a token or a part of one."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _merged(chat: Sequence[Message]) -> list[Message]:
    made: list[Message] = []
    for message in chat:
        if made and made[-1]["role"] == message["role"]:
            made[-1] = {**message, "content": f"{made[-1]['content']}\n{message['content']}"}
        else:
            made.append(message)
    return made


# --- what may be decoded ------------------------------------------------------------------------------------


def schema(view: View, design: Design) -> dict[str, Any]:
    """Return the JSON schema of an answer: a thought unless thinking is off, then calls or a text, by the mode."""
    thought = {"thought": {"type": "string", "maxLength": design.thought_length}} if view.thinking else {}
    forms = []
    one = [_call(d) for d in view.declared if not view.allowed or d["name"] in view.allowed]
    if one and view.mode != "NONE":
        several = {"type": "array", "items": {"anyOf": one}, "minItems": 2, "maxItems": MOST_PARALLEL}
        forms.append(_object({**thought, "call": {"anyOf": [*one, several]}}))
    if not forms or view.mode != "ANY":
        forms.append(_object({**thought, "answer": {"type": "string"}}))
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _call(declaration: Mapping[str, Any]) -> dict[str, Any]:
    args = json_schema(declaration)
    definitions: dict[str, Any] = {k: args[k] for k in ("$defs", "definitions") if k in args}
    args = _closed(_inlined({k: v for k, v in args.items() if k not in definitions}, definitions))
    return _object({"name": {"const": declaration["name"]}, "args": args})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Keep an object to its declared properties: a grammar would else allow any others."""
    return {"additionalProperties": False, **schema} if "properties" in schema else schema


def _inlined(schema: Any, definitions: Mapping[str, Any], depth: int = 0) -> Any:
    """Put definitions where they are referred to, as the schema becomes a part of another.

    A recursive one ends as "anything" after a few rounds.
    """
    if isinstance(schema, list):
        return [_inlined(s, definitions, depth) for s in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("$ref"), str):
        _, where, name = [*schema["$ref"].split("/"), "", ""][:3]
        found = definitions.get(where, {}).get(name)
        return {} if found is None or depth > _DEEPEST else _inlined(found, definitions, depth + 1)
    return {key: _inlined(value, definitions, depth) for key, value in schema.items()}


_DEEPEST = 3


# --- reading what came --------------------------------------------------------------------------------------


def read(text: str, view: View) -> Reply:
    """Read a model's text: the JSON object in it, tolerant of fences, other names of keys, and words around it.

    Without an object the whole text is the answer. One that is cut, or calls what is not declared, is a malformed
    call, in the API's words.
    """
    text = re.sub(r"(?s)^\s*<think>.*?</think>\s*", "", text)
    start = text.find("{")
    if start < 0:
        return Reply(text=text.strip())
    try:
        found, _ = json.JSONDecoder().raw_decode(text[start:])
    except ValueError:
        return _malformed(text[start:])
    thought = found.get("thought") if view.thinking else None
    thought = thought if isinstance(thought, str) else "" if view.thinking else None
    made = found.get("call", found.get("calls", found.get("tool_calls")))
    if made is None and ("name" in found or "tool" in found):
        made = found
    calls = [_read_call(c) for c in (made if isinstance(made, list) else [made])] if made else []
    declared = {d.get("name") for d in view.declared}
    if any(c is None or c[0] not in declared for c in calls):
        return _malformed(_json(made), thought)
    if calls and view.mode != "NONE":
        return Reply(thought, tuple(c for c in calls if c))
    answer = found.get("answer", found.get("text"))
    return Reply(thought, text=answer if isinstance(answer, str) else _json(answer) if answer is not None else "")


def _read_call(value: Any) -> tuple[str, dict[str, Any]] | None:
    if not isinstance(value, dict):
        return None
    value = value.get("function") if isinstance(value.get("function"), dict) else value
    name = value.get("name", value.get("tool"))
    args: Any = next((value[key] for key in ("args", "arguments", "parameters") if key in value), {})
    if isinstance(args, str):  # in the form of OpenAI, arguments are JSON in a text
        try:
            args = json.loads(args or "{}")
        except ValueError:
            return None
    return (name, args) if isinstance(name, str) and isinstance(args, dict) else None


def _malformed(call: str, thought: str | None = None) -> Reply:
    return Reply(
        thought,
        finish="MALFORMED_FUNCTION_CALL",
        message=f"Malformed function call: {call[:_SHOWN]}",
    )
