"""All shards end to end as one river of ids: positions to ids, one range or many windows at a time.

A single shard in one run is seen as one overlapping window of n ids for every start, each window one opaque item;
taking k starts from that array is k block copies inside numpy, and one more pass widens them into the caller's buffer.
Of several shards, or one in pieces, the windows' bytes are joined, which is k block copies too. Nothing is shared
between calls: no lock is needed.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.shelf import LIMIT, Shelf
from tokenriver.storage import ShardReader, bytes_of
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
        self._signed = dtype.kind == "i"
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
        for ids in self.blocks(start, start + len(out)):
            out[done : done + len(ids)] = ids
            done += len(ids)

    def blocks(self, start: int, stop: int) -> Iterator[Ids]:
        """The ids [start, stop), in order, in views where that is possible; the caller has checked the range."""
        while start < stop:
            shard, offset = self.locate(start)
            count = min(stop - start, STRETCH, int(self.ends[shard]) - start)
            reader = self.shelf[shard]
            if count > AHEAD:
                reader.read_ahead(offset, offset + count)
            ids = reader.read(offset, offset + count)
            if self._signed:
                _refuse_negative(ids)
            yield ids
            start += count

    def gather(self, starts: Int64, n: int, out: Out) -> None:
        """Fill out (k, n) with the ids [s, s + n) of each start s (int64, (k,)); LimitError outside the river, or for
        an id that out's dtype cannot hold. Windows may cross shards."""
        try:
            # a negative start would count from the end, as Python's do; argmin is numpy's cheapest reduction
            fits = out.shape == (len(starts), n) and 0 < out.size <= self._block_ids
            if not fits or starts.item(starts.argmin()) < 0:
                raise IndexError
            found = self._windows[n][starts].view(self.dtype) if self._single else self._join(starts, n)
            if self._signed and found.min() < 0:
                raise ValueError
            np.copyto(out, found.reshape(out.shape), "safe")
        except (LookupError, TypeError, ValueError):
            self._gather_checked(starts, n, out)

    def take(self, starts: Int64, sizes: Int64, out: Out) -> None:
        """Fill out, row by row, with the ids [s, s + n) of each start and size, one run after another; a start of -1
        stands for zeros. LimitError for a run outside the river, or an id that out's dtype cannot hold."""
        item = self.dtype.itemsize
        if not self._single and len(self.ends) <= LIMIT:
            self._prepare(1)
        joined = b"".join(self._runs(starts, sizes))
        if len(joined) != out.size * item:
            raise LimitError(f"sizes: got {len(joined) // item} ids inside the river, expected {out.size}")
        found = np.frombuffer(joined, self.dtype)
        if self._signed:
            _refuse_negative(found)
        _narrow(found.reshape(out.shape), out)

    def _runs(self, starts: Int64, sizes: Int64) -> Iterable[memoryview | bytes]:
        """The bytes of runs of ids, one after another."""
        item, flat = self.dtype.itemsize, self.shelf[0].ids if self._single else None
        zeros = memoryview(bytes(int(sizes[starts < 0].max(initial=0)) * item))
        if flat is not None:
            view, begins, ends = bytes_of(flat), (starts * item).tolist(), ((starts + sizes) * item).tolist()
            return [view[a:b] if a >= 0 else zeros[: b - a] for a, b in zip(begins, ends, strict=True)]
        shards = np.searchsorted(self.ends, starts, "right")
        last = np.minimum(shards, len(self.ends) - 1)
        if self._views and not (starts + sizes > self.ends[last]).any():
            offsets = (starts - self.begins[last]) * item
            views = self._views
            zipped = zip(last.tolist(), starts.tolist(), offsets.tolist(), (sizes * item).tolist(), strict=True)
            return [views[s][at : at + n] if start >= 0 else zeros[:n] for s, start, at, n in zipped]
        out: list[memoryview | bytes] = []
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            out += self._pieces(np.array([start], np.int64), size) if start >= 0 else [zeros[: size * item]]
        return out

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
            if n in self._windows:
                found = self._windows[n][block].view(self.dtype)
            else:
                found = np.frombuffer(b"".join(self._pieces(block, n)), self.dtype)
            if self._signed:
                _refuse_negative(found)
            _narrow(found.reshape(len(block), n), out[at : at + step])

    def _prepare(self, n: int) -> None:
        """Make the short way ready: views for windows of n ids of the only shard, or of all bytes of a few shards."""
        if self._single:
            ids = self.shelf[0].ids
            if ids is not None:
                kept = dict(list(self._windows.items())[1 - MAX_LENGTHS :])
                self._windows = {**kept, n: windows_of(ids, n)}
        elif not self._views and len(self.ends) <= LIMIT:
            runs = [ids for shard in range(len(self.ends)) if (ids := self.shelf[shard].ids) is not None]
            self._views = [bytes_of(ids) for ids in runs] if len(runs) == len(self.ends) else []

    def _pieces(self, starts: Int64, n: int) -> Iterable[memoryview | bytes]:
        """The bytes of windows in any shards, one after another, each in one piece or several; few shards are held at
        a time, whatever the batch."""
        if self._single:
            return self.shelf[0].windows(starts, n)
        shards = np.searchsorted(self.ends, starts, "right")
        offsets = starts - self.begins[shards]
        held: dict[int, ShardReader] = {}
        pieces: list[memoryview | bytes] = []
        for shard, offset in zip(shards.tolist(), offsets.tolist(), strict=True):
            left = n
            while left:
                if shard not in held:
                    if len(held) == HELD_SHARDS:
                        pieces = [b"".join(pieces)]
                        held = {}
                    held[shard] = self.shelf[shard]
                count = min(left, int(self.ends[shard] - self.begins[shard]) - offset)
                pieces += held[shard].windows(np.array([offset], np.int64), count)
                left, shard, offset = left - count, shard + 1, 0
        return pieces


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


def _refuse_negative(ids: Ids) -> None:
    if ids.size and int(ids.min()) < 0:
        raise FormatError(f"id: got {int(ids.min())}, expected at least 0; the file holds something else than ids")
