"""Parquet files with a column of token ids, a row a document, decoded by row groups. Needs pyarrow.

The footer says how many ids each row group has, so opening decodes nothing; where it does not (older writers other than
pyarrow, which may or may not count empty lists), the ids are counted once. A row group of more than 2^24 ids is decoded
in blocks of 2^22, in order: to go back costs a pass over the row group from its start.
"""

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tokenriver import files, magic
from tokenriver.errors import FormatError, RiverError
from tokenriver.formats import _files, _id_batches, _id_columns, _parquet_footer
from tokenriver.formats._id_columns import Column, Span, arrow_errors
from tokenriver.formats._mapping import open_regular, read_head
from tokenriver.formats._parquet_footer import Group
from tokenriver.formats._reader import Blocks, Documents, Opened, Reader
from tokenriver.storage import Content, ShardFile, Target, WrittenFile
from tokenriver.types import Ids

SUFFIX = ".parquet"
STORES = frozenset({"doc_ends", "dtype", "count"})
DTYPES = _id_batches.DTYPES
SHARD_TOKENS = _id_batches.SHARD_TOKENS
MAX_SHARD_TOKENS = _files.UNLIMITED
SPLIT_FOLDERS = False
SAMPLES = True

GROUP_IDS = 1 << 18
"""Ids in a row group that we write: what a window of ids costs to decode."""
WHOLE_GROUP_IDS = 1 << 24
BLOCK_IDS = 1 << 22
MAX_IDS_PER_BYTE = 1024
"""A row group of more than WHOLE_GROUP_IDS ids is believed up to this: equal ids take next to no space."""

_BATCH_IDS = 1 << 20
_KEEP_IDS = 1 << 24

check = _id_batches.check
finish = _files.nothing_more


def sniff(path: Path) -> bool:
    """A Parquet file, or a folder that begins with one, that has a column of ids."""
    return _files.any_by_name(path, SUFFIX, _holds_ids) if path.is_dir() else _holds_ids(path)


def _holds_ids(path: Path) -> bool:
    try:
        return magic.is_parquet(read_head(path, 4)) and _id_columns.find_column(_File(path).schema) is not None
    except RiverError:
        return False


def find(path: Path) -> list[ShardFile]:
    """A file, or the `.parquet` files of a folder by name."""
    return _files.find_by_name(path, SUFFIX, lambda file: magic.is_parquet(read_head(file, 4)))


class _File:
    """An open file, mapped, and its footer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        fd, self.size = open_regular(path)
        try:
            self.footer = _parquet_footer.read_footer(path, fd, self.size)
            self._leaves = _parquet_footer.leaves(path, self.footer)
            self._buffer = pa.py_buffer(mmap.mmap(fd, self.size, access=mmap.ACCESS_READ))
        finally:
            os.close(fd)
        self._metadata: pq.FileMetaData | None = None
        with arrow_errors(path):
            reader = self._open()
            self._metadata = reader.metadata
            self.schema: pa.Schema = reader.schema_arrow

    def _open(self) -> pq.ParquetFile:
        """A reader of its own for each use: threads share none."""
        source = pa.BufferReader(self._buffer)
        return pq.ParquetFile(source, metadata=self._metadata, pre_buffer=False, page_checksum_verification=True)

    def groups(self, column: Column) -> list[Group]:
        """The row groups, checked."""
        own = [leaf for leaf in self._leaves if leaf.path[0] == column.name.encode()]
        if len(own) != 1:
            raise FormatError(f"{self.path}: column {column.name}: got {len(own)} columns inside, expected one")
        found = _parquet_footer.groups(self.path, self.footer, own[0], len(self._leaves), self.size)
        for number, group in enumerate(found):
            if group.num_values > max(WHOLE_GROUP_IDS, MAX_IDS_PER_BYTE * group.num_bytes):
                raise FormatError(
                    f"{self.path}: row group {number}: got {group.num_values} values in {group.num_bytes} bytes, "
                    f"expected at most {MAX_IDS_PER_BYTE} a byte"
                )
        return found

    def batches(self, column: Column, number: int, group: Group) -> Iterator[pa.Array]:
        """The column of a row group, in pieces of about _BATCH_IDS ids."""
        rows = max(1, _BATCH_IDS * group.num_rows // max(1, group.num_values))
        reader = self._open()
        for batch in reader.iter_batches(rows, row_groups=[number], columns=[column.name], use_threads=False):
            yield batch.column(0)


def open_reader(path: Path, *, dtype: str | None = None) -> Reader:
    """Open one file; FormatError with path and row group or row, also when `dtype` is not the column's."""
    file = _File(path)
    column = _id_columns.the_column(path, file.schema, dtype)
    decoder = _Decoder(file, column)
    documents = decoder.documents if column.is_list else None
    return Reader(Opened(open_reader, path, dtype), decoder.body(), documents)


@dataclass(frozen=True, slots=True)
class _Block:
    group: int
    start: int
    """In ids of the row group."""
    stop: int


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Where the decoding of a row group stands: at the id `at`, with ids behind it that were decoded already."""

    group: int
    at: int
    left: Ids
    rest: Iterator[Ids]


class _Decoder:
    """The ids of a file by blocks: a row group, or a part of a large one."""

    def __init__(self, file: _File, column: Column) -> None:
        self._file, self._column = file, column
        self._groups = file.groups(column)
        self._rows = np.cumsum([0, *(group.num_rows for group in self._groups)]).tolist()
        self._counts = [self._count(number) for number in range(len(self._groups))]
        self._blocks = [block for number in range(len(self._groups)) for block in self._cut(number)]
        self._cursors: dict[int, _Cursor] = {}

    def body(self) -> Blocks:
        sizes = [block.stop - block.start for block in self._blocks]
        if not sizes:
            raise FormatError(f"{self._file.path}: ids of {self._column.name}: got 0, expected at least 1")
        ends = np.cumsum(np.array(sizes, np.int64))
        return Blocks(self._column.dtype, ends, self._load, keep=max(2, _KEEP_IDS // max(sizes)))

    def documents(self) -> Documents:
        """The rows' ends."""
        found, total = [np.empty(0, np.int64)], 0
        for number, expected in enumerate(self._counts):
            before = total
            with arrow_errors(self._file.path):
                for array, span in self._spans(number):
                    found.append(_id_columns.ends(array) + total)
                    total += span.count
            if total - before != expected:
                raise self._strange(number, str(total - before))
        return np.concatenate(found), None

    def _count(self, number: int) -> int:
        # rows without ids would never be decoded: they are looked at once, for nulls
        return self._groups[number].num_ids or sum(map(len, self._ids(number)))

    def _cut(self, number: int) -> Iterator[_Block]:
        count = self._counts[number]
        step = count if count <= WHOLE_GROUP_IDS else BLOCK_IDS
        for start in range(0, count, max(1, step)):
            yield _Block(number, start, min(start + step, count))

    def _spans(self, number: int) -> Iterator[tuple[pa.Array, Span]]:
        """The column of a row group in pieces, each with its ids, checked."""
        row, last = self._rows[number], self._rows[number + 1]
        for array in self._file.batches(self._column, number, self._groups[number]):
            yield array, _id_columns.span(self._file.path, array, row)
            row += len(array)
        if row != last:
            raise ValueError(f"row group {number} of {last - self._rows[number]} rows, {last - row} of them missing")

    def _ids(self, number: int) -> Iterator[Ids]:
        with arrow_errors(self._file.path):
            for _, span in self._spans(number):
                yield span.ids(self._column.dtype)

    def _load(self, number: int) -> Ids:
        block = self._blocks[number]
        # taken away while it is used: another thread begins anew
        cursor = self._cursors.pop(0, None)
        if cursor is None or cursor.group != block.group or cursor.at != block.start:
            cursor = self._begin(block)
        ids, cursor = self._take(cursor, block.stop - block.start)
        if block.stop < self._counts[block.group]:
            self._cursors[0] = cursor
        elif len(cursor.left) or any(map(len, cursor.rest)):
            raise self._strange(block.group, "more")
        return ids

    def _begin(self, block: _Block) -> _Cursor:
        cursor = _Cursor(block.group, 0, np.empty(0, self._column.dtype), self._ids(block.group))
        while cursor.at < block.start:
            _, cursor = self._take(cursor, min(BLOCK_IDS, block.start - cursor.at))
        return cursor

    def _take(self, cursor: _Cursor, count: int) -> tuple[Ids, _Cursor]:
        """The next ids, and the cursor behind them."""
        parts, have, left = [], 0, cursor.left
        while have < count:
            if not len(left):
                found = next(cursor.rest, None)
                if found is None:
                    raise self._strange(cursor.group, str(cursor.at + have))
                left = found
            parts.append(left[: count - have])
            have += len(parts[-1])
            left = left[len(parts[-1]) :]
        ids = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return ids, _Cursor(cursor.group, cursor.at + count, left, cursor.rest)

    def _strange(self, number: int, got: str) -> FormatError:
        return FormatError(
            f"{self._file.path}: ids of row group {number}: got {got}, expected {self._counts[number]} by the footer"
        )


def file_name(target: Target, number: int) -> str:
    return _files.named(target, number, SUFFIX)


def write(path: Path, content: Content, target: Target) -> list[WrittenFile]:
    """One row a document; pages have checksums."""
    schema = _id_batches.schema(target, content)
    with (
        files.AtomicFile(path) as file,
        # a dictionary of ids takes three times as long to write, and zstd makes the file as small without
        pq.ParquetWriter(
            _id_batches.sink(file), schema, compression="zstd", use_dictionary=["source"], write_page_checksum=True
        ) as writer,
    ):
        for batch in _id_batches.batches(content, target, GROUP_IDS):
            writer.write_batch(batch, row_group_size=batch.num_rows)
    return [WrittenFile(path, file.num_bytes, file.sha256)]
