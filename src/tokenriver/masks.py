"""Targets that are left out of the loss: by choice the first id behind a document boundary and the end-of-text id, and
every id that a corpus of examples marks as context.

A document's first id cannot be told from the text before it; whether a model should learn to predict it, or the end of
a text, is the user's choice. All only ignore targets: rows and order are the same with and without.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tokenriver.lossmask import Trained, Trains, mask_of
from tokenriver.ranges import expand
from tokenriver.types import IGNORE, PADDING, Bools, Int64, River

BLOCK_CELLS = 1 << 18
"""Ids of windows whose mask is unpacked at once, a byte each: several batches of usual sizes, and they stay in the
cache."""


class _Windows:
    """The loss mask of windows that are asked for in order: that of small batches is unpacked for several at once."""

    def __init__(self, loss: Trained, starts: Int64, length: int) -> None:
        self._lines, self._cells = starts.shape
        self._length, self._block = length, -1
        self._each = max(1, BLOCK_CELLS // (self._cells * length))
        self._trains = loss.cut(starts.ravel(), np.full(starts.size, length))
        self._bits = np.empty(0, np.bool_)

    def trained(self, line: int, count: int) -> Bools:
        block, place = divmod(line, self._each)
        if block != self._block:
            first = block * self._each
            last = min(first + self._each, self._lines)
            self._block, self._bits = block, self._trains(first * self._cells, last * self._cells)
        begin = place * self._cells * self._length
        return self._bits[begin : begin + count * self._length]


class Masks:
    """`first`: ignore targets that begin a document; `eos_id`: ignore targets of this id. `ends` of the documents are
    looked up once, 8 bytes a document, and again in another process. A river's own loss mask is always kept to."""

    __slots__ = ("_edges", "_first", "_loss", "_river", "eos_id")

    def __init__(self, river: River, first: bool, eos_id: int | None) -> None:
        self._river, self._first, self.eos_id = river, first, eos_id
        self._loss = mask_of(river)
        self._edges: Int64 | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Masks, (self._river, self._first, self.eos_id)

    def of_windows(self, starts: Int64, length: int) -> "Callable[[int, int], Bools] | None":
        """Look up the loss mask of (m, B) windows of so many ids: f(i, k) is then that of the first k of line i, end to
        end; None for a river without one."""
        return None if self._loss is None else _Windows(self._loss, starts, length).trained

    def of_runs(self, starts: Int64, sizes: Int64, *, chained: bool) -> Trains | None:
        """Look up the loss mask of the targets of many runs; None for a river without one. The target of a run's
        position i is the id start + i + 1, or, where rows are chained, start + i."""
        if self._loss is None:
            return None
        return self._loss.cut(np.where(starts < 0, PADDING, starts + (not chained)), sizes)

    def on_windows(self, starts: Int64, whole: Int64, trained: Bools | None) -> None:
        """Of (k, T + 1) targets, the first column being none, of windows that start there; `trained` are their ids by
        the loss mask, (k * (T + 1),)."""
        targets = whole[:, 1:]
        if self._first:
            edges = self._known()
            first = edges.searchsorted(starts, "right")
            counts = edges.searchsorted(starts + targets.shape[1], "right") - first
            lines, which = expand(first, counts)
            targets[lines, edges[which] - starts[lines] - 1] = IGNORE
        if trained is not None:
            # one stretch of memory is masked faster than its rows
            np.copyto(whole, IGNORE, where=~trained.reshape(whole.shape))
        self._ignore_eos(targets)

    def on_runs(self, starts: Int64, sizes: Int64, targets: Int64, trained: Bools | None, *, chained: bool) -> None:
        """Of (k, T + 1) targets, the first column being none, of rows made of runs of so many ids from these starts
        (-1: padding); no target of rows that are not chained begins a document. `trained` are the runs' targets by the
        loss mask, (k * T,), or (k * (T + 1),) where rows are chained."""
        if self._first and chained:
            edges = self._known()
            places = np.cumsum(sizes) - sizes
            begins = (starts == 0) | (edges[np.minimum(edges.searchsorted(starts), len(edges) - 1)] == starts)
            lines, columns = np.divmod(places[begins & (starts >= 0) & (sizes > 0)], targets.shape[1])
            targets[lines, columns] = IGNORE
        if trained is not None and len(targets):
            ignored = np.ones(targets.shape, np.bool_)
            np.logical_not(trained.reshape(len(targets), -1), out=ignored if chained else ignored[:, 1:])
            np.copyto(targets, IGNORE, where=ignored)
        self._ignore_eos(targets[:, 1:])

    def _known(self) -> Int64:
        """Where documents end, each place once."""
        if self._edges is None:
            self._edges = np.unique(self._river.doc_ends())
        return self._edges

    def _ignore_eos(self, targets: Int64) -> None:
        if self.eos_id is not None:
            targets[targets == self.eos_id] = IGNORE
