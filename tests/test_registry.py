"""Names of parts, how they are read and bound, and where parts come from: calls, files, installed packages."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from typing import Annotated, Literal

import pytest
from annotated_types import Ge
from hypothesis import given
from hypothesis import strategies as st

from gemlab import registry
from gemlab.registry import BadInput, Kind, Name, parse


@pytest.fixture
def kind():
    made = Kind("colour", "gemlab.test.colours", skip=1)
    yield made
    registry.KINDS.pop("colour")


# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "base", "args", "kwargs"),
    [
        ("steps(3)", "steps", (3,), {}),
        (" chain( 20 , turns = 4 ) ", "chain", (20,), {"turns": 4}),
        ("strip_past(steps)", "strip_past", ("steps",), {}),
        ("share(0.5)", "share", (0.5,), {}),
        ("any(gemini-4-argon)", "any", ("gemini-4-argon",), {}),
        ("off()", "off", (), {}),
        ("gguf:/models/a (b).gguf", "gguf", ("/models/a (b).gguf",), {}),
        ("openai:http://localhost:11434/v1#qwen:0.5b", "openai", ("http://localhost:11434/v1#qwen:0.5b",), {}),
        ("gguf:", "gguf", ("",), {}),
        ("dead-end", "dead-end", (), {}),
    ],
)
def test_a_name_is_read(text, base, args, kwargs):
    name = parse(text)
    assert (name.base, name.args, dict(name.kwargs)) == (base, args, kwargs)


@pytest.mark.parametrize(
    "text", ["", "  ", "steps(", "steps)", "steps(3", "(3)", "f(1,,2)", "f(a=1,2)", "f(=3)", "f(a=)"]
)
def test_what_is_no_name_is_refused(text):
    with pytest.raises(BadInput):
        parse(text)


@given(st.text(max_size=30))
def test_any_text_is_a_name_or_refused(text):
    with contextlib.suppress(BadInput):
        assert parse(text).base


# --- kinds ----------------------------------------------------------------------------------------------------


def test_parts_are_registered_by_decorator_and_by_call_and_found(kind):
    @kind.register
    def red(contents):
        """Red, as it should be.

        More of it.
        """

    @kind.register(name="dark-blue")
    def blue(contents, shade: int = 3):
        pass

    kind.register(len, name="length")
    assert kind.names() == ["red", "dark-blue", "length"] and "red" in kind and "green" not in kind
    assert kind.find("red") == (red, Name("red", text="red"))
    assert kind.find("dark-blue(7)")[1].args == (7,)
    assert kind.describe()["red"] == "Red, as it should be." and kind.describe()["dark-blue(shade=3)"] == ""


def test_a_name_that_is_taken_is_refused_but_the_same_definition_may_come_again(kind):
    def define():
        def red(contents):
            pass

        return red

    kind.register(define())
    again = define()
    kind.register(again)
    assert kind.find("red")[0] is again
    with pytest.raises(BadInput, match=r"there is a colour 'red' already: .*define.*red"):
        kind.register(len, name="red")
    with pytest.raises(BadInput, match="without spaces"):
        kind.register(len, name="bright red")


def test_an_unknown_name_is_told_with_the_nearest(kind):
    kind.register(len, name="crimson")
    with pytest.raises(BadInput, match=r"unknown colour 'crimsom' \(did you mean crimson\?\); known: crimson"):
        kind.find("crimsom")
    with pytest.raises(BadInput, match="unknown colour 'x'; known: crimson"):
        kind.find("x")


def test_what_is_offered_is_imported_only_when_asked_for(kind):
    kind.offer("shuffle", "random:shuffle")
    kind.offer("gone", "no_such_module_anywhere:x")
    assert kind.names() == ["shuffle", "gone"]
    import random

    assert kind.find("shuffle")[0] == random.shuffle


# --- arguments --------------------------------------------------------------------------------------------------


def cut(contents, n: Annotated[int, Ge(1)], where: Literal["head", "tail"] = "tail", share: float = 0.5, *, donor=()):
    pass


def test_arguments_are_bound_by_place_and_by_name():
    assert registry.bind(cut, parse("cut(3)"), 1) == {"n": 3}
    assert registry.bind(cut, parse("cut(3,head,share=1)"), 1) == {"n": 3, "where": "head", "share": 1}
    assert registry.usage("cut", cut, 1) == "cut(n,where=tail,share=0.5)"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cut", r"missing a required argument: 'n'; written cut\(n,where=tail,share=0.5\)"),
        ("cut(0)", r"cut\(0\): n is at least 1, not 0"),
        ("cut(x)", "n is a whole number, not 'x'"),
        ("cut(1.5)", "n is a whole number, not 1.5"),
        ("cut(1,middle)", "where is one of head, tail, not middle"),
        ("cut(1,share=x)", "share is a number, not 'x'"),
        ("cut(1,donor=x)", "unexpected keyword argument 'donor'"),
        ("cut(1,head,0.1,9)", "too many positional arguments"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(text, why):
    with pytest.raises(BadInput, match=why):
        registry.bind(cut, parse(text), 1)


# --- values -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Form:
    name: str
    count: int = 3
    way: Literal["a", "b"] = "a"


def test_a_value_is_checked_by_its_types():
    assert registry.validated(Form, {"name": "x", "way": "b"}, "form") == Form("x", 3, "b")
    for value, why in (
        ({"name": "x", "way": "c"}, "form: way: input should be 'a' or 'b', not 'c'"),
        ({"count": 1}, "form: name: field required"),
        ({"name": 3}, "form: name: input should be a valid string, not 3"),
        ({"name": "x", "count": "3"}, "form: count: input should be a valid integer, not '3'"),
        ({"name": "x", "other": 1}, "form: unknown other; known: name, count, way"),
    ):
        with pytest.raises(BadInput) as refused:
            registry.validated(Form, value, "form")
        assert str(refused.value) == why


# --- files ------------------------------------------------------------------------------------------------------


def test_a_file_of_parts_is_run_and_may_be_run_again(kind, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from gemlab import registry\n@registry.KINDS['colour'].register\ndef teal(contents):\n    return 1\n"
    )
    registry.load_parts([str(file)])
    file.write_text(file.read_text("utf-8").replace("return 1", "return 22"))
    registry.load_parts([file])
    assert kind.find("teal")[0]([]) == 22


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "no file of parts .*mine.py"),
        ("x = 1\ny = 1 / 0\n", "mine.py, line 2: ZeroDivisionError: division by zero"),
        ("def f(:\n", "mine.py, line .*: SyntaxError"),
        ("import sys\nsys.exit(3)\n", "mine.py, line 2: SystemExit: 3"),
        ("from gemlab import registry\nraise registry.BadInput('not so')\n", "mine.py: not so"),
    ],
)
def test_a_file_that_cannot_be_run_is_one_line(tmp_path, text, why):
    file = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(BadInput, match=why) as refused:
        registry.load_parts([file])
    assert "\n" not in str(refused.value)


# --- installed packages -----------------------------------------------------------------------------------------


def test_an_installed_package_offers_parts(tmp_path, monkeypatch):
    (tmp_path / "colours_example.py").write_text("def ochre(contents):\n    return 'ochre'\n")
    info = tmp_path / "colours_example-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: colours-example\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[gemlab.test.colours]\nochre = colours_example:ochre\nred = colours_example:none\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    kind = Kind("colour", "gemlab.test.colours")
    try:
        kind.register(len, name="red")
        assert kind.names() == ["red", "ochre"] and kind.find("ochre")[0]([]) == "ochre"
        assert kind.find("red")[0] is len, "a name that is taken stays ours"
    finally:
        registry.KINDS.pop("colour")
        sys.modules.pop("colours_example", None)
