"""The command `sweep`: the table printed, and the same numbers in the file."""

import csv
import json

import pytest

from gemlab.app import cli, sweeping
from gemlab.registry import BadInput


def line(ident, results, success, end=None):
    calls = [{"r": i, "name": "get", "args": "{}", "result": r, "err": False} for i, r in enumerate(results)]
    return json.dumps({"id": ident, "source": "s", "model": "m", "success": success, "end": end, "segs": [calls]})


@pytest.fixture
def traces(tmp_path):
    path = tmp_path / "runs.jsonl"
    lines = [line("h1", "xxx", True), line("h2", "xyz", True), line("c", "xxxxx", False, "cap"), "{broken"]
    path.write_text("\n".join(lines))
    return str(path)


def test_the_table_in_the_terminal_and_the_file(traces, tmp_path):
    said = sweeping.sweep([traces], ["result", "args", "result"], 0.0, str(tmp_path / "out"))
    cells = {row[:12].strip(): row.split() for row in said.splitlines() if " ≥ " in row[:12]}
    assert list(cells) == [f"{rule} ≥ {n}" for rule in ("result", "args") for n in (2, 3, 4, 5)]
    assert "1/2" in cells["result ≥ 3"] and "2/2" in cells["args ≥ 3"] and "0/2" in cells["result ≥ 4"]
    assert "result: 4 catches 100%, stops 0.0% of the healthy runs" in said
    assert "would have gone on unchanged" in said and "1 not read: not JSON (first: runs.jsonl, line 4)" in said
    with (tmp_path / "out" / "sweep.csv").open(encoding="utf-8") as file:
        rows = {(r["rule"], int(r["threshold"])): r for r in csv.DictReader(file)}
    assert len(rows) == 40
    assert (rows["args", 3]["healthy_fired"], rows["args", 3]["capped_fired"]) == ("2", "1")
    assert float(rows["result", 3]["stopped"]) == 0.5 and rows["args", 4]["calls_saved"] == "1"
    assert (tmp_path / "out" / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_an_error_says_what_was_not_read(tmp_path):
    anthropic = {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "a", "input": {}}]}]}
    path = tmp_path / "runs.jsonl"
    unread = "2 not read: Anthropic tool_use blocks (first: runs.jsonl, line 1)"
    path.write_text("\n".join([json.dumps(anthropic)] * 2 + [line("f", "xx", False), line("idle", "", False)]))
    with pytest.raises(BadInput) as failed:
        sweeping.sweep([str(path)], [], 0.01, str(tmp_path / "out"))
    reason, *beside = str(failed.value).split("; ")
    assert reason.startswith("no run is labelled a success")
    assert beside == [unread, "1 of 2 runs are without a call (first: idle)"]
    path.write_text("\n".join([json.dumps(anthropic)] * 2 + [line("idle", "", True)]))
    with pytest.raises(BadInput) as failed:
        sweeping.sweep([str(path)], [], 0.01, str(tmp_path / "out"))
    assert str(failed.value) == f"no calls in these files; {unread}; 1 of 1 runs are without a call (first: idle)"


def test_runs_without_a_call_are_counted_beside_the_table(traces, tmp_path):
    with open(traces, "a", encoding="utf-8") as file:
        file.write("\n" + line("idle", "", True))
    said = sweeping.sweep([traces], [], 0.0, str(tmp_path / "out"))
    assert "1 of 4 runs are without a call (first: idle)" in said


def test_a_set_in_which_nothing_fires(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text(line("h", "x", True))
    assert "No rule fires in any run." in sweeping.sweep([str(path)], [], 0.01, str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("paths", "rules", "tolerance", "why"),
    [
        (["nowhere"], [], 0.01, "no traces at nowhere"),
        (None, ["loop"], 0.01, "unknown rule 'loop'; known: args, result"),
        (None, [], 1.5, "from 0 to 1"),
        (["pyproject.toml"], [], 0.01, "no runs in these files; .* not read: not JSON"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_folder(traces, tmp_path, paths, rules, tolerance, why, request):
    paths = [str(request.config.rootpath / p) if p == "pyproject.toml" else p for p in paths or [traces]]
    with pytest.raises(BadInput, match=why):
        sweeping.sweep(paths, rules, tolerance, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_the_command_hands_its_arguments_on(traces, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gemlab", "sweep", traces, "--rule", "args", "--out", str(tmp_path / "o")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0 and "args ≥ 3" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["gemlab", "sweep", traces, "--tolerance", "2"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2 and capsys.readouterr().err.count("\n") == 1
