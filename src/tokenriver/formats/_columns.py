"""Columns of numbers in an open file, of any length and at any alignment: read in blocks, so that a check of 10^8 of
them needs a few megabytes."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver.errors import FormatError
from tokenriver.types import Int64

BLOCK = 1 << 18


def read_blocks(
    path: Path, fd: int, dtype: str, offset: int, count: int, block: int = BLOCK
) -> Iterator[np.ndarray[Any, Any]]:
    """The `count` values from byte `offset` on, in blocks; the caller has checked the size. FormatError if the file
    has become shorter meanwhile."""
    kind = np.dtype(dtype)
    for at in range(0, count, block):
        wanted = min(block, count - at) * kind.itemsize
        data = os.pread(fd, wanted, offset + at * kind.itemsize)
        if len(data) != wanted:
            raise FormatError(
                f"{path}: bytes at {offset + at * kind.itemsize}: got {len(data)}, expected {wanted}; "
                "the file has changed since it was opened"
            )
        yield np.frombuffer(data, kind)


def first_fall(ends: np.ndarray[Any, Any], before: int) -> int | None:
    """Where in a block an end lies below the one before it; None if none does. Compared, not subtracted: a difference
    of hostile numbers can wrap round to a good one."""
    if len(ends) == 0:
        return None
    if int(ends[0]) < before:
        return 0
    falling = ends[1:] < ends[:-1]
    return int(np.argmax(falling)) + 1 if falling.any() else None


def lengths_of(blocks: Iterator[Int64]) -> Iterator[Int64]:
    """Blocks of document lengths from blocks of ends."""
    before = 0
    for ends in blocks:
        if len(ends):
            yield np.diff(ends, prepend=before)
            before = int(ends[-1])
