"""Shards opened on use, and let go when others are used: a map holds a descriptor, and a corpus may have 10,000 shards.

No lock: a dictionary's own operations are atomic, so threads at worst open a shard twice, and a fork never inherits a
lock that nobody will release. Nothing is closed by force: an array that a caller still holds keeps its map.
"""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from tokenriver.storage import ShardReader

LIMIT = 64
DECODED = 8
"""Shards kept whose ids do not lie in one run of a file: they may hold decoded blocks."""


class Shelf:
    """The last `limit` shards used, by number."""

    def __init__(self, opener: Callable[[int], ShardReader], limit: int = LIMIT) -> None:
        self._opener = opener
        self._limit = limit
        self._open: OrderedDict[int, ShardReader] = OrderedDict()

    def __getitem__(self, number: int) -> ShardReader:
        reader = self._open.pop(number, None)
        if reader is None:
            reader = self._opener(number)
        self._open[number] = reader
        limit = self._limit if reader.ids is not None else min(self._limit, DECODED)
        while len(self._open) > limit:
            with suppress(KeyError):  # another thread may have taken them away meanwhile
                self._open.popitem(last=False)
        return reader

    def __len__(self) -> int:
        return len(self._open)
