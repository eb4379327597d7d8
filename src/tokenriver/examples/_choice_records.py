"""Records of the known data sets of multiple choice, told by their fields, and their text as the originals have it.

Reading a record and rendering it are apart: any record is a context, choices and a label; how these become text is the
style, which is the record's own unless another is asked for. The context and each choice are encoded apart, so a choice
never merges with its context and is never without ids; where a space joins them it belongs to the choice.
"""

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

# why a record gave no example
FIELD_MISSING = "field-missing"
UNKNOWN_FIELDS = "unknown-fields"
NULL = "null"
NOT_A_STRING = "not-a-string"
NOT_A_LIST = "not-a-list"
EMPTY_CONTEXT = "empty-context"
EMPTY_CHOICE = "empty-choice"
TOO_FEW_CHOICES = "too-few-choices"
TOO_MANY_CHOICES = "too-many-choices"
NO_LABEL = "no-label"
NOT_A_LABEL = "not-a-label"
LABEL_OUT_OF_RANGE = "label-out-of-range"
# rules that were applied, and no faults
MOVED_SPACE = "space-moved-to-choice"
EQUAL_CHOICES = "equal-choices"

LETTERS = string.ascii_uppercase
ANSWERS = ("letters", "full")


@dataclass(frozen=True, slots=True)
class Shape:
    """How one kind of record is told, and where its parts are."""

    name: str
    told_by: tuple[str, ...]
    """Any of these fields."""
    context: tuple[str, ...]
    """The first of these that is there; two names with + between them are joined by a space."""
    choices: tuple[str, ...]
    """The first of these that is there; `A..` is a field for each letter."""
    label: tuple[str, ...]


SHAPES = (
    Shape("hellaswag", ("endings",), ("ctx", "ctx_a+ctx_b"), ("endings",), ("label",)),
    Shape("mmlu", ("question", "input"), ("question", "input"), ("choices", "A.."), ("answer", "target")),
    Shape("plain", ("context",), ("context",), ("choices",), ("label",)),
)
"""The first that fits is the record's."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a record holds, whatever its shape."""

    shape: str
    context: str
    choices: list[str]
    label: int


@dataclass(frozen=True, slots=True)
class Texts:
    """What is encoded."""

    context: str
    choices: list[str]
    choice_bytes: list[int]
    """UTF-8 bytes of each choice without the space that joins it to the context."""
    moved: bool = False
    """Were spaces at the end of the context or the start of a choice made one?"""


Record = Mapping[str, Any]


def read_record(row: Record) -> Parts | str:
    """The parts of a record, or the reason why it has none."""
    shape = next((shape for shape in SHAPES if any(name in row for name in shape.told_by)), None)
    if shape is None:
        return UNKNOWN_FIELDS
    context, choices = _context(row, shape), _choices(row, shape)
    if reason := _fault_of_text(context, EMPTY_CONTEXT) or _fault_of_choices(choices):
        return reason
    assert isinstance(context, str)
    assert isinstance(choices, list)
    label = next((row[name] for name in shape.label if name in row), _ABSENT)
    number = _label(label, len(choices))
    return number if isinstance(number, str) else Parts(shape.name, context, list(choices), number)


_ABSENT = object()


def _context(row: Record, shape: Shape) -> object:
    for name in shape.context:
        first, _, second = name.partition("+")
        if first not in row:
            continue
        if not second or not isinstance(row[first], str) or row.get(second) in (None, ""):
            return row[first]
        return f"{row[first]} {row[second]}" if isinstance(row[second], str) else row[second]
    return _ABSENT


def _choices(row: Record, shape: Shape) -> object:
    for name in shape.choices:
        if name == "A.." and "A" in row:
            count = next((at for at, letter in enumerate(LETTERS) if letter not in row), len(LETTERS))
            return [row[letter] for letter in LETTERS[:count]]
        if name in row:
            return row[name]
    return _ABSENT


def _fault_of_text(text: object, empty: str) -> str:
    if text is _ABSENT:
        return FIELD_MISSING
    if text is None:
        return NULL
    if not isinstance(text, str):
        return NOT_A_STRING
    return "" if text.strip() else empty


def _fault_of_choices(choices: object) -> str:
    if choices is _ABSENT:
        return FIELD_MISSING
    if choices is None:
        return NULL
    if not isinstance(choices, list):
        return NOT_A_LIST
    if len(choices) < 2:
        return TOO_FEW_CHOICES
    return next((reason for choice in choices if (reason := _fault_of_text(choice, EMPTY_CHOICE))), "")


def _label(label: object, count: int) -> int | str:
    """Which choice is right: an index, also as digits, or a letter; else the reason."""
    if label is _ABSENT:
        return FIELD_MISSING
    if label is None or label == "":
        return NO_LABEL
    if isinstance(label, str) and label.isascii() and len(label) < 10:
        if label.isdecimal():
            label = int(label)
        elif len(label) == 1 and label in LETTERS:
            label = LETTERS.index(label)
    if not isinstance(label, int) or isinstance(label, bool):
        return NOT_A_LABEL
    return label if 0 <= label < count else LABEL_OUT_OF_RANGE


# ------------------------------------------------------------------------------------------------ text


def hellaswag(parts: Parts, answers: str, join: str) -> Texts | str:
    """The context as it is; each choice after one space."""
    return Texts(parts.context, [f" {choice}" for choice in parts.choices], _sizes(parts.choices))


def mmlu(parts: Parts, answers: str, join: str) -> Texts | str:
    """The question, a line for each choice with its letter, and `Answer:`; the choices are the letters, or with
    answers="full" their texts."""
    if len(parts.choices) > len(LETTERS):
        return TOO_MANY_CHOICES
    lines = [f"{letter}. {choice}" for letter, choice in zip(LETTERS, parts.choices, strict=False)]
    shown = parts.choices if answers == "full" else list(LETTERS[: len(parts.choices)])
    context = "\n".join([parts.context, *lines, "Answer:"])
    return Texts(context, [f" {choice}" for choice in shown], _sizes(shown))


def plain(parts: Parts, answers: str, join: str) -> Texts | str:
    """Context and choice with `join` between them, which belongs to the choice: spaces that are there already, on
    either side, become that one. A context that ends in a line break or tab is joined to nothing."""
    bare = parts.context.rstrip(" ")
    if not join or bare[-1:].isspace():
        return Texts(parts.context, parts.choices, _sizes(parts.choices))
    trimmed = [choice.lstrip(" ") for choice in parts.choices]
    moved = bare != parts.context or trimmed != parts.choices
    return Texts(bare, [join + choice for choice in trimmed], _sizes(trimmed), moved)


def apart(parts: Parts, style: str, answers: str) -> Texts | str:
    """Context and choices with nothing between them, as a style has them."""
    made = STYLES[style](parts, answers, "")
    if isinstance(made, str) or style == "plain":
        return made
    return replace(made, choices=[choice[1:] for choice in made.choices])


def _sizes(texts: Sequence[str]) -> list[int]:
    return [len(text.encode("utf-8", "surrogatepass")) for text in texts]


STYLES: Mapping[str, Callable[[Parts, str, str], Texts | str]] = {
    "hellaswag": hellaswag,
    "mmlu": mmlu,
    "plain": plain,
}
