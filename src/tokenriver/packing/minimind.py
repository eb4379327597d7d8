"""The rows of minimind's pretraining, to the id: one document a row of seq_len cells; of a long one, its head and end.

A document of n ids fills n cells, not n - 1 positions: its last id is an input too, and has no target. (minimind keeps
labels unshifted and shifts in the model; the targets here are its labels, shifted.) A longer document than a row keeps
its first seq_len - 1 ids and its last, so that framed as "bos-eos" a row is BOS + ids[: seq_len - 2] + EOS. The rest is
lost, and counted. A document of one id has nothing to predict and makes no row.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tokenriver.errors import InputError, LimitError
from tokenriver.packing._lengths import check_rows, document_ends
from tokenriver.types import Int64, River


@dataclass(frozen=True, slots=True)
class MiniMind:
    """Rows by document; `ends` and `sizes` are those of the documents that make one."""

    seq_len: int
    ends: Int64
    sizes: Int64
    balance: Mapping[str, int]
    """river = served + too_short + cut."""
    windows: bool = False
    chained: bool = True

    @property
    def tag(self) -> str:
        return f"minimind T={self.seq_len}"

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def num_targets(self) -> int:
        return int(np.minimum(self.sizes, self.seq_len).sum()) - len(self)

    def spans(self, rows: Int64, epoch: int) -> tuple[Int64, Int64, Int64]:
        """(row, start, stop) of the one span of each of k rows, or the two of a cut document; (m,) int64."""
        sizes, ends = self.sizes[rows], self.ends[rows]
        starts = ends - sizes
        cut = sizes > self.seq_len
        heads = np.where(cut, starts + self.seq_len - 1, ends)
        which = np.repeat(np.arange(len(rows), dtype=np.int64), 1 + cut)
        begins, stops = np.repeat(starts, 1 + cut), np.repeat(heads, 1 + cut)
        tails = (np.cumsum(1 + cut) - 1)[cut]
        begins[tails], stops[tails] = ends[cut] - 1, ends[cut]
        return which, begins, stops

    def starts(self, rows: Int64, epochs: Int64) -> Int64:
        """River position of each row's first id, (k,) int64."""
        return self.ends[rows] - self.sizes[rows]


def pack(river: River, *, seq_len: int, overflow: str = "split", phase_shift: bool = False, seed: int = 0) -> MiniMind:
    """Rows of all documents; FormatError for a river without bounds, LimitError if no document makes a row."""
    if overflow != "split" or phase_shift:
        raise InputError("overflow, phase_shift: got one with packing 'minimind', which has neither; leave them out")
    if seq_len < 2:
        raise LimitError(f"seq_len: got {seq_len}, expected at least 2, for the first and the last id of a document")
    ends = document_ends(river, "minimind")
    sizes = np.diff(ends, prepend=0)
    usable = sizes >= 2
    check_rows(int(usable.sum()), "minimind")
    lost = {"too_short": int((sizes == 1).sum()), "cut": int((sizes - seq_len)[sizes > seq_len].sum())}
    balance = {"river": river.num_tokens, "served": river.num_tokens - sum(lost.values()), **lost}
    return MiniMind(seq_len, ends[usable], sizes[usable], balance)
