"""All shards end to end as one river of ids: positions to ids, one range or many windows at a time.

A single shard is seen as one overlapping window of n ids for every start, each window one opaque item; taking k starts
from that array is k block copies inside numpy, and one more pass widens them into the caller's buffer. Of several
shards the windows' bytes are joined, which is k block copies too. Nothing is shared between calls: no lock is needed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenriver.errors import InputError, LimitError
from tokenriver.shelf import LIMIT, Shelf
from tokenriver.types import Ids, Int64

# rows are taken in blocks of about this many bytes: beyond, the copy falls out of the cache and fresh memory costs more
BLOCK_BYTES = 1 << 20
# ids that are read in order at a time, and how many are worth asking the disk for beforehand
STRETCH, AHEAD = 1 << 20, 1 << 12
# views for so many window lengths are kept
MAX_LENGTHS = 8
# maps held beside the shelf's while windows of many shards are copied
HELD_SHARDS = 32

Windows = NDArray[np.void]
Out = NDArray[np.integer[Any]]


class River:
    """num_tokens ids of one dtype in shards of the given sizes, which the shelf opens when they are needed."""

    def __init__(self, sizes: Int64, dtype: np.dtype[Any], shelf: Shelf) -> None:
        self.ends: Int64 = np.cumsum(sizes, dtype=np.int64)
        self.begins: Int64 = self.ends - sizes
        self.num_tokens = int(self.ends[-1])
        self.dtype = dtype
        self.shelf = shelf
        self._single = len(sizes) == 1
        self._windows: dict[int, Windows] = {}
        self._views: list[memoryview] = []
        self._block_ids = BLOCK_BYTES // dtype.itemsize

    def locate(self, position: int) -> tuple[int, int]:
        """(shard, offset in it) of a position in [0, num_tokens)."""
        if not 0 <= position < self.num_tokens:
            raise LimitError(f"position: got {position}, expected 0 to {self.num_tokens - 1}")
        shard = int(np.searchsorted(self.ends, position, "right"))
        return shard, position - int(self.begins[shard])

    def read(self, start: int, stop: int) -> Ids:
        """A copy of the ids [start, stop); LimitError outside [0, num_tokens]."""
        if not 0 <= start <= stop <= self.num_tokens:
            raise LimitError(f"read: got [{start}, {stop}), expected a range within [0, {self.num_tokens})")
        out: Ids = np.empty(stop - start, self.dtype)
        self._fill(out, start)
        return out

    def _fill(self, out: Ids, start: int) -> None:
        done = 0
        while done < len(out):
            shard, offset = self.locate(start + done)
            reader = self.shelf[shard]
            ids = reader.ids[offset : offset + min(len(out) - done, STRETCH)]
            if len(ids) > AHEAD:
                reader.read_ahead(offset, offset + len(ids))
            out[done : done + len(ids)] = ids
            done += len(ids)

    def gather(self, starts: Int64, n: int, out: Out) -> None:
        """Fill out (k, n) with the ids [s, s + n) of each start s (int64, (k,)); LimitError outside the river, or for
        an id that out's dtype cannot hold. Windows may cross shards."""
        try:
            # a negative start would count from the end, as Python's do; argmin is numpy's cheapest reduction
            fits = out.shape == (len(starts), n) and 0 < out.size <= self._block_ids
            if not fits or starts.item(starts.argmin()) < 0:
                raise IndexError
            found = self._windows[n][starts].view(self.dtype) if self._single else self._join(starts, n)
            np.copyto(out, found.reshape(out.shape), "safe")
        except (LookupError, TypeError, ValueError):
            self._gather_checked(starts, n, out)

    def _join(self, starts: Int64, n: int) -> Ids:
        """Windows of a few shards, all of them held, as one run of ids; too short if a window crosses shards."""
        shards, item = np.searchsorted(self.ends, starts, "right"), self.dtype.itemsize
        offsets = (starts - self.begins[shards]) * item
        size, views = n * item, self._views
        pieces = [views[s][at : at + size] for s, at in zip(shards.tolist(), offsets.tolist(), strict=True)]
        return np.frombuffer(b"".join(pieces), self.dtype)

    def _gather_checked(self, starts: Int64, n: int, out: Out) -> None:
        """What the short way cannot do, or finds wrong: the first call for a length, many rows, windows across shards,
        many shards, another dtype, errors in words."""
        if not 1 <= n <= self.num_tokens:
            raise LimitError(f"window: got {n} ids, expected 1 to {self.num_tokens}, the ids of this corpus")
        if out.shape != (len(starts), n):
            raise InputError(f"out: got shape {out.shape}, expected {(len(starts), n)}")
        last = self.num_tokens - n
        wrong = (starts < 0) | (starts > last)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise LimitError(f"starts[{at}]: got {int(starts[at])}, expected 0 to {last} for windows of {n} ids")
        self._prepare(n)
        step = max(1, self._block_ids // n)
        for at in range(0, len(starts), step):
            block = starts[at : at + step]
            found = self._windows[n][block].view(self.dtype) if self._single else self._gather_shards(block, n)
            _narrow(found.reshape(len(block), n), out[at : at + step])

    def _prepare(self, n: int) -> None:
        """Make the short way ready: views for windows of n ids of the only shard, or of all bytes of a few shards."""
        if self._single:
            kept = dict(list(self._windows.items())[1 - MAX_LENGTHS :])
            self._windows = {**kept, n: windows_of(self.shelf[0].ids, n)}
        elif not self._views and len(self.ends) <= LIMIT:
            self._views = [bytes_of(self.shelf[shard].ids) for shard in range(len(self.ends))]

    def _gather_shards(self, starts: Int64, n: int) -> Ids:
        """The ids of windows in any shards, one after another, each one piece or several of the shards' bytes; few
        shards are held at a time, whatever the batch."""
        item = self.dtype.itemsize
        shards = np.searchsorted(self.ends, starts, "right")
        offsets = (starts - self.begins[shards]) * item
        views = dict(enumerate(self._views))
        pieces: list[memoryview | bytes] = []
        for shard, offset in zip(shards.tolist(), offsets.tolist(), strict=True):
            left = n * item
            while left:
                view = views.get(shard)
                if view is None:
                    if len(views) == HELD_SHARDS:
                        pieces = [b"".join(pieces)]
                        views = {}
                    view = views[shard] = bytes_of(self.shelf[shard].ids)
                piece = view[offset : offset + left]
                pieces.append(piece)
                left -= len(piece)
                shard, offset = shard + 1, 0
        return np.frombuffer(b"".join(pieces), self.dtype)


def bytes_of(ids: Ids) -> memoryview:
    """The bytes of some ids, as a view."""
    return ids.data.cast("B")


def windows_of(ids: Ids, n: int) -> Windows:
    """(len(ids) - n + 1,) overlapping windows of n ids as opaque items, one for every start; a view."""
    item = ids.dtype.itemsize
    return np.ndarray((len(ids) - n + 1,), np.dtype((np.void, n * item)), ids.data, 0, (item,))


def _narrow(ids: Ids, out: Out) -> None:
    """Copy ids into out of any integer dtype; LimitError for an id that it cannot hold."""
    if not np.can_cast(ids.dtype, out.dtype, "safe") and ids.size:
        limit, largest = int(np.iinfo(out.dtype).max), int(ids.max())
        if largest > limit:
            raise LimitError(f"out: got id {largest}, expected at most {limit}, what {out.dtype} holds; use int64")
    np.copyto(out, ids, "unsafe")
