"""Every strategy under every pruning on recorded histories: what the rules say against what is known of the API.

No model is involved. What the API accepted is taken from its JSON and judged twice: by `rules.check` on what an
arm makes of it, and by a few lines here that follow from the documented and recorded behaviour. What those lines
do not cover is named.
"""

from __future__ import annotations

import base64
import functools
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from gemlab.agent import history, pruning
from gemlab.wire import contents as wire
from gemlab.wire import families, rules

# A signature that was shortened in the data is no base64 any more: refused wherever it is sent as it is.
SHORTENED = ("pydantic__pydantic-ai/test_function_tools_with_builtin_tools.json", 1)
PRUNINGS = (
    "none", "window(3)", "steps(1)", "tokens(300)", "clear_results(0)", "strip_past(steps)",
    "strip_past(signatures)", "strip_past(thoughts)",
)  # fmt: skip

# The strategies that need neither a donor nor a server that keeps the history.
PLAIN = [n for n in history.STRATEGIES.names() if n not in (*history.DONATED, *history.BY_INTERACTIONS)]


@dataclass(frozen=True)
class Recorded:
    key: tuple[str, int]
    contents: list[dict[str, Any]]
    profile: families.Profile


@pytest.fixture(scope="module")
def recorded(shared):
    """Requests with calls and their responses that the API answered with 200."""
    folder = shared / "data" / "exchanges"
    found = []
    for entry in json.loads((folder / "index.json").read_text("utf-8"))["files"]:
        exchanges = json.loads((folder / entry["file"]).read_text("utf-8"))["exchanges"]
        for number, e in enumerate(exchanges):
            request, response = e["request"], e["response"]
            if request["rpc"] not in ("generateContent", "streamGenerateContent") or response["status"] != 200:
                continue
            contents = wire.normalise(request["body"]["contents"])
            kinds = {key for c in contents for p in c.get("parts", []) for key in p}
            if {"functionCall", "functionResponse"} <= kinds:
                bodies = response.get("chunks") or [response["body"]]
                served = next((b["modelVersion"] for b in bodies if b.get("modelVersion")), None)
                service = {"gemini": families.DEVELOPER, "vertex": families.VERTEX}[request["api"]]
                profile = families.profile(served or families.serve(request["model"]), service)
                found.append(Recorded((entry["file"], number), contents, profile))
    assert Counter(r.profile.family for r in found) == {"gemini-2": 16, "gemini-2.5": 78, "gemini-3": 96}
    return found


def verdict(findings):
    """The worst of what was found; what is only suspect is no loss."""
    return next((v for v in ("refused", "lost") if any(f.verdict == v for f in findings)), "clean")


@pytest.fixture(scope="module")
def judged(recorded):
    """What the rules find in every history under an arm, in the order of the histories."""

    @functools.cache
    def findings(strategy, cut="none"):
        arm = history.get(strategy), pruning.get(cut)
        return [rules.check(arm[1](arm[0](one.contents)), one.profile) for one in recorded]

    return findings


# --- what is known of the API -------------------------------------------------------------------------------

URL_SAFE = str.maketrans("+/", "-_")
BARE, SIGNED, RAW, DUMMY, TWICE = "bare", "signed", "dummy as text", "dummy", "encoded twice"


def state(part):
    text = part.get("thoughtSignature")
    if not text:
        return BARE
    if text in wire.DUMMY_SIGNATURES:
        return RAW
    return (
        DUMMY
        if base64.urlsafe_b64decode(text.translate(URL_SAFE)).decode("latin-1") in wire.DUMMY_SIGNATURES
        else SIGNED
    )


def border(contents):
    """The current turn: after the newest user content of standard content without a function response."""
    other = {"functionCall", "functionResponse", "thoughtSignature", "thought"}
    opens = [
        c.get("role") != "model"
        and not any("functionResponse" in p for p in c["parts"])
        and any(set(p) - other for p in c["parts"])
        for c in contents
    ]
    return len(opens) - opens[::-1].index(True) if any(opens) else 0


def batches(contents):
    """(content, states of its calls in order) of every content with calls."""
    found = []
    for i, content in enumerate(contents):
        made = [p for p in content["parts"] if "functionCall" in p]
        if made:
            found.append((i, [state(p) for p in made]))
    return found


def expected(found, current, profile):
    """What becomes of a history with these calls: only the first call of a content is asked for its signature."""
    worst = {"clean"}
    for i, states in found:
        strict = profile.strict and i >= current
        if states[0] == BARE and profile.thinks:
            worst.add("refused" if strict else "lost")
        if states[0] in (RAW, DUMMY) and profile.thinks:
            worst.add("lost")
        if TWICE in states:  # refused where the model would read it: in the current turn, or in all
            read = profile.altered == "refuse" and (profile.thoughts == "all" or i >= current)
            worst.add("refused" if read else "lost")
    return next(v for v in ("refused", "lost", "clean") if v in worst)


def kept_first(contents):
    """Batches where only the first signature of each turn is left, on whatever part it came."""
    turn, seen, found = 0, set(), []
    for i, content in enumerate(contents):
        turn = turn + 1 if border(contents[: i + 1]) == i + 1 else turn
        states = []
        for part in content["parts"]:
            signed = bool(part.get("thoughtSignature")) and content.get("role") == "model"
            if "functionCall" in part:
                states.append(state(part) if signed and turn not in seen else BARE)
            if signed:
                seen.add(turn)
        if states:
            found.append((i, states))
    return found


def by_key(content):
    made = [p for p in content["parts"] if "functionCall" in p]

    def key(part):
        call = part["functionCall"]
        return call.get("id", ""), call["name"], json.dumps(call.get("args") or {}, sort_keys=True)

    return [state(p) for p in sorted(made, key=key)]


def after(strategy, contents, current):
    """The batches as the strategy would send them, told from signed and unsigned calls alone."""
    found = batches(contents)
    if strategy in ("strip", "rebuild"):
        return [(i, [BARE] * len(s)) for i, s in found]
    if strategy == "first_only":
        return kept_first(contents)
    if strategy == "dummy":
        return [(i, [BARE if one == BARE else DUMMY for one in s]) for i, s in found]
    if strategy == "strip_past_turns":
        return [(i, s if i >= current else [BARE] * len(s)) for i, s in found]
    if strategy == "reorder":
        return [(i, by_key(contents[i])) for i, _ in found]
    if strategy in ("split", "sdk_chat"):
        return [(i, [one]) for i, s in found for one in s]
    if strategy == "json_text":  # a dummy is known as its text and as base64 of it
        again = {BARE: BARE, RAW: DUMMY}
        return [(i, [again.get(one, TWICE) for one in s]) for i, s in found]
    return found  # preserve, merge_text, copy_to_siblings: the first call is as it was


def expected_of(one, strategy):
    found = after(strategy, one.contents, current := border(one.contents))
    if strategy == "text_only":  # calls are gone, their responses are not
        return "refused"
    if strategy == "nested" and any(s != BARE for _, states in found for s in states):
        return "refused"
    return expected(found, current, one.profile)


# Rebuilt, a picture sent by the user is gone, and with it the start of the turn that followed the calls.
MEDIA_TURN = (
    "pydantic__pydantic-ai/test_multimodal_tool_return_matrix_tool_return_content-binary-image-google_gemini3_.json",
    2,
)


@pytest.mark.parametrize("strategy", PLAIN)
def test_a_strategy_is_refused_and_loses_as_the_api_is_known_to(recorded, judged, strategy):
    differing = {}
    for one, found in zip(recorded, judged(strategy), strict=True):
        if one.key != SHORTENED and verdict(found) != expected_of(one, strategy):
            differing[one.key] = verdict(found), expected_of(one, strategy)
    assert differing == ({MEDIA_TURN: ("refused", "lost")} if strategy == "rebuild" else {})


# What each strategy is refused for, the shortened signature aside, and in how many histories.
REFUSED_FOR = {
    "strip": {"unsigned": 74},
    "rebuild": {"unsigned": 71, "call_order": 4},  # an empty first text is left out: the call comes first
    "first_only": {"unsigned": 19},
    "reorder": {"unsigned": 9},
    "split": {"unsigned": 11},
    "text_only": {"response_order": 189},
    "json_text": {"altered": 147},
    "nested": {"inside_call": 174},
    "sdk_chat": {"unsigned": 11},
}


@pytest.mark.parametrize("strategy", PLAIN)
def test_a_strategy_is_refused_for_its_own_reason(recorded, judged, strategy):
    broken = Counter()
    for one, found in zip(recorded, judged(strategy), strict=True):
        if one.key != SHORTENED:
            broken.update({f.rule for f in rules.refusal(found)})
    assert broken == REFUSED_FOR.get(strategy, {})


CHANGED = {
    "strip": 175,
    "rebuild": 182,
    "first_only": 44,
    "dummy": 173,
    "strip_past_turns": 45,
    "reorder": 15,
    "split": 20,
    "merge_text": 4,
    "text_only": 190,
    "copy_to_siblings": 18,
    "json_text": 175,
    "nested": 175,
    "sdk_chat": 190,
}


def test_each_strategy_changes_some_recorded_history(recorded):
    """No proof is drawn from an arm that leaves everything as it is."""
    changed = {
        name: sum(strategy(one.contents) != one.contents for one in recorded)
        for name, strategy in ((n, history.get(n)) for n in PLAIN)
    }
    assert changed.pop("preserve") == 0
    assert changed == CHANGED


def test_signatures_gone_from_texts_are_nothing_that_a_rule_sees(recorded, judged):
    gone = Counter()
    for one, before, found in zip(recorded, judged("preserve"), judged("merge_text"), strict=True):
        if one.key != SHORTENED:
            count = [sum(len(wire.signatures(c)) for c in h) for h in (one.contents, history.merge_text(one.contents))]
            gone[count[0] - count[1]] += 1
            assert found == before
    assert gone == {0: 185, 1: 4}


# --- prunings -----------------------------------------------------------------------------------------------

PAIRING = {"call_order", "response_order", "count"}


@pytest.mark.parametrize("strategy", PLAIN)
@pytest.mark.parametrize("cut", [p for p in PRUNINGS if p not in ("none", "window(3)")])
def test_whole_steps_are_pruned_without_a_new_refusal(judged, strategy, cut):
    for before, found in zip(judged(strategy), judged(strategy, cut), strict=True):
        assert verdict(found) != "refused" or verdict(before) == "refused"
        assert not {f.rule for f in found} & PAIRING or {f.rule for f in before} & PAIRING
        if cut in ("clear_results(0)", "strip_past(thoughts)"):
            assert verdict(found) == verdict(before)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_window_is_refused_where_it_cuts_through_a_step(recorded, judged, size):
    checked = Counter()
    for one, found in zip(recorded, judged("preserve", f"window({size})"), strict=True):
        if one.key == SHORTENED:
            continue
        kept = one.contents[-size:]
        leading = next((i for i, c in enumerate(kept) if c.get("role") != "model"), len(kept))
        orphaned = "functionResponse" in {k for c in kept[:1] for p in c["parts"] for k in p} or bool(
            batches(kept[:leading])
        )
        assert verdict(found) == ("refused" if orphaned else expected(batches(kept), border(kept), one.profile)), (
            one.key
        )
        checked[orphaned] += 1
    assert min(checked.values()) > 5


def table(judged):
    """clean/lost/refused of every strategy under every pruning."""
    rows = {}
    for strategy in PLAIN:
        counts = [Counter(map(verdict, judged(strategy, cut))) for cut in PRUNINGS]
        rows[strategy] = " ".join("/".join(str(c[v]) for v in ("clean", "lost", "refused")) for c in counts)
    return rows


def test_the_table_of_all_arms(judged):
    rows = table(judged)
    print("\n" + " ".join(PRUNINGS))
    print("\n".join(f"{name:18}{row}" for name, row in rows.items()))
    assert rows == TABLE


# clean/lost/refused of 190 histories, in the order of PRUNINGS.
TABLE = {
    "preserve": "167/22/1 126/7/57 172/17/1 169/20/1 167/22/1 175/14/1 132/57/1 167/22/1",
    "strip": "16/99/75 16/62/112 35/80/75 16/99/75 16/99/75 45/70/75 16/99/75 16/99/75",
    "rebuild": "16/98/76 16/62/112 35/79/76 16/98/76 16/98/76 44/70/76 16/98/76 16/98/76",
    "first_only": "143/28/19 127/7/56 150/21/19 144/27/19 143/28/19 156/15/19 113/58/19 143/28/19",
    "dummy": "16/174/0 16/118/56 35/155/0 16/174/0 16/174/0 45/145/0 16/174/0 16/174/0",
    "strip_past_turns": "132/57/1 126/7/57 166/23/1 139/50/1 132/57/1 175/14/1 132/57/1 132/57/1",
    "reorder": "155/25/10 120/7/63 166/17/7 163/20/7 155/25/10 166/14/10 125/55/10 155/25/10",
    "split": "149/29/12 113/7/70 161/20/9 156/25/9 149/29/12 161/17/12 122/56/12 149/29/12",
    "merge_text": "167/22/1 126/7/57 172/17/1 169/20/1 167/22/1 175/14/1 132/57/1 167/22/1",
    "text_only": "0/0/190 2/0/188 0/0/190 0/0/190 0/0/190 0/0/190 0/0/190 0/0/190",
    "copy_to_siblings": "167/22/1 126/7/57 172/17/1 169/20/1 167/22/1 175/14/1 132/57/1 167/22/1",
    "json_text": "14/28/148 13/8/169 24/29/137 16/32/142 14/28/148 33/18/139 14/37/139 14/28/148",
    "nested": "14/1/175 14/3/173 33/7/150 23/2/165 14/1/175 43/3/144 14/1/175 14/1/175",
    "sdk_chat": "149/29/12 10/0/180 161/20/9 156/25/9 149/29/12 161/17/12 122/56/12 149/29/12",
}
