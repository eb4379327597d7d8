"""Where the chunks of an HDF5 dataset lie, and that they can lie there."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from h5py import h5d

from tokenriver.errors import FormatError
from tokenriver.formats import _hdf5_btree, _hdf5_filters
from tokenriver.formats._hdf5_head import CURE, NONE
from tokenriver.formats._hdf5_messages import OutsideError
from tokenriver.formats._hdf5_open import File
from tokenriver.types import Int64

MAX_DECODED = 64 << 20
"""Bytes of a filtered chunk; what is not filtered is mapped, and may be as large as the file."""
_MIN_STORED = 8
"""A filtered chunk takes at least as many bytes: gzip's and lzf's smallest outputs, and the index entry."""
Entry = tuple[tuple[int, ...], int, int, int]
"""(first element, filters left out, byte, stored bytes) of a chunk, as the library tells of it."""


class ChunkTable:
    """Finds the chunks of a dataset, by its B-tree where it has one, else through the library."""

    def __init__(self, file: File, name: str, found: h5d.DatasetID, header: int) -> None:
        self.where, self.found, self.view, self.header = f"{file.path}: {name}", found, file.view, header
        creation = found.get_create_plist()
        self.rank = len(found.shape)
        chunk, shape = creation.get_chunk(), found.shape
        self.chunk = chunk if len(chunk) == 2 else (chunk[0], 1)
        shape = shape if len(shape) == 2 else (shape[0], 1)
        self.across = -(-shape[1] // self.chunk[1])
        self.total = -(-shape[0] // self.chunk[0]) * self.across
        self.filters = tuple(creation.get_filter(number)[0] for number in range(creation.get_nfilters()))

    def read(self, count: int, columns: int, item: int) -> tuple[Int64, Int64, Int64]:
        """(bytes, stored sizes, filters left out), one entry a chunk, of those that hold one of the first `count` ids
        of `item` bytes; FormatError if one is missing, outside the file, or on the bytes of another."""
        num_bytes, size = math.prod(self.chunk) * item, len(self.view)
        band = self.chunk[0] * columns
        if self.filters and max(num_bytes, band * item) > MAX_DECODED:
            raise FormatError(f"{self.where}: got filtered chunks of {num_bytes} bytes, expected up to {MAX_DECODED}")
        needed = -(-count // band) * self.across
        if (needed * _MIN_STORED if self.filters else count * item) > size:
            raise FormatError(f"{self.where}: got {count} ids in a file of {size} bytes: its writer died; {CURE}")
        offsets, sizes, masks = self._table(needed, size)
        hole = np.flatnonzero(offsets < 0)
        if hole.size:
            raise FormatError(
                f"{self.where}: chunk {hole[0]}: got none, expected ids: they were never written, as their writer "
                f"died; {CURE}"
            )
        self._check_table(offsets, sizes, num_bytes, size)
        return offsets, sizes, masks

    def _table(self, needed: int, size: int) -> tuple[Int64, Int64, Int64]:
        table = np.full((3, needed), -1, np.int64)
        limit = min(self.total, size // _MIN_STORED)
        root = _hdf5_btree.root_of(self.view, self.header)
        if root == NONE:
            return table[0], table[1], table[2]
        if root is not None:
            self._fill(table, _hdf5_btree.chunks(np.frombuffer(self.view, np.uint8), root, self.rank, limit))
            return table[0], table[1], table[2]
        _hdf5_btree.check_index(self.view, self.header, size // _MIN_STORED, self.where)
        stopped = self.found.chunk_iter(self._recorder(table, needed, limit))
        if stopped:
            raise OutsideError(f"a chunk twice, or outside the dataset, at {stopped}")
        return table[0], table[1], table[2]

    def _fill(self, table: Int64, chunks: Int64) -> None:
        """Sort the chunks of a tree into the table; they stand in it in the order of their first elements."""
        first, wide = chunks[3:], np.array(self.chunk[: self.rank])[:, None]
        places = first // wide
        number = places[0] * self.across + places[1] if self.rank == 2 else places[0]
        inside = (first % wide == 0).all() and (number < self.total).all() and (np.diff(number) > 0).all()
        if not inside or (self.rank == 2 and (places[1] >= self.across).any()):
            raise OutsideError("a chunk twice, or outside the dataset")
        kept = number < table.shape[1]
        table[:, number[kept]] = chunks[:3, kept]

    def _recorder(self, table: np.ndarray[Any, Any], needed: int, limit: int) -> Callable[[Entry], object]:
        """What is called for each chunk, in any order; another answer than None stops the walk."""
        offsets, sizes, masks = (memoryview(column) for column in table)
        (high, wide), across, left = self.chunk, self.across, iter(range(limit))

        def record(info: Entry) -> object:
            at, mask, offset, stored = info
            number = at[0] // high * across + (at[1] // wide if len(at) == 2 else 0)
            if next(left, None) is None or number >= limit:
                return at
            if number < needed:
                if offsets[number] >= 0:
                    return at
                offsets[number], sizes[number], masks[number] = offset, stored, mask
            return None

        return record

    def _check_table(self, offsets: Int64, sizes: Int64, num_bytes: int, size: int) -> None:
        largest = num_bytes + _hdf5_filters.CHECKSUM_BYTES * len(self.filters) + num_bytes // 8 + 64
        wrong = (sizes > largest) | (sizes < 1) if self.filters else sizes != num_bytes
        bad = np.flatnonzero(wrong | (sizes > size) | (offsets > size - sizes))
        if bad.size:
            raise FormatError(
                f"{self.where}: chunk {bad[0]}: got {sizes[bad[0]]} bytes at byte {offsets[bad[0]]}, expected "
                f"{'up to ' if self.filters else ''}{largest if self.filters else num_bytes} below byte {size}; {CURE}"
            )
        order = np.argsort(offsets)
        overlap = np.flatnonzero(offsets[order[1:]] < (offsets + sizes)[order[:-1]])
        if overlap.size:
            two = order[overlap[0] : overlap[0] + 2].tolist()
            raise FormatError(f"{self.where}: got chunks {two} on the same bytes, expected each on its own; {CURE}")
