"""Where ids lie in mapped files: extents, each a run of ids at a byte of a view, end to end in the order of the ids.

A window of ids is a slice of each extent that it meets. All windows of a call, or of many calls to come, are cut by a
few operations on columns, whatever the number of extents; what is left in Python is one slice of a view for each piece.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenriver.ranges import distinct
from tokenriver.types import PADDING, Ids, Int32, Int64

# behind all extents lie zeros without an end, whose first has the number PADDING
_FAR = 1 << 62


@dataclass(frozen=True, slots=True)
class Cuts:
    """Windows cut where extents end. Those of window i are the pieces upto[i] to upto[i + 1], one after another; a
    piece is the bytes `begins` to `ends` of views[which]."""

    views: list[memoryview]
    which: Int32
    begins: Int64
    ends: Int64
    upto: Int64

    def joined(self, first: int, last: int, slack: int) -> bytearray:
        """The bytes of the windows [first, last), end to end, and so many zeros."""
        return bytearray().join([*self.pieces(first, last), bytes(slack)])

    def pieces(self, first: int, last: int) -> list[memoryview]:
        """The bytes of the windows [first, last)."""
        here = slice(self.upto.item(first), self.upto.item(last))
        views, which = self.views, self.which[here].tolist()
        begins, ends = self.begins[here].tolist(), self.ends[here].tolist()
        if which and which.count(which[0]) == len(which):
            view = views[which[0]]
            return [view[a:b] for a, b in zip(begins, ends, strict=True)]
        return [views[number][a:b] for number, a, b in zip(which, begins, ends, strict=True)]


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
        return self.cut(starts, n, self.met(starts, n)).pieces(0, len(starts))

    def met(self, starts: Int64, n: Int64 | int) -> tuple[Int64, Int64]:
        """(number of the first extent, number of extents) that each window meets."""
        stops = starts + n
        first, last = self.ends.searchsorted(starts, "right"), self.ends.searchsorted(stops, "left")
        if len(starts) and starts.item(starts.argmin()) < 0:
            padded = starts < 0
            first[padded] = last[padded] = len(self)
            self._lengthen(int((stops - starts)[padded].max()))
        counts = last - first
        counts += 1
        if not isinstance(n, int):
            counts[starts == stops] = 0
        return first, counts

    def cut(self, starts: Int64, n: Int64 | int, met: tuple[Int64, Int64]) -> Cuts:
        """Where the bytes of windows lie that meet these extents."""
        first, counts = met
        stops = starts + n
        if len(starts) and counts.item(counts.argmax()) <= 1:
            return self._cuts(first, starts, stops, np.arange(len(starts) + 1))
        upto = np.zeros(len(starts) + 1, np.int64)
        counts.cumsum(out=upto[1:])
        extent = np.repeat(first - upto[:-1], counts)
        extent += np.arange(len(extent))
        # an extent begins where the one before it ends; a window's first piece and its last one are cut
        ends = self.ends[extent]
        begins = np.empty_like(ends)
        begins[1:] = ends[:-1]
        begin, end = upto[:-1], upto[1:] - 1
        if not isinstance(n, int):
            some = counts > 0
            begin, end, starts, stops = begin[some], end[some], starts[some], stops[some]
        begins[begin], ends[end] = starts, stops
        return self._cuts(extent, begins, ends, upto)

    def _cuts(self, extent: Int64, starts: Int64, stops: Int64, upto: Int64) -> Cuts:
        """Pieces of ids from each start to each stop, in one extent each."""
        shift = self.shift[extent]
        return Cuts(self.views, self.which[extent], shift + starts * self.item, shift + stops * self.item, upto)

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
        for number in distinct(which):
            view = self.views[number]
            # one item for each byte at which it may begin
            ids = np.ndarray((len(view) - self.item + 1,), dtype, view, 0, (1,))
            here = which == number
            found[here] = ids[at[here]]
        return found

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
