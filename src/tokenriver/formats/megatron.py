"""Megatron's indexed data sets: `PREFIX.bin` with the ids and `PREFIX.idx` with sequences and documents.

Also what datatrove's MegatronDocumentTokenizer writes. A document is one or more sequences; where one ends is told by
the index's document array. Sets are opened by either file or by the bare prefix, as Megatron's options name them.
The modes of multimodal sets are passed over: whether a sequence is text is for its owner to know.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver import files
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import _docindex, _files
from tokenriver.formats import _megatron_index as _index
from tokenriver.formats._columns import lengths_of
from tokenriver.formats._mapping import id_dtype, open_regular, read_head, regular_size
from tokenriver.formats._reader import Documents, Flat, Opened, Reader
from tokenriver.storage import Content, ShardFile, Target, WrittenFile

SUFFIX = ".bin"
INDEX = ".idx"
STORES = frozenset({"doc_ends", "dtype", "count"})
DTYPES = ("uint16", "int32", "int64", "uint8", "int8", "int16")
SHARD_TOKENS = None
MAX_SHARD_TOKENS = _files.UNLIMITED
MAX_DOCUMENT_TOKENS = 2**31 - 1
SPLIT_FOLDERS = False

finish = _files.nothing_more


def sniff(path: Path) -> bool:
    """By the magic of the index, which is beside every `.bin` file; of a folder, beside its first one."""
    if path.is_dir():
        names = [name for name in files.list_folder(path) if name.endswith(SUFFIX) and not name.startswith(".")]
        return bool(names) and sniff(path / names[0])
    data, index = _pair(path)
    return data.is_file() and read_head(index, len(_index.MAGIC)) == _index.MAGIC


def _pair(path: Path) -> tuple[Path, Path]:
    """The two files of a set, given one of them or the prefix; what is there and neither is taken for the ids."""
    if path.suffix in (SUFFIX, INDEX):
        return path.with_suffix(SUFFIX), path.with_suffix(INDEX)
    data, index = path.with_name(path.name + SUFFIX), path.with_name(path.name + INDEX)
    return (path if path.exists() and not data.exists() else data), index


def find(path: Path) -> list[ShardFile]:
    """A set by either file or by its prefix, or the sets of a folder by name."""
    if not path.is_dir():
        data, index = _pair(path)
        return [_describe(data, index, _docindex.index_path(data).is_file())]
    listed = files.list_folder(path)
    beside = set(listed)
    names = [name.removesuffix(SUFFIX) for name in listed if name.endswith(SUFFIX) and not name.startswith(".")]
    if not names:
        raise FormatError(f"{path}: got no {SUFFIX} file, expected sets with an {INDEX} file each; check the path")
    alone = next((name for name in names if name + INDEX not in beside), None)
    if alone is not None:
        raise FormatError(
            f"{path}: got {alone}{SUFFIX} without {alone}{INDEX}, expected both; give a glob of the sets that belong "
            "together"
        )
    return [
        _describe(path / (name + SUFFIX), path / (name + INDEX), name + _docindex.SUFFIX in beside) for name in names
    ]


def _describe(data: Path, index: Path, sidecar: bool) -> ShardFile:
    """What the header of the index says; documents are for a document index to count, if there is one."""
    size = regular_size(data)
    fd, found = _open_index(data, index)
    os.close(fd)
    tokens = _num_tokens(data, size, found)
    return ShardFile(data, found.dtype.name, tokens, None if sidecar else found.documents)


def _open_index(data: Path, index: Path) -> tuple[int, _index.Index]:
    try:
        fd, size = open_regular(index)
    except InputError as error:
        if index.exists():
            raise
        raise FormatError(
            f"{data}: index: got no {index.name} beside it, expected one; put both files together"
        ) from error
    try:
        return fd, _index.read_header(index, fd, size)
    except BaseException:
        os.close(fd)
        raise


def passed_over(path: Path) -> str | None:
    """What the index tells of its sequences that a river of ids has no place for."""
    data, index_path = _pair(path)
    fd, index = _open_index(data, index_path)
    os.close(fd)
    return None if regular_size(index_path) == index.plain_size else "the modes of a multimodal set"


def _num_tokens(data: Path, size: int, index: _index.Index) -> int:
    item = index.dtype.itemsize
    if size == 0 or size % item:
        raise FormatError(
            f"{data}: size: got {size} bytes, expected a positive multiple of {item} for {index.dtype.name} ids"
        )
    return size // item


def open_reader(path: Path, *, dtype: str | None = None) -> Reader:
    """Open a set, all lengths and offsets of its sequences checked (in 12 bytes a sequence, read in blocks);
    FormatError with file, byte, value and expectation."""
    data, index_path = _pair(path)
    fd, size = open_regular(data)
    try:
        index_fd, index = _open_index(data, index_path)
        try:
            _check_dtype(index, dtype)
            tokens = _num_tokens(data, size, index)
            _index.check_sequences(index, index_fd, data, size)
        finally:
            os.close(index_fd)
        body = Flat(fd, index.dtype, 0, tokens)
    finally:
        os.close(fd)

    def documents() -> Documents:
        again, found = _open_index(data, index_path)
        try:
            return _index.read_documents(found, again, tokens), None
        finally:
            os.close(again)

    known = index.documents is not None
    return Reader(Opened(open_reader, data, dtype), body, documents if known else None)


def _check_dtype(index: _index.Index, asked: str | None) -> None:
    if asked is not None and id_dtype(asked) != index.dtype:
        raise FormatError(
            f"{index.path}: dtype: got {index.dtype.name} by its code at byte 17, expected {asked}; leave dtype out"
        )


def check(target: Target, shards: Sequence[Content]) -> None:
    """A document is a sequence, whose length is stored in 31 bits."""
    for number, content in enumerate(shards):
        longest = max(map(_largest, lengths_of(content.ends()))) if content.num_tokens > MAX_DOCUMENT_TOKENS else 0
        if longest > MAX_DOCUMENT_TOKENS:
            raise LimitError(
                f"document of {target.split} shard {number}: got {longest} ids, expected at most "
                f"{MAX_DOCUMENT_TOKENS} in a sequence of a Megatron set; choose a format without documents, or cut it"
            )


def _largest(lengths: np.ndarray[Any, Any]) -> int:
    return int(lengths.max(initial=0))


def file_name(target: Target, number: int) -> str:
    return _files.named(target, number, SUFFIX)


def write(path: Path, content: Content, target: Target) -> list[WrittenFile]:
    """The ids, then the index: what Megatron's builder writes when it is given each document as one sequence."""
    data = _files.write_flat(path, b"", content)
    layout = _index.layout_of(target.dtype, content)
    return [data, _files.write_file(path.with_suffix(INDEX), _index.index_pieces(layout))]
