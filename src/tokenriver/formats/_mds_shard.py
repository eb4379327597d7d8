"""One MDS shard: where the ids of each sample lie, every size and offset checked before it is used.

    offset             size       content
    0                  4          uint32 n, number of samples
    4                  4*(n+1)    uint32 byte offset of each sample, and of the end
    4 + 4*(n+1)        J          a JSON text, the shard's columns
    first offset       ...        samples: a uint32 size for each column whose values may differ in size, then the
                                  values, both in the order of the columns

A compressed shard is such a file as one zstd stream.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenriver.errors import FormatError
from tokenriver.formats._mapping import DTYPES, id_dtype
from tokenriver.formats._mds_columns import CODES, MAX_BYTES, Column, embedded_columns, find_column
from tokenriver.types import Int64

MAX_JSON = 1 << 20
EMPTY_DTYPE = "uint16"
"""What a shard without samples holds, if nobody says."""
_BLOCK = 1 << 16

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Samples:
    """Where the ids of k samples lie: `counts` (k,) ids from the bytes `offsets` (k,) on. Where all samples have the
    same number of ids and nothing else, they are one run: `run` is its (first byte, ids), the columns are empty."""

    dtype: np.dtype[Any]
    offsets: Int64
    counts: Int64
    run: tuple[int, int] | None
    number: int


def read_samples(path: Path, data: Bytes, asked: str | None) -> Samples:
    """The samples of a shard's bytes; FormatError with the offset of what is wrong."""
    table, column = _read_table(path, data)
    number = len(table) - 1
    dtype = column.with_dtype(path, asked)
    if number == 0:
        return Samples(dtype or id_dtype(asked or EMPTY_DTYPE), *_none(), (0, 0), 0)
    if column.count is not None and dtype is not None and len(column.sizes) == 1:
        _check_regular(path, table, column.count * dtype.itemsize)
        return Samples(dtype, *_none(), (int(table[0]), number * column.count), number)
    offsets, counts = np.empty(number, np.int64), np.empty(number, np.int64)
    for at in range(0, number, _BLOCK):
        ends = table[at : at + _BLOCK + 1].astype(np.int64)
        where = _Where(path, data, at, ends[:-1])
        begins, sizes = _values(where, column, ends[1:])
        begins, sizes, dtype = _strip(where, column, (begins, sizes), dtype)
        counts[at : at + _BLOCK] = sizes // dtype.itemsize
        offsets[at : at + _BLOCK] = begins
    assert dtype is not None, "there are samples"
    return Samples(dtype, offsets, counts, None, number)


def _none() -> tuple[Int64, Int64]:
    return np.empty(0, np.int64), np.empty(0, np.int64)


def own_columns(path: Path, data: Bytes) -> tuple[int, dict[str, Any]]:
    """The number of samples, and the columns as the shard has them itself; FormatError."""
    number = int.from_bytes(data[:4].tobytes(), "little")
    begin = 4 + 4 * (number + 1)
    if len(data) < begin:
        raise FormatError(f"{path}: samples at byte 0: got {number}, expected what {len(data)} bytes hold")
    first = int.from_bytes(data[4:8].tobytes(), "little")
    if not begin < first <= min(len(data), begin + MAX_JSON):
        raise FormatError(f"{path}: offset of the first sample at byte 4: got {first}, expected above {begin}")
    return number, embedded_columns(path, data[begin:first].tobytes())


def _read_table(path: Path, data: Bytes) -> tuple[NDArray[np.uint32], Column]:
    """The table of offsets, (n + 1,), and the column of the ids."""
    number, columns = own_columns(path, data)
    begin = 4 + 4 * (number + 1)
    table = data[4:begin].view("<u4")
    last = int(table[-1])
    if last != len(data):
        raise FormatError(f"{path}: offset of the end at byte {begin - 4}: got {last}, expected {len(data)}, the size")
    for at in range(0, number, _BLOCK):
        part = table[at : at + _BLOCK + 1]
        falling = part[1:] < part[:-1]
        if falling.any():
            bad = at + 1 + int(np.argmax(falling))
            raise FormatError(
                f"{path}: offset {bad} at byte {4 + 4 * bad}: got {table[bad]}, expected at least {table[bad - 1]}"
            )
    return table, find_column(path, columns)


def _check_regular(path: Path, table: NDArray[np.uint32], size: int) -> None:
    for at in range(0, len(table) - 1, _BLOCK):
        lengths = np.diff(table[at : at + _BLOCK + 1].astype(np.int64))
        if (lengths != size).any():
            bad = int(np.argmax(lengths != size))
            raise FormatError(f"{path}: sample {at + bad}: got {lengths[bad]} bytes, expected {size} by its encoding")


@dataclass(frozen=True, slots=True)
class _Where:
    """A block of samples: the number of its first, and where each begins."""

    path: Path
    data: Bytes
    first: int
    begins: Int64

    def require(self, holds: NDArray[np.bool_], got: Int64, expected: str) -> None:
        """FormatError about the first sample for which something does not hold."""
        if not holds.all():
            bad = int(np.argmin(holds))
            raise FormatError(
                f"{self.path}: sample {self.first + bad} at byte {self.begins[bad]}: got {got[bad]}, "
                f"expected {expected}"
            )

    def number(self, at: Int64, width: int) -> Int64:
        """Little-endian numbers of `width` bytes; the caller has checked that they lie in the data."""
        found = self.data[at].astype(np.int64)
        for byte in range(1, width):
            found |= self.data[at + byte].astype(np.int64) << (8 * byte)
        return found


def _values(where: _Where, column: Column, ends: Int64) -> tuple[Int64, Int64]:
    """(begins, sizes) of the values of the ids' column."""
    at = where.begins
    lengths = ends - at
    heads = 4 * column.variable
    where.require(lengths >= heads, lengths, f"at least {heads} bytes for the sizes of its columns")
    begins = at + heads
    total = np.full(len(at), heads, np.int64)
    found: Int64 = total
    for number, fixed in enumerate(column.sizes):
        if fixed is None:
            earlier = column.sizes[:number].count(None)
            sizes = where.number(at + 4 * earlier, 4)
        else:
            sizes = np.full(len(at), fixed, np.int64)
        if number == column.number:
            begins, found = at + total, sizes
        total = total + sizes
    where.require(total == lengths, total, "the bytes between its offsets, by the sizes of its columns")
    return begins, found


def _strip(
    where: _Where, column: Column, values: tuple[Int64, Int64], dtype: np.dtype[Any] | None
) -> tuple[Int64, Int64, np.dtype[Any]]:
    """(begins, sizes, dtype) of the ids alone: what an encoding puts before them is checked and taken off."""
    begins, sizes = values
    if column.encoding == "ndarray":
        begins, sizes, dtype = _strip_dtype(where, begins, sizes, dtype)
    assert dtype is not None, "only an ndarray's dtype is unknown"
    item = dtype.itemsize
    if column.count is None and column.encoding != "bytes":
        where.require(sizes >= 2, sizes, "at least 2 bytes of an array")
        head = where.number(begins, 1)
        where.require(head >> 2 == 1, head >> 2, "1 dimension")
        width = 1 << (head & 3)
        where.require(sizes > width, sizes, "the bytes of an array's size")
        count = np.zeros(len(begins), np.int64)
        for byte in range(8):
            there = width > byte
            value = where.number((begins + 1 + byte)[there], 1)
            if byte > 3 and value.any():
                raise FormatError(f"{where.path}: samples from {where.first} on: got an array of over {MAX_BYTES} ids")
            count[there] |= value << (8 * byte if byte <= 3 else 0)
        begins, sizes = begins + 1 + width, sizes - 1 - width
        where.require(count * item == sizes, count, f"the array's number of {dtype.name} values in its bytes")
    where.require(sizes % item == 0, sizes, f"a multiple of {item} bytes")
    return begins, sizes, dtype


def _strip_dtype(
    where: _Where, begins: Int64, sizes: Int64, dtype: np.dtype[Any] | None
) -> tuple[Int64, Int64, np.dtype[Any]]:
    where.require(sizes >= 1, sizes, "at least 1 byte of an array")
    codes = where.number(begins, 1)
    known = next((code for code, name in CODES.items() if DTYPES[name] == dtype), int(codes[0]))
    expected = f"{known}, one dtype for all" if known in CODES else f"one of {', '.join(map(str, CODES))}"
    where.require((codes == known) & (known in CODES), codes, f"the dtype code {expected}")
    return begins + 1, sizes - 1, DTYPES[CODES[known]]
