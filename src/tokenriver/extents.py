"""Where ids lie in mapped files: extents, each a run of ids at a byte of a view, end to end in the order of the ids.

A window of ids is a slice of each extent that it meets. All windows of a call are cut by a few operations on columns,
whatever the number of extents; what is left in Python is one slice of a view for each piece.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenriver.types import Ids, Int32, Int64

# behind all extents lie zeros without an end, whose first has the number PADDING
PADDING = -1
_FAR = 1 << 62


@dataclass(slots=True)
class Extents:
    """k extents: `begins`, `ends` (k + 1,) by the number of their ids, which have `item` bytes each. Id p of an extent
    lies at byte shift + p * item of views[which]; the last extent is the zeros."""

    views: list[memoryview]
    which: Int32
    shift: Int64
    begins: Int64
    ends: Int64
    item: int

    def windows(self, starts: Int64, n: Int64 | int) -> list[memoryview]:
        """The bytes of the ids [s, s + n) of each start (and each n, if they differ), in one piece or several, one
        window after another. A start of PADDING stands for zeros; the caller has checked that all others lie inside."""
        stops = starts + n
        first = self.ends.searchsorted(starts, "right")
        padded = starts.item(starts.argmin()) < 0 if len(starts) else False
        if padded:
            first[starts < 0] = len(self)
            self._lengthen(int((stops - starts)[starts < 0].max()))
        if (stops <= self.ends[first]).all():  # each window in one extent
            return self._cut(first, starts, stops)
        counts = self.ends.searchsorted(stops, "left") + 1 - first
        counts[starts < 0] = 1
        counts[starts == stops] = 0
        window = np.repeat(np.arange(len(starts)), counts)
        extent = np.arange(len(window)) + (first - np.cumsum(counts) + counts)[window]
        begins, ends = self.begins[extent], self.ends[extent]
        return self._cut(extent, np.maximum(begins, starts[window]), np.minimum(ends, stops[window]))

    def place(self, position: int) -> int:
        """The byte of an id in its view."""
        extent = int(self.ends.searchsorted(position, "right"))
        return int(self.shift[extent]) + position * self.item

    def __len__(self) -> int:
        """The number of extents, k."""
        return len(self.ends) - 1

    def single(self, positions: Int64, dtype: np.dtype[Any]) -> Ids:
        """The ids at positions, all inside, (k,) of the dtype."""
        extent = self.ends.searchsorted(positions, "right")
        which, at = self.which[extent], self.shift[extent] + positions * self.item
        found = np.empty(len(positions), dtype)
        for number in np.unique(which).tolist():
            view = self.views[number]
            # one item for each byte at which it may begin
            ids = np.ndarray((len(view) - self.item + 1,), dtype, view, 0, (1,))
            here = which == number
            found[here] = ids[at[here]]
        return found

    def _cut(self, extent: Int64, starts: Int64, stops: Int64) -> list[memoryview]:
        """The ids from each start to each stop, in one extent each."""
        views, shift = self.views, self.shift[extent]
        begins, ends = shift + starts * self.item, shift + stops * self.item
        zipped = zip(self.which[extent].tolist(), begins.tolist(), ends.tolist(), strict=True)
        return [views[number][a:b] for number, a, b in zipped]

    def _lengthen(self, ids: int) -> None:
        if len(self.views[-1]) < ids * self.item:
            self.views[-1] = memoryview(bytes(ids * self.item))


def make(view: memoryview, offsets: Int64, counts: Int64, item: int) -> Extents:
    """Extents of one view: `counts` (k,) ids of `item` bytes from the bytes `offsets` (k,) on."""
    ends = np.append(np.cumsum(counts, dtype=np.int64), _FAR)
    begins = np.append(ends[:-1] - counts, PADDING)
    which = np.append(np.zeros(len(counts), np.int32), np.int32(1))
    shift = np.append(offsets, 0) - begins * item
    return Extents([view, memoryview(b"")], which, shift, begins, ends, item)


def join(parts: Sequence[Extents]) -> Extents:
    """The extents of several views end to end."""
    item, number = parts[0].item, np.cumsum([0, *(len(part.views) - 1 for part in parts)])
    totals = [int(part.ends[-2]) if len(part) else 0 for part in parts]
    begins = np.cumsum([0, *totals])
    columns = [
        (part.which[:-1] + first, part.shift[:-1] - begin * item, part.begins[:-1] + begin, part.ends[:-1] + begin)
        for part, first, begin in zip(parts, number.tolist(), begins.tolist(), strict=False)
    ]
    zeros = (np.array([number[-1]]), np.array([-PADDING * item]), np.array([PADDING]), np.array([_FAR]))
    which, shift, starts, ends = (np.concatenate(column) for column in zip(*columns, zeros, strict=True))
    views = [view for part in parts for view in part.views[:-1]]
    return Extents([*views, memoryview(b"")], which.astype(np.int32), shift, starts, ends, item)
