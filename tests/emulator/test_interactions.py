"""The emulator's Interactions API through the real SDK: what is kept, restored, lost and refused."""

from __future__ import annotations

import asyncio
import base64
import copy
import json

import httpx2
import pytest
from google.genai import _interactions_errors, interactions

from gemlab import backends
from gemlab.backends.inprocess import StreamingASGITransport
from gemlab.emulator import signatures
from gemlab.emulator.app import create_app
from gemlab.emulator.faults import Fault
from gemlab.emulator.interactions import Interactions
from gemlab.emulator.minds.view import Reply
from gemlab.emulator.parse import interaction_shape
from gemlab.wire import answers, rules

STRICT, LOOSE, OLD = "gemini-3.6-flash", "gemini-2.5-flash", "gemini-3-flash-preview"
INVALID = "Request contains an invalid argument."
TOOLS = [
    {"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}
]
LOOK = Reply(thought="I look first.", calls=(("look", {"at": 1}),))
BOTH = Reply(thought="Two at once.", calls=(("look", {"at": 1}), ("look", {"at": 2})))
DONE = Reply(thought="That is all.", text="It is blue.")


class Told:
    """A model that says what it is told to, in order, and keeps the views it had."""

    def __init__(self, *replies: Reply):
        self.replies, self.views = list(replies), []

    def respond(self, view):
        self.views.append(view)
        return self.replies[len(self.views) - 1]


def asking(*replies, model=STRICT, **options):
    """An emulator behind the real SDK, as (create, get, the told model); bodies come and go as on the wire."""
    told = Told(*replies)
    backend = backends.simulated(create_app(told, **options))

    def create(given, **settings):
        body = {"model": model, "input": given, "tools": TOOLS, **settings}
        return asyncio.run(backend.interact(body)).response

    def get(ident):
        return asyncio.run(backend.client.aio.interactions.get(ident))

    return create, get, told


def raw(app, method, path, content=b"", **options):
    async def go():
        async with httpx2.AsyncClient(transport=StreamingASGITransport(app), base_url="http://e") as client:
            return await client.request(method, path, content=content, **options)

    return asyncio.run(go())


def asked(text="q"):
    return {"type": "user_input", "content": [{"type": "text", "text": text}]}


def results(interaction, *values):
    made = [s for s in interaction["steps"] if s["type"] == "function_call"]
    values = values or [{"colour": "blue"}] * len(made)
    return [
        {"type": "function_result", "name": s["name"], "call_id": s["id"], "result": value}
        for s, value in zip(made, values, strict=True)
    ]


def refused(create, *args, **settings):
    with pytest.raises(backends.ApiFailure) as caught:
        create(*args, **settings)
    return caught.value


# --- the form -----------------------------------------------------------------------------------------------


def test_a_call_waits_for_its_result_and_a_text_ends_it():
    create, _, told = asking(LOOK, DONE)
    first = create("What colour?")
    signed, made = first["steps"]
    assert first["status"] == "requires_action" and first["object"] == "interaction" and first["model"] == STRICT
    assert signed["type"] == "thought" and set(signed) == {"type", "signature"}
    assert made == {"type": "function_call", "id": made["id"], "name": "look", "arguments": {"at": 1}} and made["id"]
    second = create(results(first), previous_interaction_id=first["id"])
    assert second["status"] == "completed" and second["previous_interaction_id"] == first["id"]
    assert second["steps"][1] == {"type": "model_output", "content": [{"type": "text", "text": "It is blue."}]}
    assert [s["type"] for s in second["steps"]] == ["thought", "model_output"]
    assert told.views[1].turns == ("What colour?",)
    (step,) = told.views[1].steps
    assert (step.thought, step.calls[0].response) == ("I look first.", {"colour": "blue"})


def test_the_sdk_reads_every_step_as_what_it_is():
    create, get, _ = asking(BOTH, DONE)
    first = create("q")
    read = interactions.Interaction.model_validate(first)
    assert [type(s).__name__ for s in read.steps] == ["ThoughtStep", "FunctionCallStep", "FunctionCallStep"]
    second = create(results(first), previous_interaction_id=first["id"])
    stored = get(second["id"])
    assert stored.output_text == "It is blue." and stored.status == "completed"
    kinds = ["FunctionResultStep", "FunctionResultStep", "ThoughtStep", "ModelOutputStep"]
    assert [type(s).__name__ for s in stored.steps] == kinds


def test_what_is_stored_has_the_steps_of_its_input_and_what_is_answered_has_not():
    create, get, _ = asking(DONE)
    made = create("q")
    stored = get(made["id"])
    assert [s.type for s in stored.steps] == ["user_input", *(s["type"] for s in made["steps"])]
    assert stored.steps[0].content[0].text == "q"


def test_usage_adds_up_and_counts_the_whole_history():
    create, _, _ = asking(LOOK, DONE)
    first = create("q")
    second = create(results(first), previous_interaction_id=first["id"])
    for usage in (first["usage"], second["usage"]):
        parts = ("input", "output", "thought", "tool_use")
        assert usage["total_tokens"] == sum(usage[f"total_{p}_tokens"] for p in parts)
        assert usage["input_tokens_by_modality"] == [{"modality": "text", "tokens": usage["total_input_tokens"]}]
    # The restored thought is paid for again, with the call and its result.
    more = second["usage"]["total_input_tokens"] - first["usage"]["total_input_tokens"]
    assert more > first["usage"]["total_thought_tokens"] + first["usage"]["total_output_tokens"]


def test_an_id_names_the_chain_and_the_interaction():
    create, _, _ = asking(LOOK, DONE)
    first = create("q")
    second = create(results(first), previous_interaction_id=first["id"])

    def fields(ident):
        assert ident.startswith("v1_")
        packed = base64.urlsafe_b64decode(ident[3:] + "=" * (-len(ident[3:]) % 4))
        assert packed[0] == 0x0A and packed[packed[1] + 2] == 0x12
        return packed[2 : packed[1] + 2], packed[packed[1] + 4 :]

    root, own = fields(first["id"])
    assert root == own and len(own) in (22, 23)
    assert fields(second["id"])[0] == root and fields(second["id"])[1] != root


def test_a_summary_stands_on_the_signed_thought():
    create, _, _ = asking(LOOK)
    first = create("q", generation_config={"thinking_summaries": "auto"})
    assert first["steps"][0]["summary"] == [{"type": "text", "text": "I look first."}]
    assert first["steps"][0]["signature"]


@pytest.mark.parametrize("model", [STRICT, LOOSE, OLD, "gemini-3.8-flash", "gemini-4-argon"])
def test_calls_have_ids_in_every_family(model):
    create, _, _ = asking(BOTH, DONE, model=model)
    first = create("q")
    idents = {s["id"] for s in first["steps"] if s["type"] == "function_call"}
    assert len(idents) == 2
    assert create(results(first), previous_interaction_id=first["id"])["status"] == "completed"


def test_settings_reach_the_model_and_hold_for_one_interaction():
    create, _, told = asking(DONE, DONE)
    first = create("q", generation_config={"seed": 7, "tool_choice": "none", "thinking_level": "low"})
    create("r", previous_interaction_id=first["id"], tools=None)
    assert (told.views[0].seed, told.views[0].mode, told.views[0].declared[0]["name"]) == (7, "NONE", "look")
    assert (told.views[1].seed, told.views[1].mode, told.views[1].declared) == (None, "AUTO", ())
    assert told.views[1].turns == ("q", "r")


def test_vertex_has_the_same_under_its_own_path():
    app = create_app(Told(DONE))
    path = "/v1/projects/p/locations/global/interactions"
    made = raw(app, "POST", path, json.dumps({"model": STRICT, "input": "q"}).encode())
    assert made.status_code == 200
    assert raw(app, "GET", f"{path}/{made.json()['id']}").json()["status"] == "completed"
    assert raw(app, "POST", "/v7/interactions", b"{}").status_code == 404


# --- what is kept -------------------------------------------------------------------------------------------


def test_without_store_nothing_is_kept():
    create, get, _ = asking(LOOK)
    first = create("q", store=False)
    with pytest.raises(_interactions_errors.NotFoundError):
        get(first["id"])
    error = refused(create, results(first), previous_interaction_id=first["id"])
    assert isinstance(error, backends.Rejected) and error.status == 404
    assert error.body == {"error": {"message": "Requested entity was not found.", "code": "not_found"}}


def test_one_interaction_may_be_gone_on_from_twice():
    create, _, told = asking(LOOK, DONE, DONE)
    first = create("q")
    for colour in ("red", "blue"):
        create(results(first, {"colour": colour}), previous_interaction_id=first["id"])
    assert [v.steps[0].calls[0].response["colour"] for v in told.views[1:]] == ["red", "blue"]


def test_the_oldest_is_forgotten_first():
    kept = Interactions(most=2)

    def answer(text):
        body = json.dumps({"model": STRICT, "input": text}).encode()
        said = {"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}
        response = {"candidates": [said], "usageMetadata": {}, "responseId": text}
        return kept.answer(kept.read(body), response)["id"]

    idents = [answer(text) for text in ("a", "b", "c")]
    assert [kept.get(i)["steps"][-1]["content"][0]["text"] for i in idents[1:]] == ["b", "c"]
    with pytest.raises(Exception, match="not found"):
        kept.get(idents[0])


def test_two_emulators_know_nothing_of_each_other():
    create, _, _ = asking(DONE)
    other, _, _ = asking(DONE)
    assert refused(other, "r", previous_interaction_id=create("q")["id"]).status == 404


# --- signatures ---------------------------------------------------------------------------------------------


def stateless(first, *steps):
    return [asked(), *steps, *results(first)]


def test_every_step_sent_back_restores_the_thought():
    create, _, told = asking(BOTH, DONE)
    first = create([asked()], store=False)
    assert create(stateless(first, *first["steps"]), store=False)["status"] == "completed"
    assert told.views[1].steps[0].thought == "Two at once."


def test_a_dropped_thought_is_refused_where_unsigned_calls_are_and_lost_where_not():
    create, _, _ = asking(LOOK)
    first = create([asked()], store=False)
    error = refused(create, stateless(first, *first["steps"][1:]), store=False)
    assert isinstance(error, backends.Refused)
    assert error.body == {"error": {"message": INVALID, "code": "invalid_request"}}
    create, _, told = asking(LOOK, DONE, model=LOOSE)
    first = create([asked()], store=False)
    create(stateless(first, *first["steps"][1:]), store=False)
    assert told.views[1].steps[0].thought is None and told.views[1].steps[0].calls[0].name == "look"


def test_a_thought_dropped_in_an_older_turn_is_lost_not_refused():
    create, _, told = asking(LOOK, DONE, DONE)
    first = create([asked()], store=False)
    history = stateless(first, *first["steps"])
    second = create(history, store=False)
    without = [s for s in [*history, *second["steps"]] if s["type"] != "thought"]
    create([*without, asked("and?")], store=False)
    assert [step.thought for step in told.views[2].steps] == [None, None]


def test_whole_older_turns_are_restored_where_the_family_reads_them():
    for model, thoughts in ((STRICT, ["I look first.", "That is all."]), (OLD, [None, None])):
        create, _, told = asking(LOOK, DONE, DONE, model=model)
        first = create("q")
        second = create(results(first), previous_interaction_id=first["id"])
        create("and?", previous_interaction_id=second["id"])
        assert [step.thought for step in told.views[2].steps] == thoughts


def _flipped(signature):
    packed = bytearray(base64.b64decode(signature))
    packed[-1] ^= 1
    return base64.b64encode(packed).decode()


def _foreign(signature):
    from gemlab.wire import families

    return base64.b64encode(signatures.seal("I look first.", families.profile("gemini-4-argon"))).decode()


@pytest.mark.parametrize("model", [STRICT, LOOSE])
@pytest.mark.parametrize(
    "change", [_flipped, _foreign, lambda s: s[:-8], lambda s: "", lambda s: "%%%", lambda s: None]
)
def test_an_altered_or_empty_signature_is_refused(model, change):
    create, _, _ = asking(LOOK, model=model)
    first = create([asked()], store=False)
    signed, made = first["steps"]
    error = refused(create, stateless(first, {**signed, "signature": change(signed["signature"])}, made), store=False)
    assert isinstance(error, backends.Refused)
    assert error.body == {"error": {"message": INVALID, "code": "invalid_request"}}


def test_the_other_base64_alphabet_is_the_same_signature():
    create, _, told = asking(LOOK, DONE)
    first = create([asked()], store=False)
    signed, made = first["steps"]
    other = signed["signature"].replace("+", "-").replace("/", "_")
    create(stateless(first, {**signed, "signature": other}, made), store=False)
    assert told.views[1].steps[0].thought == "I look first."


# --- calls and results --------------------------------------------------------------------------------------


def test_results_are_paired_by_id_in_any_order():
    create, _, told = asking(BOTH, DONE)
    first = create("q")
    create(results(first, {"n": 1}, {"n": 2})[::-1], previous_interaction_id=first["id"])
    assert [c.response for c in told.views[1].steps[0].calls] == [{"n": 1}, {"n": 2}]


def test_a_missing_result_is_refused():
    create, _, _ = asking(BOTH)
    first = create("q")
    for given in (results(first)[:1], "and?"):
        error = refused(create, given, previous_interaction_id=first["id"])
        assert error.body == {"error": {"message": rules.COUNT, "code": "invalid_request"}}


def test_a_result_of_no_call_is_answered_with_nothing_or_refused():
    for model, outcome in ((STRICT, "empty"), ("gemini-3.8-flash", "refused")):
        create, _, told = asking(LOOK, model=model)
        first = create("q")
        given = [{**results(first)[0], "call_id": "other"}]
        if outcome == "refused":
            assert isinstance(refused(create, given, previous_interaction_id=first["id"]), backends.Refused)
        else:
            answer = answers.of(create(given, previous_interaction_id=first["id"]))
            assert answer.content == {"role": "model", "parts": [{"text": ""}]} and len(told.views) == 1


# --- bad requests -------------------------------------------------------------------------------------------

GOOD = {
    "model": STRICT,
    "input": [
        asked(),
        {"type": "function_call", "id": "a", "name": "look", "arguments": {"at": 1}},
        {"type": "function_result", "call_id": "a", "name": "look", "result": {"colour": "blue"}, "is_error": False},
        {"type": "model_output", "content": [{"type": "text", "text": "blue"}]},
        {"type": "user_input", "content": [{"type": "image", "data": "AAAA", "mime_type": "image/png"}]},
        asked("and?"),
    ],
    "previous_interaction_id": None,
    "store": True,
    "stream": False,
    "system_instruction": "Be brief.",
    "tools": [*TOOLS, {"type": "google_search"}],
    "generation_config": {
        "seed": 3, "temperature": 1.0, "top_p": 0.9, "max_output_tokens": 9, "stop_sequences": ["x"],
        "thinking_level": "low", "thinking_summaries": "none",
        "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["look"]}},
    },
}  # fmt: skip


def post(app, body):
    return raw(app, "POST", "/v1/interactions", body if isinstance(body, bytes) else json.dumps(body).encode())


def test_a_request_with_everything_in_it_is_taken():
    assert post(create_app(Told(DONE)), GOOD).json()["status"] == "completed"


BAD = {
    "no JSON": (b"{", "Invalid JSON payload received.", "invalid_request"),
    "a list": (b"[]", "Root element must be a message.", "invalid_request"),
    "nothing": (b"", "model is required.", "invalid_request"),
    "no input": ({"model": STRICT}, "Invalid input received: input is null", "invalid_request"),
    "an empty input": ({**GOOD, "input": []}, "Invalid input received: input is []", "invalid_request"),
    "blocks among steps": (
        {**GOOD, "input": [asked(), {"type": "text", "text": "x"}]}, 'input[1].type is "text"', "invalid_request",
    ),
    "an unknown field": ({**GOOD, "contents": []}, "no such field: 'contents'", "parameter_unknown"),
    "an unknown field of a step": (
        {**GOOD, "input": [{**asked(), "role": "user"}]}, "no such field: 'role'", "parameter_unknown",
    ),
    "an unknown setting": (
        {**GOOD, "generation_config": {"top_k": 1}}, "no such field: 'top_k'", "parameter_unknown",
    ),
    "an unknown level": (
        {**GOOD, "generation_config": {"thinking_level": "max"}}, "unknown enum value: 'max'", "invalid_request",
    ),
    "a seed that is no number": (
        {**GOOD, "generation_config": {"seed": "x"}}, "generation_config.seed' (TYPE_INT32)", "invalid_request",
    ),
    "a result without its call's id": (
        {**GOOD, "input": [{"type": "function_result", "name": "look", "result": "x"}]},
        "Missing call_id in content of type function_result", "invalid_request",
    ),
    "a result without a name": (
        {**GOOD, "input": [{"type": "function_result", "call_id": "a", "result": "x"}]},
        "Invalid input received", "invalid_request",
    ),
    "a result without a call": (
        {**GOOD, "input": [GOOD["input"][2]]}, rules.RESPONSE_ORDER, "invalid_request",
    ),
    "another model": ({**GOOD, "model": "gemini-9"}, "models/gemini-9 is not found", "model_not_found"),
    "another interaction": (
        {**GOOD, "previous_interaction_id": "v1_x"}, "Requested entity was not found.", "not_found",
    ),
    "a stream": ({**GOOD, "stream": True}, "stream is not emulated", "invalid_request"),
    "an agent": ({**GOOD, "agent": "deep-research"}, "agent is not emulated", "invalid_request"),
}  # fmt: skip


# Those of BAD whose steps are wrong, where the text says so: `no such field` does not tell where.
OF_HISTORY = {
    "no input", "an empty input", "blocks among steps", "a result without its call's id", "a result without a name",
    "a result without a call",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_told_from_a_history_that_is_refused(name):
    assert set(BAD) >= OF_HISTORY
    answer = post(create_app(Told()), BAD[name][0])
    assert rules.refuses_history(answer.json()) is (name in OF_HISTORY)


@pytest.mark.parametrize(("body", "message", "code"), BAD.values(), ids=BAD)
def test_a_bad_request_is_refused_in_the_api_s_form(body, message, code):
    answer = post(create_app(Told()), body)
    assert answer.status_code == (404 if code.endswith("not_found") else 400)
    assert set(answer.json()) == {"error"} and list(answer.json()["error"]) == ["message", "code"]
    assert message in answer.json()["error"]["message"] and answer.json()["error"]["code"] == code


def _places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*path, key))


JUNK = (None, True, 0, -1.5, 10**30, "", "x", [], [None], [[]], [{}], {}, {"type": "text"}, {"x": {"y": []}}, "missing")


def test_no_body_breaks_the_emulator():
    """An exception of the app's would come through the transport and fail the test."""
    app = create_app(Told(*[DONE] * 2000))
    refusals = 0
    for place in _places(GOOD):
        for junk in JUNK:
            body = copy.deepcopy(GOOD)
            if not place:
                body = junk
            else:
                holder = body
                for key in place[:-1]:
                    holder = holder[key]
                if junk == "missing":
                    del holder[place[-1]]
                else:
                    holder[place[-1]] = junk
            answer = post(app, body)
            assert answer.status_code in (200, 400, 404), (place, junk, answer.text)
            if answer.status_code != 200:
                refusals += 1
                assert set(answer.json()["error"]) == {"message", "code"}, (place, junk)
    assert refusals > 400


def test_fields_are_those_of_the_sdk():
    model, agent = interactions.CreateModelInteraction, interactions.CreateAgentInteraction
    assert set(model.model_fields) | set(agent.model_fields) == interaction_shape.REQUEST
    assert set(interaction_shape.CONFIG) == set(interactions.GenerationConfig.model_fields)
    assert set(interactions.Function.model_fields) == interaction_shape.FUNCTION
    kinds = {
        "user_input": interactions.UserInputStep, "model_output": interactions.ModelOutputStep,
        "thought": interactions.ThoughtStep, "function_call": interactions.FunctionCallStep,
        "function_result": interactions.FunctionResultStep,
    }  # fmt: skip
    for name, kind in kinds.items():
        assert {"type", *interaction_shape.STEPS[name]} == set(kind.model_fields)


# --- faults -------------------------------------------------------------------------------------------------


def test_an_overloaded_server_is_asked_once_by_the_sdk():
    create, _, told = asking(DONE, faults=[Fault("503")])
    error = refused(create, "q")
    assert isinstance(error, backends.Unavailable) and error.status == 503
    assert error.body["error"]["code"] == "service_unavailable"
    # Had the SDK tried again by itself, the fault would be over and this would not be the first view.
    create("q")
    assert len(told.views) == 1


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("malformed", "MALFORMED_FUNCTION_CALL"), ("unexpected_tool_call", "UNEXPECTED_TOOL_CALL"), ("empty", "STOP")],
)
def test_an_answer_that_is_none_is_told_apart(fault, reason):
    create, _, _ = asking(LOOK, faults=[Fault(fault)])
    body = create("q")
    answer = answers.of(body)
    assert (answer.content, answer.finish_reason) == (None, reason)
    assert body["status"] == ("completed" if reason == "STOP" else "failed")
    if fault == "malformed":
        assert answer.message == "Malformed function call: call:default_api:look{"


def test_calls_beside_a_malformed_one_are_still_there():
    create, _, _ = asking(LOOK, faults=[Fault("malformed_after_call")])
    answer = answers.of(create("q"))
    assert answer.finish_reason == "MALFORMED_FUNCTION_CALL" and answer.content["parts"][0]["functionCall"]
