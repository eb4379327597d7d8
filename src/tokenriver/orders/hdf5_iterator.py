"""The batch iterator of the HDF5 project: all windows, shuffled by numpy's legacy generator, a whole batch at a time.

When fewer windows than a batch are left they are dropped, others each time, and the same array is shuffled again. How
many words a shuffle takes depends on the words, so a later epoch is reached by doing the shuffles before it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenriver.errors import InputError, LimitError
from tokenriver.types import Int64

SEEDED = True
RANKS = False
LARGEST_SEED = (1 << 32) - 1


class Iterator:
    """Windows in the order of the last epoch asked for, kept as a triple that is replaced whole."""

    def __init__(self, num_tokens: int, seq_len: int, batch: int, seed: int) -> None:
        self._num_tokens, self._seq_len, self._batch, self._seed = num_tokens, seq_len, batch, seed
        self._windows = (num_tokens - 1) // seq_len
        self._calls = self._windows // batch
        self.num_rows = self._calls * batch
        self._epoch: tuple[int, Any, Int64] | None = None

    @property
    def balance(self) -> Mapping[str, int]:
        """river = served + dropped + unused: ids of one epoch, each counted with the window whose input it is."""
        dropped = (self._windows - self.num_rows) * self._seq_len
        served = self.num_rows * self._seq_len
        return {
            "river": self._num_tokens,
            "served": served,
            "dropped": dropped,
            "unused": self._num_tokens - served - dropped,
        }

    def starts(self, first: int, count: int, rank: int) -> Int64:
        """(count, batch) river positions of calls."""
        out = np.empty((count, self._batch), np.int64)
        done = 0
        while done < count:
            epoch, place = divmod(first + done, self._calls)
            some = min(count - done, self._calls - place)
            rows = self._order_of(epoch)[place * self._batch : (place + some) * self._batch]
            out[done : done + some] = rows.reshape(some, self._batch)
            done += some
        out *= self._seq_len
        return out

    def _order_of(self, epoch: int) -> Int64:
        known = self._epoch
        if known is None or known[0] > epoch:
            known = (-1, np.random.RandomState(self._seed).get_state(), np.arange(self._windows, dtype=np.int64))
        reached, state, order = known
        if reached < epoch:
            generator, order = np.random.RandomState(0), order.copy()
            generator.set_state(state)
            for _ in range(epoch - reached):
                generator.shuffle(order)
            self._epoch = (epoch, generator.get_state(), order)
        return order


def replay(shards: Int64, *, seq_len: int, batch: int, world_size: int, seed: int) -> Iterator:
    """LimitError for fewer windows than a batch; InputError for a seed that numpy.random.seed does not take."""
    if not 0 <= seed <= LARGEST_SEED:
        raise InputError(f"seed: got {seed}, expected 0 to {LARGEST_SEED}, what numpy.random.seed takes; choose one")
    num_tokens = int(shards.sum())
    windows = (num_tokens - 1) // seq_len
    if windows < batch:
        raise LimitError(
            f"global_batch: got {batch}, expected 1 to {windows}, the windows of an epoch; take fewer rows a step (the "
            f"original makes batches of {windows} rows then)"
        )
    return Iterator(num_tokens, seq_len, batch, seed)
