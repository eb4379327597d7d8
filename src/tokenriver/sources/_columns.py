"""A column of texts in Arrow's memory becomes DocumentBatches: what Parquet and Arrow share. Needs pyarrow.

Texts are cut out of the column's own buffers by offsets that are checked first, so a hostile file cannot point outside
of them, and no Arrow object is made for a row. Columns of bytes are read as UTF-8. Nulls are bad rows.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from tokenriver.errors import InputError
from tokenriver.sources import _reasons
from tokenriver.sources._rows import Rows, is_utf8
from tokenriver.types import Bools, DocumentBatch, Int64, SourceOptions

_RUN = 1024  # rows, or
_RUN_BYTES = 1 << 20  # bytes of text that are copied out together

_NARROW = (pa.string(), pa.binary())
_LARGE = (pa.large_string(), pa.large_binary())


@contextmanager
def arrow_errors(path: Path) -> Iterator[None]:
    """Turn what pyarrow raises about a file into an InputError that names it."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise InputError(f"{path}: damaged or not readable: {lines[0]}; replace the file") from error


def text_column(path: Path, schema: pa.Schema, field: str) -> int:
    """Index of the column of texts; InputError when there is none of that name, two, or one of another type."""
    found = schema.get_all_field_indices(field)
    if len(found) != 1:
        what = "no such column" if not found else f"{len(found)} columns of that name"
        names = ", ".join(schema.names[:20]) or "none"
        raise InputError(f"{path}: column {field!r}: got {what}; the columns are {names}; choose one with --text-field")
    kind = _plain(schema.field(found[0]).type)
    if not (_is_text(kind) or pa.types.is_null(kind)):
        raise InputError(f"{path}: column {field!r}: got the type {kind}, expected text; choose one with --text-field")
    index: int = found[0]
    return index


def runs(sizes: Iterable[int], unit_bytes: int) -> list[tuple[int, int]]:
    """Ranges of consecutive parts of these sizes, each of at least unit_bytes but for the last."""
    ranges, start, total, count = [], 0, 0, 0
    for size in sizes:
        count += 1
        total += size
        if total >= unit_bytes:
            ranges.append((start, count))
            start, total = count, 0
    if count > start or not ranges:
        ranges.append((start, count))
    return ranges


def documents(columns: Iterable[pa.Array], options: SourceOptions) -> Iterator[DocumentBatch]:
    """Documents of consecutive stretches of one column of texts; one raw row a value."""
    rows = Rows()
    for column in columns:
        array = column.storage if isinstance(column, pa.ExtensionArray) else column
        if pa.types.is_null(array.type):
            for _ in range(len(array)):
                rows.reject(_reasons.NULL, -1)
            continue
        starts, stops, valid, data = _spans(array)
        ends = np.cumsum(stops - starts)
        at = 0
        while at < len(starts):
            done = int(ends[at - 1]) if at else 0
            stop = min(at + _RUN, max(at + 1, int(np.searchsorted(ends, done + _RUN_BYTES, "right"))))
            run = slice(at, stop)
            _add(rows, (starts[run], stops[run], valid[run], data), options)
            if rows.full:
                yield rows.take()
            at = stop
    if rows.waiting:
        yield rows.take()


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values themselves, out of a dictionary or an extension (arrow.json)."""
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type)
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return kind in _NARROW or kind in _LARGE or str(kind) in ("string_view", "binary_view")


_Spans = tuple[Int64, Int64, Bools, memoryview]


def _spans(array: pa.Array) -> _Spans:
    """(starts, stops, valid, data) of the values: text i is data[starts[i]:stops[i]], all checked against data."""
    array.validate()
    if isinstance(array, pa.DictionaryArray):
        return _dictionary_spans(array)
    if array.type not in _NARROW and array.type not in _LARGE:
        array.validate(full=True)
        array = array.cast(pa.large_binary())
    dtype = np.dtype("<i8" if array.type in _LARGE else "<i4")
    _, offsets, values = array.buffers()
    data = memoryview(values or b"")
    if not len(array):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_), data
    bounds = np.frombuffer(offsets, dtype, len(array) + 1, array.offset * dtype.itemsize).astype(np.int64)
    if bounds[0] < 0 or bounds[-1] > len(data) or (bounds[1:] < bounds[:-1]).any():
        raise ValueError(f"offsets of {len(array)} texts leave their {len(data)} bytes")
    return bounds[:-1], bounds[1:], _valid(array), data


def _dictionary_spans(array: pa.DictionaryArray) -> _Spans:
    starts, stops, valid, data = _spans(array.dictionary)
    present = _valid(array.indices)
    places = array.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    places[~present] = 0
    if len(places) and not len(starts):
        return np.zeros(len(places), np.int64), np.zeros(len(places), np.int64), np.zeros(len(places), np.bool_), data
    if len(places) and (places.min() < 0 or places.max() >= len(starts)):
        raise ValueError(f"indices leave the dictionary of {len(starts)} texts")
    return starts[places], stops[places], present & valid[places], data


def _valid(array: pa.Array) -> Bools:
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    valid: Bools = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _copy(starts: Int64, stops: Int64, data: memoryview) -> tuple[list[bytes], bytes]:
    """The texts, and all of them end to end; texts that lie so are copied in one piece first, which is faster."""
    if (starts[1:] == stops[:-1]).all():
        joined = data[starts[0] : stops[-1]].tobytes()
        cuts = [0, *(stops - starts[0]).tolist()]
        return [joined[a:b] for a, b in pairwise(cuts)], joined
    texts = [data[a:b].tobytes() for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
    return texts, b"".join(texts)


def _add(rows: Rows, spans: _Spans, options: SourceOptions) -> None:
    starts, stops, valid, data = spans
    sizes = stops - starts
    limit = options.max_row_bytes
    if valid.all() and sizes.min() > 0 and sizes.max() <= limit:
        texts, joined = _copy(starts, stops, data)
        # valid end to end and no text begins inside a character: then each is valid by itself
        begins = np.frombuffer(data, np.uint8)[starts] & 0xC0
        if joined.isascii() or (is_utf8(joined) and not (begins == 0x80).any()):
            rows.extend(texts, len(joined))
            return
    for a, b, there in zip(starts.tolist(), stops.tolist(), valid.tolist(), strict=True):
        if not there:
            rows.reject(_reasons.NULL, -1)
        elif b - a > limit:
            rows.reject(_reasons.ROW_TOO_LONG, -1)
        elif is_utf8(text := data[a:b].tobytes()):
            rows.add(text)
        else:
            rows.reject(_reasons.INVALID_UTF8, -1)
