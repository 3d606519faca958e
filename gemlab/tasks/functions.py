"""Tasks from plain Python functions: names, types and descriptions of the tools come from the functions themselves."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..guards.fingerprints import Identity
from ..registry import BadInput
from .base import Called, Instance, Task, Tool

Check = Callable[[str, Sequence[Called]], str | None]


def instance(prompt: str | Sequence[str], tools: Sequence[Callable[..., Any]], check: Check) -> Instance:
    """Return one instance of a task: what the user says (several texts: several turns), the tools, and the checker.

    `tools`: typed functions with docstrings. `check` takes the answer's text and the executed calls in order (name,
    args, response); it returns None where all is right, else what is wrong. Raises BadInput for a tool without types.
    """
    messages = (prompt,) if isinstance(prompt, str) else tuple(prompt)
    if not messages or not tools:
        raise BadInput("a task's instance has a prompt and at least one tool")
    return Instance(messages, {tool.__name__: _validated(tool) for tool in tools}, check)


def task(
    make: Callable[[int], Instance] | None = None,
    *,
    name: str = "",
    system: str = "Use the tools given. Answer when you know.",
    identities: Mapping[str, Identity] | None = None,
) -> Any:
    """Return a task from a function that makes the instance of a seed (see `instance`); as a decorator or a call.

    Its name is the function's, or `name`. The tools are those of the instance 0: every instance has the same ones.
    Raises BadInput for a function that makes something else.
    """
    if make is None:
        return functools.partial(task, name=name, system=system, identities=identities)
    first = make(0)
    if not isinstance(first, Instance):
        raise BadInput(f"{make.__name__}: a task's function returns gemlab.instance(…), not {type(first).__name__}")
    declarations = tuple(declaration(function) for function in first.functions.values())
    doc = inspect.cleandoc(make.__doc__ or "").partition("\n")[0]
    return Task(name or make.__name__, system, declarations, None, make, identities or {}, doc)


def declaration(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a function's declaration: its name, its docstring, its parameters as JSON schema.

    Raises BadInput for a parameter without a type, or of one that JSON cannot hold.
    """
    import pydantic  # slow to import, and needed only where a task is made from functions

    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise BadInput(f"{function.__name__}: a tool takes arguments by name, not *{parameter.name}")
        if parameter.annotation is parameter.empty:
            raise BadInput(f"{function.__name__}: the parameter {parameter.name} needs a type")
        default = ... if parameter.default is parameter.empty else parameter.default
        # An alias, as pydantic keeps some names to itself.
        fields[f"p_{parameter.name}"] = (parameter.annotation, pydantic.Field(default, alias=parameter.name))
    try:
        schema = pydantic.create_model(function.__name__, **fields).model_json_schema()
    except (TypeError, pydantic.errors.PydanticUserError) as error:
        raise BadInput(f"{function.__name__}: a parameter's type is none that JSON can hold: {error}") from None
    schema = {key: value for key, value in schema.items() if key != "title"}
    for properties in schema.get("properties", {}).values():
        properties.pop("title", None)
    described = inspect.cleandoc(function.__doc__ or "")
    return {"name": function.__name__, "description": described, "parametersJsonSchema": {**schema, "type": "object"}}


def _validated(function: Callable[..., Any]) -> Tool:
    """Let a function get its arguments in the types it asks for; what does not fit is an error the model can read."""
    import pydantic

    return functools.wraps(function)(pydantic.validate_call(function))
