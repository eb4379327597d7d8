"""One document a row, padded: the classic rows of fine-tuning, with nothing lost unless that is asked for.

A row shows seq_len + 1 ids at most. Of a longer document, "split" makes several rows, each of which begins with the id
that the one before predicted last, so that every id but the first is a target once; "truncate" keeps the first row;
"drop" leaves the document out. A document of one id has nothing to predict and makes no row. With buckets the rows are
the same, but padded to the width of their bucket alone (`buckets.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tokenriver.errors import InputError
from tokenriver.packing._buckets import read_buckets
from tokenriver.packing._lengths import check_overflow, check_rows, document_ends, lost_ids
from tokenriver.types import Buckets, Int64, River


@dataclass(frozen=True, slots=True)
class Documents:
    """Rows by document; `rows_upto` counts the rows of each document and all before it."""

    ends: Int64
    seq_len: int
    overflow: str
    rows_upto: Int64
    num_targets: int
    balance: Mapping[str, int]
    """river = served + too_short + cut + dropped."""
    buckets: Buckets | None = None
    windows: bool = False
    chained: bool = False

    @property
    def tag(self) -> str:
        return f"document T={self.seq_len} {self.overflow}"

    def __len__(self) -> int:
        return int(self.rows_upto[-1])

    def spans(self, rows: Int64, epoch: int) -> tuple[Int64, Int64, Int64]:
        """One span a row: (0..k-1, start, stop), each (k,) int64."""
        documents = np.searchsorted(self.rows_upto, rows, "right")
        begins = np.where(documents > 0, self.ends[documents - 1], 0)
        before = np.where(documents > 0, self.rows_upto[documents - 1], 0)
        starts = begins + (rows - before) * self.seq_len
        stops = np.minimum(starts + self.seq_len + 1, self.ends[documents])
        return np.arange(len(rows), dtype=np.int64), starts, stops

    def starts(self, rows: Int64, epochs: Int64) -> Int64:
        """River position of each row's first id, (k,) int64."""
        return self.spans(rows, 0)[1]


def pack(
    river: River,
    *,
    seq_len: int,
    overflow: str = "split",
    phase_shift: bool = False,
    seed: int = 0,
    buckets: int | Sequence[int] | None = None,
    max_tokens_per_batch: int | None = None,
) -> Documents:
    """Rows of all documents; FormatError for a river without bounds, LimitError if no document makes a row. `buckets`:
    at most so many widths (8 with a budget alone), or the widths, of batches of rows of like length;
    `max_tokens_per_batch`: positions of a step at most."""
    if phase_shift:
        raise InputError("phase_shift: got it with packing 'document', whose rows begin at documents; leave it out")
    check_overflow(overflow)
    asked = read_buckets(buckets, max_tokens_per_batch, seq_len)
    ends = document_ends(river, "document")
    lengths = np.diff(ends, prepend=0)
    rows = (lengths >= 2).astype(np.int64)
    if overflow == "split":
        rows = np.where(lengths >= 2, -(-(lengths - 1) // seq_len), 0)
    elif overflow == "drop":
        rows[lengths > seq_len + 1] = 0
    check_rows(int(rows.sum()), "document")
    lost = lost_ids(lengths, seq_len, overflow)
    served = river.num_tokens - sum(lost.values())
    balance = {"river": river.num_tokens, "served": served, **lost}
    # each document that makes rows has one id that is no target
    targets = served - int((rows > 0).sum())
    return Documents(ends, seq_len, overflow, np.cumsum(rows), targets, balance, asked)
