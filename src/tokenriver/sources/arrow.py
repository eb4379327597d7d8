"""Arrow IPC: the files of a folder that `datasets.save_to_disk` wrote (IPC streams), and IPC (Feather 2) files.
Needs pyarrow (extra `parquet`).

A piece is a run of record batches. The file is mapped, so passing over the batches before a piece reads their headers
alone.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from tokenriver import magic
from tokenriver.errors import InputError
from tokenriver.sources._columns import arrow_errors, documents, runs, text_column
from tokenriver.types import DocumentBatch, Piece, SourceOptions

SUFFIXES = magic.ARROW_SUFFIXES
STREAMS = False
sniff = magic.is_arrow


_END = b"\xff\xff\xff\xff\0\0\0\0"


def fields(path: Path, head: bytes) -> list[str]:
    """Names of the columns, sorted."""
    with arrow_errors(path), pa.memory_map(str(path)) as source:
        return sorted(_reader(source).schema.names)


def plan(path: Path, size: int, options: SourceOptions, unit_bytes: int) -> list[tuple[int, int]] | None:
    """Runs of record batches with about unit_bytes of text."""
    return runs((size for _, size in extents(path, options)), unit_bytes)


def extents(path: Path, options: SourceOptions) -> list[tuple[int, int]]:
    """(rows, bytes of text) of each record batch."""
    with arrow_errors(path):
        batches = _batches(path, options.text_field, 0, None)
        return [(batch.num_rows, batch.get_total_buffer_size()) for batch in batches]


def read(piece: Piece, options: SourceOptions) -> Iterator[DocumentBatch]:
    """Documents of record batches [start, stop)."""
    with arrow_errors(piece.path):
        batches = _batches(piece.path, options.text_field, piece.start, piece.stop)
        yield from documents((batch.column(0) for batch in batches), options)


def _reader(source: pa.NativeFile, options: pa.ipc.IpcReadOptions | None = None) -> pa.RecordBatchReader:
    """A reader of either layout; both iterate over record batches."""
    source.seek(0)
    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(source, options=options)


def _batches(path: Path, field: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
    """Record batches [start, stop), or to the end, with the column of texts alone."""
    with pa.memory_map(str(path)) as source:
        column = text_column(path, _reader(source).schema, field)
        wanted = pa.ipc.IpcReadOptions(included_fields=[column], use_threads=False)
        reader = _reader(source, wanted)
        found: Iterator[pa.RecordBatch]
        if hasattr(reader, "get_batch"):
            count = reader.num_record_batches
            found = (reader.get_batch(i) for i in range(start, count if stop is None else min(stop, count)))
        else:
            # a stream that was cut between two messages looks like a shorter one, but for its end mark
            if source.read_at(len(_END), max(0, source.size() - len(_END))) != _END:
                raise InputError(f"{path}: the Arrow stream has no end mark: truncated; replace the file")
            found = islice(reader, start, stop)
        passed = start
        for batch in found:
            yield batch
            passed += 1
        if stop is not None and passed < stop:
            raise InputError(f"{path}: record batches: got {passed}, expected {stop}; replace the file")
