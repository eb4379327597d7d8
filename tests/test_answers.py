"""Numbers of answers: the rule that never guesses, that of the HDF5 project, and what a completion earns."""

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenriver.answers import (
    MALFORMED_NUMBER,
    NO_NUMBER,
    SEVERAL_NUMBERS,
    extract_number,
    gold_answer,
    gold_answer_of_hdf5,
    reward,
)
from tokenriver.errors import InputError

THEIRS = {
    "#### 42": 42.0,
    "x #### -1,234.50": -1234.5,
    "#### $18": 18.0,
    "####7 and #### 9": 7.0,
    "no hash but 3 then 5": 3.0,
    "nothing": NO_NUMBER,
    "#### abc 12": 12.0,
    "a #### 1,000,000": 1000000.0,
    "#### 5%": 5.0,
    "#### .5": 5.0,
}
ANSWERED = {
    "<think>a</think><answer>42</answer>": (42.0, 1.2),
    "<answer> $1,200.5 </answer>": (1200.5, 0.2),
    "<answer>x</answer> #### 9": (9.0, 0.2),
    "so 3 and 4 gives 7.": (7.0, 0.0),
    "<answer>1</answer><answer>2</answer>": (1.0, 0.0),
    "none": (None, 0.0),
    "<answer>42": (42.0, 1.0),
    "-5 apples": (-5.0, 0.0),
    "1,2,3": (123.0, 0.0),
}


@pytest.mark.parametrize("text", THEIRS)
def test_gold_answers_as_the_hdf5_project_reads_them(text: str) -> None:
    assert gold_answer_of_hdf5(text) == THEIRS[text]


@pytest.mark.parametrize("text", ANSWERED)
def test_what_a_completion_answers_and_earns_where_42_is_right(text: str) -> None:
    answer, earned = ANSWERED[text]
    assert extract_number(text) == answer
    assert reward(text, 42.0) == earned


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        *((text, gold) for text, gold in THEIRS.items() if text not in ("no hash but 3 then 5", "#### .5")),
        ("no hash but 3 then 5", SEVERAL_NUMBERS),
        ("#### .5", 0.5),
        ("3 + 4 = 7\n####\n 1,234 dollars", 1234.0),
        ("12", 12.0),
        ("it is -5", -5.0),
        ("see page-5", 5.0),
        ("#### $-5", -5.0),
        ("#### -$5", -5.0),
        ("#### \u22123", -3.0),
        ("#### 10\u20ac", 10.0),
        ("#### 72.", 72.0),
        ("#### 1/2", SEVERAL_NUMBERS),
        ("#### 1 / 2", SEVERAL_NUMBERS),
        ("#### 3:30", SEVERAL_NUMBERS),
        ("#### 3 1/2", SEVERAL_NUMBERS),
        ("#### 10 000", SEVERAL_NUMBERS),
        ("#### 10'000", SEVERAL_NUMBERS),
        ("#### 72 (48 + 24)", 72.0),
        ("#### 72\n5 more", 72.0),
        ("#### 5-7", SEVERAL_NUMBERS),
        ("#### 12,5", MALFORMED_NUMBER),
        ("#### 1,23,456", MALFORMED_NUMBER),
        ("#### 1e9", SEVERAL_NUMBERS),
        ("#### ", NO_NUMBER),
        ("", NO_NUMBER),
        ("1 2 3 #### none", NO_NUMBER),
        ("#### 9007199254740993", MALFORMED_NUMBER),
        ("#### 9007199254740992", 9007199254740992.0),
        ("#### " + "9" * 5000, MALFORMED_NUMBER),
        ("#### \u0664\u0662", NO_NUMBER),
    ],
)
def test_gold_answers_are_never_guessed(text: str, gold: float | str) -> None:
    assert gold_answer(text) == gold


@given(
    st.integers(-(10**12), 10**12), st.integers(0, 999), st.sampled_from(["", "$"]), st.booleans(), st.text("ab #\n")
)
def test_a_number_behind_the_mark_is_the_gold_answer(
    whole: int, cents: int, unit: str, grouped: bool, before: str
) -> None:
    digits = f"{abs(whole):,}" if grouped else str(abs(whole))
    text = f"{before}\n####  {'-' if whole < 0 else ''}{unit}{digits}.{cents:03} boxes"
    value = math.copysign(float(f"{abs(whole)}.{cents:03}"), whole)
    assert gold_answer(text) == gold_answer_of_hdf5(text) == extract_number(text) == value


@settings(max_examples=60)
@given(st.text("<answer>/#$,.-+ 0123456789\u0664e", max_size=60))
def test_any_text_gives_a_finite_number_or_none(text: str) -> None:
    number, gold = extract_number(text), gold_answer(text)
    assert number is None or math.isfinite(number)
    assert (number is None) == (re.search("[0-9]", text) is None)
    assert isinstance(gold, str) or math.isfinite(gold)
    assert reward(text, 7.0) in (0.0, 0.2, 1.0, 1.2)


def test_long_and_hostile_completions() -> None:
    for text in ("9" * 100_000, "<answer>" * 20_000, "####" * 50_000, "1," * 50_000, "<answer>" * 9 + "x" * 10**5):
        extract_number(text)
        assert reward(text, 1.0) == 0.0
    for text in (
        "1" * 10**5 + "/1",
        "1." * 10**5,
        "1,111" + ",111" * 10**5 + "/2",
        ("1" + " " * 300) * 300,
        "-" * 10**5,
    ):
        assert isinstance(gold_answer(text), str)
        assert isinstance(gold_answer("#### " + text), str)
    assert extract_number("9" * 400) is None
    with pytest.raises(InputError, match="gold: got nan"):
        reward("1", math.nan)


def test_what_is_earned_is_a_choice() -> None:
    assert reward("<answer>7</answer>", 7, correct=5.0, form=0.5) == 5.5
    assert reward("7.0000001", 7) == 1.0
