"""Parquet: one column of texts, read by row groups. Needs pyarrow (extra `parquet`).

A piece is a run of row groups; inside one, rows come in small batches, so a column of more than 2 GiB streams in
bounded memory. Pages are checked against their checksums where the file has them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tokenriver import magic
from tokenriver.errors import InputError
from tokenriver.sources._columns import arrow_errors, documents, runs, text_column
from tokenriver.types import DocumentBatch, Piece, SourceOptions

SUFFIXES = magic.PARQUET_SUFFIXES
STREAMS = False
sniff = magic.is_parquet

_BATCH_BYTES = 1 << 20
_DICTIONARY_ROWS = 1 << 20  # each batch brings the whole dictionary, so few batches
_BATCH_ROWS = 1024  # repeated texts are stored once, so the mean size of a row may be far too small


def fields(path: Path, head: bytes) -> list[str]:
    """Names of the columns, sorted."""
    with arrow_errors(path), _open(path) as file:
        return sorted(file.schema_arrow.names)


def plan(path: Path, size: int, options: SourceOptions, unit_bytes: int) -> list[tuple[int, int]] | None:
    """Runs of row groups with about unit_bytes, uncompressed."""
    return runs((size for _, size in extents(path, options)), unit_bytes)


def extents(path: Path, options: SourceOptions) -> list[tuple[int, int]]:
    """(rows, uncompressed bytes) of each row group."""
    with arrow_errors(path), _open(path) as file:
        text_column(path, file.schema_arrow, options.text_field)
        groups = range(file.num_row_groups)
        return [(max(0, file.metadata.row_group(i).num_rows), _row_group_bytes(file, i)) for i in groups]


def read(piece: Piece, options: SourceOptions) -> Iterator[DocumentBatch]:
    """Documents of row groups [start, stop)."""
    with arrow_errors(piece.path), _open(piece.path) as file:
        text_column(piece.path, file.schema_arrow, options.text_field)
        yield from documents(_columns(file, piece, options.text_field), options)


def records(path: Path) -> Iterator[list[dict[str, Any]]]:
    """All rows in order as objects, all columns, a bounded number at a time."""
    with arrow_errors(path), _open(path) as file:
        for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
            batch.validate(full=True)
            yield batch.to_pylist()


def _open(path: Path) -> pq.ParquetFile:
    return pq.ParquetFile(path, buffer_size=_BATCH_BYTES, pre_buffer=False, page_checksum_verification=True)


def _row_group_bytes(file: pq.ParquetFile, number: int) -> int:
    """Uncompressed bytes of a row group, all columns. The column's own size would be closer, but to ask for it
    (`RowGroupMetaData.column`) ends the process on some damaged files, where reading raises."""
    return max(0, int(file.metadata.row_group(number).total_byte_size))


def _columns(file: pq.ParquetFile, piece: Piece, field: str) -> Iterator[pa.Array]:
    as_dictionary = pa.types.is_dictionary(file.schema_arrow.field(field).type)
    for number in range(piece.start, piece.stop):
        expected = file.metadata.row_group(number).num_rows
        mean = max(1, _row_group_bytes(file, number) // max(1, expected))
        count = _DICTIONARY_ROWS if as_dictionary else min(_BATCH_ROWS, max(1, _BATCH_BYTES // mean))
        rows = 0
        for batch in file.iter_batches(count, row_groups=[number], columns=[field], use_threads=False):
            rows += batch.num_rows
            column = batch.column(batch.schema.get_field_index(field))
            yield from column.chunks if isinstance(column, pa.ChunkedArray) else (column,)
        if rows != expected:
            raise InputError(
                f"{piece.path}: row group {number}: got {rows} rows, expected {expected}; replace the file"
            )
