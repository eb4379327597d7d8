"""Whole documents packed into rows by best-fit decreasing: nearly no padding, no attention across documents.

A document of n ids fills n - 1 positions of a row of seq_len. Of a longer one than a row holds, "split" fills whole
rows with the documents' heads and packs what is left; "truncate" keeps seq_len + 1 ids; "drop" leaves it out. A
document of one id has nothing to predict and is left out. The rows are planned once, in a few seconds for 10^8
documents, from lengths alone; very many documents are planned in blocks, each by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tokenriver.errors import InputError
from tokenriver.packing._fit import best_fit, count_bins
from tokenriver.packing._lengths import check_overflow, check_rows, document_ends, lost_ids
from tokenriver.types import Int64, River

BLOCK_DOCUMENTS = 1 << 23
"""Documents planned together: memory stays below 16 bytes a document and what a block needs."""


@dataclass(frozen=True, slots=True)
class BestFit:
    """Rows of several spans each: the spans of row i are those from row_ends[i - 1] to row_ends[i]."""

    seq_len: int
    overflow: str
    row_ends: Int64
    span_starts: Int64
    span_sizes: Int64
    balance: Mapping[str, int]
    """river = served + too_short + cut + dropped."""
    windows: bool = False

    @property
    def tag(self) -> str:
        return f"best_fit T={self.seq_len} {self.overflow}"

    def __len__(self) -> int:
        return len(self.row_ends)

    @property
    def num_targets(self) -> int:
        return int(self.span_sizes.sum()) - len(self.span_sizes)

    @property
    def padding(self) -> int:
        """Positions of an epoch that no id fills."""
        return len(self) * self.seq_len - self.num_targets

    def spans(self, rows: Int64, epoch: int) -> tuple[Int64, Int64, Int64]:
        """(row, start, stop) of the spans of k rows, each (m,) int64; `row` indexes into `rows`."""
        ends = self.row_ends[rows]
        begins = np.where(rows > 0, self.row_ends[rows - 1], 0)
        counts = ends - begins
        which = np.repeat(np.arange(len(rows), dtype=np.int64), counts)
        at = np.arange(int(counts.sum()), dtype=np.int64) + np.repeat(begins - np.cumsum(counts) + counts, counts)
        starts = self.span_starts[at]
        return which, starts, starts + self.span_sizes[at]

    def starts(self, rows: Int64, epochs: Int64) -> Int64:
        """River position of each row's first id, (k,) int64."""
        return self.span_starts[np.where(rows > 0, self.row_ends[rows - 1], 0)]


def pack(river: River, *, seq_len: int, overflow: str = "split", phase_shift: bool = False, seed: int = 0) -> BestFit:
    """Plan the rows; FormatError for a river without document bounds, LimitError if no document makes a row."""
    if phase_shift:
        raise InputError("phase_shift: got it with packing 'best_fit', whose rows begin at documents; leave it out")
    check_overflow(overflow)
    ends = document_ends(river, "best_fit")
    blocks = [
        _plan(ends[at : at + BLOCK_DOCUMENTS], int(ends[at - 1]) if at else 0, seq_len, overflow)
        for at in range(0, len(ends), BLOCK_DOCUMENTS)
    ]
    lost = {name: sum(block.lost[name] for block in blocks) for name in blocks[0].lost}
    spans_before = np.cumsum([0, *(len(block.starts) for block in blocks)])
    row_ends = np.concatenate(
        [block.row_ends + before for block, before in zip(blocks, spans_before[:-1], strict=True)]
    )
    check_rows(len(row_ends), "best_fit")
    starts = np.concatenate([block.starts for block in blocks])
    sizes = np.concatenate([block.sizes for block in blocks])
    balance = {"river": river.num_tokens, "served": river.num_tokens - sum(lost.values()), **lost}
    return BestFit(seq_len, overflow, row_ends, starts, sizes, balance)


def planned_together(documents: int) -> int:
    """Of so many documents, how many are planned as one block."""
    return min(documents, BLOCK_DOCUMENTS)


def count_rows(lengths: Int64, counts: Int64, seq_len: int) -> int:
    """How many rows hold so many documents of each length (2 to seq_len + 1 ids), planned together as one block."""
    many = np.zeros(seq_len + 1, np.int64)
    np.add.at(many, lengths - 1, counts)
    return count_bins(many, seq_len)


@dataclass(frozen=True, slots=True)
class _Block:
    """The rows of some documents that are planned together."""

    row_ends: Int64
    starts: Int64
    sizes: Int64
    """Ids of each span."""
    lost: Mapping[str, int]


def _plan(ends: Int64, begin: int, seq_len: int, overflow: str) -> _Block:
    lengths = np.diff(ends, prepend=begin)
    starts = ends - lengths
    lost = lost_ids(lengths, seq_len, overflow)
    heads = np.empty(0, np.int64)
    if overflow == "split":
        heads, starts, lengths = _cut_heads(starts, lengths, seq_len)
    elif overflow == "truncate":
        lengths = np.minimum(lengths, seq_len + 1)
    else:
        kept = lengths <= seq_len + 1
        starts, lengths = starts[kept], lengths[kept]
    usable = lengths >= 2
    starts, lengths = starts[usable], lengths[usable]
    order, counts = best_fit(lengths - 1, seq_len) if len(lengths) else (np.empty(0, np.int64), np.empty(0, np.int64))
    row_ends = np.concatenate([np.arange(1, len(heads) + 1), np.cumsum(counts) + len(heads)])
    sizes = np.concatenate([np.full(len(heads), seq_len + 1, np.int64), lengths[order]])
    return _Block(row_ends, np.concatenate([heads, starts[order]]), sizes, lost)


def _cut_heads(starts: Int64, lengths: Int64, seq_len: int) -> tuple[Int64, Int64, Int64]:
    """(starts of whole rows, starts, lengths of what is left): each head of seq_len + 1 ids ends with the id that the
    next piece begins with."""
    whole = np.maximum(0, (lengths - 2) // seq_len)
    which = np.repeat(np.arange(len(starts)), whole)
    number = np.arange(len(which)) - np.repeat(np.cumsum(whole) - whole, whole)
    return starts[which] + number * seq_len, starts + whole * seq_len, lengths - whole * seq_len
