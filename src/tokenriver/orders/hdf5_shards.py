"""The window loader of the sharded-HDF5 lesson: starts drawn with replacement by Python's random.Random(seed).

randint takes the upper bits of a 32-bit word (of two, the first the lower half, from 2^32 windows on) and draws again
while the value is too large. How many words a start takes depends on the words, so a later call is reached by drawing.
"""

from collections.abc import Mapping

import numpy as np

from tokenriver.errors import LimitError
from tokenriver.orders._words import Words
from tokenriver.types import Int64

SEEDED = True
RANKS = False
BLOCK = 1 << 12
"""Values drawn at a time; those that are too large fall out."""


class Starts:
    """start(0), start(1), ..., a block at a time; the last block is kept, as a triple that is replaced whole."""

    def __init__(self, num_tokens: int, seq_len: int, batch: int, words: Words) -> None:
        self.num_rows = num_tokens - seq_len
        self.balance: Mapping[str, int] = {"river": num_tokens}
        self._batch, self._words = batch, words
        self._last: tuple[int, int, Int64] = (0, 0, np.empty(0, np.int64))
        """Starts before the block, blocks up to its end, the block's starts."""

    def starts(self, first: int, count: int, rank: int) -> Int64:
        """(count, batch) river positions of calls."""
        out = np.empty(count * self._batch, np.int64)
        begin, done = first * self._batch, 0
        before, blocks, found = self._last if self._last[0] <= begin else (0, 0, self._last[2][:0])
        while done < len(out):
            some = found[begin + done - before :][: len(out) - done]
            out[done : done + len(some)] = some
            done += len(some)
            if done < len(out):
                before, blocks, found = before + len(found), blocks + 1, self._block(blocks)
        self._last = (before, blocks, found)
        return out.reshape(count, self._batch)

    def _block(self, number: int) -> Int64:
        """The values of a block that are small enough."""
        bits = self.num_rows.bit_length()
        if bits <= 32:
            values = self._words.at(number * BLOCK, BLOCK) >> (32 - bits)
        else:
            pairs = self._words.at(2 * number * BLOCK, 2 * BLOCK).reshape(BLOCK, 2)
            values = pairs[:, 0] | (pairs[:, 1] >> (64 - bits)) << 32
        return values[values < self.num_rows]


def replay(shards: Int64, *, seq_len: int, batch: int, world_size: int, seed: int) -> Starts:
    """LimitError for windows of one id, which the original refuses."""
    if seq_len < 2:
        raise LimitError(f"seq_len: got {seq_len}, expected at least 2, as the original does; take a longer one")
    size = abs(seed)
    key = [size >> shift & 0xFFFFFFFF for shift in range(0, max(1, size.bit_length()), 32)]
    return Starts(int(shards.sum()), seq_len, batch, Words(key))
