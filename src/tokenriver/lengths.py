"""How long documents are, as runs of equal lengths: in one pass over the document index, in bounded memory.

Whatever the number of documents, there are few different lengths, and most questions about rows are sums over them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tokenriver.corpus import Corpus
from tokenriver.errors import FormatError
from tokenriver.types import Int64, River

CHUNK = 1 << 16
"""Documents looked at together: their columns stay in the cache."""
TABLE = 1 << 16
"""Lengths below it are counted in a table, the few above by sorting."""


@dataclass(frozen=True, slots=True)
class Runs:
    """So many documents of each length: `lengths` (m,) int64 rising, `counts` (m,) int64, none 0."""

    lengths: Int64
    counts: Int64

    @property
    def documents(self) -> int:
        return int(self.counts.sum())

    @property
    def ids(self) -> int:
        return int((self.lengths * self.counts).sum())

    def longer(self, length: int) -> "Runs":
        """The documents of more ids than that."""
        first = int(np.searchsorted(self.lengths, length, "right"))
        return Runs(self.lengths[first:], self.counts[first:])

    def quantile(self, share: float) -> int:
        """The least length that at least this share of the documents do not exceed."""
        rank = max(1, int(np.ceil(share * self.documents)))
        return int(self.lengths[np.searchsorted(np.cumsum(self.counts), rank, "left")])

    def histogram(self) -> list[tuple[int, int, int]]:
        """(least length, documents, ids) by powers of two: 0, 1, 2 to 3, 4 to 7 and so on, from the first that has
        documents to the last."""
        if not len(self.lengths):
            return []
        bins = np.frexp(self.lengths.astype(np.float64))[1]  # 0 for 0, k + 1 for 2^k to 2^(k+1) - 1
        out = []
        for number in range(int(bins[0]), int(bins[-1]) + 1):
            inside = bins == number
            ids = int((self.lengths[inside] * self.counts[inside]).sum())
            out.append((1 << number >> 1, int(self.counts[inside].sum()), ids))
        return out


def count_lengths(river: River, see: Callable[[Int64, Int64], None]) -> Runs:
    """The lengths of all documents of a river that has bounds; `see` is called with (starts, ends) of them, some
    thousands at a time."""
    begin = 0
    table, long = np.zeros(TABLE, np.int64), [np.empty(0, np.int64)]
    for ends in _ends(river):
        starts = np.concatenate([[begin], ends[:-1]])
        begin = int(ends[-1])
        lengths = ends - starts
        if int(lengths.min()) < 0:
            raise FormatError("documents: got an end before the one before it, expected ends that never fall")
        see(starts, ends)
        if int(lengths.max()) >= TABLE:
            long.append(lengths[lengths >= TABLE])
            lengths = lengths[lengths < TABLE]
        table += np.bincount(lengths, minlength=TABLE)
    short = np.flatnonzero(table)
    values, counts = np.unique(np.concatenate(long), return_counts=True)
    return Runs(np.concatenate([short, values]), np.concatenate([table[short], counts]))


def _ends(river: River) -> Iterator[Int64]:
    """The ends of all documents, as river positions."""
    if isinstance(river, Corpus):
        columns = [(begin, ends) for begin, ends, _ in river.documents.between(0, river.num_documents or 0)]
    else:
        columns = [(0, river.doc_ends())]
    for begin, ends in columns:
        for at in range(0, len(ends), CHUNK):
            yield ends[at : at + CHUNK] + begin
