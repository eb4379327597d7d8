"""All shards end to end as one river of ids: positions to ids, one range or many windows at a time.

Windows are gathered by numpy alone. A shard is seen as one overlapping window of n ids for every start, each window a
single opaque item; taking k starts from that array is k block copies, and one more pass widens them into the caller's
buffer. Nothing is scratched twice and nothing is shared between calls, so that threads and forks need no lock.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenriver.errors import FormatError, LimitError
from tokenriver.shelf import Shelf
from tokenriver.types import Ids, Int64

# rows are taken in blocks of about this many bytes: beyond, the copy falls out of the cache and fresh memory costs more
BLOCK_BYTES = 1 << 20
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
        self._windows: dict[int, Windows] = {}

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
            ids = self._ids(shard)[offset : offset + len(out) - done]
            out[done : done + len(ids)] = ids
            done += len(ids)

    def _ids(self, shard: int) -> Ids:
        ids = self.shelf[shard].ids
        expected = int(self.ends[shard] - self.begins[shard])
        if len(ids) != expected or ids.dtype != self.dtype:
            raise FormatError(f"shard {shard}: got {len(ids)} {ids.dtype} ids, expected {expected} {self.dtype}")
        return ids

    def gather(self, starts: Int64, n: int, out: Out) -> None:
        """Fill out (k, n) with the ids [s, s + n) of each start s (int64, (k,)); LimitError outside the river, or for
        an id that out's dtype cannot hold. Windows may cross shards."""
        windows = self._windows.get(n)
        if windows is None:
            windows = self._open_windows(n)
        if windows is None or out.size * self.dtype.itemsize > BLOCK_BYTES:
            self._gather_blocks(windows, starts, n, out)
            return
        try:
            # a negative start would count from the end, as Python's do
            if np.minimum.reduce(starts, initial=0) < 0:
                raise IndexError
            np.copyto(out, windows[starts].view(self.dtype).reshape(out.shape), "safe")
        except (IndexError, TypeError):
            self._check_starts(starts, n)
            _narrow(windows[starts].view(self.dtype).reshape(out.shape), out)

    def _open_windows(self, n: int) -> Windows | None:
        """The shard as windows of n ids, kept per n; None where there are several shards."""
        if not 1 <= n <= self.num_tokens:
            raise LimitError(f"window: got {n} ids, expected 1 to {self.num_tokens}, the ids of this corpus")
        if len(self.ends) > 1:
            return None
        windows = windows_of(self._ids(0), n)
        if len(self._windows) >= MAX_LENGTHS:
            self._windows = {}
        self._windows[n] = windows
        return windows

    def _gather_blocks(self, windows: Windows | None, starts: Int64, n: int, out: Out) -> None:
        """Many rows, or many shards: about BLOCK_BYTES at a time."""
        self._check_starts(starts, n)
        step = max(1, BLOCK_BYTES // (n * self.dtype.itemsize))
        for at in range(0, len(starts), step):
            block = starts[at : at + step]
            if windows is None:
                found = self._gather_shards(block, n)
            else:
                found = windows[block].view(self.dtype).reshape(len(block), n)
            _narrow(found, out[at : at + step])

    def _gather_shards(self, starts: Int64, n: int) -> Ids:
        """(k, n) ids of windows in any shards: grouped by shard, so that each is opened once."""
        found: Ids = np.empty((len(starts), n), self.dtype)
        shards = np.searchsorted(self.ends, starts, "right")
        offsets = starts - self.begins[shards]
        whole = starts + n <= self.ends[shards]
        order = np.argsort(shards, kind="stable")
        current, ids = -1, found[:0, 0]
        for row, shard, offset, inside in zip(
            order.tolist(), shards[order].tolist(), offsets[order].tolist(), whole[order].tolist(), strict=True
        ):
            if shard != current:
                current, ids = shard, self._ids(shard)
            if inside:
                found[row] = ids[offset : offset + n]
            else:
                self._fill(found[row], int(starts[row]))
        return found

    def _check_starts(self, starts: Int64, n: int) -> None:
        last = self.num_tokens - n
        wrong = (starts < 0) | (starts > last)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise LimitError(f"starts[{at}]: got {int(starts[at])}, expected 0 to {last} for windows of {n} ids")


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
