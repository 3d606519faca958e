"""Whose signatures go out in the place of a trial's own, and what they are to the model that gets them."""

from __future__ import annotations

import asyncio
import itertools
import re
from dataclasses import replace

import pytest

from gemlab import backends
from gemlab.agent import loop
from gemlab.emulator import signatures
from gemlab.emulator.minds.scripted import Parameters
from gemlab.runs import donors, trace, trials
from gemlab.wire import contents as wire
from gemlab.wire import families

STRICT, LOOSE = "gemini-3.8-flash", "gemini-2.5-flash"
ARMS = ["preserve", "placebo", "neutral"]


def run(specs, path, parameters=None, **options):
    backend = backends.simulated(backends.emulator(parameters=parameters))
    return trials.run(specs, backend, path, progress=None, **options)


@pytest.fixture(scope="module", params=[STRICT, LOOSE])
def pilot(request, tmp_path_factory):
    """Finished trials of two arms on five instances, in which no trial goes wrong, each with thoughts of its own."""
    specs = trials.plan(["preserve", {"name": "again"}], "ecpm-two-turns", request.param, 5, seed=9)
    done = run(specs, tmp_path_factory.mktemp("pilot") / "t.jsonl", Parameters(0, 0, 0, 0))
    return [with_thoughts_of_its_own(one) for one in done]


def with_thoughts_of_its_own(one):
    """The scripted model thinks the same at the same place of a plan: such donors could not be told apart."""
    profile, found = families.profile(families.serve(one.model)), itertools.count()

    def part(old):
        thought = f"thought {next(found)} of {one.trial}"
        return {**old, "thoughtSignature": wire.encode_signature(signatures.seal(thought, profile))}

    def signed(response):
        (candidate,) = response["candidates"]
        parts = [part(p) if "thoughtSignature" in p else p for p in candidate["content"]["parts"]]
        return {**response, "candidates": [{**candidate, "content": {"role": "model", "parts": parts}}]}

    return replace(one, steps=[replace(s, response=signed(s.response)) for s in one.steps])


def received(one):
    """The signatures in the response bodies of a trace, by step, as they were on the wire."""
    return [re.findall(r"'thoughtSignature': '([^']+)'", str(step.response)) for step in one.steps]


def last_sent(one):
    return [s for c in one.requests[-1]["contents"] for s in wire.signatures(c)]


def opened(raw, model):
    return signatures.open_(raw, families.profile(families.serve(model)))


# --- what a trial received ----------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["unary", "stream"])
@pytest.mark.parametrize("model", [STRICT, LOOSE, "gemini-3-flash-preview"])
def test_a_trial_s_signatures_are_those_of_its_answers_in_order(model, transport, tmp_path):
    specs = trials.plan([{"name": "x", "transport": transport}], "ecpm-two-turns", model, 3)
    for one in run(specs, tmp_path / "t.jsonl"):
        by_step = received(one)
        assert len(by_step) > 3 and all(len(found) == 1 for found in by_step)
        assert donors.signatures_of(one) == [found[0] for found in by_step]


def test_of_an_answer_with_several_signatures_the_first_counts(scripted):
    one, two, three = (wire.encode_signature(bytes([n]) * 60) for n in (251, 252, 253))
    call = {"functionCall": {"name": "fetch_ecpm", "args": {}}}
    transport = scripted(
        scripted.reply({**call, "thoughtSignature": one}, {**call, "thoughtSignature": two}),
        scripted.reply(call),
        scripted.reply({"text": "done", "thoughtSignature": three.replace("+", "-").replace("/", "_")}),
    )
    (spec,) = trials.plan(["preserve"], "ecpm", LOOSE, 1)
    trial = asyncio.run(loop.run(backends.simulated(transport=transport), spec))
    assert donors.signatures_of(trace.of(trial, "sim", backends.SCRIPTED)) == [one, three]


# --- whose ----------------------------------------------------------------------------------------------------


def seed_of(pilot, found):
    (seed,) = {one.seed for one in pilot if donors.signatures_of(one) == found}
    return seed


def test_a_donor_is_never_of_the_same_instance_and_the_same_for_all_of_its_trials(pilot):
    model = pilot[0].model
    specs = trials.plan(["preserve", "placebo"], "ecpm-two-turns", model, 12, repeats=2, seed=9)
    own = {one.seed for one in pilot}
    assert own == {s.seed for s in specs if s.instance < 5}
    choose, backwards = donors.placebo(pilot), donors.placebo(pilot[::-1])
    chosen = {spec: choose(spec) for spec in specs}
    assert chosen == {spec: backwards(spec) for spec in specs}
    assert all(seed_of(pilot, found) != spec.seed for spec, found in chosen.items())
    by_instance = {}
    for spec, found in chosen.items():
        by_instance.setdefault(spec.instance, set()).add(tuple(found))
    assert all(len(found) == 1 for found in by_instance.values())
    assert len({one for found in by_instance.values() for one in found}) > 3, "they take turns"


@pytest.mark.parametrize(
    "unfit",
    [
        pytest.param(lambda pilot: [one for one in pilot if one.instance == 2], id="its own instance"),
        pytest.param(lambda pilot: [replace(one, outcome="failed") for one in pilot], id="failed"),
        pytest.param(lambda pilot: [replace(one, outcome="wrong") for one in pilot], id="wrong"),
        pytest.param(lambda pilot: [replace(one, task="search") for one in pilot], id="another task"),
        pytest.param(lambda pilot: [replace(one, model="gemini-3.6-flash") for one in pilot], id="another model"),
        pytest.param(lambda pilot: [replace(one, steps=[]) for one in pilot], id="no signature"),
        pytest.param(lambda pilot: [], id="none"),
    ],
)
def test_what_cannot_be_a_donor_is_none(pilot, unfit):
    spec = trials.plan(["placebo"], "ecpm-two-turns", pilot[0].model, 5, seed=9)[2]
    with pytest.raises(ValueError, match=f"no donor for placebo/2/0: .* of ecpm-two-turns on {spec.model}"):
        donors.placebo(unfit(pilot))(spec)
    assert donors.placebo([*unfit(pilot), pilot[0]])(spec) == donors.signatures_of(pilot[0])


@pytest.mark.parametrize("history", ["placebo", "neutral"])
def test_an_arm_without_donors_is_refused_before_anything_runs(history, pilot, tmp_path):
    specs = trials.plan(["preserve", history], "ecpm-two-turns", LOOSE, 2)
    other = {"placebo": "neutral", "neutral": "placebo"}[history]
    for given in (None, {}, {other: donors.neutral(LOOSE)}):
        with pytest.raises(ValueError, match=f"arm '{history}' .* no donors for '{history}'") as caught:
            run(specs, tmp_path / "t.jsonl", donors=given)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="no donor for"):
        run(specs, tmp_path / "t.jsonl", donors={history: donors.placebo([])})
    assert not (tmp_path / "t.jsonl").exists()


# --- what they are to the model -------------------------------------------------------------------------------


@pytest.mark.parametrize("model", families.known_models())
def test_a_neutral_thought_opens_for_the_family_that_serves_the_model_and_no_other(model):
    (raw,) = map(wire.decode_signature, donors.neutral(model)(None))
    family = families.profile(families.serve(model)).family
    for other in families.known_models():
        expected = "…" if families.profile(families.serve(other)).family == family else None
        assert opened(raw, other) == expected
    assert signatures.open_(raw, families.profile(families.serve(model), families.VERTEX)) is None


def test_neutral_is_for_models_that_are_known():
    with pytest.raises(ValueError, match="unknown model 'llama'"):
        donors.neutral("llama")


@pytest.fixture(scope="module")
def swapped(pilot, tmp_path_factory):
    """Trials of the arms that swap, and of preserve, on a model that makes no mistake by itself."""
    model = pilot[0].model
    specs = trials.plan(ARMS, "ecpm-two-turns", model, 6, seed=9)
    given = {"placebo": donors.placebo(pilot), "neutral": donors.neutral(model)}
    path = tmp_path_factory.mktemp("swapped") / "t.jsonl"
    return specs, given, run(specs, path, Parameters(0, 0, 0, 0), donors=given)


def test_both_are_accepted_and_every_signature_sent_is_the_donor_s(pilot, swapped):
    specs, given, traces = swapped
    for spec, one in zip(specs, traces, strict=True):
        assert one.outcome == "completed"
        if spec.arm.history == "preserve":
            continue
        own = donors.signatures_of(one)[:-1]
        donor = list(given[spec.arm.history](spec))
        expected = [a for a, _ in itertools.zip_longest(donor[: len(own)], own, fillvalue=donor[-1])]
        assert [wire.encode_signature(raw) for raw in last_sent(one)] == expected
        for request in one.requests:
            sent = [s for c in request["contents"] for s in wire.signatures(c)]
            assert last_sent(one)[: len(sent)] == sent, "a later request changed what an earlier one held"


def test_what_is_sent_opens_as_another_trial_s_thoughts_or_as_nothing(pilot, swapped):
    specs, given, traces = swapped
    seen = {"placebo": 0, "neutral": 0}
    for spec, one in zip(specs, traces, strict=True):
        thoughts = [opened(raw, spec.model) for raw in last_sent(one)]
        own = [opened(wire.decode_signature(s), spec.model) for s in donors.signatures_of(one)]
        assert None not in thoughts and None not in own
        if spec.arm.history == "preserve":
            assert thoughts == own[:-1]
        elif spec.arm.history == "neutral":
            assert set(thoughts) == {"…"} and "…" not in own
            seen["neutral"] += 1
        else:
            theirs = [opened(wire.decode_signature(s), spec.model) for s in given["placebo"](spec)]
            assert thoughts == theirs[: len(thoughts)] and not set(thoughts) & set(own)
            assert all(t.startswith("thought ") and f"/{spec.instance}/" not in t for t in thoughts)
            seen["placebo"] += 1
    assert seen == {"placebo": 6, "neutral": 6}


def calls_of(traces, arm):
    found = {}
    for one in traces:
        if one.arm.name == arm:
            found[one.instance] = [
                wire.call_key(c) for content in one.received if wire.is_model(content) for c in wire.calls(content)
            ]
    return found


def test_an_empty_thought_is_worth_no_more_than_none(tmp_path):
    """The scripted model draws by what a request says, signatures aside: equal knowledge gives equal trials."""
    arms = ["preserve", "strip", "neutral", {"name": "none", "thinking": "off"}]
    specs = trials.plan(arms, "ecpm", LOOSE, 12, seed=3)
    traces = run(specs, tmp_path / "t.jsonl", donors={"neutral": donors.neutral(LOOSE)})
    stripped = calls_of(traces, "strip")
    assert calls_of(traces, "neutral") == calls_of(traces, "none") == stripped
    assert calls_of(traces, "preserve") != stripped


def test_where_a_stripped_history_is_refused_a_swapped_one_is_not(tmp_path):
    specs = trials.plan(["strip", "neutral"], "ecpm", STRICT, 3)
    traces = run(specs, tmp_path / "t.jsonl", donors={"neutral": donors.neutral(STRICT)})
    assert {(t.arm.name, t.outcome == "refused") for t in traces} == {("strip", True), ("neutral", False)}
