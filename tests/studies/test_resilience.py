"""Faults, retries and fallbacks: who meets them, who survives them, and what is refused before."""

from __future__ import annotations

import dataclasses

import pytest

from gemlab.registry import BadInput
from gemlab.studies import base, resilience


def test_every_arm_meets_the_same_faults_and_only_the_right_way_survives_them(tmp_path, slept):
    arms = [{"name": "resend"}, {"name": "rebuild", "retry": "rebuild"}]
    troubles = {"none": [], "busy": [{"kind": "503", "step": 3}]}
    p = resilience.Parameters(arms=arms, troubles=troubles, instances=6)
    found = resilience.run(p, tmp_path)
    assert found.arms == ["none: resend", "none: rebuild", "busy: resend", "busy: rebuild"]
    table = resilience.table(found)
    assert table.loc[("none", "resend"), "completed"] == table.loc[("busy", "resend"), "completed"] > 0
    assert table.loc[("busy", "resend"), "resent"] == table.loc[("busy", "rebuild"), "resent"] > 0
    assert table.loc[("busy", "rebuild"), "refused"] > 0.5 and table.loc[("none", "rebuild"), "refused"] == 0
    assert any("refused: rebuild" in line for line in resilience.reading(found))
    figure = resilience.heat_maps(found)
    assert len(figure.axes) == 3 and "6 instances × 2 arms × 2 troubles" in figure.get_supxlabel()
    # Faults are no default settings: nothing of the article's figures.
    assert "90%" not in found.notes()[0].text
    again = dataclasses.replace(p, out=str(tmp_path), seed=2)
    with pytest.raises(ValueError, match="another seed"):
        resilience.STUDY.check(again)


def test_a_fault_of_the_requested_model_leaves_the_fallback_alone():
    p = resilience.Parameters()
    _, faults, _ = next(job for job in resilience._jobs(p) if "outage" in job[2][1])
    assert [fault.model for fault in faults] == ["gemini-3.6-flash"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"troubles": {}}, "there has to be a trouble"),
        ({"troubles": {"a": [{"kind": "nope"}]}}, "nope"),
        ({"troubles": {"a": "503"}}, "a list of faults"),
        ({"troubles": {"a: b": []}}, "a name without"),
        ({"troubles": {"a b": [], "a-b": []}}, "differ in more than signs"),
        ({"arms": [{"name": "x", "retry": "nope"}]}, "retry"),
        ({"backend": "gemini"}, "resilience uses sim alone, not gemini: the faults are the embedded emulator's"),
    ],
)
def test_what_is_no_trouble_is_refused_in_one_line(options, says):
    with pytest.raises(BadInput, match=says) as error:
        base.check(resilience.STUDY, options)
    assert "\n" not in str(error.value)
