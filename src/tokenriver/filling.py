"""The cells of a batch filled with ids: windows, rows of spans, chained rows; cells that no row fills are filler."""

from collections.abc import Callable

import numpy as np

from tokenriver.course import Course, Runs
from tokenriver.types import IGNORE, Int64, River

FILLER_ID = 0
Cut = Callable[[int, int, Int64], None]


def part_windows(filled: int, buffer: Int64, targets: Int64) -> None:
    """Give targets a buffer of their own, where inputs have so many rows of ids and the rest is to be filler."""
    np.copyto(targets[:filled], buffer[:filled])
    buffer[filled:] = FILLER_ID
    targets[filled:] = IGNORE


class Filling:
    """Rows of several spans: what fills the cells of a stretch, looked up for all of them at once."""

    __slots__ = ("_course", "_cut", "_edges", "_followers", "_places", "_runs", "_trains")

    def __init__(self, course: Course, runs: Runs) -> None:
        self._course, self._runs = course, runs
        self._cut = cut(course.river, runs.starts, runs.sizes)
        masks = course.masks
        self._trains = None if masks is None else masks.of_runs(runs.starts, runs.sizes, chained=runs.chained)
        # a span's last target is no input
        spans = runs.starts >= 0
        self._followers = (runs.starts + runs.sizes)[spans]
        last = np.cumsum(runs.sizes)[spans] - 1
        self._places = last + last // course.packing.seq_len + 1
        self._edges = np.append(0, np.cumsum(spans)[runs.ends - 1])

    def fill(self, first: int, last: int, buffer: Int64, targets: Int64) -> None:
        """Fill the first rows with the cells [first, last), and the rest with filler: inputs without the last column,
        targets without the first."""
        filled, length, masks = last - first, buffer.shape[1], self._course.masks
        if filled:
            runs = self._runs.cells(first, last)
            if runs.chained:
                self._take(first, runs, buffer[:filled])
                targets[:filled] = buffer[:filled]
            else:
                self._take(first, runs, buffer[:filled, :-1])
                targets[:filled, 1:-1] = buffer[:filled, 1:-1]
                self._follow(first, last, targets)
            padding = runs.sizes[runs.ends - 1]
            for line in np.flatnonzero(padding).tolist():
                targets[line, length - padding[line] :] = IGNORE
            if masks is not None:
                begin = self._begin(first)
                trained = None if self._trains is None else self._trains(begin, begin + len(runs.starts))
                masks.on_runs(runs.starts, runs.sizes, targets[:filled], trained, chained=runs.chained)
        buffer[filled:] = FILLER_ID
        targets[filled:] = IGNORE

    def _take(self, first: int, runs: Runs, out: Int64) -> None:
        if self._cut is None:
            self._course.river.take(runs.starts, runs.sizes, out)
        else:
            begin = self._begin(first)
            self._cut(begin, begin + len(runs.starts), out)

    def _begin(self, cell: int) -> int:
        """The first run of a cell."""
        return int(self._runs.ends[cell - 1]) if cell else 0

    def _follow(self, first: int, last: int, targets: Int64) -> None:
        """Put in the last target of each span of some cells."""
        here = slice(self._edges.item(first), self._edges.item(last))
        found = np.empty((here.stop - here.start, 1), np.int64)
        self._course.river.gather(self._followers[here], 1, found)
        targets.reshape(-1)[self._places[here] - first * targets.shape[1]] = found[:, 0]


def cut(river: River, starts: Int64, sizes: Int64 | int) -> Cut | None:
    """Look up where many windows or runs of a river lie: cut(first, last, out) fills out with those [first, last). None
    for a river that has them looked up by each call."""
    look_up = getattr(river, "cut", None)
    found: Cut | None = None if look_up is None else look_up(starts, sizes)
    return found
