"""Columns of whole numbers as decimal text, and back, without a Python object per number."""

import numpy as np
from numpy.typing import NDArray

from tokenriver.types import Int64

Bytes = NDArray[np.uint8]
MAX_DIGITS = 18
"""Any number of so many digits is an int64."""
_WIDTH = 19


def digits(values: Int64) -> tuple[Bytes, Int64]:
    """((k, 19) ASCII digits, right-justified; (k,) how many of the last ones make up the number) of k numbers, none
    negative."""
    table: Bytes = np.full((len(values), _WIDTH), ord("0"), np.uint8)
    counts = np.ones(len(values), np.int64)
    rest = values
    for place in range(_WIDTH - 1, -1, -1):
        rest, digit = np.divmod(rest, 10)
        table[:, place] += digit.astype(np.uint8)
        counts += rest > 0
        if not rest.any():
            break
    return table, counts


def shown(counts: Int64) -> NDArray[np.bool_]:
    """(k, 19) which cells of `digits` are part of a number."""
    cells: NDArray[np.bool_] = np.arange(_WIDTH) >= _WIDTH - counts[:, None]
    return cells


def parse(text: Bytes, begins: Int64, ends: Int64) -> tuple[Int64, NDArray[np.bool_]]:
    """The numbers in text[begin:end], and whether each is one: 1 to 18 ASCII digits."""
    lengths = ends - begins
    good = (lengths > 0) & (lengths <= MAX_DIGITS)
    values = np.zeros(len(begins), np.int64)
    for place in range(int(np.where(good, lengths, 0).max(initial=0))):
        there = good & (place < lengths)
        digit = text[np.where(there, begins + place, 0)].astype(np.int64) - ord("0")
        good &= ~there | ((digit >= 0) & (digit <= 9))
        values = np.where(there, values * 10 + digit, values)
    return values, good
