"""Problems of arithmetic: all different, answers right, the same from any side."""

import ast
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenriver.arithmetic import LEVELS, Level, problems, problems_of_hdf5
from tokenriver.errors import InputError, LimitError

OPERATORS: dict[type, Any] = {
    ast.Add: Fraction.__add__,
    ast.Sub: Fraction.__sub__,
    ast.Mult: Fraction.__mul__,
    ast.Div: Fraction.__truediv__,
}


def _value(node: ast.expr) -> Fraction:
    """What an expression is worth, by the grammar of Python."""
    if isinstance(node, ast.UnaryOp):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp):
        value: Fraction = OPERATORS[type(node.op)](_value(node.left), _value(node.right))
        return value
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, int)
    return Fraction(node.value)


def check(prompt: str, gold: float) -> None:
    expression = prompt.removeprefix("What is ").removesuffix("?")
    assert _value(ast.parse(expression, mode="eval").body) == Fraction(gold)


LEVEL = st.builds(
    lambda low, span, signs, numbers: Level(low, low + span, "".join(signs), numbers),
    st.integers(-6, 6),
    st.integers(0, 5),
    st.lists(st.sampled_from("+-*"), min_size=1, max_size=3, unique=True),
    st.sampled_from([2, 3]),
) | st.builds(lambda low, span: Level(low, low + span, "+/"), st.integers(-6, 6), st.integers(1, 5))


@settings(max_examples=25, deadline=None)
@given(LEVEL, st.integers(-3, 3))
def test_every_problem_of_a_level_comes_once_and_is_right(level: Level, seed: int) -> None:
    made = list(problems(level.size, seed=seed, level=level))
    assert len(made) == len(set(made)) == len({prompt for prompt, _ in made}) == level.size
    for prompt, gold in made[:200]:
        check(prompt, gold)
    again = list(problems(level.size + 1, seed=seed, level=level, repeats=True))
    assert again[: level.size] == made
    assert again[level.size] in made


@pytest.mark.parametrize("level", LEVELS)
def test_levels(level: int) -> None:
    made = list(problems(200, level=level, seed=3))
    assert made[:50] == list(problems(50, level=level, seed=3))
    assert made[:50] != list(problems(50, level=level, seed=4))
    assert len(dict(made)) == 200
    for prompt, gold in made:
        check(prompt, gold)


def test_what_no_level_has_is_refused() -> None:
    with pytest.raises(LimitError, match="got 201, expected at most 200, the different problems"):
        problems(201, level=1)
    refused: list[tuple[int | Level, str]] = [
        (9, "level: got 9, expected one of 1, 2, 3, 4, 5"),
        (Level(3, 2), "got 3 to 2"),
        (Level(0, 1 << 40), "expected a range within"),
        (Level(0, 9, "++"), "operators"),
        (Level(0, 9, ""), "operators"),
        (Level(0, 9, "/", numbers=3), "operators"),
        (Level(0, 9, numbers=4), "numbers: got 4"),
        (Level(0, 0, "/"), "division by 0"),
    ]
    for level, named in refused:
        with pytest.raises(InputError, match=named):
            problems(1, level=level)


@pytest.mark.parametrize(
    ("seed", "largest", "expected"),
    [
        (0, 20, "12 + 13 8 - 16 12 - 9 11 + 18 16 - 4 4 * 3"),
        (1, 20, "4 + 18 8 - 3 14 * 15 12 + 6 15 - 0 13 + 19"),
        (7, 5, "2 - 1 5 + 0 4 - 0 4 * 0 1 + 0 3 + 3"),
        (123, 100, "6 + 34 98 - 52 13 - 4 68 - 71 43 + 6 17 * 43"),
    ],
)
def test_the_problems_of_the_hdf5_project(seed: int, largest: int, expected: str) -> None:
    made = list(problems_of_hdf5(6, seed=seed, largest=largest))
    assert " ".join(prompt.removeprefix("What is ").removesuffix("?") for prompt, _ in made) == expected
    for prompt, gold in made:
        check(prompt, gold)
