"""What an HDF5 file says about one of its datasets of ids, as columns: where each chunk lies, and how it was stored.

The C library (through h5py) is asked for the structure alone, with the file open for this call only; no handle is left
for a fork to share, and ids are read from a map of the same file. What may lead out of the file is refused before it is
followed: links that are not hard, external storage, virtual datasets, filters that would load a plug-in.
"""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from h5py import h5d, h5f, h5o, h5p, h5s, h5t

from tokenriver.errors import FormatError
from tokenriver.formats import _hdf5_attributes, _hdf5_filters, _hdf5_head
from tokenriver.formats._hdf5_head import CURE
from tokenriver.formats._mapping import open_regular
from tokenriver.types import Ids, Int64

MAX_DECODED = 64 << 20
"""Bytes of a filtered chunk; what is not filtered is mapped, and may be as large as the file."""
_MIN_STORED = 8
"""A filtered chunk takes at least as many bytes: gzip's and lzf's smallest outputs, and the index entry."""
Entry = tuple[tuple[int, ...], int, int, int]
"""(first element, filters left out, byte, stored bytes) of a chunk, as the library tells of it."""
_UNREADABLE = (OSError, RuntimeError, ValueError, KeyError, TypeError, NotImplementedError, MemoryError, OverflowError)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset of rows x columns ids (one column if it is 1-D), of which the first `count`, row by row, count."""

    dtype: np.dtype[Any]
    """As stored; may be big-endian."""
    count: int
    columns: int
    flat: Ids | int | None
    """Without chunks: the ids themselves, or the byte where they start; None if there are chunks."""
    chunk: tuple[int, int]
    """Rows and columns of a chunk."""
    offsets: Int64
    """(k,) byte of each chunk, bands of rows one after another; only those that hold one of the first `count` ids."""
    sizes: Int64
    """(k,) stored bytes of each chunk."""
    masks: Int64
    """(k,) filters left out, by bit."""
    filters: tuple[int, ...]


@contextmanager
def library(path: Path, doing: str) -> Iterator[None]:
    """Turn any error of the C library inside the block into a FormatError."""
    try:
        yield
    except _UNREADABLE as error:
        reason = " ".join(str(error).split())[:200]
        raise FormatError(f"{path}: {doing}: got {reason!r} from the HDF5 library; it is damaged: {CURE}") from error


@contextmanager
def opened(path: Path) -> Iterator[tuple[int, int, h5f.FileID]]:
    """(descriptor, size, the library's file) for the block, after a look at the superblock: the very same file, read
    only, without locks (which some network disks do not have; whether a writer is at work stands in the superblock)."""
    fd, size = open_regular(path)
    try:
        _hdf5_head.check_head(path, os.pread(fd, _hdf5_head.HEAD_BYTES, 0), size)
        access = h5p.create(h5p.FILE_ACCESS)
        access.set_fclose_degree(h5f.CLOSE_STRONG)
        access.set_file_locking(False, True)
        with library(path, "open"):
            file = h5f.open(os.fsencode(path), h5f.ACC_RDONLY, fapl=access)
        try:
            if not os.path.samestat(os.fstat(file.get_vfd_handle()), os.fstat(fd)):
                raise FormatError(f"{path}: got another file at the second look, expected one that stays; try again")
            yield fd, size, file
        finally:
            file.close()
    finally:
        os.close(fd)


def read_dataset(path: Path, file: h5f.FileID, name: str, size: int) -> Dataset:
    """All about the dataset `name` of an open file of `size` bytes, checked; FormatError."""
    with library(path, name):
        found = open_hard(path, file, name)
        creation = found.get_create_plist()
        _check_inside(path, name, creation)
        dtype = _integer_type(path, name, found.get_type())
        shape = found.shape
        if len(shape) not in (1, 2):
            raise FormatError(f"{path}: {name}: got {len(shape)} dimensions, expected 1 or 2")
        rows, columns = shape if len(shape) == 2 else (shape[0], 1)
        count = _cut(path, file, found, name, rows * columns)
        if creation.get_layout() == h5d.CHUNKED:
            return _Chunked(path, name, found, creation).read(dtype, count, columns, size)
        flat = _unchunked(path, name, found, creation, count * dtype.itemsize, size)
        none = np.empty(0, np.int64)
        return Dataset(dtype, count, columns, flat, (0, 0), none, none, none, ())


def has_dataset(path: Path, file: h5f.FileID, name: str) -> bool:
    with library(path, name):
        return bool(file.links.exists(name.encode()))


def open_hard(path: Path, file: h5f.FileID, name: str) -> h5d.DatasetID:
    """The dataset `name` of the file, which no link may lead to but its own; FormatError."""
    key = name.encode()
    if not file.links.exists(key):
        raise FormatError(f"{path}: got no dataset {name!r}, expected one of ids; check what the file holds")
    if file.links.get_info(key).type != 0:  # soft, external and user-defined links have other numbers
        raise FormatError(f"{path}: {name}: got a soft or external link, expected a dataset in the file; copy it there")
    if h5o.get_info(file, key).type != h5o.TYPE_DATASET:
        raise FormatError(f"{path}: {name}: got a group or a type, expected a dataset")
    return h5d.open(file, key)


def _check_inside(path: Path, name: str, creation: h5p.PropDCID) -> None:
    layout = creation.get_layout()
    if layout not in (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED):
        raise FormatError(f"{path}: {name}: got a virtual dataset, expected ids in the file itself; copy them there")
    if creation.get_external_count():
        raise FormatError(f"{path}: {name}: got external storage, expected ids in the file itself; copy them there")
    for number in range(creation.get_nfilters()):
        code = creation.get_filter(number)[0]
        if code not in _hdf5_filters.NAMES:
            raise FormatError(
                f"{path}: {name}: got filter {code}, expected {', '.join(_hdf5_filters.NAMES.values())} or none; "
                "write the file again without it"
            )


def _integer_type(path: Path, name: str, kind: h5t.TypeID) -> np.dtype[Any]:
    bits = 8 * kind.get_size()
    whole = kind.get_class() == h5t.INTEGER and kind.get_precision() == bits and kind.get_offset() == 0
    if not whole or bits not in (8, 16, 32, 64):
        raise FormatError(f"{path}: {name}: got values of another type, expected integers of 1, 2, 4 or 8 bytes")
    order = ">" if kind.get_order() == h5t.ORDER_BE else "<"
    return np.dtype(f"{order}{'i' if kind.get_sign() == h5t.SGN_2 else 'u'}{bits // 8}")


def _cut(path: Path, file: h5f.FileID, found: h5d.DatasetID, name: str, total: int) -> int:
    """How many of `total` ids count: `token_count` of the dataset, or else of the file."""
    told = [
        count
        for count in (_hdf5_attributes.integer(path, place, b"token_count") for place in (found, file))
        if count is not None
    ]
    count = told[0] if told else total
    if any(other != count for other in told):
        raise FormatError(f"{path}: token_count: got {told[0]} at the dataset and {told[1]} at the file, expected one")
    if count > total:
        raise FormatError(
            f"{path}: {name}: got {total} ids, expected the {count} of token_count: its writer died; {CURE}"
        )
    if count < 1:
        raise FormatError(f"{path}: {name}: got {count} ids, expected at least 1; its writer died, or wrote none")
    return count


def _unchunked(
    path: Path, name: str, found: h5d.DatasetID, creation: h5p.PropDCID, needed: int, size: int
) -> Ids | int:
    if creation.get_layout() == h5d.COMPACT:
        stored = found.get_storage_size()
        total = math.prod(found.shape) * found.get_type().get_size()
        if not needed <= total <= stored <= size:
            raise FormatError(f"{path}: {name}: got {stored} bytes in the header, expected {total}; {CURE}")
        values = np.empty(found.shape, found.dtype)
        found.read(h5s.ALL, h5s.ALL, values)
        return values.reshape(-1)
    offset = found.get_offset()
    if offset is None:
        raise FormatError(f"{path}: {name}: got no ids, expected {needed} bytes of them: its writer died; {CURE}")
    if not 0 < offset <= size - needed:
        raise FormatError(f"{path}: {name}: got {needed} bytes of ids at byte {offset}, expected them below {size}")
    return int(offset)


class _Chunked:
    """The table of a dataset's chunks."""

    def __init__(self, path: Path, name: str, found: h5d.DatasetID, creation: h5p.PropDCID) -> None:
        self.where, self.found = f"{path}: {name}", found
        chunk, shape = creation.get_chunk(), found.shape
        self.chunk = chunk if len(chunk) == 2 else (chunk[0], 1)
        shape = shape if len(shape) == 2 else (shape[0], 1)
        self.across = -(-shape[1] // self.chunk[1])
        self.total = -(-shape[0] // self.chunk[0]) * self.across
        self.filters = tuple(creation.get_filter(number)[0] for number in range(creation.get_nfilters()))

    def read(self, dtype: np.dtype[Any], count: int, columns: int, size: int) -> Dataset:
        num_bytes = math.prod(self.chunk) * dtype.itemsize
        bands = -(-count // (self.chunk[0] * columns))
        needed = bands * self.across
        band = self.chunk[0] * columns * dtype.itemsize
        if self.filters and max(num_bytes, band) > MAX_DECODED:
            raise FormatError(f"{self.where}: got filtered chunks of {num_bytes} bytes, expected up to {MAX_DECODED}")
        least = needed * _MIN_STORED if self.filters else count * dtype.itemsize
        if least > size:
            raise FormatError(f"{self.where}: got {count} ids in a file of {size} bytes: its writer died; {CURE}")
        offsets, sizes, masks = self._table(needed, size)
        hole = np.flatnonzero(offsets < 0)
        if hole.size:
            raise FormatError(
                f"{self.where}: chunk {hole[0]}: got none, expected ids: they were never written, as their writer "
                f"died; {CURE}"
            )
        self._check_table(offsets, sizes, num_bytes, size)
        return Dataset(dtype, count, columns, None, self.chunk, offsets, sizes, masks, self.filters)

    def _table(self, needed: int, size: int) -> tuple[Int64, Int64, Int64]:
        table = np.full((3, needed), -1, np.int64)
        stopped = self.found.chunk_iter(self._recorder(table, needed, min(self.total, size // _MIN_STORED)))
        if stopped:
            raise FormatError(
                f"{self.where}: got a chunk twice or outside the dataset at {stopped}, expected each once"
            )
        return table[0], table[1], table[2]

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
