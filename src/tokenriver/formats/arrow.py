"""Arrow IPC files and streams with a column of token ids, and the folders that `datasets.save_to_disk` writes of them.

A row is a document. Batches that are not compressed are read where they lie in the mapped file; others are decoded when
they are needed. A folder's state.json has the order of its files. Needs pyarrow.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from tokenriver import files, magic, rules
from tokenriver.errors import FormatError, RiverError
from tokenriver.formats import _files, _id_batches, _id_columns, _json_index
from tokenriver.formats._arrow_file import ArrowFile, Key
from tokenriver.formats._id_columns import Column, arrow_errors
from tokenriver.formats._mapping import open_regular, read_head
from tokenriver.formats._reader import Blocks, Body, Documents, Flat, Opened, Pieces, Reader
from tokenriver.storage import Content, ShardFile, Target, WrittenFile
from tokenriver.types import Ids, Int64

SUFFIX = ".arrow"
STORES = frozenset({"doc_ends", "dtype", "count"})
DTYPES = _id_batches.DTYPES
SHARD_TOKENS = _id_batches.SHARD_TOKENS
MAX_SHARD_TOKENS = _files.UNLIMITED
SPLIT_FOLDERS = True
SAMPLES = True

BATCH_IDS = 1 << 20
STATE = "state.json"
_KEEP_IDS = 1 << 24

check = _id_batches.check


def sniff(path: Path) -> bool:
    """An Arrow file or stream, or a folder whose first one, has a column of ids."""
    if path.is_dir():
        try:
            found = find(path)
        except RiverError:
            return False
        return _holds_ids(found[0].path)
    return _holds_ids(path)


def _holds_ids(path: Path) -> bool:
    if not magic.is_arrow(read_head(path, 8)):
        return False
    try:
        fd, size = open_regular(path)
        try:
            with arrow_errors(path):
                return _id_columns.find_column(ArrowFile(fd, size).schema) is not None
        finally:
            os.close(fd)
    except RiverError:
        return False


def find(path: Path) -> list[ShardFile]:
    """A file; of a folder, the files that its state.json lists, or without one the `.arrow` files by name."""
    state = path / STATE
    if path.is_dir() and state.is_file():
        return [ShardFile(path / name) for name in _listed(state)]
    return _files.find_by_name(path, SUFFIX, lambda file: magic.is_arrow(read_head(file, 8)))


def _listed(state: Path) -> list[str]:
    """The files of a state.json, each a regular file of its folder."""
    rows = _json_index.known_keys(state, "state", _json_index.read_index(state), {"_data_files": rules.LIST})
    names = [
        _json_index.known_keys(state, f"_data_files[{number}]", row, {"filename": rules.INSIDE})["filename"]
        for number, row in enumerate(rows["_data_files"])
    ]
    _json_index.check_unique(state, names)
    folder = _json_index.Folder(state)
    missing = next((name for name in names if folder.size_of(name) is None), None)
    if not names or missing is not None:
        got = "no files" if missing is None else f"{missing!r}, which is not there"
        raise FormatError(f"{state}: _data_files: got {got}, expected the files of the data set; restore them")
    return names


def open_reader(path: Path, *, dtype: str | None = None) -> Reader:
    """Open one file or stream; FormatError with path and row or batch, also when `dtype` is not the column's."""
    fd, size = open_regular(path)
    try:
        with arrow_errors(path):
            file = ArrowFile(fd, size)
            file.check()
            column = _id_columns.the_column(path, file.schema, dtype)
            body = _body(path, (fd, size), file, column)
    finally:
        os.close(fd)
    documents = (lambda: _documents(path, file, column)) if column.is_list else None
    return Reader(Opened(open_reader, path, dtype), body, documents)


def _body(path: Path, place: tuple[int, int], file: ArrowFile, column: Column) -> Body:
    """Where the ids lie: in runs of the file if no batch is compressed."""
    keys: list[Key] = []
    offsets: list[int] = []
    counts: list[int] = []
    row = 0
    for key, array in file.columns(column.number):
        span = _id_columns.span(path, array, row)
        row += len(array)
        if span.count and span.buffer is not None:
            at = file.place(span.buffer)
            keys.append(key)
            counts.append(span.count)
            offsets.append(-1 if at is None else at + span.offset)
    if not counts:
        raise FormatError(f"{path}: ids of {column.name}: got 0, expected at least 1")
    if min(offsets) < 0:
        return _blocks(path, file, column, (keys, np.array(counts, np.int64)))
    if len(counts) == 1:
        return Flat(place[0], column.dtype, offsets[0], counts[0])
    return Pieces(*place, column.dtype, np.array(offsets, np.int64), np.array(counts, np.int64))


def _blocks(path: Path, file: ArrowFile, column: Column, batches: tuple[list[Key], Int64]) -> Blocks:
    keys, counts = batches

    def load(number: int) -> Ids:
        with arrow_errors(path):
            span = _id_columns.span(path, file.load(column.number, keys[number]), 0)
            if span.count != counts[number]:
                raise ValueError(f"{span.count} ids in a batch that had {counts[number]}: the file was changed")
            return span.ids(column.dtype)

    return Blocks(column.dtype, np.cumsum(counts), load, keep=max(2, _KEEP_IDS // int(counts.max())))


def _documents(path: Path, file: ArrowFile, column: Column) -> Documents:
    found = [np.empty(0, np.int64)]
    row = total = 0
    with arrow_errors(path):
        for _, array in file.columns(column.number):
            span = _id_columns.span(path, array, row)
            found.append(_id_columns.ends(array) + total)
            row, total = row + len(array), total + span.count
    return np.concatenate(found), None


def file_name(target: Target, number: int) -> str:
    """As `datasets` names the files of a folder."""
    return f"data-{number:05d}-of-{target.shards:05d}{SUFFIX}"


def write(path: Path, content: Content, target: Target) -> list[WrittenFile]:
    """A stream of batches that are not compressed, one row a document."""
    schema = _id_batches.schema(target, content)
    with files.AtomicFile(path) as file, pa.ipc.new_stream(_id_batches.sink(file), schema) as writer:
        for batch in _id_batches.batches(content, target, BATCH_IDS):
            writer.write_batch(batch)
    return [WrittenFile(path, file.num_bytes, file.sha256)]


def finish(folder: Path, target: Target, shards: Sequence[tuple[WrittenFile, Content]]) -> list[WrittenFile]:
    """state.json and dataset_info.json, which make the folder one of `datasets.save_to_disk`."""
    digest = hashlib.sha256("".join(written.sha256 for written, _ in shards).encode()).hexdigest()
    state: dict[str, object] = {
        "_data_files": [{"filename": written.path.name} for written, _ in shards],
        "_fingerprint": digest[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": target.split,
    }
    texts: dict[str, dict[str, object]] = {"dataset_info.json": {}, STATE: state}
    return [
        _files.write_file(folder / name, [json.dumps(text, indent=2, sort_keys=True).encode()])
        for name, text in texts.items()
    ]
