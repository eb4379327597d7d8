"""Pieces of mapped files copied end to end in blocks of a few cache lines, with no object of Python for a piece.

Every BLOCK bytes of the result one block is taken from the piece that its first byte belongs to; it is wrong from where
that piece ends. Then one more block is laid at the begin of each piece, in their order: what one of them writes beyond
its own piece the next ones mend. Both are one operation of numpy on opaque items that overlap.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tokenriver.types import Int32, Int64

BLOCK = 256
"""Bytes of a block, a multiple of those of every id."""
# each has 8 bytes, and 4 more where there are several views
MAX_BLOCKS = 1 << 20
# longer pieces are copied as fast one by one
MAX_MEAN = 2048
# fewer pieces of a view are sooner cut one by one
MIN_PIECES = 48

Bytes = NDArray[np.uint8]
Items = NDArray[np.void]
ITEM = np.dtype((np.void, BLOCK))


class Blocks:
    """Where the blocks of many pieces lie, for those of any of them that follow each other."""

    __slots__ = (
        *("_begins", "_bytes", "_items", "_late", "_late_at"),
        *("_only", "_places", "_sources", "_which", "_which_blocks"),
    )

    def __init__(self, views: Sequence[memoryview], which: Int32, begins: Int64, ends: Int64) -> None:
        """Piece i is the bytes begins[i] to ends[i] of views[which[i]]; one view at least has BLOCK bytes."""
        self._bytes = [np.frombuffer(view, np.uint8) if len(view) else np.empty(0, np.uint8) for view in views]
        self._items = [_items(data) for data in self._bytes]
        self._places = np.zeros(len(begins) + 1, np.int64)
        np.cumsum(ends - begins, out=self._places[1:])
        known = np.array([len(items) for items in self._items], np.int64)
        # no block may end outside its view: pieces that end so close to it are copied one by one
        self._late_at = np.flatnonzero(np.maximum(ends, begins + 1) > known[which])
        late = zip(*(column[self._late_at].tolist() for column in (which, begins, ends)), strict=True)
        self._late = [views[number][begin:end] for number, begin, end in late]
        if self._late:
            which, begins = which.copy(), begins.copy()
            which[self._late_at], begins[self._late_at] = known.argmax(), 0
        self._begins, self._which = begins, which
        edges = -(-self._places // BLOCK)
        counts = np.diff(edges)
        self._sources = np.arange(0, BLOCK * (int(edges[-1]) + 1), BLOCK)
        self._sources[:-1] += np.repeat(begins - self._places[:-1], counts)
        # the block behind the last one, and those of what is copied one by one, may be any of the longest view
        np.minimum(self._sources, known.max() - 1, out=self._sources)
        longest = np.int32(known.argmax())
        self._only = longest.item() if (which == longest).all() else None
        self._which_blocks = which[:0] if self._only is not None else np.append(np.repeat(which, counts), longest)

    @property
    def num_views(self) -> int:
        """How many views the blocks lie in."""
        return 1 if self._only is not None else int(np.count_nonzero(np.bincount(self._which)))

    def joined(self, first: int, last: int, slack: int) -> Bytes:
        """The bytes of the pieces [first, last), at least one, and `slack` (at most BLOCK) more of any value."""
        pieces = slice(first, last)
        begin, end = self._places.item(first), self._places.item(last)
        blocks = slice(begin // BLOCK, -(-end // BLOCK) + 1)
        begins, moved = self._begins[pieces], blocks.start * BLOCK
        if self._only is not None:
            # first one byte of each piece: so the memory looks for many of them at the same time
            self._bytes[self._only][begins]
        found = self._take(self._which_blocks[blocks], self._sources[blocks])
        flat = found.view(np.uint8)
        # numpy assigns in the order of the index
        _items(flat)[self._places[pieces] - moved] = self._take(self._which[pieces], begins)
        if self._late:
            for number in range(*self._late_at.searchsorted((first, last)).tolist()):
                at = self._places.item(self._late_at.item(number)) - moved
                flat.data[at : at + len(self._late[number])] = self._late[number]
        return flat[begin - moved : end - moved + slack]

    def _take(self, which: Int32, sources: Int64) -> Items:
        """The blocks that begin at these bytes."""
        if self._only is not None:
            return self._items[self._only][sources]
        found = np.empty(len(sources), ITEM)
        for view in np.flatnonzero(np.bincount(which)).tolist():
            here = np.flatnonzero(which == view)
            found[here] = self._items[view][sources[here]]
        return found


def blocks_of(views: Sequence[memoryview], which: Int32, begins: Int64, ends: Int64) -> Blocks | None:
    """The blocks of pieces; None where they gain nothing, or would be too many."""
    if not len(begins) or max(len(view) for view in views) < BLOCK:
        return None
    total = int((ends - begins).sum())
    if not 0 < total <= min(MAX_BLOCKS * BLOCK, len(begins) * MAX_MEAN):
        return None
    return Blocks(views, which, begins, ends)


def _items(data: Bytes) -> Items:
    """One item of BLOCK bytes for each byte at which it may begin; a view."""
    return np.ndarray((max(0, len(data) - BLOCK + 1),), ITEM, data, 0, (1,))
