"""Columns of decimal text against Python's own."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenriver.formats import _decimals


@settings(max_examples=100, derandomize=True)
@given(st.lists(st.integers(0, 2**63 - 1) | st.sampled_from([0, 9, 10, 99, 100, 10**18 - 1, 10**18]), max_size=20))
def test_digits_are_pythons(values: list[int]) -> None:
    table, counts = _decimals.digits(np.array(values, np.int64))
    cells = [row[there].tobytes().decode() for row, there in zip(table, _decimals.shown(counts), strict=True)]
    assert cells == [str(value) for value in values]


@settings(max_examples=200, derandomize=True)
@given(st.lists(st.from_regex(r"[0-9]{1,20}", fullmatch=True) | st.text("0129 -+.x", max_size=20), max_size=12))
def test_numbers_are_pythons(texts: list[str]) -> None:
    data = np.frombuffer("".join(texts).encode() + b"7", np.uint8)
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    begins = ends - np.array([len(text) for text in texts], np.int64)
    values, good = _decimals.parse(data, begins, ends)
    for text, value, holds in zip(texts, values.tolist(), good.tolist(), strict=True):
        assert holds == (text.isdigit() and len(text) <= _decimals.MAX_DIGITS)
        if holds:
            assert value == int(text)
