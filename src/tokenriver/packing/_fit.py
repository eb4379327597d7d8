"""Best-fit decreasing over runs of equal sizes: exact, and a few thousand steps whatever the number of items.

Items of one size are placed together, the largest size first. An item goes into the bin with the least room that still
holds it; that bin then has the least room again, until it holds no more. So all bins with equal room take equally many
items of a size, and whole groups of bins move at once. The result is that of placing items one by one.
"""

import numpy as np
from numpy.typing import NDArray

from tokenriver.types import Int64

Int32 = NDArray[np.int32]


def best_fit(sizes: Int64, capacity: int) -> tuple[Int64, Int64]:
    """(order, counts): items (indexes into sizes, each 1 to capacity) bin after bin, largest first inside each, and
    the number of items of each bin."""
    by_size = np.argsort((capacity - sizes).astype(np.uint16 if capacity <= 65535 else np.uint32), kind="stable")
    many = np.bincount(sizes, minlength=capacity + 1)
    bins = _Bins(capacity, len(sizes))
    for size in range(capacity, 0, -1):
        bins.place(size, int(many[size]))
    counts = bins.counts[: bins.used].astype(np.int64)
    places = (np.cumsum(counts) - counts)[np.concatenate(bins.numbers)]
    places += np.concatenate(bins.ranks)
    order = np.empty(len(sizes), np.int64)
    order[places] = by_size
    return order, counts


def count_bins(many: Int64, capacity: int) -> int:
    """How many bins best_fit fills with many[s] items of each size s, (capacity + 1,) int64; nothing is placed, so it
    takes the same few thousand steps and no memory for the items."""
    bins = [0] * (capacity + 1)
    filled = np.zeros(capacity + 1, np.bool_)
    used = 0
    for size in np.flatnonzero(many)[::-1].tolist():
        items = int(many[size])
        while items:
            room = size + int(filled[size:].argmax())
            if filled[room]:
                there, bins[room], filled[room] = bins[room], 0, False
            else:
                room, there = capacity, -(-items // (capacity // size))
                used += there
            each = room // size
            whole = min(there, items // each)
            items -= whole * each
            rest = min(1, there - whole) if items else 0
            changed = ((room - each * size, whole), (room - items * size, rest), (room, there - whole - rest))
            for left, number in changed:
                if number:
                    bins[left] += number
                    filled[left] = True
            items = 0 if rest else items
    return used


class _Bins:
    """Bins by the room that they have left, and where each item went."""

    def __init__(self, capacity: int, items: int) -> None:
        self._capacity = capacity
        self._groups: list[list[Int32]] = [[] for _ in range(capacity + 1)]
        self._filled = np.zeros(capacity + 1, np.bool_)
        self.used = 0
        self.counts = np.zeros(items, np.int32)
        """Items of each bin so far; only `used` bins have any."""
        self.numbers: list[Int32] = []
        """The bin of each item, in the order in which they are placed, in blocks."""
        self.ranks: list[Int32] = []
        """How many items its bin had before it."""

    def place(self, size: int, items: int) -> None:
        """Place so many items of one size."""
        while items:
            room = size + int(np.argmax(self._filled[size:]))
            if self._filled[room]:
                # of bins with equal room the oldest comes first
                bins = np.sort(np.concatenate(self._groups[room]))
                self._groups[room], self._filled[room] = [], False
            else:
                room = self._capacity
                bins = np.arange(self.used, self.used - (-items // (room // size)), dtype=np.int32)
                self.used += len(bins)
            each = room // size
            whole = min(len(bins), items // each)
            self._fill(bins[:whole], each, room - each * size)
            items -= whole * each
            rest = min(1, len(bins) - whole) if items else 0
            self._fill(bins[whole : whole + rest], items, room - items * size)
            self._put(room, bins[whole + rest :])
            items = 0 if rest else items

    def _fill(self, bins: Int32, each: int, room: int) -> None:
        """Put `each` items into each of some bins, which leaves them so much room."""
        if len(bins):
            self.numbers.append(np.repeat(bins, each))
            ranks = np.add(self.counts[bins][:, None], np.arange(each), dtype=np.int32, casting="unsafe")
            self.ranks.append(ranks.ravel())
            self.counts[bins] += each
            self._put(room, bins)

    def _put(self, room: int, bins: Int32) -> None:
        if len(bins):
            self._groups[room].append(bins)
            self._filled[room] = True
