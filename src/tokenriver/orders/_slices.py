"""What llm.c's two orders share: each shard cut into global batches, each of them into one slice a rank.

A slice is batch * seq_len + 1 ids in a row of one shard; neighbours share an id. What a shard has beyond its last whole
global batch is not read, in any epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tokenriver.errors import LimitError
from tokenriver.types import Int64


@dataclass(frozen=True, slots=True)
class Slices:
    """The global batches of all shards."""

    shards: Int64
    """(n,) ids of each shard."""
    counts: Int64
    """(n,) global batches of each shard, at least 1."""
    seq_len: int
    batch: int
    world_size: int

    @property
    def calls(self) -> int:
        """Calls of one rank in one epoch."""
        return int(self.counts.sum())

    @property
    def num_rows(self) -> int:
        return self.calls * self.world_size * self.batch

    @property
    def balance(self) -> Mapping[str, int]:
        """river = served + unused: ids of one epoch of all ranks."""
        river = int(self.shards.sum())
        served = self.num_rows * self.seq_len + len(self.shards)
        return {"river": river, "served": served, "unused": river - served}

    def starts(self, shards: Int64, slices: Int64, rank: int) -> Int64:
        """(k, batch) river position of each row of one rank's slices, (k,) each in its shard."""
        begins = (np.cumsum(self.shards) - self.shards)[shards]
        rows = (slices * self.world_size + rank) * self.batch
        return begins[:, None] + (rows[:, None] + np.arange(self.batch, dtype=np.int64)) * self.seq_len


def cut(shards: Int64, seq_len: int, batch: int, world_size: int) -> Slices:
    """LimitError for a shard without one global batch."""
    step = world_size * batch * seq_len
    counts = (shards - 1) // step
    if counts.min() < 1:
        short = int(np.argmax(counts < 1))
        raise LimitError(
            f"shard {short}: got {int(shards[short])} ids, expected at least {step + 1}, one batch of all ranks (llm.c "
            "reads none across shards); take a smaller micro_batch or seq_len, fewer ranks or longer shards"
        )
    return Slices(shards, counts, seq_len, batch, world_size)
