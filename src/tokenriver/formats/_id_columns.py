"""A column of token ids in Arrow's memory: what Parquet and Arrow share. Needs pyarrow.

The column is a list of integers a row (each row a document, an empty list an empty one), or one integer a row. Offsets
and sizes come from a file: all of them are checked against the buffers before a byte is read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tokenriver.errors import FormatError
from tokenriver.formats._ends import of_rows
from tokenriver.formats._mapping import DTYPES, id_dtype
from tokenriver.types import Ids, Int64

NAMES = ("input_ids", "tokens", "ids")


@contextmanager
def arrow_errors(path: Path) -> Iterator[None]:
    """Turn what pyarrow raises about a file into a FormatError that names it."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, ValueError, TypeError, KeyError, MemoryError, OverflowError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise FormatError(f"{path}: got {lines[0][:300]}, expected a sound file; replace it") from error


@dataclass(frozen=True, slots=True)
class Column:
    """The column of ids of a schema."""

    number: int
    """Its place among the columns."""
    name: str
    dtype: np.dtype[Any]
    is_list: bool


def find_column(schema: pa.Schema) -> Column | None:
    """The column called input_ids, tokens or ids, in this order, that holds ids; None if there is none. Single integers
    may count something (a column `tokens` beside texts): they are ids if they are called input_ids or stand alone."""
    for name in NAMES:
        found = schema.get_all_field_indices(name)
        if len(found) != 1:
            continue
        kind = _storage(schema.field(found[0]).type)
        value = kind.value_type if _is_list(kind) else kind
        if pa.types.is_integer(value) and (_is_list(kind) or name == NAMES[0] or len(schema) == 1):
            return Column(found[0], name, DTYPES[str(value)], _is_list(kind))
    return None


def the_column(path: Path, schema: pa.Schema, dtype: str | None) -> Column:
    """find_column, or the FormatError that lists what there is; also when `dtype` is not the column's."""
    column = find_column(schema)
    if column is None:
        names = ", ".join(f"{field.name[:40]} {field.type}"[:80] for field in list(schema)[:10]) or "none"
        raise FormatError(f"{path}: columns: got {names}, expected one of {', '.join(NAMES)} with lists of integers")
    if dtype is not None and id_dtype(dtype) != column.dtype:
        raise FormatError(f"{path}: dtype of {column.name}: got {column.dtype.name}, expected {dtype}; leave dtype out")
    return column


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


@dataclass(frozen=True, slots=True)
class Span:
    """The ids of some rows end to end: `count` values from byte `offset` of a buffer on, inside it."""

    buffer: pa.Buffer | None
    """None only of no ids."""
    offset: int
    count: int

    def ids(self, dtype: np.dtype[Any]) -> Ids:
        """(count,) the ids, a view of the buffer."""
        if self.buffer is None or self.count == 0:
            return np.empty(0, dtype)
        return np.frombuffer(self.buffer, dtype, self.count, self.offset)


def span(path: Path, array: pa.Array, row: int) -> Span:
    """Where the ids of an array of rows lie; `row` is the number of its first one. FormatError for a null, ValueError
    for offsets that leave the values. Of the offsets, the first and the last one are looked at."""
    array = _plain(array)
    array.validate()
    _refuse_nulls(path, array, None, row)
    if not len(array):
        return Span(None, 0, 0)
    if not _is_list(array.type):
        values, start, stop = array, 0, len(array)
    elif pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        values, start, stop = array.values, array.offset * size, (array.offset + len(array)) * size
    else:
        offsets = _offsets(array)
        values, start, stop = array.values, int(offsets[0]), int(offsets[-1])
    if not 0 <= start <= stop <= len(values):
        raise ValueError(f"rows of the ids {start} to {stop} of {len(values)}")
    values = values.slice(start, stop - start)
    _refuse_nulls(path, values, array, row)
    buffer = values.buffers()[1]
    item = values.type.bit_width // 8
    begin = values.offset * item
    if len(values) and begin + len(values) * item > (buffer.size if buffer is not None else 0):
        raise ValueError(f"{len(values)} ids from byte {begin} on, which leave their buffer")
    return Span(buffer, begin, len(values))


def ends(array: pa.Array) -> Int64:
    """(rows,) exclusive end of each row of lists, counted from the array's first id; ValueError for offsets that
    fall. `span` has checked the outermost ones."""
    array = _plain(array)
    if pa.types.is_fixed_size_list(array.type):
        return of_rows(len(array), array.type.list_size)
    if not len(array):
        return np.empty(0, np.int64)
    offsets = _offsets(array)
    if (offsets[1:] < offsets[:-1]).any():
        bad = int(np.argmax(offsets[1:] < offsets[:-1]))
        raise ValueError(f"row {bad} of a batch from id {offsets[bad]} to {offsets[bad + 1]}")
    found: Int64 = offsets[1:].astype(np.int64) - int(offsets[0])
    return found


def _plain(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _offsets(array: pa.Array) -> np.ndarray[Any, Any]:
    """(rows + 1,) as they are stored."""
    dtype = np.dtype("<i8" if pa.types.is_large_list(array.type) else "<i4")
    return np.frombuffer(array.buffers()[1], dtype, len(array) + 1, array.offset * dtype.itemsize)


def _refuse_nulls(path: Path, array: pa.Array, rows: pa.Array | None, row: int) -> None:
    """FormatError for the first null of an array of rows, or of the ids of some rows."""
    if not array.null_count:
        return
    bad = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
    if rows is None or not _is_list(rows.type):
        raise FormatError(f"{path}: row {row + bad}: got null, expected ids; drop such rows")
    bad = int(np.searchsorted(ends(rows), bad, "right"))
    raise FormatError(f"{path}: row {row + bad}: got a null among its ids, expected integers; drop such rows")
