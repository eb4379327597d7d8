"""llm.c's loader without shuffling: the shards in order, their global batches in order, a slice of each a rank."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tokenriver.orders._slices import Slices, cut
from tokenriver.types import Int64

SEEDED = False
RANKS = True


@dataclass(frozen=True, slots=True)
class Sequential:
    """Nothing to remember: a call's place is arithmetic."""

    slices: Slices

    @property
    def num_rows(self) -> int:
        return self.slices.num_rows

    @property
    def balance(self) -> Mapping[str, int]:
        return self.slices.balance

    def starts(self, first: int, count: int, rank: int) -> Int64:
        """(count, batch) river positions of one rank's calls."""
        ends = np.cumsum(self.slices.counts)
        places = (first + np.arange(count, dtype=np.int64)) % self.slices.calls
        shards = np.searchsorted(ends, places, "right")
        return self.slices.starts(shards, places - (ends - self.slices.counts)[shards], rank)


def replay(shards: Int64, *, seq_len: int, batch: int, world_size: int, seed: int) -> Sequential:
    """LimitError for a shard that is shorter than one global batch."""
    return Sequential(cut(shards, seq_len, batch, world_size))
