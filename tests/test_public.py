"""The public names, and parts of a user's own as objects, as files, and from an installed package."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

import gemlab
from gemlab import registry
from gemlab.app import listing
from gemlab.runs import trace

MODEL = "gemini-2.5-flash"


@pytest.fixture(autouse=True)
def own_parts_go():
    """Forget what a test has registered."""
    before = {kind: dict(kind._parts) for kind in listing.LISTED.values()}
    yield
    for kind, parts in before.items():
        kind._parts = parts


def test_the_public_names():
    assert sorted(gemlab.__all__) == gemlab.__all__ == [
        "BadInput", "backend", "guard", "importer", "instance", "mind", "pruning", "rule", "run", "strategy",
        "study", "task",
    ]  # fmt: skip
    assert all(getattr(gemlab, name).__doc__ for name in gemlab.__all__) and set(gemlab.__all__) <= set(dir(gemlab))
    with pytest.raises(AttributeError, match="has no attribute 'runn'"):
        gemlab.runn  # noqa: B018


def test_importing_the_package_imports_nothing_of_it():
    code = "import sys, gemlab; print([m for m in sys.modules if m.startswith('gemlab.')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


# --- objects ------------------------------------------------------------------------------------------------------


def without_thoughts(contents):
    """Drop signatures, by a hand-written rule."""
    return [
        {**c, "parts": [{k: v for k, v in p.items() if k != "thoughtSignature"} for p in c["parts"]]} for c in contents
    ]


def sums(seed: int):
    """Add two numbers with a tool."""

    def add(a: int, b: int = 3, name: str = "") -> dict:
        """Add two whole numbers."""
        return {"sum": a + b}

    return gemlab.instance(f"What is {seed} + 3?", [add], lambda answer, calls: None if calls else "nothing added")


def test_a_strategy_itself_is_an_arm_and_does_what_strip_does(tmp_path):
    found = gemlab.run(["preserve", "strip", without_thoughts], instances=12, out=str(tmp_path))
    frame = found.frame().set_index(["arm", "instance"])
    own, strip = (frame.loc[arm][["outcome", "calls", "redundant", "signatures_returned"]] for arm in
                  ("without_thoughts", "strip"))  # fmt: skip
    assert own.equals(strip) and not own.equals(frame.loc["preserve"][own.columns])
    assert list(found.table().index) == ["preserve", "strip", "without_thoughts"]
    assert "<table" in found._repr_html_() and found.figure().get_axes() and found.reading()
    summary = json.loads(found.save(tmp_path / "saved").read_text("utf-8"))
    assert summary["arms"]["strip"]["redundant_mean"] == summary["arms"]["without_thoughts"]["redundant_mean"]
    assert (tmp_path / "trials.jsonl").is_file()


def test_parts_themselves_may_stand_in_an_arm(tmp_path):
    from gemlab.guards import RepeatedCall, TurnBudget

    arm = {"name": "mine", "history": without_thoughts, "pruning": lambda contents: list(contents)[:1],
           "guard": [TurnBudget(4), RepeatedCall(2)]}  # fmt: skip
    found = gemlab.run(["preserve", arm], task="ecpm", instances=3, out=str(tmp_path))
    mine = found.frame().query("arm == 'mine'")
    # Only the question is ever sent, so the first call comes again and again until the budget of four rounds.
    assert (
        mine.forced.all() and set(mine.outcome) == {"wrong"} and (mine.requests <= 5).all() and (mine.nudges > 0).all()
    )


def test_a_task_from_functions_is_toured_and_its_trace_measures_without_it(tmp_path):
    task = gemlab.task(sums)
    schema = task.declarations[0]["parametersJsonSchema"]
    assert schema["required"] == ["a"] and schema["properties"]["name"]["type"] == "string"
    found = gemlab.run(["preserve"], task=task, instances=2, model="gemini-3.6-flash", out=str(tmp_path))
    assert set(found.frame().outcome) == {"completed"} and (found.frame().calls > 1).all()
    code = textwrap.dedent(f"""
        from gemlab.runs import trace
        from gemlab.measure import metrics
        from pathlib import Path
        rows = metrics.frame(trace.read(Path({str(tmp_path / "trials.jsonl")!r})))
        print(rows.task.tolist() if "task" in rows else "", rows.calls.tolist(), rows.refetch.tolist())
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and str(found.frame().calls.tolist()) in done.stdout, done.stderr


def test_an_argument_that_does_not_fit_is_an_error_that_the_model_can_read():
    from gemlab.agent.loop import call_tool

    functions = sums(1).functions
    assert call_tool(functions, "add", {"a": 2}) == {"sum": 5}
    assert "validation error" in call_tool(functions, "add", {"a": "two"})["error"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"arms": ["perserve"]}, "unknown history strategy 'perserve' .did you mean preserve.*; known: preserve"),
        ({"arms": [3]}, "an arm is a strategy's name, the strategy itself or an object, not 3"),
        ({"arms": ["preserve", "preserve"]}, "every arm needs a name of its own: preserve"),
        ({"task": "ecmp"}, "unknown task 'ecmp' .did you mean ecpm"),
        ({"instances": "10"}, "instances is a whole number"),
        ({"instances": 0}, "instances is to start at 1, not at 0"),
        ({"model": "gpt-5"}, "unknown model 'gpt-5'; the emulator knows"),
        ({"backend": "sims"}, "unknown backend 'sims' .did you mean sim"),
        ({"backend": "sim:tuor"}, "unknown mind 'tuor' .did you mean tour"),
    ],
)
def test_bad_input_is_one_line_before_anything_runs(changes, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gemlab.BadInput, match=why) as refused:
        gemlab.run(**{"arms": ["preserve"], **changes})
    assert "\n" not in str(refused.value) and not list(tmp_path.iterdir())


# --- files ----------------------------------------------------------------------------------------------------------

# Each kind of part from a file, in at most fifteen lines.
PARTS = {
    "strategy": '''
        @gemlab.strategy
        def newest(contents, n: int):
            """Keep the signatures of the newest n contents."""
            def bare(content):
                parts = [{k: v for k, v in p.items() if k != "thoughtSignature"} for p in content["parts"]]
                return {**content, "parts": parts}
            return [bare(c) for c in contents[:-n]] + list(contents[-n:])
        ''',
    "pruning": '''
        @gemlab.pruning
        def first_and_last(contents, n: int = 4):
            """Keep the question and the newest n contents."""
            return [*contents[:1], *contents[1:][-n:]]
        ''',
    "guard": '''
        from gemlab.guards import Ladder, RepeatedCall, TurnBudget

        @gemlab.guard
        def strict(rounds: int):
            """Two equal calls are enough."""
            return [TurnBudget(rounds), RepeatedCall(2, Ladder(patience=1))]
        ''',
    "task": '''
        @gemlab.task
        def doubles(seed: int):
            """Double a number."""
            def double(n: int) -> int:
                """Return twice the number."""
                return 2 * n
            def check(answer, calls):
                return None if str(2 * seed) in answer else "not doubled"
            return gemlab.instance(f"Double {seed}.", [double], check)
        ''',
    "mind": '''
        import re
        from gemlab.emulator.minds.view import Reply

        @gemlab.mind
        class Doubler:
            """Doubles the number in the question."""
            def respond(self, view):
                number = int(re.search(r"\\d+", view.turns[0])[0])
                calls = [c for step in view.steps for c in step.calls]
                if calls:
                    return Reply("done", text=str(calls[0].response["result"]))
                return Reply("go", (("double", {"n": number}),))
        ''',
    "backend": '''
        from gemlab import backends

        @gemlab.backend
        def careful():
            """The emulator with a scripted model that never slips."""
            from gemlab.emulator.minds.scripted import Parameters
            app = backends.emulator(parameters=Parameters(repeat=0, quit=0, doubt=0, lose_thread=0))
            return backends.simulated(app, source=backends.Source("mind", "a model without slips: not Gemini"))
        ''',
    "importer": '''
        from gemlab.guards.rounds import Round
        from gemlab.replay.importers import Run

        @gemlab.importer
        def lines_of_mine(record, place):
            """Read {"mine": [[tool, result], …], "ok": bool}."""
            if not isinstance(record, dict) or "mine" not in record:
                return None
            rounds = tuple(Round(((tool, {}),), (result,)) for tool, result in record["mine"])
            return [Run(place, "mine", "m", record["ok"], "cap", (rounds,))]
        ''',
    "rule": '''
        from dataclasses import dataclass
        from gemlab.guards import Watch

        @gemlab.rule
        @dataclass(frozen=True)
        class SameTool(Watch):
            """The same tool in `limit` rounds in a row."""
            reason = "same_tool"
            def levels(self, seen):
                newest, streak = None, 0
                for now in seen:
                    tools = sorted({tool for tool, _ in now.errors})
                    newest, streak = tools, streak + 1 if tools == newest else 1
                    yield streak
        ''',
}  # fmt: skip


@pytest.fixture
def parts_file(tmp_path):
    def written(*kinds):
        texts = [textwrap.dedent(PARTS[kind]).strip() for kind in kinds]
        assert all(len([line for line in text.splitlines() if line.strip()]) <= 15 for text in texts)
        file = tmp_path / "my_parts.py"
        file.write_text("import gemlab\n\n" + "\n\n\n".join(texts) + "\n")
        return file

    return written


def command(*words, folder):
    code = "from gemlab.app.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=folder, timeout=240)


@pytest.mark.slow
def test_an_experiment_takes_parts_from_a_file(parts_file, tmp_path):
    parts_file("strategy", "pruning", "guard", "task", "mind", "backend")
    (tmp_path / "own.toml").write_text(
        'notebook = "signature_ab.ipynb"\nparts = ["my_parts.py"]\n'
        '[parameters]\nname = "own"\nbackend = "sim:Doubler"\n'
        'task = "doubles"\ninstances = 3\narms = ["preserve", { name = "b", history = "newest(2)", '
        'pruning = "first_and_last(n=6)", guard = "strict(9)" }]\n'
    )
    done = command("run", "own.toml", "--out", "out", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))
    assert summary["source"]["kind"] == "mind" and "Doubler" in summary["source"]["label"]
    assert all(arm["outcomes"]["completed"] == 3 for arm in summary["arms"].values())
    assert trace.read(tmp_path / "out" / "trials.jsonl")[0].arm.guard in ("budget", "strict(9)")
    careful = command("run", "own.toml", "--backend", "careful", "-p", "task=ecpm", "--out", "two", folder=tmp_path)
    assert careful.returncode == 0, careful.stderr
    label = json.loads((tmp_path / "two" / "summary.json").read_text("utf-8"))["source"]["label"]
    assert label == "a model without slips: not Gemini"
    listed = command("list", "--parts", "my_parts.py", folder=tmp_path).stdout
    for line in ("newest(n)", "first_and_last(n=4)", "strict(rounds)", "doubles", "Doubler", "careful"):
        assert f"  {line} " in listed
    unknown = command("run", "own.toml", "-p", 'arms=["newest"]', folder=tmp_path)
    assert unknown.returncode == 2 and unknown.stderr.count("\n") == 1
    assert "missing a required argument: 'n'; written newest(n)" in unknown.stderr


def test_a_sweep_takes_rules_and_importers_of_one_s_own(parts_file, tmp_path):
    from gemlab.guards.rounds import Round
    from gemlab.replay import firing, importers

    registry.load_parts([parts_file("importer", "rule")])
    (tmp_path / "runs.jsonl").write_text(
        json.dumps({"mine": [["a", i] for i in range(5)], "ok": False}) + "\n"
        + json.dumps({"mine": [["a", 1], ["b", 2], ["a", 3]], "ok": True}) + "\n"
    )  # fmt: skip
    read = importers.read([tmp_path / "runs.jsonl"])
    assert [(run.source, len(run.turns[0]), run.success) for run in read.runs] == [
        ("mine", 5, False),
        ("mine", 3, True),
    ]
    assert isinstance(read.runs[0].turns[0][0], Round)
    fires = firing.sweep(firing.index(read.runs), firing.named_rules(["SameTool"]), [2, 4, 6])
    assert fires.steps[:, 0].tolist() == [[1, 3, firing.NEVER], [firing.NEVER] * 3]


# --- an installed package -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_parts_of_an_installed_package_are_there(tmp_path):
    package = Path(__file__).parent / "data" / "own_package"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=package, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = textwrap.dedent(f"""
        import gemlab
        arm = {{"name": "own", "history": "newest_signed", "pruning": "halve(6)", "guard": "six"}}
        found = gemlab.run(["preserve", arm], "sums", 3, backend="sim:adder", out={str(tmp_path / "o")!r})
        print(found.frame().outcome.tolist(), found.summary()["source"]["label"])
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
                          env={"PATH": "", "PYTHONPATH": f"{tmp_path / 'site'}:{':'.join(sys.path)}"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(["completed"] * 6) + " mind 'adder' behind the emulator: not Gemini"
