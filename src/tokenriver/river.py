"""All shards end to end as one river of ids: positions to ids, one range or many windows at a time.

A single shard in one run is seen as one overlapping window of n ids for every start, each window one opaque item;
taking k starts from that array is k block copies inside numpy, and one more pass widens them into the caller's buffer.
Of several shards, or one in pieces, the windows' bytes are joined (`Extents`), which is k block copies too. Nothing is
shared between calls: no lock is needed.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenriver import extents
from tokenriver.errors import InputError, LimitError
from tokenriver.extents import Extents
from tokenriver.mapped import Mapped, Raw, refuse_negative
from tokenriver.ranges import distinct
from tokenriver.shelf import LIMIT, Shelf
from tokenriver.storage import bytes_of
from tokenriver.types import PADDING, Ids, Int64

# rows are taken in blocks of about this many bytes: beyond, the copy falls out of the cache and fresh memory costs more
BLOCK_BYTES = 1 << 20
# ids that are read in order at a time, and how many are worth asking the disk for beforehand
STRETCH, AHEAD = 1 << 20, 1 << 12
# the extents of a few shards are kept as one table, if it has at most so many rows of 28 bytes
MAX_EXTENTS = 1 << 20
# views for so many window lengths are kept
MAX_LENGTHS = 8

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
        self._extents: Extents | None = None
        self._prepared = self._flat = False
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
                refuse_negative(ids)
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
            found = self._found(starts, n)
            if self._signed and found.min() < 0:
                raise ValueError
            np.copyto(out, found.reshape(out.shape), "safe")
        except (LookupError, TypeError, ValueError):
            self._gather_checked(starts, n, out)

    def take(self, starts: Int64, sizes: Int64, out: Out) -> None:
        """Fill out, row by row, with the ids [s, s + n) of each start and size, one run after another; a start of
        PADDING stands for zeros. LimitError for a run outside the river, or an id that out's dtype cannot hold."""
        beyond = (starts != PADDING) & (starts + sizes > self.num_tokens)
        if beyond.any() or int(sizes.sum()) != out.size:
            end = int((starts + sizes).max(initial=0))
            got = f"{int(sizes.sum())} ids up to {end}"
            raise LimitError(f"sizes: got {got}, expected {out.size} of the {self.num_tokens} ids of this corpus")
        if not self._prepared:
            self._prepare(1)
        pieces = self._extents.windows(starts, sizes) if self._extents is not None else self._runs(starts, sizes)
        found = np.frombuffer(b"".join(pieces), self.dtype)
        if self._signed:
            refuse_negative(found)
        narrow(found.reshape(out.shape), out)

    def cut(self, starts: Int64, sizes: Int64 | int) -> Raw | None:
        """What `Mapped.cut` gives; None for windows of the only shard in one run too, for which `gather` is as fast."""
        mapped = self.mapped()
        return None if mapped is None or (self._flat and isinstance(sizes, int)) else mapped.cut(starts, sizes)

    def mapped(self) -> Mapped | None:
        """All ids, if they lie in mapped files of which a few are open at a time."""
        if not self._prepared:
            self._prepare(1)
        return None if self._extents is None else Mapped(self._extents, self.dtype)

    def _runs(self, starts: Int64, sizes: Int64) -> Iterator[memoryview | bytes]:
        """The bytes of runs of ids, consecutive ones of one shard at a time."""
        item = self.dtype.itemsize
        shards = np.minimum(self.ends.searchsorted(starts, "right"), len(self.ends) - 1)
        place = np.where((starts == PADDING) | (starts + sizes > self.ends[shards]), -1, shards)
        cuts = np.flatnonzero((place[1:] != place[:-1]) | (place[1:] < 0)) + 1
        for first, last in pairwise([0, *cuts.tolist(), len(starts)] if len(starts) else []):
            shard, start, size = (int(column[first]) for column in (place, starts, sizes))
            if shard >= 0:
                yield from self.shelf[shard].windows(starts[first:last] - self.begins[shard], sizes[first:last])
            else:
                yield bytes(size * item) if start == PADDING else bytes_of(self.read(start, start + size))

    def _found(self, starts: Int64, n: int) -> Ids:
        """Windows of shards whose extents are all known, as one run of ids; LookupError if they are not, or for a
        window that ends outside."""
        views = self._windows.get(n)
        if views is not None:
            return views[starts].view(self.dtype)
        if self._extents is None or self._flat or starts.item(starts.argmax()) + n > self.num_tokens:
            raise LookupError
        if n == 1:
            return self._extents.single(starts, self.dtype)
        return np.frombuffer(b"".join(self._extents.windows(starts, n)), self.dtype)

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
            found = self._by_shard(block, n) if self._extents is None else self._found(block, n)
            if self._signed:
                refuse_negative(found)
            narrow(found.reshape(len(block), n), out[at : at + step])

    def _prepare(self, n: int) -> None:
        """Make the short way ready: views for windows of n ids of the only shard, or the extents of a few shards."""
        if self._single:
            ids = self.shelf[0].ids
            self._flat = ids is not None
            if ids is not None:
                kept = dict(list(self._windows.items())[1 - MAX_LENGTHS :])
                self._windows = {**kept, n: windows_of(ids, n)}
        if not self._prepared and len(self.ends) <= LIMIT:
            known: list[Extents] = []
            for shard in range(len(self.ends)):
                found = self.shelf[shard].extents
                if found is None or sum(map(len, known)) + len(found) > MAX_EXTENTS:
                    break
                known.append(found)
            if len(known) == len(self.ends):
                self._extents = extents.join(known)
        self._prepared = True

    def _by_shard(self, starts: Int64, n: int) -> Ids:
        """(k * n,) ids of windows in any shards; one shard after another is used, for all its windows at once."""
        found = np.empty((len(starts), n), self.dtype)
        shards = np.searchsorted(self.ends, starts, "right")
        crossing = starts + n > self.ends[shards]
        for shard in distinct(shards[~crossing]):
            rows = np.flatnonzero((shards == shard) & ~crossing)
            data = b"".join(self.shelf[shard].windows(starts[rows] - self.begins[shard], n))
            found[rows] = np.frombuffer(data, self.dtype).reshape(-1, n)
        for row in np.flatnonzero(crossing).tolist():
            self._fill(found[row], int(starts[row]))
        return found.reshape(-1)


def windows_of(ids: Ids, n: int) -> Windows:
    """(len(ids) - n + 1,) overlapping windows of n ids as opaque items, one for every start; a view."""
    item = ids.dtype.itemsize
    return np.ndarray((len(ids) - n + 1,), np.dtype((np.void, n * item)), ids.data, 0, (item,))


def narrow(ids: Ids, out: Out) -> None:
    """Copy ids into out of any integer dtype; LimitError for an id that it cannot hold."""
    if not np.can_cast(ids.dtype, out.dtype, "safe") and ids.size:
        limit, largest = int(np.iinfo(out.dtype).max), int(ids.max())
        if largest > limit:
            raise LimitError(f"out: got id {largest}, expected at most {limit}, what {out.dtype} holds; use int64")
    np.copyto(out, ids, "unsafe")
