import asyncio
import copy
import json
import re

import httpx2
import pytest

from gemlab import backends, guards, tasks
from gemlab.agent import loop
from gemlab.emulator.minds.scripted import Parameters
from gemlab.runs import trace, trials
from gemlab.tasks import search

SPEC = trials.plan(["preserve"], "search", "gemini-2.5-flash", 1)[0]
PAGE = next(p for p in search.corpus() if p["kind"] == "facts" and p["facts"]["founder"] in
            tasks.get("search").instance(SPEC.seed).messages[0])  # fmt: skip
RIGHT = {"text": f"It measures {PAGE['facts']['mirror']} metres."}
COMPETENT = Parameters(repeat=0, quit=0, doubt=0, lose_thread=0)


def call(query="x", ident="i1", name="web_search", **args):
    return {"functionCall": {"name": name, "args": args or {"query": query}, "id": ident}}


def go(transport, spec=SPEC, **arm):
    if arm:
        spec = trials.plan([{"name": "x", **arm}], spec.task, spec.model, 1)[0]
    return asyncio.run(loop.run(backends.simulated(transport=transport), spec))


def contents(raw):
    return json.loads(raw)["contents"]


# --- answers ------------------------------------------------------------------------------------------------


def test_the_right_answer_completes(scripted):
    transport = scripted(scripted.reply(call(PAGE["title"])), scripted.reply(RIGHT))
    trial = go(transport)
    assert (trial.outcome, trial.reason, trial.detail) == ("completed", None, None)
    assert trial.answer == RIGHT["text"] and len(transport.sent) == 2


def test_an_answer_the_checker_refuses_is_wrong(scripted):
    trial = go(scripted(scripted.reply(call(PAGE["title"])), scripted.reply({"text": "It measures 99 metres."})))
    assert (trial.outcome, trial.reason) == ("wrong", None)
    assert trial.detail == f"the diameter is {float(PAGE['facts']['mirror'])}"


THOUGHT = {"text": "hm", "thought": True}
NOT_AN_ANSWER = {
    "no content": ([], {}, "empty"),
    "content without parts": ([], {"content": {"role": "model"}}, "empty"),
    "empty text": ([{"text": ""}], {}, "empty"),
    "blank text": ([{"text": " \n"}], {}, "empty"),
    "signature alone": ([{"text": "", "thoughtSignature": "AAAA"}], {}, "empty"),
    "thoughts only": ([THOUGHT, THOUGHT], {}, "empty"),
    "malformed": ([], {"finish": "MALFORMED_FUNCTION_CALL", "content": {}, "finishMessage": "Bad call"}, "malformed"),
    "malformed after a call": ([call()], {"finish": "MALFORMED_FUNCTION_CALL"}, "malformed"),
    "malformed beside a text": ([RIGHT], {"finish": "MALFORMED_FUNCTION_CALL"}, "malformed"),
    "unexpected call": ([], {"finish": "UNEXPECTED_TOOL_CALL"}, "malformed"),
}


@pytest.mark.parametrize(("parts", "candidate", "reason"), NOT_AN_ANSWER.values(), ids=NOT_AN_ANSWER)
def test_what_is_neither_call_nor_text_is_unfinished(scripted, parts, candidate, reason):
    transport = scripted(scripted.reply(*parts, **candidate))
    trial = go(transport)
    assert (trial.outcome, trial.reason) == ("unfinished", reason)
    assert trial.called == [] and trial.answer is None and len(transport.sent) == 1


USE = "Use the result you have, call another tool, or answer."
AGAIN = f"This call was made before with the same arguments and gave the same result; it will not change. {USE}"
STALLED = "The last results are all the same. Try something else, or answer from what you have."


# --- forced answers -----------------------------------------------------------------------------------------


def looping(scripted, rounds, *last):
    return scripted(*[scripted.reply(call("same", f"i{n}")) for n in range(rounds)], *last)


@pytest.mark.parametrize(
    ("guard", "rounds", "reason"), [("budget", 20, "max_steps"), ("default", 5, "guard"), ("article_text", 5, "guard")]
)
@pytest.mark.parametrize("last", ["a call", "nothing", "malformed", "a text"])
def test_a_forced_answer_has_to_be_a_text(scripted, guard, rounds, reason, last):
    answers = {
        "a call": scripted.reply(call("again")),
        "nothing": scripted.reply(),
        "malformed": scripted.reply(finish="MALFORMED_FUNCTION_CALL", content={}),
        "a text": scripted.reply({"text": "I give up."}),
    }
    transport = looping(scripted, rounds, answers[last])
    trial = go(transport, guard=guard)
    assert (trial.outcome, trial.reason) == (("wrong", None) if last == "a text" else ("unfinished", reason))
    assert trial.forced and len(transport.sent) == rounds + 1
    modes = [json.loads(raw).get("toolConfig") for raw in transport.sent]
    assert modes == [None] * rounds + [{"functionCallingConfig": {"mode": "NONE"}}]


def test_without_any_guard_a_run_still_ends(scripted, monkeypatch):
    monkeypatch.setattr(guards, "HARD_CAP", 30)  # the real one takes seconds
    transport = looping(scripted, 1)
    trial = go(transport, guard="off")
    assert (trial.outcome, trial.reason) == ("unfinished", "max_steps")
    assert len(transport.sent) == 30 and not trial.forced


# --- calls --------------------------------------------------------------------------------------------------


def test_parallel_calls_are_answered_in_order_in_one_content(scripted):
    made = [call("b", "id-b"), call("a", "id-a"), call("b", "id-c")]
    transport = scripted(scripted.reply({"text": "let me see"}, *made), scripted.reply(RIGHT))
    go(transport)
    received, answered = contents(transport.sent[1])[1:]
    assert received == {"parts": [{"text": "let me see"}, *made], "role": "model"}
    assert answered["role"] == "user"
    given = [p["functionResponse"] for p in answered["parts"]]
    assert [(r["name"], r["id"]) for r in given] == [("web_search", f"id-{x}") for x in "bac"]
    assert [r["response"] for r in given] == [search.web_search(q) for q in "bab"]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (call(name="fetch"), "unknown function 'fetch'; known: web_search"),
        (call(wrong=1), "TypeError: .*unexpected keyword argument 'wrong'"),
        (call(query=5), "AttributeError: 'int' object has no attribute 'lower'"),
    ],
)
def test_what_goes_wrong_in_a_tool_is_told_to_the_model(scripted, made, said):
    transport = scripted(scripted.reply(made), scripted.reply(call(PAGE["title"])), scripted.reply(RIGHT))
    trial = go(transport)
    error = contents(transport.sent[1])[-1]["parts"][0]["functionResponse"]["response"]["error"]
    assert re.match(said, error)
    assert trial.outcome == "completed" and not trial.called[0].ok


@pytest.mark.parametrize(
    ("tool", "body"),
    [
        (lambda: 5, {"result": 5}),
        (lambda: [1, 2], {"result": [1, 2]}),
        (lambda: None, {"result": None}),
        (lambda: {"a": 1}, {"a": 1}),
        (lambda: 1 / 0, {"error": "ZeroDivisionError: division by zero"}),
    ],
)
def test_a_response_is_always_an_object(tool, body):
    assert loop.call_tool({"f": tool}, "f", {}) == body


def test_a_tool_cannot_reach_into_the_history():
    log, args = {"seen": []}, {"items": [3, 1, 2]}

    def tool(items):
        items.sort()
        log["seen"].append(items)
        return log

    first = loop.call_tool({"f": tool}, "f", args)
    kept = copy.deepcopy(first)
    loop.call_tool({"f": tool}, "f", args)
    assert args == {"items": [3, 1, 2]} and first == kept


@pytest.mark.parametrize(
    ("rounds", "response"),
    [
        (2, {}),
        (3, {"notice": f"{AGAIN} {STALLED}"}),
        (4, {"error": "blocked", "notice": f"Not executed: the same call again. {USE}"}),
    ],
)
def test_the_model_reads_what_guards_say_and_nothing_else(scripted, rounds, response):
    transport = looping(scripted, rounds, scripted.reply(RIGHT))
    trial = go(transport, guard="default")
    part = contents(transport.sent[rounds])[-1]["parts"][0]["functionResponse"]
    assert part["response"] == ({} if "error" in response else search.web_search("same")) | response
    assert [c.response for c in trial.called] == [search.web_search("same")] * min(rounds, 3)


# --- turns --------------------------------------------------------------------------------------------------


def test_a_second_message_follows_the_first_answer():
    spec = trials.plan(["preserve"], "ecpm-two-turns", "gemini-3.8-flash", 1)[0]
    backend = backends.simulated(backends.emulator(parameters=COMPETENT))
    trial = asyncio.run(loop.run(backend, spec))
    messages = tasks.get("ecpm-two-turns").instance(spec.seed).messages
    assert trial.outcome == "completed"
    roles = [next(iter(c["parts"][0])) for c in trial.received]
    assert roles == ["text", *["functionCall", "functionResponse"] * 2, "text"] * 2
    assert [trial.received[i]["parts"][0]["text"] for i in (0, 6)] == list(messages)


def test_a_budget_is_for_one_turn(scripted):
    turn = [*[scripted.reply(call(name="fetch_ecpm", app="a", days=n)) for n in range(15)], scripted.reply(RIGHT)]
    spec = trials.plan([{"name": "x", "guard": "budget"}], "ecpm-two-turns", "gemini-2.5-flash", 1)[0]
    transport = scripted(*turn, *turn)
    trial = go(transport, spec)
    assert not trial.forced and len(transport.sent) == 32


def test_the_seed_of_a_request_is_the_same_in_every_arm(scripted):
    def seeds(arm, repeat):
        transport = looping(scripted, 4, scripted.reply(RIGHT))
        specs = trials.plan(["preserve", "rebuild"], "search", "gemini-2.5-flash", 1, repeats=2)
        go(transport, next(s for s in specs if (s.arm.name, s.repeat) == (arm, repeat)))
        return [json.loads(raw)["generationConfig"]["seed"] for raw in transport.sent]

    assert seeds("preserve", 0) == seeds("rebuild", 0)
    assert len({*seeds("preserve", 0), *seeds("preserve", 1)}) == 10
    assert all(0 <= s < 2**31 for s in seeds("preserve", 1))


# --- infrastructure -----------------------------------------------------------------------------------------

BUSY = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48s"}
QUOTA = {"error": {"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED", "details": [{}, RETRY_INFO]}}


def test_a_quota_error_is_waited_out_and_the_same_bytes_are_sent_again(scripted, slept):
    transport = scripted((429, QUOTA), (503, BUSY), scripted.reply(call(PAGE["title"])), scripted.reply(RIGHT))
    trial = go(transport)
    assert trial.outcome == "completed"
    assert transport.sent[0] == transport.sent[1] == transport.sent[2] != transport.sent[3]
    assert [f["status"] for f in trial.steps[0].failures] == [429, 503] and trial.steps[1].failures == []
    assert trial.steps[0].failures[0]["body"] == QUOTA
    assert slept[0] == 48.0 and 0.5 <= slept[1] <= 2.0 and len(slept) == 2


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ((503, BUSY), 503),
        ((429, QUOTA), 429),
        ((502, b"<html>Bad gateway</html>"), 502),
        ((503, {"error": "upstream"}), 503),
        ((200, b"<html>Sign in to the network</html>"), None),
        ((200, []), None),
        (httpx2.ConnectError("no route"), None),
        (httpx2.ReadTimeout("slow"), None),
    ],
)
def test_infrastructure_that_stays_down_is_failed(scripted, slept, answer, status):
    transport = scripted(answer)
    trial = go(transport)
    assert (trial.outcome, trial.reason) == ("failed", None) and trial.detail
    assert len(transport.sent) == 5 and len(slept) == 4
    assert [f["status"] for f in trial.steps[0].failures] == [status] * 5


BAD_KEY = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]


ALTERED = "Corrupted thought signature."
NOWHERE = "User location is not supported for the API use."


@pytest.mark.parametrize("transport", ["unary", "stream"])
@pytest.mark.parametrize(
    ("status", "message", "details", "outcome"),
    [
        (400, ALTERED, [], "refused"),
        (400, NOWHERE, [], "failed"),
        (400, "No.", BAD_KEY, "failed"),
        (403, ALTERED, [], "failed"),
        (404, "No.", [], "failed"),
    ],
)
def test_what_sending_again_cannot_help_is_sent_once(scripted, slept, status, message, details, outcome, transport):
    error = {"code": status, "message": message, "status": "X", "details": details}
    (spec,) = trials.plan([{"name": "x", "transport": transport}], "search", "gemini-2.5-flash", 1)
    trial = go(sent := scripted((status, {"error": error})), spec)
    assert (trial.outcome, trial.reason, trial.detail) == (outcome, None, f"HTTP {status}: {message}")
    assert len(sent.sent) == 1 and slept == []


@pytest.mark.parametrize("page", [b"", b"<html>Bad Request: contents[0]</html>", b"[]"])
def test_a_400_that_is_not_the_api_s_refuses_no_history(scripted, page):
    trial = go(scripted((400, page)))
    assert (trial.outcome, trial.reason) == ("failed", None) and trial.detail


def test_a_400_in_googles_list_refuses_too(scripted):
    trial = go(scripted((400, [{"error": {"code": 400, "message": ALTERED, "status": "X"}}])))
    assert trial.outcome == "refused"


def test_a_long_message_is_kept_short_and_in_one_line(scripted):
    line = "Invalid JSON payload received. Unknown name \"x\" at 'contents[0]': Cannot find field."
    trial = go(scripted((400, {"error": {"code": 400, "message": "\n".join([line] * 1000), "status": "X"}})))
    assert trial.outcome == "refused" and "\n" not in trial.detail
    assert trial.detail.startswith(f"HTTP 400: {line} Invalid") and 380 < len(trial.detail) < 420


def test_a_bad_setting_is_asked_again_when_a_run_goes_on_and_a_refusal_is_not(scripted, tmp_path):
    def run(message):
        transport = scripted((400, {"error": {"code": 400, "message": message, "status": "X"}}))
        trials.run([SPEC], backends.simulated(transport=transport), tmp_path / f"{message}.jsonl", progress=None)
        return len(transport.sent)

    assert [run(NOWHERE), run(NOWHERE)] == [1, 1]
    assert [run(ALTERED), run(ALTERED)] == [1, 0]


def test_an_answer_that_the_client_cannot_read_is_judged_by_what_came(scripted, slept):
    transport = scripted(scripted.reply({"text": 5}, {"text": RIGHT["text"]}))
    trial = go(transport)
    assert trial.outcome == "wrong" and trial.answer == RIGHT["text"] and len(transport.sent) == 1


def test_history_that_the_api_refuses_is_refused_not_wrong():
    spec = trials.plan(["strip"], "ecpm", "gemini-3.8-flash", 1)[0]
    trial = asyncio.run(loop.run(backends.simulated(), spec))
    assert trial.outcome == "refused" and len(trial.steps) == 2
    assert "missing a thought_signature" in trial.detail and "`default_api:fetch_ecpm` , position 2" in trial.detail


def test_an_answer_that_names_no_model_is_unknown_not_a_match(scripted):
    trial = go(scripted(scripted.reply(RIGHT, served=None)))
    assert trial.steps[0].pin.match is None
    packed = trace.of(trial, "sim", backends.SCRIPTED)
    assert packed.served == []
    assert packed.warnings == ["asked for gemini-2.5-flash, the answer names no model: unknown, not a match"]
