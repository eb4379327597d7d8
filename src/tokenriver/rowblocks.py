"""Rows of a table in blocks of so many, and which parts of tables are looked at where not all are."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tokenriver.types import DocumentBatch


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Some consecutive rows."""

    rows: int
    texts: list[bytes]
    bad: int
    """Rows that gave no document and should have."""


def row_blocks(batches: Iterable[DocumentBatch], size: int) -> Iterator[RowBlock]:
    """The rows of a piece in blocks of `size` (at least 1), the last one shorter."""
    texts: list[bytes] = []
    block = bad = read = 0
    for batch in batches:
        read += batch.rows_read
        at = 0
        while True:
            edge = (block + 1) * size
            stop = int(np.searchsorted(batch.records, edge))
            texts += batch.texts[at:stop]
            bad += sum(block * size <= row.record < edge for row in batch.bad)
            at = stop
            if read < edge:
                break
            yield RowBlock(size, texts, bad)
            texts, bad, block = [], 0, block + 1
    if read > block * size:
        yield RowBlock(read - block * size, texts, bad)


def spread(sizes: Sequence[float], points: int) -> list[int]:
    """How many of `points` evenly spaced places in parts end to end lie in each part."""
    ends = np.cumsum(sizes)
    places = ends[-1] * (2 * np.arange(points) + 1) / (2 * points) if len(ends) else ends
    found = np.searchsorted(ends, places, "right")
    return [int(count) for count in np.bincount(found, minlength=len(ends))]
