"""What all readers share. A `Reader` is a shard; where its ids lie is its body's business: `Flat` (one run of a mapped
file), `Pieces` (several runs of one), `Blocks` (decoded when they are needed, the last ones kept).
"""

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tokenriver import extents
from tokenriver.extents import Extents
from tokenriver.formats import _docindex
from tokenriver.recent import Recent
from tokenriver.storage import bytes_of
from tokenriver.types import Ids, Int32, Int64

Documents = tuple[Int64, tuple[Int64, Int32] | None]
"""(ends, origins) of a shard's documents; origins are (records, sources) or None."""


class Body(Protocol):
    """Where a shard's ids lie; see ShardReader for the calls."""

    @property
    def num_tokens(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def ids(self) -> Ids | None: ...
    @property
    def extents(self) -> Extents | None: ...
    def read(self, start: int, stop: int) -> Ids: ...
    def windows(self, starts: Int64, n: Int64 | int) -> list[memoryview]: ...
    def read_ahead(self, start: int, stop: int) -> None: ...


class Flat:
    """Ids in one run of an open file, from byte `offset` on: mapped for windows here and there, so the system is told
    not to read ahead, which around a window of 2 KiB would be megabytes. The caller has checked the size."""

    def __init__(self, fd: int, dtype: np.dtype[Any], offset: int, count: int) -> None:
        self._mapping = mmap.mmap(fd, offset + count * dtype.itemsize, access=mmap.ACCESS_READ)
        self._mapping.madvise(mmap.MADV_RANDOM)
        self._offset = offset
        self.ids: Ids = np.frombuffer(self._mapping, dtype, count, offset)
        self.num_tokens, self.dtype = count, dtype
        one = np.array([count], np.int64)
        self.extents = extents.make(bytes_of(self.ids), np.zeros_like(one), one, dtype.itemsize)

    def read(self, start: int, stop: int) -> Ids:
        return self.ids[start:stop]

    def windows(self, starts: Int64, n: Int64 | int) -> list[memoryview]:
        return self.extents.windows(starts, n)

    def read_ahead(self, start: int, stop: int) -> None:
        _will_need(self._mapping, *(self._offset + at * self.dtype.itemsize for at in (start, stop)))


def _will_need(mapping: mmap.mmap, begin: int, end: int) -> None:
    begin -= begin % mmap.PAGESIZE
    if begin < end:
        mapping.madvise(mmap.MADV_WILLNEED, begin, end - begin)


class Pieces:
    """Ids in k runs of one open file: `counts` (k,) ids from the byte `offsets` (k,) on, at any alignment. The caller
    has checked that each run lies inside the file's `size` bytes."""

    def __init__(self, fd: int, size: int, dtype: np.dtype[Any], offsets: Int64, counts: Int64) -> None:
        self._mapping = mmap.mmap(fd, size, access=mmap.ACCESS_READ)
        self._mapping.madvise(mmap.MADV_RANDOM)
        self.extents = extents.make(memoryview(self._mapping), offsets, counts, dtype.itemsize)
        self.num_tokens, self.dtype = int(counts.sum()), dtype
        self.ids: Ids | None = None

    def read(self, start: int, stop: int) -> Ids:
        pieces = self.windows(np.array([start], np.int64), stop - start)
        return np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), self.dtype)

    def windows(self, starts: Int64, n: Int64 | int) -> list[memoryview]:
        return self.extents.windows(starts, n)

    def read_ahead(self, start: int, stop: int) -> None:
        if start < stop:
            begin, last = self.extents.place(start), self.extents.place(stop - 1)
            _will_need(self._mapping, min(begin, last), max(begin, last) + self.dtype.itemsize)


class Blocks:
    """Ids that must be decoded, in k blocks that end at `ends` (k,): load(i) gives block i, contiguous and of `dtype`;
    the last `keep` stay in memory. A call decodes each block that it needs once, in file order."""

    def __init__(self, dtype: np.dtype[Any], ends: Int64, load: Callable[[int], Ids], keep: int = 2) -> None:
        self._ends, self._load, self._keep = ends, load, keep
        self._held: Recent[Ids] = Recent()
        self.num_tokens, self.dtype = int(ends[-1]), dtype
        self.ids: Ids | None = None
        self.extents: Extents | None = None

    def read(self, start: int, stop: int) -> Ids:
        pieces = self._ids(start, stop)
        return pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, self.dtype), *pieces])

    def windows(self, starts: Int64, n: Int64 | int) -> list[memoryview]:
        found: list[list[memoryview]] = [[]] * len(starts)
        stops = starts + n
        for at in np.argsort(starts, kind="stable").tolist():
            found[at] = [bytes_of(ids) for ids in self._ids(int(starts[at]), int(stops[at]))]
        return [piece for pieces in found for piece in pieces]

    def _ids(self, start: int, stop: int) -> list[Ids]:
        out = []
        number = int(np.searchsorted(self._ends, start, "right"))
        while start < stop:
            end = int(self._ends[number])
            begin = int(self._ends[number - 1]) if number else 0
            if start < end:
                out.append(self._block(number)[start - begin : stop - begin])
                start = min(stop, end)
            number += 1
        return out

    def _block(self, number: int) -> Ids:
        block = self._held.take(number)
        if block is None:
            block = self._load(number)
            block.flags.writeable = False  # views of it are handed out as long as it is held
        self._held.keep(number, block, self._keep)
        return block

    def read_ahead(self, start: int, stop: int) -> None:
        """Decoding reads whole blocks anyway."""


@dataclass(frozen=True, slots=True)
class Opened:
    """How a reader was opened; also its pickle."""

    opener: Callable[..., "Reader"]
    path: Path
    dtype: str | None


class Reader:
    """One open shard: its ids as `body` has them; its documents from the sidecar index beside it (`NAME.docs`, see
    _docindex.py) or else from `documents`, either of them opened and checked when first asked for."""

    def __init__(self, opened: Opened, body: Body, documents: Callable[[], Documents] | None = None) -> None:
        self._opened, self._documents = opened, documents
        self._body: Body | None = body
        self._columns: tuple[Documents | None] | None = None
        self.num_tokens, self.dtype = body.num_tokens, body.dtype

    @property
    def ids(self) -> Ids | None:
        return np.empty(0, self.dtype) if self._body is None else self._body.ids

    @property
    def extents(self) -> Extents | None:
        return None if self._body is None else self._body.extents

    def read(self, start: int, stop: int) -> Ids:
        return np.empty(0, self.dtype) if self._body is None else self._body.read(start, stop)

    def windows(self, starts: Int64, n: Int64 | int) -> list[memoryview]:
        return [] if self._body is None else self._body.windows(starts, n)

    def read_ahead(self, start: int, stop: int) -> None:
        if self._body is not None and start < stop:
            self._body.read_ahead(start, stop)

    @property
    def doc_ends(self) -> Int64 | None:
        found = self._find_documents()
        return None if found is None else found[0]

    @property
    def origins(self) -> tuple[Int64, Int32] | None:
        found = self._find_documents()
        return None if found is None else found[1]

    def _find_documents(self) -> Documents | None:
        if self._columns is None:
            sidecar = _docindex.index_path(self._opened.path)
            if sidecar.is_file():
                index = _docindex.open_index(sidecar, self.num_tokens)
                self._columns = ((index.ends, (index.records, index.sources)),)
            else:
                self._columns = (self._documents() if self._documents is not None else None,)
        return self._columns[0]

    def close(self) -> None:
        """Let go of the maps; arrays already handed out stay valid."""
        self._body, self._columns, self._documents = None, (None,), None

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._opened,)


def _reopen(opened: Opened) -> Reader:
    return opened.opener(opened.path, dtype=opened.dtype)
