"""Targets that are left out of the loss: by choice the first id behind a document boundary and the end-of-text id, and
every id that a corpus of examples marks as context.

A document's first id cannot be told from the text before it; whether a model should learn to predict it, or the end of
a text, is the user's choice. All only ignore targets: rows and order are the same with and without.
"""

from typing import Any

import numpy as np

from tokenriver.lossmask import mask_of
from tokenriver.types import IGNORE, Int64, River


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

    def on_windows(self, starts: Int64, targets: Int64) -> None:
        """Of (k, T) targets of windows that start there."""
        if self._first:
            edges = self._known()
            first = edges.searchsorted(starts, "right")
            counts = edges.searchsorted(starts + targets.shape[1], "right") - first
            lines = np.repeat(np.arange(len(starts)), counts)
            which = np.arange(len(lines)) - np.repeat(np.cumsum(counts) - counts - first, counts)
            targets[lines, edges[which] - starts[lines] - 1] = IGNORE
        if self._loss is not None and len(starts):
            positions = starts[:, None] + np.arange(1, targets.shape[1] + 1)
            targets[~self._loss.at(positions)] = IGNORE
        self._ignore_eos(targets)

    def on_runs(self, starts: Int64, sizes: Int64, targets: Int64, *, chained: bool) -> None:
        """Of (k, T + 1) targets, the first column being none, of rows made of runs of so many ids from these starts
        (-1: padding); no target of rows that are not chained begins a document."""
        if self._first and chained:
            edges = self._known()
            places = np.cumsum(sizes) - sizes
            begins = (starts == 0) | (edges[np.minimum(edges.searchsorted(starts), len(edges) - 1)] == starts)
            lines, columns = np.divmod(places[begins & (starts >= 0) & (sizes > 0)], targets.shape[1])
            targets[lines, columns] = IGNORE
        if self._loss is not None and len(starts):
            self._ignore_context(starts, sizes, targets if chained else targets[:, 1:], 0 if chained else 1)
        self._ignore_eos(targets[:, 1:])

    def _ignore_context(self, starts: Int64, sizes: Int64, targets: Int64, ahead: int) -> None:
        """Of cells in which the target of a run's position i is the id start + i + ahead."""
        assert self._loss is not None, "asked only where there is a loss mask"
        positions = np.repeat(starts + ahead - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
        inside = np.repeat(starts >= 0, sizes)
        ignored = ~inside
        ignored[inside] = ~self._loss.at(positions[inside])
        targets[ignored.reshape(targets.shape)] = IGNORE

    def _known(self) -> Int64:
        """Where documents end, each place once."""
        if self._edges is None:
            self._edges = np.unique(self._river.doc_ends())
        return self._edges

    def _ignore_eos(self, targets: Int64) -> None:
        if self.eos_id is not None:
            targets[targets == self.eos_id] = IGNORE
