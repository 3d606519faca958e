import copy

import pytest
from google.genai import types

from gemlab import backends, tasks
from gemlab.agent import loop, summaries
from gemlab.agent.summaries import ASK, INTRODUCTION, Summarise, Summary
from gemlab.emulator.minds.scripted import Parameters
from gemlab.runs import trials
from gemlab.wire import answers, families, rules
from gemlab.wire import contents as wire


def user(text):
    return {"role": "user", "parts": [{"text": text}]}


def step(name):
    signature = wire.encode_signature(f"thought of {name}".encode())
    return [
        {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}, "thoughtSignature": signature}]},
        {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"of": name}}}]},
    ]


def history(steps, *behind):
    return [user("the question"), *(c for n in range(steps) for c in step(f"s{n}")), *behind]


def told(words):
    return {"role": "user", "parts": [{"text": "the question"}, {"text": INTRODUCTION + words}]}


def test_a_summary_is_due_when_more_than_twice_the_steps_stand_in_full():
    summarise = Summarise(2)
    due = [n for n in range(12) if summarise.request(history(n), [])]
    assert due == list(range(5, 12))
    # After one that stands for three steps, the next is due at eight.
    assert [n for n in range(5, 12) if summarise.request(history(n), [Summary(3, "x")])] == list(range(8, 12))


def test_the_request_holds_the_steps_to_be_summarised_and_the_question_last():
    first = Summarise(2).request(history(5), [])
    assert (first.steps, first.contents) == (3, [*history(3), user(ASK)])
    made = [first.answered("  three steps\n")]
    assert made == [Summary(3, "three steps")]
    second = Summarise(2).request(history(8), made)
    assert (second.steps, second.contents) == (6, [told("three steps"), *history(6)[7:], user(ASK)])


def test_the_summary_stands_in_the_place_of_its_steps():
    summarise, whole = Summarise(2), history(6)
    before = copy.deepcopy(whole)
    assert summarise.apply(whole, []) == whole
    kept = summarise.apply(whole, [Summary(1, "old"), Summary(4, "four steps")])
    assert kept == [told("four steps"), *whole[9:]]
    assert whole == before and all(a is b for a, b in zip(kept[1:], whole[9:], strict=True))


def test_over_turns_every_message_of_the_user_stays():
    answer, second = {"role": "model", "parts": [{"text": "done"}]}, user("second")
    whole = [*history(2, answer, second), *step("t0"), *step("t1")]
    assert Summarise(1).request(whole, []).contents == [*whole[:9], user(ASK)]
    assert Summarise(1).apply(whole, [Summary(4, "all of it")]) == [told("all of it"), second, *whole[-2:]]


def test_what_cannot_be_cut_is_not_summarised():
    orphaned = [user("the question"), *history(9)[2:]]
    assert Summarise(1).request(orphaned, []) is None
    assert Summarise(1).apply(orphaned, [Summary(2, "x")]) == orphaned
    with pytest.raises(ValueError, match=r"summarise\(0\) would summarise what was not answered yet"):
        Summarise(0)
    with pytest.raises(ValueError, match="answered nothing"):
        summaries.Due(1, []).answered(" \n")


@pytest.mark.parametrize("size", [1, 2, 3])
def test_both_requests_are_legal_at_every_length(size):
    profile = families.profile("gemini-3.8-flash")
    made = []
    for steps in range(1, 16):
        due = Summarise(size).request(history(steps), made)
        if due:
            assert rules.check(due.contents, profile) == []
            made.append(due.answered(f"{due.steps} steps"))
        kept = Summarise(size).apply(history(steps), made)
        assert rules.check(kept, profile) == []
        assert size <= sum(g.is_step for g in wire.groups(kept)) <= 2 * size or steps < size
    assert [s.steps for s in made] == list(range(size + 1, 16 - size, size + 1))


def config_of(task, **changes):
    (d,) = task.declarations
    declared = types.FunctionDeclaration(
        name=d["name"], description=d["description"], parameters_json_schema=d["parametersJsonSchema"]
    )
    off = types.AutomaticFunctionCallingConfig(disable=True)
    tools = [types.Tool(function_declarations=[declared])]
    return types.GenerateContentConfig(tools=tools, automatic_function_calling=off, **changes)


async def test_the_api_answers_both_requests():
    """The emulator judges the summary's request as it judges any other."""
    task, wanted = tasks.get("chain(6)"), "gemini-3.8-flash"
    backend = backends.simulated(backends.emulator(parameters=Parameters(repeat=0, quit=0)))
    trial = await loop.run(backend, trials.plan([{"name": "a", "guard": "off"}], task.name, wanted, 1)[0])
    whole = trial.received[:-1]
    due = Summarise(2).request(whole, [])
    text_only = types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode="NONE"))
    answered = await backend.send(wanted, due.contents, config_of(task, tool_config=text_only))
    words = wire.answer_text(answers.read(answered.response).content)
    sent = Summarise(2).apply(whole, [due.answered(words)])
    exchange = await backend.send(wanted, sent, config_of(task))
    assert exchange.request["contents"] == sent and words in wire.answer_text(sent[0])
    assert answers.read(exchange.response).content is not None
