"""Parts by name: strategies, prunings, guards, rules, tasks, backends, minds, importers, studies.

A part is registered by decorator or call, ours like a user's, and asked for by text: `steps(3)`, `chain(20,turns=4)`,
`gguf:FILE`. What a name stands for may live in a module that is imported only when it is asked for.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import re
import sys
import traceback
import typing
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    import pydantic

T = TypeVar("T")
# A part as it was defined: who registers a function can go on calling it by its own types.
P = TypeVar("P")


class BadInput(ValueError):
    """Something the user gave cannot be used; the message is one line that says what and why."""

    def _render_traceback_(self) -> list[str]:
        # IPython asks for this: in a notebook, too, the line says it all.
        return [f"{type(self).__name__}: {self}"]


def validated(kind: type[T], value: Any, what: str) -> T:
    """Return a JSON value as a dataclass of the kind, checked by its types; raises BadInput with one line."""
    import pydantic  # slow to import, and no command needs it only to say what it can do

    known = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else None
    unknown = sorted(set(value) - set(known)) if known and isinstance(value, Mapping) else None
    if known and unknown:
        raise BadInput(f"{what}: unknown {', '.join(map(str, unknown))}; known: {', '.join(known)}")
    try:
        # By way of JSON, where a list may become a tuple but a text never a number.
        return pydantic.TypeAdapter(kind).validate_json(json.dumps(value, allow_nan=False), strict=True)
    except (TypeError, ValueError) as error:
        if isinstance(error, pydantic.ValidationError):
            raise BadInput(f"{what}: {_told(error)}") from None
        raise BadInput(f"{what}: {error}") from None


def _told(error: pydantic.ValidationError) -> str:
    places = [".".join(map(str, each["loc"])) for each in error.errors()]
    messages = [_message(each) for each in error.errors()]
    return "; ".join(f"{p}: {m}" if p else m for p, m in zip(places, messages, strict=True))


def _message(error: Mapping[str, Any]) -> str:
    text = str(error["msg"]).removeprefix("Value error, ")
    text = f"{text[:1].lower()}{text[1:]}"
    return text if error["type"] in ("missing", "value_error") else f"{text}, not {error['input']!r}"


# --- names --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name:
    """A part's name as written: `base`, and the arguments in it."""

    base: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""


_CALL = re.compile(r"([^\s():]+)\((.*)\)", re.DOTALL)
_ADDRESS = re.compile(r"([\w-]+):(.*)", re.DOTALL)


def parse(text: str) -> Name:
    """Read `base`, `base(3,turns=2)` or `base:rest`; whole numbers and decimals become numbers, all else is text.

    Raises BadInput for what is none of these.
    """
    text = text.strip()
    call, address = _CALL.fullmatch(text), _ADDRESS.fullmatch(text)
    if call:
        args, kwargs = _arguments(call[2], text)
        return Name(call[1], args, kwargs, text)
    if address:
        return Name(address[1], (address[2],), {}, text)
    if not text or re.search(r"[()]", text):
        raise BadInput(f"{text!r} is no name: write name, name(argument, key=argument) or name:address")
    return Name(text, text=text)


def _arguments(inside: str, text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for piece in inside.split(",") if inside.strip() else ():
        key, sign, value = piece.partition("=")
        if not piece.strip() or (sign and not (key.strip().isidentifier() and value.strip())):
            raise BadInput(f"{text}: an argument is empty or has no name")
        if sign:
            kwargs[key.strip()] = _value(value)
        elif kwargs:
            raise BadInput(f"{text}: arguments with a name come last")
        else:
            args.append(_value(piece))
    return tuple(args), kwargs


def _value(text: str) -> Any:
    text = text.strip()
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    return float(text) if re.fullmatch(r"[+-]?\d+\.\d*", text) else text


# --- parts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part(Generic[T]):
    """A registered part: its name, where it came from, and either itself or the module and name to import it from."""

    name: str
    value: T | None
    target: str = ""
    address: bool = False

    @property
    def shown(self) -> str:
        """The name as a user writes it, as far as that can be told without importing the part."""
        return getattr(self.value, "usage", "") or (f"{self.name}:…" if self.address else self.name)

    def load(self) -> T:
        """Return the part itself, imported now if it was not yet."""
        if self.value is not None:
            return self.value
        module, _, attribute = self.target.partition(":")
        return typing.cast(T, getattr(importlib.import_module(module), attribute))


class Kind(Generic[T]):
    """All parts of one kind by name.

    `entry_points`: the group under which installed packages offer parts of this kind. `skip`: how many parameters of a
    part that is a function are not its name's, as the contents of `steps(contents, n)`.
    """

    def __init__(self, word: str, entry_points: str, skip: int = 0):
        self.word, self.entry_points, self.skip = word, entry_points, skip
        self._parts: dict[str, Part[T]] = {}
        self._offered = False
        KINDS[word] = self

    @overload
    def register(self, part: None = None, *, name: str = "") -> Callable[[P], P]: ...
    @overload
    def register(self, part: P, *, name: str = "") -> P: ...
    def register(self, part: Any = None, *, name: str = "") -> Any:
        """Register a part under its own name (`__name__` or `name`) or another; as a decorator or by a call.

        Returns the part. The same definition may come again, as a notebook's cell does; raises BadInput where another
        part has the name.
        """
        if part is None:
            return lambda later: self.register(later, name=name)
        chosen = name or getattr(part, "name", "") or getattr(part, "__name__", "")
        if not isinstance(chosen, str) or not re.fullmatch(r"[^\s():=]+(\([^()]*\))?", chosen):
            raise BadInput(f"a {self.word} needs a name without spaces, colons and brackets, not {chosen!r}")
        there = self._parts.get(chosen)
        if there is not None and _origin(there) != _origin(Part(chosen, part)):
            raise BadInput(f"there is a {self.word} {chosen!r} already: {_origin(there)}")
        self._parts[chosen] = Part(chosen, part)
        return part

    def offer(self, name: str, target: str, address: bool = False) -> None:
        """Register a part that is imported (`module:name`) when it is asked for; `address`: asked for as `name:…`."""
        self._parts[name] = Part(name, None, target, address)

    def find(self, text: str) -> tuple[T, Name]:
        """Return the part that a text names, and the text as read; raises BadInput with the nearest name."""
        self._take_offers()
        exact = self._parts.get(text.strip())
        if exact is not None:
            return exact.load(), Name(exact.name, text=text.strip())
        name = parse(text)
        if name.base not in self._parts:
            raise BadInput(self._unknown(text))
        return self._parts[name.base].load(), name

    def __contains__(self, name: str) -> bool:
        self._take_offers()
        return name in self._parts

    def names(self) -> list[str]:
        """Return the names of all parts, ours first, in order of registration."""
        self._take_offers()
        return list(self._parts)

    def parts(self) -> Iterator[tuple[str, T]]:
        """Yield the name and the part itself of each."""
        for name in self.names():
            yield name, self._parts[name].load()

    def describe(self) -> dict[str, str]:
        """Return the first line of each part's docstring by its name with the arguments it takes."""
        return {self._usage(name, part): first_line(part) for name, part in self.parts()}

    def remove(self, name: str) -> None:
        """Forget a part, for tests and notebooks; one that is not there is no error."""
        self._parts.pop(name, None)

    def _usage(self, name: str, part: T) -> str:
        return usage(name, part, self.skip) if inspect.isfunction(part) else self._parts[name].shown

    def _unknown(self, text: str) -> str:
        names = self.names()
        near = difflib.get_close_matches(parse(text).base, names, 1, 0.6)
        hint = f" (did you mean {near[0]}?)" if near else ""
        known = ", ".join(self._parts[name].shown for name in names)
        return f"unknown {self.word} {text!r}{hint}; known: {known}"

    def _take_offers(self) -> None:
        """Register what installed packages offer, once; a name that is taken stays ours."""
        if self._offered:
            return
        self._offered = True
        for point in importlib.metadata.entry_points(group=self.entry_points):
            if point.name not in self._parts:
                self.offer(point.name, point.value)


KINDS: dict[str, Kind[Any]] = {}


def _origin(part: Part[Any]) -> str:
    if part.value is None:
        return part.target
    module = getattr(part.value, "__module__", type(part.value).__module__)
    return f"{module}.{getattr(part.value, '__qualname__', part.name)}"


def first_line(part: Any) -> str:
    """Return the first line of a part's docstring, empty where it has none of its own."""
    text = getattr(part, "doc", "") or part.__doc__ or ""
    return inspect.cleandoc(text).partition("\n")[0]


# --- files and lists -----------------------------------------------------------------------------------------


def load_parts(files: Sequence[str | Path]) -> None:
    """Run Python files whose decorators register parts; raises BadInput for a file that is not there or fails."""
    for file in files:
        path = Path(file).expanduser().resolve()
        if not path.is_file():
            raise BadInput(f"no file of parts {file}")
        # Named by its path: run again, its parts take their own places and nobody else's.
        name = f"gemlab_parts_{path.stem}_{zlib.crc32(str(path).encode()):08x}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise BadInput(f"{file} is no Python file")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BadInput as error:
            raise BadInput(f"{file}: {error}") from None
        except (Exception, SystemExit) as error:
            frames = traceback.extract_tb(error.__traceback__)
            line = next((f.lineno for f in reversed(frames) if f.filename == str(path)), "?")
            raise BadInput(f"{file}, line {line}: {type(error).__name__}: {error}") from None


# --- arguments of parts -------------------------------------------------------------------------------------


def bind(function: Callable[..., Any], name: Name, skip: int = 0) -> dict[str, Any]:
    """Return a name's arguments as keywords of a function, whose first `skip` parameters are not the name's.

    Types are checked where annotated as int, float or str, and bounds where the annotation is `Annotated` with
    something that has `ge`. Raises BadInput that shows how the name is written.
    """
    signature, hints = _signature(function, skip)
    try:
        bound = signature.bind(*name.args, **name.kwargs)
    except TypeError as error:
        raise BadInput(f"{name.text}: {error}; written {usage(name.base, function, skip)}") from None
    return {key: _checked(name, key, value, hints.get(key)) for key, value in bound.arguments.items()}


@functools.lru_cache(maxsize=256)
def _signature(function: Callable[..., Any], skip: int) -> tuple[inspect.Signature, dict[str, Any]]:
    signature = inspect.signature(function)
    left = list(signature.parameters.values())[skip:]
    # What only a keyword can set is the caller's, not the name's.
    named = [p for p in left if p.kind is not p.KEYWORD_ONLY]
    hints = {p.name: _hint(p.annotation, function) for p in named}
    return signature.replace(parameters=named, return_annotation=signature.empty), hints


def _hint(annotation: Any, function: Callable[..., Any]) -> Any:
    """Return an annotation's type; None where it names what is imported for type checkers alone."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, vars(sys.modules[function.__module__]))
    except NameError:
        return None


def usage(name: str, function: Callable[..., Any], skip: int = 0) -> str:
    """Return how a part with arguments is written: `chain(steps,turns=1)`."""
    parameters = _signature(function, skip)[0].parameters.values()
    shown = [p.name if p.default is p.empty else f"{p.name}={p.default}" for p in parameters]
    return f"{name}({','.join(shown)})" if shown else name


def _checked(name: Name, key: str, value: Any, hint: Any) -> Any:
    bounds = getattr(hint, "__metadata__", ())
    kind = typing.get_args(hint)[0] if bounds else hint
    choices = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
    if choices and value not in choices:
        raise BadInput(f"{name.text}: {key} is one of {', '.join(map(str, choices))}, not {value}")
    if kind is int and type(value) is not int:
        raise BadInput(f"{name.text}: {key} is a whole number, not {value!r}")
    if kind is float and not isinstance(value, int | float):
        raise BadInput(f"{name.text}: {key} is a number, not {value!r}")
    for bound in bounds:
        if (least := getattr(bound, "ge", None)) is not None and value < least:
            raise BadInput(f"{name.text}: {key} is at least {least}, not {value}")
    return str(value) if kind is str else value
