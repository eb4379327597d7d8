"""Lengths in characters and in ids, against a loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenriver.errors import InputError
from tokenriver.filters.length import num_chars, rules

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20), max_size=12)


@given(TEXTS)
def test_characters_are_code_points(texts: list[str]) -> None:
    found = num_chars([text.encode() for text in texts])
    assert found.dtype == np.int64
    assert found.tolist() == [len(text) for text in texts]


def test_a_character_of_several_code_points_counts_each() -> None:
    assert num_chars([b"abc", "e\u0301".encode(), "漢字🙂".encode()]).tolist() == [3, 2, 3]


@given(TEXTS, st.integers(1, 15), st.integers(0, 10))
def test_bounds_are_inclusive(texts: list[str], low: int, more: int) -> None:
    least, most = rules({"max_chars": low + more, "min_chars": low})
    assert [rule.reason for rule in (least, most)] == ["min_chars", "max_chars"]
    assert least.keep_texts is not None
    assert most.keep_texts is not None
    raw = [text.encode() for text in texts]
    assert least.keep_texts(raw).tolist() == [len(text) >= low for text in texts]
    assert most.keep_texts(raw).tolist() == [len(text) <= low + more for text in texts]


def test_ids_are_compared_as_they_are() -> None:
    least, most = rules({"min_ids": 2, "max_ids": 3})
    assert least.keep_lengths is not None
    assert most.keep_lengths is not None
    lengths = np.array([1, 2, 3, 4])
    assert least.keep_lengths(lengths).tolist() == [False, True, True, True]
    assert most.keep_lengths(lengths).tolist() == [True, True, True, False]


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        ({}, "no bound"),
        ({"min_tokens": 3}, "min_tokens"),
        ({"min_chars": 0}, "min_chars: got 0"),
        ({"max_ids": -1}, "max_ids: got -1"),
        ({"max_ids": 1.5}, "whole number"),
        ({"max_ids": "many"}, "'many'"),
        ({"min_ids": 5, "max_ids": 4}, "nothing would stay"),
    ],
)
def test_bounds_that_cannot_be_meant(parameters: dict[str, int | float | str], what: str) -> None:
    with pytest.raises(InputError, match=what):
        rules(parameters)
