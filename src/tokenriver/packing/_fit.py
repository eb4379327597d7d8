"""Best-fit decreasing over runs of equal sizes: exact, and a few thousand steps whatever the number of items.

Items of one size are placed together, the largest size first. An item goes into the bin with the least room that still
holds it; that bin then has the least room again, until it holds no more. So all bins with equal room take equally many
items of a size, and whole groups of bins move at once. The result is that of placing items one by one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenriver.types import Int32, Int64


@dataclass(frozen=True, slots=True)
class Bins:
    """Which bins take how many items of which size; the items themselves are not asked for."""

    ends: Int64
    """(bins,) items of this bin and all before it."""
    steps: list[tuple[Int64, int, int]]
    """(bins, items for each of them, their size), the largest size first."""

    def arrange(self, by_size: Int64, items: Int64, sizes: Int32) -> None:
        """Of all items, the largest first, fill items and sizes bin after bin, the largest first inside each."""
        next_place = np.diff(self.ends, prepend=0)
        np.subtract(self.ends, next_place, out=next_place)
        done = 0
        for bins, each, size in self.steps:
            places = next_place[bins]
            next_place[bins] = places + each
            if each > 1:
                places = (places[:, None] + np.arange(each)).ravel()
            items[places] = by_size[done : done + len(places)]
            sizes[places] = size
            done += len(places)


def best_fit(many: Int64, capacity: int) -> Bins:
    """The bins of many[s] items of each size s, (capacity + 1,) int64; none has size 0."""
    filling = _Filling(capacity)
    for size in np.flatnonzero(many)[::-1].tolist():
        filling.place(size, int(many[size]))
    counts = np.zeros(filling.used, np.int64)
    for bins, each, _ in filling.steps:
        counts[bins] += each
    return Bins(np.cumsum(counts, out=counts), filling.steps)


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


class _Filling:
    """Bins by the room that they have left."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._groups: list[list[Int64]] = [[] for _ in range(capacity + 1)]
        self._filled: NDArray[np.bool_] = np.zeros(capacity + 1, np.bool_)
        self.used = 0
        self.steps: list[tuple[Int64, int, int]] = []

    def place(self, size: int, items: int) -> None:
        """Place so many items of one size."""
        while items:
            room = size + int(self._filled[size:].argmax())
            if self._filled[room]:
                # of bins with equal room the oldest comes first
                groups = self._groups[room]
                bins = groups[0] if len(groups) == 1 else np.sort(np.concatenate(groups))
                self._groups[room], self._filled[room] = [], False
            else:
                room = self._capacity
                bins = np.arange(self.used, self.used - (-items // (room // size)), dtype=np.int64)
                self.used += len(bins)
            each = room // size
            whole = min(len(bins), items // each)
            self._fill(bins[:whole], each, size, room)
            items -= whole * each
            rest = min(1, len(bins) - whole) if items else 0
            self._fill(bins[whole : whole + rest], items, size, room)
            self._put(room, bins[whole + rest :])
            items = 0 if rest else items

    def _fill(self, bins: Int64, each: int, size: int, room: int) -> None:
        """Put `each` items of a size into each of some bins, which have so much room."""
        if len(bins):
            self.steps.append((bins, each, size))
            self._put(room - each * size, bins)

    def _put(self, room: int, bins: Int64) -> None:
        if len(bins):
            self._groups[room].append(bins)
            self._filled[room] = True
