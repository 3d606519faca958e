"""The explorer: its numbers by hand, and its sliders in a real JupyterLab in a headless browser."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from gemlab.guards.rounds import Round
from gemlab.replay import explorer, firing, importers, thresholds
from gemlab.replay.explorer import Explorer, Setting
from gemlab.replay.explorer_widget import ExplorerWidget
from gemlab.replay.firing import NEVER
from gemlab.replay.importers import Run


def run(ident, results, success, end=None, source="s"):
    turn = tuple(Round((("get", {"q": "<b>"}),), (r,)) for r in results)
    return Run(ident, source, "m", success, end, (turn,))


RUNS = [
    run("h1", ["x"] * 3, True),
    run("h2", ["x", "y", "z"], True),
    run("h3", ["x"], True, source="t"),
    run("c1", ["x"] * 8, False, "max_steps"),
    run("c2", ["x", "x", "y", "x", "x", "y", "x"], False, "cap"),
    run("f1", ["x", "y"], False, source="t"),
    run("h1", ["x"] * 4, True),
]


@pytest.fixture(scope="module")
def small():
    return Explorer(RUNS)


def test_a_setting_by_hand(small):
    shown = small.show(Setting("result", 3))
    assert shown.counts == {"healthy": (2, 4), "capped": (2, 2), "failing": (0, 1), "unlabelled": (0, 0)}
    assert (shown.kind, shown.caught[0], shown.stopped[0]) == ("capped", 1.0, 0.5)
    # c1 has five calls after its third, c2's third x is its fourth call of seven.
    assert shown.calls_saved == 5 + 3
    assert shown.curve[:4] == ((2, 0.5, 1.0), (3, 0.5, 1.0), (4, 0.25, 1.0), (5, 0.0, 1.0))
    assert shown.flips == () and shown.flipped == 0


@pytest.mark.parametrize(
    ("setting", "fired"),
    [
        (Setting("args", 3), {0, 1, 3, 4, 6}),
        (Setting("result", 3, "consecutive"), {0, 3, 6}),
        (Setting("result", 3, "turn", 4), {0, 3, 4, 6}),
        (Setting("result", 4, "turn", 4), {3, 6}),
        (Setting("cycle", 2), {0, 3, 4, 6}),
        (Setting("stall", 3), {0, 3, 6}),
        (Setting("rounds", 7), {3, 4}),
        (Setting("args", 2, source="t"), {5}),
    ],
)
def test_scope_window_rule_and_data_set_each_have_an_effect(small, setting, fired):
    assert set(np.flatnonzero(small.fired(setting)).tolist()) == fired


def test_the_numbers_are_those_of_the_sweep():
    fires = firing.sweep(firing.index(RUNS), firing.named_rules(firing.RULES.names()))
    rows = thresholds.table(fires).set_index(["rule", "threshold"])
    small = Explorer(RUNS)
    for rule in explorer.RULES:
        for n in (2, 3, 5, 8):
            shown, row = small.show(Setting(rule, n)), rows.loc[(rule, n)]
            assert (shown.counts["healthy"][0], shown.counts["capped"][0]) == (row.healthy_fired, row.capped_fired)
            assert shown.stopped == (row.stopped, row.stopped_low, row.stopped_high)
            assert shown.calls_saved == row.calls_saved


def test_the_runs_that_flip_are_named_with_their_place(small):
    shown = small.show(Setting("result", 4), Setting("result", 3))
    assert shown.flips == (("h1", 0),) and shown.flipped == 1
    # Runs of the same name are told apart.
    assert small.show(Setting("result", 5), Setting("result", 4)).flips == (("h1", 6),)
    assert small.show(Setting("args", 3, source="t"), Setting("args", 2)).flips == (("f1", 5),)


def test_a_threshold_that_cannot_fire_says_so(small):
    assert "never fire: the window holds 4" in explorer.numbers(small.show(Setting("args", 5, "turn", 4)))
    for setting in (
        Setting("args", 4, "turn", 4),
        Setting("args", 5, "consecutive", 4),
        Setting("stall", 5, "turn", 4),
    ):
        assert small.show(setting).never == ""


def test_the_timeline_marks_the_round_and_escapes_what_tools_gave(small):
    text = small.timeline(3, Setting("result", 4))
    assert "fires in round 4 of 8" in text and text.count("▶") == 1 and "<b>" not in text.split("<table")[1]
    assert "▶ 4" in text and "&lt;b&gt;" in text
    assert "does not fire" in explorer.timeline(RUNS[1], NEVER)
    empty = Run("e", "s", "m", None, None, ((Round((), empty="no parts"),), (Round((("a", {}),)),)))
    assert "no parts" in explorer.timeline(empty) and "turn 2" in explorer.timeline(empty)


def test_the_figure_shows_the_setting(small):
    at = [re.search(r"gemlab-here' cx='([\d.]+)' cy='([\d.]+)'", explorer.figure(small.show(s))) for s in SETTINGS]
    assert all(at) and at[0].groups() != at[1].groups()
    assert "gemlab-here" not in explorer.figure(small.show(Setting(source="nowhere")))


SETTINGS = (Setting("rounds", 3), Setting("rounds", 8))


def test_moving_a_control_changes_figure_numbers_and_list():
    widget = ExplorerWidget(RUNS)
    before = widget.figure.value, widget.numbers.value
    widget.controls["threshold"].value = 4
    assert widget.figure.value != before[0] and "1 of 4" in widget.numbers.value
    assert widget.flips.options == (("h1", 0),)
    widget.flips.value = 0
    assert "does not fire" in widget.timeline.value
    widget.controls["rule"].value = "stall"
    assert widget.timeline.value == "" and widget.controls["window"].disabled
    widget.controls["source"].value = "t"
    assert "of 1" in widget.numbers.value


# --- in a browser -------------------------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def notebook(folder, traces):
    code = "from gemlab.replay import importers\nfrom gemlab.replay.explorer_widget import ExplorerWidget\n"
    code += f"ExplorerWidget(importers.read([{str(traces)!r}]).runs)"
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "execution_count": None, "outputs": [], "source": code}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    book = {"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "explorer.ipynb").write_text(json.dumps(book))


@pytest.fixture
def lab(tmp_path, shared):
    """A JupyterLab of its own, without a token, on a free port, that holds a notebook with the explorer."""
    notebook(tmp_path, shared / "data" / "traces" / "fireact.jsonl.gz")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
    ]
    command += [
        f"--ServerApp.root_dir={tmp_path}",
        "--IdentityProvider.token=",
        "--ServerApp.password=",
        "--allow-root",
    ]
    homes = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR")}
    server = subprocess.Popen(
        command, env={**os.environ, **homes}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(url)
        yield url
    finally:
        server.terminate()
        server.wait(30)


def _wait_for(url, seconds=90):
    for _ in range(2 * seconds):
        try:
            with urllib.request.urlopen(f"{url}/api/status"):
                return
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(f"no JupyterLab at {url}")


def _run_cell_until(page, selector, tries=10):
    """Run the cell until its output is there: JupyterLab drops a run that comes before its kernel."""
    from playwright.sync_api import TimeoutError as Late

    for _ in range(tries):
        page.click(".jp-Cell .cm-content")
        page.keyboard.press("Control+Enter")
        try:
            page.wait_for_selector(selector, timeout=15_000)
            return
        except Late:
            continue
    pytest.fail(f"no {selector} after {tries} runs of the cell: {page.inner_text('.jp-NotebookPanel')[:400]}")


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM and not os.environ.get("CI"), reason="needs Chromium; CI has it")
def test_moving_a_slider_in_jupyterlab_changes_the_figure_and_the_numbers(lab):
    from playwright.sync_api import sync_playwright

    kept = Path(os.environ.get("GEMLAB_ARTEFACTS") or Path(__file__).parents[2] / "runs" / "explorer")
    kept.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 1100})
        page.goto(f"{lab}/lab/tree/explorer.ipynb?reset")
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=90_000)
        _run_cell_until(page, ".gemlab-curve")
        before = page.inner_html(".gemlab-curve"), page.inner_text(".gemlab-numbers")
        assert "503" in before[1], "the healthy runs of the set"
        page.focus(".widget-slider .noUi-handle")
        page.keyboard.press("ArrowRight")
        page.wait_for_function("old => document.querySelector('.gemlab-numbers').innerText != old", arg=before[1])
        after = page.inner_html(".gemlab-curve"), page.inner_text(".gemlab-numbers")
        # By name, arguments and result: 2 successes and 32 failures at 3, none and 15 at 4.
        assert "2 of 503" in before[1] and "32 of 961" in before[1]
        assert "0 of 503" in after[1] and "15 of 961" in after[1] and after[0] != before[0]
        page.click(".widget-select select option")
        page.wait_for_selector(".gemlab-timeline")
        assert "does not fire" in page.inner_text(".gemlab-timeline")
        page.screenshot(path=str(kept / "explorer.png"))
        browser.close()
    assert (kept / "explorer.png").stat().st_size > 20_000


def test_the_set_in_the_browser_is_the_one_counted(shared):
    got = importers.read([shared / "data" / "traces" / "fireact.jsonl.gz"])
    rows = thresholds.table(firing.sweep(firing.index(got.runs))).set_index(["rule", "threshold"])
    assert tuple(rows.loc[("result", 3), ["healthy_fired", "failing_fired"]]) == (2, 32)
