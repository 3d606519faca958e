import inspect
import re

import pytest

from gemlab import tasks
from gemlab.tasks import Called, Facts, search
from gemlab.tasks.base import matched
from gemlab.wire.contents import is_error

ECPM = tasks.get("ecpm")


def record(instance):
    """A caller of the instance's tools, and the list in which it keeps what it called."""
    called = []

    def do(name, **args):
        called.append(Called(name, args, instance.functions[name](**args)))
        return called[-1].response

    return do, called


def solve(seed, task="ecpm"):
    """Do the task by hand: the instance, the right calls in order, and the lines of the answer by day."""
    instance = tasks.get(task).instance(seed)
    app = re.search(r"app-\d+", instance.messages[0])[0]
    do, called = record(instance)
    fetched = do("fetch_ecpm", app=app, days=7)
    bounds = do("estimate_range", values=fetched["ecpm"])
    found = do("find_outliers", dates=fetched["dates"], values=fetched["ecpm"], **bounds)
    lines = {}
    for day in found["days"]:
        one = do("lookup_mediation", app=app, date=day)
        lines[day] = f"{day}: {' > '.join(one['waterfall'])}, floor ${one['floor']:g}"
    return instance, called, lines


TWO_DAYS = next(seed for seed in range(50) if len(solve(seed)[2]) == 2)


# --- the four steps -----------------------------------------------------------------------------------------


def median(values):
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle]  # of seven


def test_one_or_two_days_stand_out_and_they_are_the_changed_ones():
    counts = []
    for seed in range(400):
        instance, called, lines = solve(seed)
        fetched = called[0].response
        values, app = fetched["ecpm"], called[0].args["app"]
        centre = median(values)
        width = 5 * median([abs(v - centre) for v in values])
        outside = [d for d, v in zip(fetched["dates"], values, strict=True) if abs(v - centre) > width + 0.006]
        settings = [instance.functions["lookup_mediation"](app, d) for d in fetched["dates"]]
        assert outside == [s["date"] for s in settings if s["changed"]] == list(lines)
        counts.append(len(outside))
    assert set(counts) == {1, 2} and 0.4 < counts.count(2) / len(counts) < 0.6


def test_instances_differ_by_seed_and_only_by_it():
    def made(seed):
        _, called, lines = solve(seed)
        return str([(c.args, c.response) for c in called]), lines

    assert made(1) == made(1)
    assert len({made(seed)[0] for seed in range(50)}) == 50


@pytest.mark.parametrize("task", ["ecpm", "ecpm-two-turns"])
def test_the_right_run_is_accepted(task):
    for seed in range(60):
        instance, called, lines = solve(seed, task)
        assert instance.check("\n".join(lines.values()), called) is None
        # Doing a step again, or trying one on something else first, is a waste but no mistake.
        again = [called[0], called[0], *called[1:3], called[1], *called[3:], called[-1]]
        assert instance.check(f"These: {'; '.join(lines.values())}.", again) is None


def without(name):
    return lambda called: [c for c in called if c.name != name]


def swapped(i, j):
    def swap(called):
        called[i], called[j] = called[j], called[i]
        return called

    return swap


def changed(index, **args):
    def change(called):
        old = called[index]
        called[index] = Called(old.name, {**old.args, **args}, old.response)
        return called

    return change


def failing(index):
    def fail(called):
        called[index] = Called(called[index].name, called[index].args, {"error": "timeout"})
        return called

    return fail


@pytest.mark.parametrize(
    ("break_calls", "why"),
    [
        (lambda called: [], "not done on the right values: fetch_ecpm, estimate_range, find_outliers, lookup"),
        (without("fetch_ecpm"), "not done on the right values: fetch_ecpm$"),
        (without("estimate_range"), "not done on the right values: estimate_range$"),
        (without("find_outliers"), "not done on the right values: find_outliers$"),
        (without("lookup_mediation"), "not done on the right values: lookup_mediation$"),
        (lambda called: called[:-1], "not done on the right values: lookup_mediation$"),
        (swapped(0, 1), "estimate_range before fetch_ecpm"),
        (swapped(1, 2), "find_outliers before estimate_range"),
        (swapped(2, 3), "lookup_mediation before find_outliers"),
        (changed(0, days=6), "not done on the right values: fetch_ecpm$"),
        (changed(1, values=[1.0, 2.0]), "not done on the right values: estimate_range$"),
        (changed(2, high=99), "not done on the right values: find_outliers$"),
        (changed(3, date="2026-11-30"), "not done on the right values: lookup_mediation$"),
        (failing(1), "not done on the right values: estimate_range$"),
    ],
)
def test_a_run_with_a_wrong_step_is_not_accepted(break_calls, why):
    instance, called, lines = solve(TWO_DAYS)
    assert re.match(why, instance.check("\n".join(lines.values()), break_calls(list(called))))


def other_settings(lines):
    (day, line), (other, second) = lines.items()
    return [line.replace(day, other), second.replace(other, day)]


@pytest.mark.parametrize(
    ("say", "why"),
    [
        (lambda lines: [], "names the days"),
        (lambda lines: list(lines.values())[:1], "names the days"),
        (lambda lines: [*lines.values(), "2026-12-24: unity, floor 1.00"], "names the days"),
        (other_settings, "settings not named"),
        (lambda lines: list(lines), "settings not named: .*floor"),
        (lambda lines: [re.sub(r"\$.*", "$99.99", line) for line in lines.values()], "settings not named: floor"),
        (lambda lines: [re.sub(r": \w+", ":", line) for line in lines.values()], "settings not named: [a-z]+$"),
    ],
)
def test_a_wrong_answer_is_not_accepted(say, why):
    instance, called, lines = solve(TWO_DAYS)
    assert re.search(why, instance.check("\n".join(say(lines)), called))


def test_a_floor_of_whole_dollars_may_be_written_so():
    seed = next(s for s in range(2000) if any(re.search(r"\$\d$", line) for line in solve(s)[2].values()))
    instance, called, lines = solve(seed)
    assert instance.check("\n".join(lines.values()), called) is None


def test_in_two_turns_the_days_come_second():
    messages = tasks.get("ecpm-two-turns").instance(5).messages
    assert len(messages) == 2 and "estimate the normal range" in messages[0] and "mediation" in messages[1]
    assert re.findall(r"app-\d+", messages[0]) == re.findall(r"app-\d+", ECPM.instance(5).messages[0])
    goal = tasks.get("ecpm-two-turns").plan.goal
    assert [goal(messages[:n])[0] for n in (1, 2)] == [2, 4]
    assert goal(ECPM.instance(5).messages)[0] == 4


def test_tools_tell_what_they_cannot_do():
    functions = ECPM.instance(1).functions
    assert "unknown app" in functions["fetch_ecpm"]("app-0", 7)["error"]
    assert "no settings" in functions["lookup_mediation"]("app-0", "2026-11-01")["error"]
    assert functions["find_outliers"](["a"], [1, 2], 0, 1) == {"error": "1 dates but 2 values"}


# --- search -------------------------------------------------------------------------------------------------

PAGES = [d for d in search.corpus() if d["kind"] == "facts"]


@pytest.mark.parametrize("number", range(len(PAGES)))
def test_the_first_query_leads_to_the_second(number):
    instance = tasks.get("search").instance(number)
    page = next(p for p in PAGES if p["facts"]["founder"] in instance.messages[0])
    first = search.web_search(f"observatory founded by {page['facts']['founder']}")
    second = search.web_search(first["next_suggestion"])
    for found in (first, second):
        assert set(found) == {"results", "total_found", "status", "next_suggestion"}
        assert 1 <= len(found["results"]) <= 3 and found["total_found"] >= len(found["results"])
        assert all(set(r) == {"title", "snippet"} for r in found["results"])
    assert first["status"] == "insufficient"
    assert not any(page["facts"]["mirror"] in r["snippet"] for r in first["results"][:1])
    assert (second["status"], second["next_suggestion"]) == ("sufficient", None)
    assert f"diameter of {page['facts']['mirror']} metres" in second["results"][0]["snippet"]


def test_a_page_is_sufficient_only_where_its_whole_title_was_asked_for():
    for page in PAGES:
        place = page["title"].removesuffix(" instruments")
        found = search.web_search(f"{place} altitude mirror metres")
        assert found["results"][0]["title"] == page["title"]
        assert (found["status"], found["next_suggestion"]) == ("insufficient", page["title"])


def test_a_query_without_results_says_what_to_do():
    assert search.web_search("zzz") == {
        "results": [],
        "total_found": 0,
        "status": "insufficient",
        "next_suggestion": "name the person or the place",
    }


def test_the_checker_wants_the_number_and_that_it_was_read():
    page, other = PAGES[0], PAGES[1]
    instance = next(i for n in range(99) if page["facts"]["founder"] in (i := search._instance(n)).messages[0])
    do, called = record(instance)
    do("web_search", query=page["title"])
    unread = [Called("web_search", {"query": "x"}, search.web_search("x")), Called("web_search", {}, {"error": "e"})]
    right = page["facts"]["mirror"]
    assert instance.check(f"It measures {right} m.", called) is None
    assert instance.check(f"Opened in 1900, {float(right):.3f} metres.", called) is None
    assert instance.check(f"It measures {other['facts']['mirror']} m.", called) == f"the diameter is {float(right)}"
    assert instance.check("I do not know.", called) == f"the diameter is {float(right)}"
    assert instance.check(f"It measures {right} m.", unread) == "no sufficient result was read"


# --- all tasks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tasks.names())
def test_the_plan_leads_to_an_accepted_answer(name):
    task = tasks.get(name)
    for seed in range(30):
        instance = task.instance(seed)
        do, called = record(instance)
        results = {}
        facts = Facts(instance.messages[0], results)
        for n in range(1, len(instance.messages) + 1):
            end, answer = task.plan.goal(instance.messages[:n])
            for i in range(len(results), end):
                step = task.plan.steps[i]
                for _ in range(20):
                    results[i] = [do(step.tool, **args) for args in step.args(facts)]
                    if not any(is_error(r) for r in results[i]) and (step.until is None or step.until(facts)):
                        break
        assert instance.check(answer(facts), called) is None


@pytest.mark.parametrize("name", tasks.names())
def test_every_tool_is_declared_as_it_is(name):
    task = tasks.get(name)
    functions = task.instance(0).functions
    assert [d["name"] for d in task.declarations] == list(functions)
    for declared in task.declarations:
        schema = declared["parametersJsonSchema"]
        parameters = list(inspect.signature(functions[declared["name"]]).parameters)
        assert list(schema["properties"]) == schema["required"] == parameters
    assert task.first_tool == task.declarations[0]["name"]


def test_the_declared_tools_tell_which_plan_is_meant():
    sets = [plan.tools for plan in tasks.plans()]
    assert not [(a, b) for a in sets for b in sets if a is not b and a & b]


def test_tasks_by_name():
    looping = ["dead-end", "flaky", "polling", "paging"]
    steps = ["ecpm", "ecpm-two-turns", "ecpm-handles", "triage", "relay", "search", "chain(20)", "chain(20,turns=4)"]
    assert tasks.names() == [*steps, *looping]
    assert len(tasks.plans()) == 10
    with pytest.raises(
        ValueError, match="unknown task 'chess'; known: ecpm, ecpm-two-turns, ecpm-handles, triage, relay, "
    ):
        tasks.get("chess")


@pytest.mark.parametrize(("pattern", "text"), [(r"d-(\d+)", "from d-12 to d-34"), (r"\d+", "from d-12 to d-34")])
def test_a_value_is_read_from_the_question_by_its_first_match(pattern, text):
    assert matched(pattern, text) == "12"
    with pytest.raises(LookupError, match="nothing matches"):
        matched(pattern, "nowhere")
