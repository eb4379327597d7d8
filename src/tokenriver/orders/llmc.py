"""llm.c's loader with shuffling: each rank draws by itself, with seed 42 + rank, the order of the shards at the start
of each epoch, from that of the epoch before, and the order of a shard's global batches when it comes to the shard.

An epoch takes the same number of words whatever they are, since it opens every shard once. So any call is reached
without making the orders before it: their words are passed over, and only the few of the shards' own order are used.
"""

from collections.abc import Mapping

import numpy as np

from tokenriver.orders._slices import Slices, cut
from tokenriver.orders._words import Words, shuffle
from tokenriver.types import Int64

SEEDED = False
RANKS = True
SEED = 42

Key = tuple[int, ...]


class Shuffled:
    """What was drawn last is kept, as pairs that are replaced whole: threads need no lock."""

    def __init__(self, slices: Slices) -> None:
        self.slices = slices
        self.num_rows = slices.num_rows
        self._words: dict[int, Words] = {}
        self._order: tuple[Key, list[int]] = ((-1, -1), [])
        self._inside: tuple[Key, Int64] = ((-1, -1, -1), np.empty(0, np.int64))

    @property
    def balance(self) -> Mapping[str, int]:
        return self.slices.balance

    def starts(self, first: int, count: int, rank: int) -> Int64:
        """(count, batch) river positions of one rank's calls, those of one shard at a time."""
        shards, slices = np.empty(count, np.int64), np.empty(count, np.int64)
        done = 0
        while done < count:
            epoch, place = divmod(first + done, self.slices.calls)
            order = self._order_of(rank, epoch)
            ends = np.cumsum(self.slices.counts[order])
            turn = int(np.searchsorted(ends, place, "right"))
            some = min(count - done, int(ends[turn]) - place)
            inside = self._inside_of(rank, epoch, turn)
            begin = place - (int(ends[turn]) - len(inside))
            shards[done : done + some] = order[turn]
            slices[done : done + some] = inside[begin : begin + some]
            done += some
        return self.slices.starts(shards, slices, rank)

    def _order_of(self, rank: int, epoch: int) -> list[int]:
        """The shards in the order of an epoch."""
        (of_rank, reached), order = self._order
        if of_rank != rank or reached > epoch:
            reached, order = -1, list(range(len(self.slices.counts)))
        if reached < epoch:
            order = list(order)
            for number in range(reached + 1, epoch + 1):
                shuffle(order, self._drawn(rank, number * self._an_epoch, len(order) - 1))
            self._order = ((rank, epoch), order)
        return order

    def _inside_of(self, rank: int, epoch: int, turn: int) -> Int64:
        """The global batches of the shard that comes `turn`-th in an epoch, in their order."""
        key, inside = self._inside
        if key != (rank, epoch, turn):
            order = self._order_of(rank, epoch)
            before = epoch * self._an_epoch + len(order) - 1 + int((self.slices.counts[order[:turn]] - 1).sum())
            items = list(range(int(self.slices.counts[order[turn]])))
            shuffle(items, self._drawn(rank, before, len(items) - 1))
            inside = np.array(items, np.int64)
            self._inside = ((rank, epoch, turn), inside)
        return inside

    @property
    def _an_epoch(self) -> int:
        """Words that one epoch takes: one less than its items for each shuffle."""
        return self.slices.calls - 1

    def _drawn(self, rank: int, place: int, count: int) -> Int64:
        return self._words.setdefault(rank, Words(SEED + rank)).at(place, count)


def replay(shards: Int64, *, seq_len: int, batch: int, world_size: int, seed: int) -> Shuffled:
    """LimitError for a shard that is shorter than one global batch."""
    return Shuffled(cut(shards, seq_len, batch, world_size))
