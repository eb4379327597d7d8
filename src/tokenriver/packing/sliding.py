"""Windows that overlap: one every `stride` ids (half of seq_len unless given), across documents and shards.

An id lies in about seq_len / stride rows; what is served more than once is counted as repeats, apart from the balance
of ids. With stride = seq_len it is packing `concat` without its last id's doing: the same windows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tokenriver.errors import InputError, LimitError
from tokenriver.types import Int64, River


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of seq_len + 1 ids, `stride` apart."""

    num_tokens: int
    seq_len: int
    stride: int
    windows: bool = True
    chained: bool = False

    @property
    def tag(self) -> str:
        return f"sliding T={self.seq_len} stride={self.stride}"

    @property
    def balance(self) -> Mapping[str, int]:
        """river = served + unused: ids of one epoch, each counted once."""
        served = (len(self) - 1) * self.stride + self.seq_len + 1
        return {"river": self.num_tokens, "served": served, "unused": self.num_tokens - served}

    @property
    def num_targets(self) -> int:
        return len(self) * self.seq_len

    @property
    def repeats(self) -> int:
        """Targets of an epoch beyond the first time that an id is one."""
        return self.num_targets - (self.balance["served"] - 1)

    def __len__(self) -> int:
        return 1 + (self.num_tokens - self.seq_len - 1) // self.stride

    def spans(self, rows: Int64, epoch: int) -> tuple[Int64, Int64, Int64]:
        """One span a row: (0..k-1, start, start + seq_len + 1), each (k,) int64."""
        starts = rows * self.stride
        return np.arange(len(rows), dtype=np.int64), starts, starts + self.seq_len + 1

    def starts(self, rows: Int64, epochs: Int64) -> Int64:
        """River position of each row's first id, (k,) int64."""
        return rows * self.stride


def pack(
    river: River,
    *,
    seq_len: int,
    overflow: str = "split",
    phase_shift: bool = False,
    seed: int = 0,
    stride: int | None = None,
) -> Sliding:
    """Windows over the whole river; LimitError when it is shorter than one."""
    if overflow != "split" or phase_shift:
        raise InputError("overflow, phase_shift: got one with packing 'sliding', which has neither; leave them out")
    step = max(1, seq_len // 2) if stride is None else stride
    if not 1 <= step <= seq_len:
        raise InputError(f"stride: got {step}, expected 1 to seq_len {seq_len}: a longer one would leave ids out")
    if river.num_tokens < seq_len + 1:
        raise LimitError(
            f"seq_len: got {seq_len}, which needs at least {seq_len + 1} ids, and the corpus has {river.num_tokens}; "
            "take a smaller seq_len or more text"
        )
    return Sliding(river.num_tokens, seq_len, step)
