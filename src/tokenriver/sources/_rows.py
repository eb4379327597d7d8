"""What every source shares: collecting rows into batches, and the byte-order mark at the start of a stream."""

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from tokenriver.sources import _reasons
from tokenriver.types import BadRow, DocumentBatch

BATCH_BYTES = 2 << 20
"""A batch is given out when its texts reach this; it exceeds it by one block (1 MiB) or one row."""
MAX_REJECTED = 1 << 14
"""Rows without a document are objects, so a batch also ends after this many."""
MARK = b"\xef\xbb\xbf"
_SLICE = 1 << 20


class Rows:
    """The rows of one piece on their way into batches; keeps the count of raw rows right whatever becomes of them."""

    def __init__(self) -> None:
        self._first = 0  # number of the batch's first raw row in the piece
        self._clear()

    def _clear(self) -> None:
        self._texts: list[bytes] = []
        self._count = 0
        self._bytes = 0
        self._missing: list[int] = []
        self._bad: list[BadRow] = []
        self._notes: dict[str, int] = {}

    @property
    def full(self) -> bool:
        return self._bytes >= BATCH_BYTES or len(self._missing) >= MAX_REJECTED

    @property
    def waiting(self) -> bool:
        """Is there anything that no batch has carried yet?"""
        return bool(self._count or self._notes)

    def extend(self, texts: list[bytes], num_bytes: int) -> None:
        """Consecutive rows that each gave a text; num_bytes is about their size."""
        self._texts += texts
        self._count += len(texts)
        self._bytes += num_bytes

    def add(self, text: bytes) -> None:
        """One row that gave a text; an empty one is noted and gives no document."""
        if text:
            self._texts.append(text)
            self._bytes += len(text)
            self._count += 1
        else:
            self.skip(_reasons.EMPTY)

    def skip(self, reason: str) -> None:
        """One row that rightly gave no document."""
        self.note(reason)
        self._missing.append(self._count)
        self._count += 1

    def reject(self, reason: str, offset: int) -> None:
        """One bad row, at this byte offset of the input (-1 where there is none)."""
        self._bad.append(BadRow(self._first + self._count, offset, reason))
        self._missing.append(self._count)
        self._count += 1

    def note(self, reason: str) -> None:
        self._notes[reason] = self._notes.get(reason, 0) + 1

    def take(self) -> DocumentBatch:
        """Everything since the last take."""
        records = np.arange(self._first, self._first + self._count, dtype=np.int64)
        if self._missing:
            records = np.delete(records, self._missing)
        batch = DocumentBatch(self._texts, records, self._count, tuple(self._bad), self._notes)
        self._first += self._count
        self._clear()
        return batch


def begin(blocks: Iterable[bytes], offset: int, *, first: bool) -> tuple[Rows, Iterator[bytes], int]:
    """Empty rows, and the blocks of a stream that starts at byte `offset`; of an input's first bytes (`first`) without
    a byte-order mark, which is noted and passed in the offset."""
    rows = Rows()
    if not first:
        return rows, iter(blocks), offset
    rest, marked = drop_mark(blocks)
    if not marked:
        return rows, rest, offset
    rows.note(_reasons.BYTE_ORDER_MARK)
    return rows, rest, offset + len(MARK)


def drop_mark(blocks: Iterable[bytes]) -> tuple[Iterator[bytes], bool]:
    """The blocks without a leading UTF-8 byte-order mark, and whether there was one."""
    rest = iter(blocks)
    head = b""
    for block in rest:
        head += block
        if len(head) >= len(MARK):
            break
    marked = head.startswith(MARK)
    return chain([head[len(MARK) :] if marked else head], rest), marked


def is_utf8(text: bytes) -> bool:
    """Strict UTF-8 (no surrogates, no overlong forms), checked in slices so that a huge text is not held twice."""
    if text.isascii():
        return True
    if len(text) <= _SLICE:
        return _decodes(text)
    view, start = memoryview(text), 0
    while start < len(text):
        stop = min(start + _SLICE, len(text))
        while stop < len(text) and stop > start and text[stop] & 0xC0 == 0x80:
            stop -= 1  # the slice ends between two code points
        if stop == start or not _decodes(view[start:stop]):
            return False
        start = stop
    return True


def _decodes(view: bytes | memoryview) -> bool:
    try:
        str(view, "utf-8")
    except UnicodeDecodeError:
        return False
    return True
