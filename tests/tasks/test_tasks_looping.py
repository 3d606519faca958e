"""The tasks that loop, run by the scripted model, with guards and without."""

import asyncio
from collections import Counter

import pytest

from gemlab import backends, tasks
from gemlab.agent import loop
from gemlab.emulator.minds import notices
from gemlab.emulator.minds.scripted import Parameters
from gemlab.emulator.minds.view import read
from gemlab.runs import trials
from gemlab.wire import families

STEADY = Parameters(repeat=0.0, quit=0.0, doubt=0.0, lose_thread=0.0)
LOOPING = ("dead-end", "flaky", "polling", "paging")


def play(task, guard, parameters=STEADY, instances=12, model="gemini-2.5-flash"):
    backend = backends.simulated(backends.emulator(parameters=parameters))
    specs = trials.plan([{"name": "x", "guard": guard}], task, model, instances)
    return [asyncio.run(loop.run(backend, spec)) for spec in specs]


@pytest.mark.parametrize("task", LOOPING)
def test_a_steady_model_completes_without_a_guard(task):
    assert {t.outcome for t in play(task, "off")} == {"completed"}


@pytest.mark.parametrize("task", ["polling", "paging", "dead-end"])
def test_the_default_guards_say_nothing_of_a_healthy_run(task):
    trials_ = play(task, "default")
    assert {t.outcome for t in trials_} == {"completed"}
    assert not any(r.verdicts for t in trials_ for r in t.rounds)


def test_a_job_that_finishes_late_is_stopped_by_the_article_and_not_by_the_default():
    """The tool declares that it polls; the article's rules know of no declarations."""
    steady = [len(t.rounds) for t in play("polling", "default")]
    assert min(steady) >= 6 and max(steady) >= 12
    heard = [v.reason for t in play("polling", "article") for r in t.rounds for v in r.verdicts]
    assert Counter(heard)["repeated_call"] >= 12


def test_a_loop_goes_on_until_a_guard_ends_it():
    stuck = Parameters(repeat=1.0, quit=0.0, heed=0.0, loop=1.0)
    assert {len(t.rounds) for t in play("dead-end", "budget", stuck, 2)} == {20}
    ended = play("dead-end", "default", stuck, 3)
    assert {len(t.rounds) for t in ended} == {5} and all(t.forced for t in ended)


def test_proneness_to_loops_makes_loops_of_slips_and_heeded_notices_end_them():
    slips = Parameters(repeat=0.3, quit=0.0, heed=1.0)
    prone = Parameters(repeat=0.3, quit=0.0, heed=1.0, loop=1.0)
    longest = [max(len(t.rounds) for t in play("dead-end", "budget", p, 12)) for p in (slips, prone)]
    assert longest[0] < 12 and longest[1] == 20
    ended = play("dead-end", "default", prone)
    assert {t.outcome for t in ended} == {"completed"}
    assert any(v.kind == "nudge" for t in ended for r in t.rounds for v in r.verdicts)


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3.8-flash"])
def test_a_notice_as_user_text_is_heeded_and_is_no_question(model):
    prone = Parameters(repeat=0.3, quit=0.0, doubt=0.0, lose_thread=0.0, heed=1.0, loop=1.0)
    ended = play("dead-end", "nudge_text", prone, model=model)
    assert {t.outcome for t in ended} == {"completed"}
    assert any(v.place == "user_text" for t in ended for r in t.rounds for v in r.verdicts)


def test_a_text_right_after_responses_is_a_notice_and_no_question():
    def user(text):
        return {"role": "user", "parts": [{"text": text}]}

    called = {"role": "model", "parts": [{"functionCall": {"name": "a", "args": {}, "id": "1"}}]}
    answered = {"role": "user", "parts": [{"functionResponse": {"name": "a", "id": "1", "response": {}}}]}
    said = {"role": "model", "parts": [{"text": "done"}]}
    body = {"contents": [user("one"), called, answered, user("stop that"), said, user("two")]}
    view = read(body, families.profile("gemini-2.5-flash"))
    assert notices.questions(view) == ("one", "two") and not notices.is_noticed(view)
    assert notices.is_noticed(read({"contents": body["contents"][:4]}, families.profile("gemini-2.5-flash")))


def test_a_heeded_notice_ends_retries_too():
    """What heeding costs: a retry that would have helped is given up."""
    ended = play("flaky", "default", Parameters(repeat=0.0, quit=0.0, heed=1.0))
    failures = [sum("error" in str(r.results) for r in t.rounds) for t in ended]
    assert {t.outcome for t, n in zip(ended, failures, strict=True) if n < 3} == {"completed"}
    assert {t.outcome for t, n in zip(ended, failures, strict=True) if n >= 3} == {"wrong"}


def test_nothing_measured_before_changes():
    assert Parameters().loop == 0.0


def test_tools_declare_polling():
    assert {n for n in tasks.names() for i in tasks.get(n).identities.values() if i.polling} == {"polling"}
