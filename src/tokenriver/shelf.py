"""Shards opened on use, and let go when others are used: a map holds a descriptor, and a corpus may have 10,000 shards.

Threads at worst open a shard twice. Nothing is closed by force: an array that a caller still holds keeps its map.
"""

from collections.abc import Callable

from tokenriver.recent import Recent
from tokenriver.storage import ShardReader

LIMIT = 64
DECODED = 8
"""Shards kept whose ids are decoded: they may hold blocks of them."""


class Shelf:
    """The last `limit` shards used, by number."""

    def __init__(self, opener: Callable[[int], ShardReader], limit: int = LIMIT) -> None:
        self._opener = opener
        self._limit = limit
        self._open: Recent[ShardReader] = Recent()

    def __getitem__(self, number: int) -> ShardReader:
        reader = self._open.take(number)
        if reader is None:
            reader = self._opener(number)
        limit = self._limit if reader.extents is not None else min(self._limit, DECODED)
        self._open.keep(number, reader, limit)
        return reader

    def __len__(self) -> int:
        return len(self._open)
