"""Rows filled from a buffer of documents, as nanochat fills them: the longest that fits, else the shortest, cropped.

Documents are fetched in the order of the river, some at a time, until the buffer holds enough. A row takes the longest
document that still fits it (of equals the one that came first); where none fits, the shortest (of equals the first)
fills the row with its head, and the rest of it is lost. At the end of the documents the buffer runs empty.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tokenriver.types import Int64

# length and place in the order of arrival in one whole number: a place has so many bits
_BITS = 40
MAX_ARRIVALS = 1 << _BITS
_LAST = MAX_ARRIVALS - 1


@dataclass(frozen=True, slots=True)
class Fetching:
    """In which order and how many at a time documents come into the buffers of some readers."""

    row_groups: Sequence[Sequence[int]]
    """Documents of each row group of each file; reader r of n takes the groups r, r + n, ... of each."""
    fetch: int
    """Documents fetched at a time, never of two row groups."""
    passes: int
    """Times that the files are gone through; the buffer is kept from one to the next."""
    readers: int

    def of_reader(self, reader: int) -> Iterator[tuple[int, int, int]]:
        """(pass, first document, last document + 1) of each fetch."""
        for turn in range(self.passes):
            begin = 0
            for groups in self.row_groups:
                for number, documents in enumerate(groups):
                    if number % self.readers == reader:
                        for at in range(begin, begin + documents, self.fetch):
                            yield turn, at, min(at + self.fetch, begin + documents)
                    begin += documents


@dataclass(frozen=True, slots=True)
class Filled:
    """Full rows: spans of whole documents, and of one head at the most, which is the row's last."""

    row_ends: Int64
    documents: Int64
    """The document of each span."""
    sizes: Int64
    """Ids of each span."""


def fill(lengths: Int64, fetches: Iterator[tuple[int, int, int]], capacity: int, buffer: int) -> Filled:
    """Rows of `capacity` ids from a buffer of at least so many documents, as long as there are documents; a last row
    that is not full is left out."""
    waiting: list[int] = []
    row_ends, documents, sizes = array("q"), array("q"), array("q")
    room = capacity
    while True:
        while len(waiting) < buffer:
            fetched = next(fetches, None)
            if fetched is None:
                break
            turn, first, last = fetched
            for place, length in enumerate(lengths[first:last].tolist(), turn * len(lengths) + first):
                if length:
                    insort(waiting, (length << _BITS) | place)
        if not waiting:
            break
        fitting = bisect_right(waiting, (room << _BITS) | _LAST)
        longest = (waiting[fitting - 1] >> _BITS) << _BITS if fitting else 0
        taken = waiting.pop(bisect_left(waiting, longest))
        size = min(taken >> _BITS, room)
        documents.append((taken & _LAST) % len(lengths))
        sizes.append(size)
        room -= size
        if not room:
            row_ends.append(len(sizes))
            room = capacity
    full = row_ends[-1] if row_ends else 0
    columns = (np.frombuffer(column, np.int64) if column else np.empty(0, np.int64) for column in (documents, sizes))
    kept = [column[:full] for column in columns]
    return Filled(np.array(row_ends, np.int64), kept[0], kept[1])
