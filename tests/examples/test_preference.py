"""The forms of comparisons, and what is dropped or refused of each."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenriver.examples.preference import DROPS, FAULTS, Pair, Rules, example

ASKED = "\n\nHuman: q\n\nAssistant:"


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


PAIRS: list[tuple[dict[str, Any], Pair]] = [
    ({"chosen": ASKED + " a", "rejected": ASKED + " b\n"}, Pair("hh", "Human: q", "a", "b")),
    (
        {"chosen": ASKED + " x\n\nHuman: r" + ASKED + " a", "rejected": ASKED + " x\n\nHuman: r" + ASKED + " b"},
        Pair("hh", (ASKED + " x\n\nHuman: r\n\nHuman: q").strip(), "a", "b"),
    ),
    ({"prompt": " p ", "chosen": " a", "rejected": "b "}, Pair("strings", " p ", " a", "b ")),
    (
        {"prompt": [user("p"), answer("x"), user("y")], "chosen": "a", "rejected": "b"},
        Pair("strings", [user("p"), answer("x"), user("y")], "a", "b"),
    ),
    (
        {"prompt": "p", "chosen": [user("p"), answer("a")], "rejected": [user("p"), answer("b")]},
        Pair("ultrafeedback", "p", "a", "b"),
    ),
    ({"chosen": [user("p"), answer("a")], "rejected": [user("p"), answer("b")]}, Pair("ultrafeedback", "p", "a", "b")),
    ({"prompt": "p", "chosen": [answer("a")], "rejected": [answer("b")]}, Pair("ultrafeedback", "p", "a", "b")),
    (
        {"prompt": [user("p")], "chosen": [user("p"), answer("a")], "rejected": [answer("b")]},
        Pair("ultrafeedback", "p", "a", "b"),
    ),
    (
        {
            "chosen": [user("p"), answer("x"), user("y"), answer("a")],
            "rejected": [user("p"), answer("x"), user("y"), {**answer("b"), "name": None, "tool_calls": []}],
        },
        Pair("ultrafeedback", [user("p"), answer("x"), user("y")], "a", "b"),
    ),
]

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"chosen": "no marker", "rejected": ASKED + " b"}, "no-marker"),
    ({"chosen": ASKED + " a", "rejected": "\n\nHuman: q"}, "no-marker"),
    ({"chosen": ASKED + " same ", "rejected": ASKED + "same"}, "identical-answers"),
    ({"chosen": ASKED + "  ", "rejected": ASKED + " b"}, "empty-answer"),
    ({"chosen": ASKED + " a", "rejected": ASKED}, "empty-answer"),
    ({"chosen": "\n\nAssistant: a", "rejected": "\n\nAssistant: b"}, "empty-prompt"),
    ({"chosen": "\n\nHuman: r\n\nAssistant: a", "rejected": ASKED + " b"}, "prompts-differ"),
    ({"prompt": "p", "chosen": "a", "rejected": " a\n"}, "identical-answers"),
    ({"prompt": " ", "chosen": "a", "rejected": "b"}, "empty-prompt"),
    ({"prompt": [], "chosen": "a", "rejected": "b"}, "empty-prompt"),
    ({"prompt": "p", "chosen": [], "rejected": [answer("b")]}, "no-answer"),
    ({"prompt": "p", "chosen": [answer("a")], "rejected": [user("b")]}, "no-answer"),
    ({"chosen": [user("p"), answer("a")], "rejected": [user("r"), answer("b")]}, "prompts-differ"),
    ({"prompt": "r", "chosen": [user("p"), answer("a")], "rejected": [user("p"), answer("b")]}, "prompts-differ"),
    ({"chosen": ASKED + " a"}, "field-missing"),
    ({"chosen": ASKED + " a", "rejected": None}, "not-a-string"),
    ({"chosen": "a", "rejected": [answer("b")], "prompt": "p"}, "not-a-string"),
    ({"chosen": "a", "rejected": "b", "prompt": None}, "not-a-string"),
    ({"chosen": [answer("a")], "rejected": [answer("b")], "prompt": 7}, "not-a-string"),
    ({"chosen": ["a"], "rejected": ["b"], "prompt": "p"}, "not-messages"),
    ({"chosen": [{"role": 1, "content": "a"}], "rejected": [answer("b")], "prompt": "p"}, "not-messages"),
    ({"chosen": [{"role": "assistant", "content": [1]}], "rejected": [answer("b")], "prompt": "p"}, "not-a-string"),
    ({"chosen": [{**answer("a"), "tool_calls": [1]}], "rejected": [answer("b")], "prompt": "p"}, "message-field"),
]


@pytest.mark.parametrize(("record", "expected"), PAIRS, ids=range(len(PAIRS)))
def test_pairs(record: dict[str, Any], expected: Pair) -> None:
    assert example(record, Rules()) == expected


@pytest.mark.parametrize(("record", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_what_gives_no_pair_says_why(record: dict[str, Any], reason: str) -> None:
    assert example(record, Rules()) == reason
    assert reason in DROPS + FAULTS


def test_a_choice_takes_its_own_forms_alone() -> None:
    hh, uf, strings = PAIRS[0][0], PAIRS[4][0], PAIRS[2][0]
    for dataset, taken in (("hh", [hh]), ("ultrafeedback", [uf]), ("both", [hh, uf]), ("auto", [hh, uf, strings])):
        found = [record for record in (hh, uf, strings) if isinstance(example(record, Rules(dataset)), Pair)]
        assert found == taken
    assert example(strings, Rules("both")) == "other-dataset"


def test_differing_prompts_may_be_kept() -> None:
    record: dict[str, Any] = {"chosen": "\n\nHuman: r\n\nAssistant: a", "rejected": ASKED + " b"}
    for rules in (Rules(keep_differing=True), Rules(like="pile-hdf5")):
        assert example(record, rules) == Pair("hh", "Human: r", "a", "b")
    record = {"prompt": "r", "chosen": [user("p"), answer("a")], "rejected": [user("q"), answer("b")]}
    assert example(record, Rules(keep_differing=True)) == Pair("ultrafeedback", "p", "a", "b")
    assert example(record, Rules(like="pile-hdf5")) == Pair("ultrafeedback", "r", "a", "b")


def test_transcripts_become_turns() -> None:
    prompt = "\n\nHuman: p\n\nq \n\nAssistant: x\n\nHuman: y"
    record = {"chosen": f"{prompt}\n\nAssistant: a", "rejected": f"{prompt}\n\nAssistant: b"}
    turns = [user("p\n\nq"), answer("x"), user("y")]
    assert example(record, Rules(turns=True)) == Pair("hh", turns, "a", "b")
    assert example(PAIRS[0][0], Rules(turns=True)) == Pair("hh", "q", "a", "b")
    for prompt in ("Human", "text\n\nHuman: q", "\n\nHuman: q\n\nAssistant: r", "\n\nHuman:\n\nHuman: q"):
        record = {"chosen": f"{prompt}\n\nAssistant: a", "rejected": f"{prompt}\n\nAssistant: b"}
        assert example(record, Rules(turns=True)) == "no-turns"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just(ASKED + "x"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["role", "content", "x"]), inner),
    max_leaves=6,
)


RECORDS = st.dictionaries(st.sampled_from(["prompt", "chosen", "rejected", "x"]), VALUES)


@settings(max_examples=60)
@given(RECORDS, st.sampled_from(["", "pile-hdf5"]), st.booleans())
def test_any_record_gives_a_pair_or_a_known_reason(record: dict[str, Any], like: str, turns: bool) -> None:
    made = example(record, Rules(like=like, turns=turns))
    if isinstance(made, str):
        assert made in DROPS + FAULTS
    else:
        assert made.chosen.strip()
        assert made.rejected.strip()
        assert made.chosen.strip() != made.rejected.strip()
        assert made.prompt
