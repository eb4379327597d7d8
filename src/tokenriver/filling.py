"""The cells of a batch filled with ids: windows, rows of spans, chained rows; cells that no row fills are filler.

Rows of spans are filled by compiled code where there is some (mapped.py), and else by numpy in a pass for each step.
"""

import numpy as np

from tokenriver.course import Course, Runs, before
from tokenriver.mapped import Mapped, Raw, Spread
from tokenriver.river import narrow
from tokenriver.types import IGNORE, Ids, Int64, River

FILLER_ID = 0


def part_windows(filled: int, buffer: Int64, targets: Int64) -> None:
    """Give targets a buffer of their own, where inputs have so many rows of ids and the rest is to be filler."""
    np.copyto(targets[:filled], buffer[:filled])
    buffer[filled:] = FILLER_ID
    targets[filled:] = IGNORE


class Filling:
    """Rows of several spans: what fills the cells of a stretch, looked up for all of them at once."""

    __slots__ = ("_course", "_runs", "_spread", "_steps", "_trains")

    def __init__(self, course: Course, runs: Runs) -> None:
        self._course, self._runs = course, runs
        masks = course.masks
        self._trains = None if masks is None else masks.of_runs(runs.starts, runs.sizes, chained=runs.chained)
        self._spread = _spread(course.river, runs)
        self._steps = None if self._spread is not None else _Steps(course, runs)

    def fill(self, first: int, last: int, buffer: Int64, targets: Int64) -> None:
        """Fill the first rows with the cells [first, last), and the rest with filler: inputs without the last column,
        targets without the first."""
        filled, masks = last - first, self._course.masks
        if filled:
            whole = filled == len(buffer)
            self._ids(first, last, buffer if whole else buffer[:filled], targets if whole else targets[:filled])
            if masks is not None:
                runs, begin = self._runs.cells(first, last), before(self._runs.ends, first)
                trained = None if self._trains is None else self._trains(begin, begin + len(runs.starts))
                masks.on_runs(runs.starts, runs.sizes, targets[:filled], trained, chained=runs.chained)
        if filled < len(buffer):
            buffer[filled:] = FILLER_ID
            targets[filled:] = IGNORE

    def _ids(self, first: int, last: int, inputs: Int64, targets: Int64) -> None:
        ends = self._runs.ends
        if self._spread is not None and self._spread(before(ends, first), before(ends, last), inputs, targets):
            return
        # what compiled code refuses is refused in words
        steps = self._steps or _Steps(self._course, self._runs)
        steps.fill(first, last, inputs, targets)


def _spread(river: River, runs: Runs) -> Spread | None:
    """Compiled code for these runs, if there is some for where a river's ids lie."""
    look_up = getattr(river, "mapped", None)
    found: Mapped | None = None if look_up is None else look_up()
    return None if found is None else found.spread(runs.starts, runs.sizes, chained=runs.chained)


class _Steps:
    """The same by numpy: the ids of all runs joined, then widened into inputs and targets, whose edges are put in."""

    __slots__ = ("_course", "_cut", "_edges", "_followers", "_padding", "_places", "_runs", "_targets")

    def __init__(self, course: Course, runs: Runs) -> None:
        self._course, self._runs = course, runs
        # padding is cut from anywhere, and overwritten
        self._cut = cut(course.river, np.maximum(runs.starts, 0), runs.sizes)
        self._padding = runs.sizes[runs.ends - 1]
        # a span's last target is no input; it lies where the span's inputs end, one cell behind the last of them
        spans = runs.starts >= 0
        self._followers = (runs.starts + runs.sizes)[spans]
        self._places = np.cumsum(runs.sizes)[spans]
        self._edges = np.append(0, np.cumsum(spans)[runs.ends - 1])
        # where ids lie in mapped files, single ones are cheap to read beforehand
        self._targets: Ids | None = None
        if self._cut is not None and not runs.chained:
            self._targets = self._last(slice(None)).astype(self._cut(0, 0).dtype)

    def fill(self, first: int, last: int, inputs: Int64, targets: Int64) -> None:
        """Fill as many rows as there are cells."""
        filled, length = inputs.shape
        ids = self._ids(first, last)
        if self._runs.chained:
            narrow(ids[:-1].reshape(filled, length), inputs)
            targets[:] = inputs
        else:
            narrow(ids[:-1].reshape(filled, length - 1), inputs[:, :-1])
            # a row's last target comes where the next row's first input was, which is in its buffer by now
            self._follow(first, last, ids)
            narrow(ids[1:].reshape(filled, length - 1), targets[:, 1:])
        width = length if self._runs.chained else length - 1
        for line, padding in enumerate(self._padding[first:last].tolist()):
            if padding:
                inputs[line, width - padding : width] = FILLER_ID
                targets[line, length - padding :] = IGNORE

    def _ids(self, first: int, last: int) -> Ids:
        """The ids that fill some cells, and one cell more."""
        begin, end = before(self._runs.ends, first), before(self._runs.ends, last)
        if self._cut is not None:
            return self._cut(begin, end)
        starts, sizes = self._runs.starts[begin:end], self._runs.sizes[begin:end]
        ids = np.empty(int(sizes.sum()) + 1, np.int64)
        self._course.river.take(starts, sizes, ids[:-1])
        return ids

    def _follow(self, first: int, last: int, ids: Ids) -> None:
        """Put in the last target of each span of some cells."""
        here = slice(self._edges.item(first), self._edges.item(last))
        found = self._last(here) if self._targets is None else self._targets[here]
        ids[self._places[here] - first * self._course.packing.seq_len] = found

    def _last(self, spans: slice) -> Ids:
        """The last target of some spans."""
        followers = self._followers[spans]
        found = np.empty((len(followers), 1), np.int64)
        self._course.river.gather(followers, 1, found)
        return found[:, 0]


def cut(river: River, starts: Int64, sizes: Int64 | int) -> Raw | None:
    """Look up where many windows or runs of a river lie: cut(first, last) gives the ids of those [first, last), and one
    cell more. None for a river that has them looked up by each call."""
    look_up = getattr(river, "cut", None)
    found: Raw | None = None if look_up is None else look_up(starts, sizes)
    return found
