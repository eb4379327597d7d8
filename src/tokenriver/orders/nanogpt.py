"""nanoGPT's get_batch: rows drawn with replacement from all windows, by torch's generator at seed + rank.

torch.randint takes one 32-bit word a draw, word mod range, or two, (first << 32 | second) mod range, for ranges from
2^28 on: that is torch 2.13's rule. Releases before it took one up to 2^32, so that runs of theirs over more than 2^28
ids drew otherwise.
"""

from collections.abc import Mapping

import numpy as np

from tokenriver.orders._words import Words
from tokenriver.types import Int64

SEEDED = True
RANKS = True
WIDE_FROM = 1 << 28
LOW = (1 << 32) - 1


class Crops:
    """A call takes the same number of words each time."""

    def __init__(self, num_tokens: int, seq_len: int, batch: int, seed: int) -> None:
        self.num_rows = num_tokens - seq_len
        # without epochs there is no fate to count
        self.balance: Mapping[str, int] = {"river": num_tokens}
        self._batch, self._seed = batch, seed
        self._words: dict[int, Words] = {}

    def starts(self, first: int, count: int, rank: int) -> Int64:
        """(count, batch) river positions of one rank's calls."""
        words = self._words.setdefault(rank, Words((self._seed + rank) & LOW))
        if self.num_rows < WIDE_FROM:
            return (words.at(first * self._batch, count * self._batch) % self.num_rows).reshape(count, self._batch)
        pairs = words.at(2 * first * self._batch, 2 * count * self._batch).view(np.uint64)
        pairs = pairs.reshape(count, self._batch, 2)
        values = (pairs[..., 0] << np.uint64(32)) | pairs[..., 1]
        return (values % np.uint64(self.num_rows)).astype(np.int64)


def replay(shards: Int64, *, seq_len: int, batch: int, world_size: int, seed: int) -> Crops:
    """Any whole seed, as torch.manual_seed has it: its low 32 bits count."""
    return Crops(int(shards.sum()), seq_len, batch, seed)
