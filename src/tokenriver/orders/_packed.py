"""The packed rows of the HDF5 project's fine-tuning file, as its trainer takes them: rank r of W has the rows r, r + W,
..., in whole batches; the rows of a batch are in the file's order, and what is left of an epoch is dropped.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenriver.errors import LimitError
from tokenriver.types import Int64

SEED = 1234


class PackedRows:
    """The order of the last epoch of each rank is kept, as a triple that is replaced whole: threads need no lock."""

    def __init__(self, num_tokens: int, sizes: tuple[int, int, int], *, shuffled: bool) -> None:
        """`sizes` are seq_len, batch and world size; LimitError for a rank with fewer rows than a batch."""
        self._num_tokens, self._shuffled = num_tokens, shuffled
        self._seq_len, self._batch, self._world_size = sizes
        self._rows = num_tokens // self._seq_len
        if self._rows // self._world_size < self._batch:
            raise LimitError(
                f"global_batch: got {self._batch} rows a rank, expected 1 to {self._rows // self._world_size}, the "
                "rows of a rank's epoch; take fewer rows a step, or fewer ranks (the original waits for ever then)"
            )
        self.num_rows = sum(self._calls(rank) for rank in range(self._world_size)) * self._batch
        self._epochs: dict[int, tuple[int, Any, Int64]] = {}

    @property
    def balance(self) -> Mapping[str, int]:
        """river = served + dropped + unused: ids of one epoch of all ranks; unused ones fill no row."""
        served, rows = self.num_rows * self._seq_len, self._rows * self._seq_len
        return {
            "river": self._num_tokens,
            "served": served,
            "dropped": rows - served,
            "unused": self._num_tokens - rows,
        }

    def starts(self, first: int, count: int, rank: int) -> Int64:
        """(count, batch) river positions of one rank's calls."""
        out = np.empty((count, self._batch), np.int64)
        calls, done = self._calls(rank), 0
        while done < count:
            epoch, place = divmod(first + done, calls)
            some = min(count - done, calls - place)
            rows = self._order_of(rank, epoch)[place * self._batch : (place + some) * self._batch]
            out[done : done + some] = np.sort(rows.reshape(some, self._batch), axis=1)
            done += some
        out *= self._seq_len
        return out

    def _calls(self, rank: int) -> int:
        """Batches of one rank in one epoch; ranks differ where the rows do not divide."""
        return len(range(rank, self._rows, self._world_size)) // self._batch

    def _order_of(self, rank: int, epoch: int) -> Int64:
        known = self._epochs.get(rank)
        if known is None or known[0] > epoch:
            rows = np.arange(rank, self._rows, self._world_size, dtype=np.int64)
            known = (-1, np.random.default_rng(SEED + rank).bit_generator.state, rows)
        reached, state, order = known
        if reached < epoch and self._shuffled:
            generator, order = np.random.default_rng(0), order.copy()
            generator.bit_generator.state = state
            for _ in range(epoch - reached):
                generator.shuffle(order)
            known = (epoch, generator.bit_generator.state, order)
        self._epochs[rank] = known
        return order
