"""README and docs: what stands there as code runs, what stands there as a list is the list, what is linked is there.

A block whose first line is a comment with a file's name is that file; several with one name are its parts, in order.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import subprocess
import sys
import types
import typing
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import gemlab
from gemlab import backends, registry
from gemlab.agent.arm import Arm
from gemlab.app import cli, experiments, listing, notebooks
from gemlab.emulator import faults
from gemlab.wire import families

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ENTRY = "from gemlab.app.cli import main; main()"
pages = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)


def blocks(page: Path, *languages: str) -> list[str]:
    """Return the fenced blocks of these languages, in order."""
    fenced = re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [text for language, text in fenced if language in languages]


def title(block: str) -> str:
    """Return the name of the file that a block is, empty where it is none."""
    named = re.match(r"# ([\w-]+\.(?:py|toml))\n", block)
    return named[1] if named else ""


def files(page: Path) -> dict[str, str]:
    """Return the files of a page."""
    texts: dict[str, str] = {}
    for block in blocks(page, "python", "toml"):
        if name := title(block):
            texts[name] = f"{texts.get(name, '')}{block}\n\n"
    return texts


def commands(page: Path) -> list[list[str]]:
    """Return the words of each command of gemlab, in blocks and within sentences."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    prose = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    lines += re.findall(r"`(\./lab [^`]+)`", prose)
    return [shlex.split(line)[1:] for line in lines if re.match(r"(\./lab|gemlab)\b", line)]


def section(page: Path, heading: str) -> str:
    """Return what stands under a heading."""
    return re.search(rf"^## {heading}\b.*?\n(.*?)(?=^## |\Z)", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)[1]


def table(text: str) -> list[list[str]]:
    """Return the cells of a table's rows, without its head."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return rows[2:]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder; parts that are registered there are forgotten again."""
    kinds = list(registry.KINDS.values())
    before = [kind.names() for kind in kinds]
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for kind, ours in zip(kinds, before, strict=True):
        for name in set(kind.names()) - set(ours):
            kind.remove(name)


def write(page: Path, folder: Path) -> None:
    """Write a page's files, and those that a reader would bring along."""
    for name, text in files(page).items():
        (folder / name).write_text(text, "utf-8")
    (folder / "runs.jsonl").write_text('{"tools": [["search", "nothing"], ["search", "nothing"]], "ok": true}\n')
    # The docs say how a new study gets its notebook.
    copied = (ROOT / "notebooks" / "signature_ab.ipynb").read_text("utf-8")
    (folder / "agreement.ipynb").write_text(copied.replace("signature_ab", "agreement"), "utf-8")


# --- code -------------------------------------------------------------------------------------------------------


@pages
def test_python_runs(page, folder, monkeypatch):
    write(page, folder)
    registry.load_parts([name for name in files(page) if name.endswith(".py")])
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for block in blocks(page, "python"):
        if not title(block):
            exec(compile(block, page.name, "exec"), vars(module))


@pages
def test_toml_is_what_it_says(page, folder):
    write(page, folder)
    groups = {kind.entry_points for kind in listing.LISTED.values()}
    for name, text in files(page).items():
        if "[[fault]]" in text:
            assert faults.load(folder / name)
        elif "project.entry-points" in text:
            assert set(re.findall(r'entry-points\."([^"]+)"', text)) <= groups
        elif name.endswith(".toml"):
            notebooks.prepare(experiments.load(name), {}, False)
    assert all(title(block) for block in blocks(page, "toml")), "a TOML block is a file"


@pages
def test_commands_have_these_names_and_options(page, folder):
    write(page, folder)
    group = typer.main.get_command(cli.app)
    of_the_script = set(re.findall(r"^(\w+)\) ", (ROOT / "lab").read_text("utf-8"), re.MULTILINE))
    assert {"test", "setup"} <= of_the_script
    for name, *words in commands(page):
        if name in of_the_script:
            continue
        given = group.commands[name].make_context(name, list(words)).params
        if name == "run" and given["name"] != "NAME":
            check_run(given)
        if name == "list":
            result = CliRunner().invoke(cli.app, [name, *(w for w in words if w != "KIND")])
            assert result.exit_code == 0 and result.output.strip(), result.exception
        if name == "model" and not words:
            assert CliRunner().invoke(cli.app, [name]).exit_code == 0


def check_run(given):
    """Check a run as far as that can be done without a key and without a model."""
    chosen = experiments.load(given["name"])
    known = experiments.defaults(chosen.notebook)
    changed = dict(experiments.override(text, known) for text in given["parameter"] or [])
    experiments.checked({**chosen.parameters, **changed}, chosen.notebook)
    if given["backend"]:
        backends.find(given["backend"])


@pytest.mark.slow
@pages
def test_experiments_of_a_page_run(page, folder):
    write(page, folder)
    for name, text in files(page).items():
        if name.endswith(".toml") and "notebook =" in text:
            ran = subprocess.run(
                [sys.executable, "-c", ENTRY, "run", name, "--out", name.removesuffix(".toml")],
                capture_output=True, text=True, check=False, env=None,
            )  # fmt: skip
            assert ran.returncode == 0, ran.stderr
            assert (folder / name.removesuffix(".toml") / "report.html").is_file()


# --- lists ------------------------------------------------------------------------------------------------------


def test_lists_are_those_of_gemlab_list():
    shown = subprocess.run([sys.executable, "-c", ENTRY, "list"], capture_output=True, text=True, check=True).stdout
    lists = {text.partition("\n")[0]: text.strip("\n").splitlines()[1:] for text in shown.strip().split("\n\n")}
    written = {}
    for page in PAGES:
        text = page.read_text("utf-8")
        for kind, block in re.findall(r"<!-- gemlab list (\w+) -->\n```text\n(.*?)\n```", text, re.DOTALL):
            assert block.splitlines() == [line.removeprefix("  ") for line in lists[kind]], f"{page.name}: {kind}"
            written[kind] = page.name
    assert {"strategies", "prunings", "guards", "tasks", "backends", "rules", "minds", "importers"} <= set(written)


def test_every_factor_of_an_arm_is_described_with_its_values():
    page, hints = ROOT / "docs" / "factors.md", typing.get_type_hints(Arm)
    for field in dataclasses.fields(Arm):
        if field.name != "name":
            text = section(page, field.name)
            assert all(f"`{value}`" in text for value in typing.get_args(hints[field.name]))


def test_the_models_are_those_of_the_emulator():
    rows = table(section(ROOT / "docs" / "factors.md", "model"))
    assert sorted(name for row in rows for name in names(row[0])) == sorted(families.known_models())
    for cell, strict, thoughts in rows:
        for name in names(cell):
            profile = families.profile(name)
            assert strict == ("yes" if profile.strict else "no"), name
            assert thoughts.startswith("all turns") == (profile.thoughts == "all"), name


def test_faults_and_switches_are_those_of_the_emulator():
    page = ROOT / "docs" / "serve.md"
    kinds = [kind for row in table(section(page, "What goes wrong")) for kind in names(row[0])]
    assert sorted(kinds) == sorted(faults.KINDS)
    switches = {names(field)[0]: tuple(names(v)) for field, v in table(section(page, "Which model is played"))}
    assert switches == families.switches()


def test_parts_have_these_groups_and_decorators():
    rows = table((ROOT / "docs" / "parts.md").read_text("utf-8"))
    assert {names(row[3])[0] for row in rows} == {kind.entry_points for kind in listing.LISTED.values()}
    for row in rows:
        for decorator in re.findall(r"`@gemlab\.(\w+)`", row[1]):
            assert decorator in gemlab.__all__


def test_a_summary_has_these_keys(folder):
    rows = table(section(ROOT / "docs" / "studies.md", "summary.json"))
    findings = gemlab.run(arms=["preserve", "strip"], instances=2, out="out")
    assert [name for row in rows for name in names(row[0])] == list(findings.summary())


# --- the README -------------------------------------------------------------------------------------------------


def test_the_readme_is_short_and_links_lead_somewhere():
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 900
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.slow
def test_the_numbers_in_the_readme_are_those_of_its_command(folder):
    chosen = experiments.load("signature_ab")
    study = gemlab.study("signature_ab", **{**chosen.parameters, "out": "out"})
    shown = study.run().table()
    columns = ["completed", "completion", "redundant calls"]
    written = {row[0]: row[1:] for row in table((ROOT / "README.md").read_text("utf-8"))[:2]}
    assert written == {arm: [str(shown.loc[arm, c]) for c in columns] for arm in ("preserve", "strip")}
