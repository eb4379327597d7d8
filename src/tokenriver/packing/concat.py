"""Plain windows: the river is cut every seq_len ids, across documents and shards.

Row i is the span [shift + i*T, shift + i*T + T + 1): its last id is the first id of the next row, so every id but the
river's first is a target exactly once, and fewer than T ids at the end are unused. With `phase_shift` the first cut of
each epoch moves by a keyed draw from 0 .. (ids - 1) mod T, the largest shift that still leaves N whole rows: the cuts
and the unused ids differ from epoch to epoch, the number of rows does not.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tokenriver.errors import InputError, LimitError
from tokenriver.types import Int64, River


@dataclass(frozen=True, slots=True)
class Concat:
    """Windows of seq_len + 1 ids, seq_len apart."""

    num_tokens: int
    seq_len: int
    phase_shift: bool
    seed: int
    windows: bool = True
    chained: bool = False

    @property
    def tag(self) -> str:
        return f"concat T={self.seq_len}" + (" phase-shift" if self.phase_shift else "")

    @property
    def balance(self) -> Mapping[str, int]:
        """river = served + unused: ids of one epoch; a served id is an input or a target of a row."""
        served = len(self) * self.seq_len + 1
        return {"river": self.num_tokens, "served": served, "unused": self.num_tokens - served}

    @property
    def num_targets(self) -> int:
        return len(self) * self.seq_len

    def __len__(self) -> int:
        return (self.num_tokens - 1) // self.seq_len

    def spans(self, rows: Int64, epoch: int) -> tuple[Int64, Int64, Int64]:
        """One span a row: (0..k-1, start, start + seq_len + 1), each (k,) int64."""
        starts = rows * self.seq_len + self.shift(epoch)
        return np.arange(len(rows), dtype=np.int64), starts, starts + self.seq_len + 1

    def starts(self, rows: Int64, epochs: Int64) -> Int64:
        """River position of each row's first id, (k,) int64."""
        starts = rows * self.seq_len
        if self.phase_shift and len(epochs):
            different, which = np.unique(epochs, return_inverse=True)
            starts += np.array([self.shift(epoch) for epoch in different.tolist()], np.int64)[which]
        return starts

    def shift(self, epoch: int) -> int:
        """Where the first window of an epoch starts; 0 without phase_shift."""
        if not self.phase_shift:
            return 0
        digest = hashlib.sha512(f"tokenriver phase 1\0{self.seed}\0{epoch}".encode()).digest()
        return int.from_bytes(digest[:16], "little") % ((self.num_tokens - 1) % self.seq_len + 1)


def pack(river: River, *, seq_len: int, overflow: str = "split", phase_shift: bool = False, seed: int = 0) -> Concat:
    """Windows over the whole river; LimitError when it is shorter than one. Windows pay no heed to documents, so
    `overflow` can only be "split"."""
    if overflow != "split":
        raise InputError(
            f"overflow: got {overflow!r}, expected 'split'; packing 'concat' cuts every seq_len ids whatever lies there"
        )
    if river.num_tokens < seq_len + 1:
        raise LimitError(
            f"seq_len: got {seq_len}, which needs at least {seq_len + 1} ids, and the corpus has {river.num_tokens}; "
            "take a smaller seq_len or more text"
        )
    return Concat(river.num_tokens, seq_len, phase_shift, seed)
