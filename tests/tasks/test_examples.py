import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from gemlab import tasks
from gemlab.tasks import Called, Plan, examples

NEW = ["ecpm-handles", "triage", "relay"]
# Of the tasks with one user message those whose instances are not few; a chain of any length will do.
SHOWN = ["ecpm", *NEW, "chain(4)", "flaky", "polling", "paging"]


def as_text(worked):
    return json.dumps([worked.question, [(s.calls, s.results) for s in worked.steps], worked.answer])


# --- one example --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_is_a_run_that_the_instance_accepts(name):
    task = tasks.get(name)
    for seed in range(-30, 10):
        worked, instance = examples.of(task, seed), task.instance(seed)
        called = [Called(*call, r) for s in worked.steps for call, r in zip(s.calls, s.results, strict=True)]
        assert instance.check(worked.answer, called) is None
        assert (worked.question,) == instance.messages and worked.tools == {d["name"] for d in task.declarations}
        # The results are the tools' own: a fresh instance gives the same, call by call.
        assert [instance.functions[c.name](**c.args) for c in called] == [c.response for c in called]
        assert all(s.calls and len(s.calls) == len(s.results) for s in worked.steps)


def test_a_step_is_repeated_until_it_is_done():
    for seed in range(-20, 0):
        states = [s.results[0]["state"] for s in examples.of(tasks.get("polling"), seed).steps]
        assert states == ["running"] * (len(states) - 1) + ["done"] and 6 <= len(states) <= 15
        failures = ["error" in s.results[0] for s in examples.of(tasks.get("flaky"), seed).steps]
        assert failures == [True] * (len(failures) - 1) + [False] and 2 <= len(failures) <= 5


def test_calls_in_parallel_are_one_step():
    steps = [examples.of(tasks.get("ecpm"), seed).steps for seed in range(-20, 0)]
    assert {len(s) for s in steps} == {4} and {len(s[3].calls) for s in steps} == {1, 2}


@pytest.mark.parametrize("name", NEW)
def test_a_thought_is_a_short_sentence_with_the_values_at_hand(name):
    for seed in range(-60, 60):
        worked = examples.of(tasks.get(name), seed)
        thoughts = [*(s.thought for s in worked.steps), worked.thought]
        assert all(len(t.split()) < 20 and t[-1] == "." and len(t) < 120 for t in thoughts)
        assert len(set(thoughts)) == len(thoughts)
        for step, thought in zip(worked.steps, thoughts, strict=False):
            assert all(str(value) in thought for _, args in step.calls for value in args.values())


def test_without_a_thought_of_its_own_a_step_has_its_reason():
    task = tasks.get("ecpm")
    worked = examples.of(task, -1)
    assert [s.thought for s in worked.steps] == [s.why for s in task.plan.steps]
    assert worked.thought == "everything asked for is there"


# --- what cannot be worked ----------------------------------------------------------------------------------


def altered(name, **changes):
    task = tasks.get(name)
    return replace(task, plan=replace(task.plan, **changes))


def early(turns):
    return 2, lambda facts: "2026-11-01"


def never(name):
    plan = tasks.get(name).plan
    return tuple(replace(step, until=lambda facts: False) for step in plan.steps)


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (tasks.get("ecpm-two-turns"), "ecpm-two-turns: an example has one user message, not 2"),
        (tasks.get("chain(4,turns=2)"), "an example has one user message, not 2"),
        (altered("ecpm", goal=early), "leads to a wrong run: not done on the right values: find_outliers, lookup"),
        (altered("ecpm-handles", goal=lambda t: (4, lambda f: "unity 9.99")), "leads to a wrong run: "),
        (altered("triage", steps=tasks.get("triage").plan.steps[1:]), "the plan cannot be followed: "),
        (altered("polling", steps=never("polling")), "start_export is not done after 30 tries"),
    ],
)
def test_what_leads_to_no_right_run_is_refused(task, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        examples.of(task, -1)


# --- all examples -------------------------------------------------------------------------------------------


def test_every_set_of_tools_has_as_many_examples_as_asked_for():
    for count in (0, 1, 3):
        made = tasks.worked(count)
        assert sorted(sorted(w.tools) for w in made) == sorted(
            sorted(tasks.get(n).plan.tools) for n in SHOWN for _ in range(count)
        )
        assert len({as_text(w) for w in made}) == len(made)
    assert {len(w.steps) for w in tasks.worked(3) if w.tools == {"open_record"}} == {4}
    assert tasks.worked(2) == tasks.worked(2)


def test_no_trial_has_the_instance_of_an_example():
    made = {w.question: as_text(w) for w in tasks.worked(3)}
    assert len(made) >= 3 * len(SHOWN) - 2
    for name in tasks.names():
        task = tasks.get(name)
        for seed in [*range(200), *range(100_000, 100_200)]:
            instance = task.instance(seed)
            if len(instance.messages) == 1 and instance.messages[0] in made:
                assert as_text(examples.of(task, seed)) != made[instance.messages[0]]


@pytest.mark.parametrize("name", ["search", "dead-end"])
def test_a_task_of_few_instances_has_no_example(name):
    """Any example of it is the instance of some trial."""
    task = tasks.get(name)
    assert task.plan.tools not in {w.tools for w in tasks.worked(1)}
    assert examples.of(task, -1) in [examples.of(task, seed) for seed in range(400)]


def test_a_plan_may_have_neither_place_nor_conclusion():
    plan = Plan((), lambda turns: (0, lambda facts: ""))
    assert (plan.place, plan.conclude, plan.tools) == (None, None, frozenset())


def test_importing_the_tasks_makes_no_example():
    code = "import sys, gemlab.tasks; print([m for m in sys.modules if m.startswith('gemlab.tasks.')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "['gemlab.tasks.base', 'gemlab.tasks.functions']"
