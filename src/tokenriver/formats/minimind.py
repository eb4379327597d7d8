"""TokenStream, from minimind's family: `tokens.bin`, uint16 ids and nothing else, and `doc_lengths.npy`, the number of
ids in each document.

The layout is known from a description alone (formats.md, section 12): framing ids count, and the lengths add up to
the file. That sum is checked whenever a file is opened, before any id is served.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver.errors import FormatError, LimitError
from tokenriver.formats import _docindex, _files, _npy
from tokenriver.formats._columns import lengths_of, read_blocks
from tokenriver.formats._mapping import DTYPES as KINDS
from tokenriver.formats._mapping import id_dtype, open_regular, read_head, regular_size
from tokenriver.formats._reader import Documents, Flat, Opened, Reader
from tokenriver.storage import Content, ShardFile, Target, WrittenFile
from tokenriver.types import Int64

SUFFIX = ".bin"
NAME = "tokens.bin"
LENGTHS = "doc_lengths.npy"
STORES = frozenset({"doc_ends", "dtype", "count"})
DTYPES = ("uint16",)
SHARD_TOKENS = None
MAX_SHARD_TOKENS = _files.UNLIMITED
SPLIT_FOLDERS = True

finish = _files.nothing_more


def sniff(path: Path) -> bool:
    """A `tokens.bin` beside its `doc_lengths.npy`, or the folder of both."""
    data = _data(path)
    return data.name == NAME and data.is_file() and read_head(data.with_name(LENGTHS), 6) == _npy.MAGIC


def _data(path: Path) -> Path:
    if path.is_dir():
        return path / NAME
    return path.with_name(NAME) if path.name == LENGTHS else path


def find(path: Path) -> list[ShardFile]:
    """The one file of a folder, also by the name of its lengths."""
    data = _data(path)
    tokens = _num_tokens(data, regular_size(data))
    fd, column = _open_lengths(data)
    os.close(fd)
    counted = None if _docindex.index_path(data).is_file() else column.count
    return [ShardFile(data, DTYPES[0], tokens, counted)]


def _num_tokens(path: Path, size: int) -> int:
    if size == 0 or size % 2:
        raise FormatError(f"{path}: size: got {size} bytes, expected a positive multiple of 2")
    return size // 2


def _open_lengths(data: Path) -> tuple[int, _npy.Column]:
    path = data.with_name(LENGTHS)
    if not path.exists():
        raise FormatError(f"{data}: lengths: got no {LENGTHS} beside it, expected one; put both files together")
    fd, size = open_regular(path)
    try:
        return fd, _npy.read_header(path, fd, size)
    except BaseException:
        os.close(fd)
        raise


def open_reader(path: Path, *, dtype: str | None = None) -> Reader:
    """Open a `tokens.bin`, the sum of its documents' lengths checked against its size; FormatError."""
    data = path.with_name(NAME) if path.name == LENGTHS else path
    if dtype is not None and id_dtype(dtype) != KINDS[DTYPES[0]]:
        raise FormatError(f"{data}: dtype: got {DTYPES[0]} by the layout, expected {dtype}; leave dtype out")
    fd, size = open_regular(data)
    try:
        tokens = _num_tokens(data, size)
        _read_ends(data, tokens, None)
        body = Flat(fd, KINDS[DTYPES[0]], 0, tokens)
    finally:
        os.close(fd)
    return Reader(Opened(open_reader, data, dtype), body, lambda: _documents(data, tokens))


def _documents(data: Path, tokens: int) -> Documents:
    fd, column = _open_lengths(data)
    os.close(fd)
    ends = np.empty(column.count, np.int64)
    _read_ends(data, tokens, ends)
    return ends, None


def _read_ends(data: Path, tokens: int, out: Int64 | None) -> None:
    """Add up the lengths, block by block, and put the ends of the documents into `out`; FormatError unless they make
    up the ids."""
    path = data.with_name(LENGTHS)
    fd, column = _open_lengths(data)
    try:
        if out is not None and len(out) != column.count:
            raise FormatError(f"{path}: got {column.count} lengths, expected {len(out)}; the file has just changed")
        at, total = 0, 0
        for block in read_blocks(path, fd, column.dtype.str, column.offset, column.count):
            _check_lengths(path, column.offset, at, block, tokens)
            exact = sum(block.tolist()) if int(block.max()) >= 1 << 44 else int(block.sum(dtype=np.int64))
            if total + exact <= tokens and out is not None:
                out[at : at + len(block)] = np.cumsum(block, dtype=np.int64) + total
            at, total = at + len(block), total + exact
    finally:
        os.close(fd)
    if total != tokens:
        raise FormatError(
            f"{path}: lengths of {column.count} documents: got a sum of {total}, expected {tokens}, the ids of {NAME}"
        )


def _check_lengths(path: Path, offset: int, at: int, block: np.ndarray[Any, Any], tokens: int) -> None:
    """Each length by itself; `block` holds those from document `at` on, the first of all is at byte `offset`."""
    if int(block.min()) < 0 or int(block.max()) > tokens:
        bad = int(np.argmax((block < 0) | (block > tokens)))
        raise FormatError(
            f"{path}: length of document {at + bad} at byte {offset + (at + bad) * block.itemsize}: got "
            f"{int(block[bad])}, expected 0 to {tokens}, the ids of {NAME}"
        )


def check(target: Target, shards: Sequence[Content]) -> None:
    """The two files have fixed names, so there is one of each in a folder."""
    if target.shards > 1:
        raise LimitError(
            f"shards: got {target.shards} of {target.split}, expected 1, as the layout has one {NAME}; leave "
            "shard_tokens out"
        )


def file_name(target: Target, number: int) -> str:
    return NAME


def write(path: Path, content: Content, target: Target) -> list[WrittenFile]:
    """The ids, then the lengths as int64; the framing is the content's own."""
    data = _files.write_flat(path, b"", content)
    return [data, _files.write_file(path.with_name(LENGTHS), _lengths(content))]


def _lengths(content: Content) -> Iterator[bytes | np.ndarray[Any, Any]]:
    yield _npy.header(KINDS["int64"], content.num_documents)
    for block in lengths_of(content.ends()):
        yield block.astype("<i8")
