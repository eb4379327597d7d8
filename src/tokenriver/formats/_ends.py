"""Document ends that a file of a foreign format holds, checked before they are used."""

from pathlib import Path

import numpy as np

from tokenriver.errors import FormatError
from tokenriver.formats._columns import BLOCK, first_fall
from tokenriver.types import Int64


def check(path: Path, ends: Int64, total: int) -> None:
    """FormatError unless ends never fall, none is negative, and the last one is `total`, the ids of the shard."""
    before = 0
    for at in range(0, len(ends), BLOCK):
        block = ends[at : at + BLOCK]
        bad = first_fall(block, before)
        if bad is not None:
            least = int(block[bad - 1]) if bad else before
            raise FormatError(f"{path}: end of document {at + bad}: got {int(block[bad])}, expected at least {least}")
        before = int(block[-1])
    if before != total:
        raise FormatError(f"{path}: end of the last document: got {before}, expected {total}, by the shard's ids")


def of_rows(count: int, length: int) -> Int64:
    """(count,) ends of `count` rows of `length` ids each."""
    return np.arange(1, count + 1, dtype=np.int64) * length
