"""Records of multiple choice: how they are told and rendered, and every reason why one gives no example."""

from typing import Any

import pytest

from choice_cases import HELLASWAG, MMLU
from tokenriver import registry
from tokenriver.choicedata import Rendering
from tokenriver.errors import InputError

choice = registry.load("examples", "choice")
PLAIN = {"context": "a b", "choices": ["c", "d"], "label": 1}


def texts(row: dict[str, Any], **options: str | bool) -> tuple[str, list[str], int]:
    given: dict[str, Any] = {**options}
    found = choice.example(row, Rendering(**given))
    assert not isinstance(found, str), found
    return found.texts.context, found.texts.choices, found.label


def test_hellaswag_is_as_the_original_has_it() -> None:
    row = HELLASWAG[0]
    assert texts(row) == (row["ctx"], [f" {ending}" for ending in row["endings"]], 0)
    hub = {"ind": 4, "ctx_a": "A man. ", "ctx_b": "he", "endings": ["runs", "sits"], "label": "1", "split": "val"}
    assert texts(hub) == ("A man.  he", [" runs", " sits"], 1)
    assert texts({**hub, "ctx_b": ""})[0] == "A man. "
    assert texts({**hub, "ctx": "whole"})[0] == "whole"
    assert choice.example(hub, Rendering()).texts.choice_bytes == [4, 4]


def test_mmlu_has_its_usual_prompt() -> None:
    prompt = "2 + 2?\nA. 3\nB. four\nC. 5\nD. 22\nAnswer:"
    assert texts(MMLU) == (prompt, [" A", " B", " C", " D"], 1)
    assert texts(MMLU, answers="full") == (prompt, [" 3", " four", " 5", " 22"], 1)
    columns = {"input": "2 + 2?", "A": "3", "B": "four", "C": "5", "D": "22", "target": "B"}
    assert texts(columns) == texts(MMLU) == texts({**MMLU, "answer": "B"})
    assert choice.example(MMLU, Rendering()).texts.choice_bytes == [1] * 4
    assert choice.example(MMLU, Rendering(answers="full")).texts.choice_bytes == [1, 4, 1, 2]


def test_a_style_is_independent_of_the_fields() -> None:
    assert texts(PLAIN, style="mmlu")[0] == "a b\nA. c\nB. d\nAnswer:"
    assert texts(HELLASWAG[5], style="plain") == texts(HELLASWAG[5])
    assert texts(MMLU, style="hellaswag") == ("2 + 2?", [" 3", " four", " 5", " 22"], 1)


@pytest.mark.parametrize(
    ("context", "answer"), [("Answer:", "A"), ("Answer:", " A"), ("Answer: ", "A"), ("Answer:  ", "  A")]
)
def test_the_space_belongs_to_the_choice(context: str, answer: str) -> None:
    row = {"context": context, "choices": [answer, "B"], "label": 0}
    assert texts(row) == ("Answer:", [" A", " B"], 0)
    moved = (context, answer) != ("Answer:", "A")
    assert choice.notes(choice.example(row, Rendering())) == (["space-moved-to-choice"] if moved else [])


def test_nothing_joins_where_nothing_should() -> None:
    row = {"context": "Answer:\n", "choices": ["A", " B"], "label": 0}
    assert texts(row) == ("Answer:\n", ["A", " B"], 0)
    assert texts({**row, "context": "hello wor "}, join="") == ("hello wor ", ["A", " B"], 0)
    assert texts({**row, "context": "q"}, join="\n") == ("q", ["\nA", "\nB"], 0)


def test_equal_choices_are_noted() -> None:
    assert choice.notes(choice.example({**PLAIN, "choices": ["c", "c"]}, Rendering())) == ["equal-choices"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"context": None}, "null"),
        ({"context": 3}, "not-a-string"),
        ({"context": " \n"}, "empty-context"),
        ({"choices": None}, "null"),
        ({"choices": "cd"}, "not-a-list"),
        ({"choices": {"text": ["c"]}}, "not-a-list"),
        ({"choices": []}, "too-few-choices"),
        ({"choices": ["c"]}, "too-few-choices"),
        ({"choices": ["c", 4]}, "not-a-string"),
        ({"choices": ["c", None]}, "null"),
        ({"choices": ["c", ""]}, "empty-choice"),
        ({"choices": ["c", "  "]}, "empty-choice"),
        ({"label": None}, "no-label"),
        ({"label": ""}, "no-label"),
        ({"label": 2}, "label-out-of-range"),
        ({"label": -1}, "label-out-of-range"),
        ({"label": "2"}, "label-out-of-range"),
        ({"label": "C"}, "label-out-of-range"),
        ({"label": "c"}, "not-a-label"),
        ({"label": "²"}, "not-a-label"),
        ({"label": "\u0661"}, "not-a-label"),
        ({"label": "9" * 5000}, "not-a-label"),
        ({"label": True}, "not-a-label"),
        ({"label": 1.0}, "not-a-label"),
        ({"label": [1]}, "not-a-label"),
    ],
)
def test_bad_values_have_their_reasons(change: dict[str, Any], reason: str) -> None:
    assert choice.example({**PLAIN, **change}, Rendering()) == reason


@pytest.mark.parametrize("name", PLAIN)
def test_a_missing_field_is_named_as_such(name: str) -> None:
    row = {key: value for key, value in PLAIN.items() if key != name}
    assert choice.example(row, Rendering()) == ("unknown-fields" if name == "context" else "field-missing")


def test_other_records_are_unknown() -> None:
    assert choice.example({"text": "a"}, Rendering()) == "unknown-fields"
    assert choice.example({"endings": ["a", "b"], "label": 0}, Rendering()) == "field-missing"
    assert choice.example({**MMLU, "choices": ["x"] * 27}, Rendering()) == "too-many-choices"


@pytest.mark.parametrize(("option", "value"), [("style", "arc"), ("answers", "both"), ("join", "x")])
def test_options_that_cannot_be_meant(option: str, value: str) -> None:
    given: dict[str, Any] = {option: value}
    with pytest.raises(InputError, match=f"^{option}: got '{value}', expected"):
        choice.check_rendering(Rendering(**given))


def test_in_turns_nothing_joins() -> None:
    """A template writes what stands between context and choice."""
    assert texts(HELLASWAG[0], turns=True)[1] == HELLASWAG[0]["endings"]
    assert texts(MMLU, turns=True)[1] == ["A", "B", "C", "D"][: len(MMLU["choices"])]
    assert texts(MMLU, turns=True, answers="full")[1] == MMLU["choices"]
    assert texts({**PLAIN, "context": "a ", "choices": ["c", "  d"]}, turns=True)[:2] == ("a ", ["c", "  d"])
    for row in (HELLASWAG[0], MMLU):
        assert texts(row, turns=True)[0] == texts(row)[0]
