"""OLMo's token arrays, as dolma writes them: a `.npy` that is no NumPy file but ids and nothing else, and a `.csv.gz`
of the same name with the bounds of its documents. A real `.npy` file of integers is told apart by its magic bytes.

The raw array says nothing of its dtype. It is what the bounds of the first array make of its size, else dolma's
uint16, unless the caller names another. Layouts: "" (raw) and "npy" (a real one). See formats.md, section 17.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tokenriver import files
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import _files, _npy, _olmo_bounds, _olmo_rows
from tokenriver.formats._mapping import DTYPES as ID_DTYPES
from tokenriver.formats._mapping import id_dtype, open_regular, read_head
from tokenriver.formats._olmo_bounds import MAX_EMPTY, bounds_path
from tokenriver.formats._reader import Documents, Flat, Opened, Reader
from tokenriver.storage import Content, ShardFile, Target, WrittenFile

SUFFIX = ".npy"
STORES = frozenset({"doc_ends"})
DEFAULT_DTYPE = "uint16"
DTYPES = ("uint16", "uint32", "uint8", "uint64")
SHARD_TOKENS = 1 << 29
"""dolma's limit of a file is 1 GiB."""
MAX_SHARD_TOKENS = _files.UNLIMITED
SPLIT_FOLDERS = False
LAYOUTS = ("", "npy")

finish = _files.nothing_more


def sniff(path: Path) -> bool:
    """A `.npy` file with bounds beside it, or a NumPy file, or of a folder the first one; not a folder with ids in
    `.bin` files, whose arrays are something else."""
    if path.is_dir() and any(name.endswith(".bin") for name in files.list_folder(path)):
        return False
    return _files.any_by_name(path, SUFFIX, _belongs)


def _belongs(path: Path) -> bool:
    head = read_head(path, len(_npy.MAGIC))
    return head == _npy.MAGIC or (bool(head) and bounds_path(path).is_file())


def find(path: Path) -> list[ShardFile]:
    """A file, or the `.npy` files of a folder by name."""
    found = _files.find_by_name(path, SUFFIX, lambda file: file.is_file())
    dtype = _dtype_by_bounds(found[0].path)
    if dtype is None:
        return found
    return [file if _is_numpy(file.path) else ShardFile(file.path, dtype) for file in found]


def _is_numpy(path: Path) -> bool:
    return read_head(path, len(_npy.MAGIC)) == _npy.MAGIC


def _dtype_by_bounds(path: Path) -> str | None:
    """The unsigned dtype that makes an array as long as its bounds say; None if there are none, or none fits."""
    bounds = bounds_path(path)
    if _is_numpy(path) or not bounds.is_file() or not path.is_file():
        return None
    size = path.stat().st_size
    try:
        end = _olmo_bounds.last_end(bounds)
    except FormatError:
        return None  # said when the documents are asked for
    return next((f"uint{8 * item}" for item in (1, 2, 4, 8) if end * item == size and end), None)


def open_reader(path: Path, *, dtype: str | None = None) -> Reader:
    """Open one array: a NumPy file by its header, else ids of `dtype`, or uint16; FormatError with path, offset, value
    and expectation."""
    kind = id_dtype(dtype or DEFAULT_DTYPE)
    fd, size = open_regular(path)
    try:
        if os.pread(fd, len(_npy.MAGIC), 0) == _npy.MAGIC:
            column = _npy.read_header(path, fd, size)
            if column.dtype != ID_DTYPES.get(column.dtype.name) or (dtype is not None and column.dtype != kind):
                raise FormatError(
                    f"{path}: dtype: got {column.dtype.str} in its header, expected "
                    f"{dtype or 'little-endian integers'}; leave dtype out, or write it anew"
                )
            body = Flat(fd, column.dtype, column.offset if column.count else 0, column.count)
        elif size == 0 or size % kind.itemsize:
            raise FormatError(
                f"{path}: size: got {size} bytes, expected a positive multiple of {kind.itemsize} for {kind.name} ids"
            )
        else:
            body = Flat(fd, kind, 0, size // kind.itemsize)
    finally:
        os.close(fd)
    there = bounds_path(path).is_file()
    return Reader(Opened(open_reader, path, dtype), body, partial(_documents, path, body) if there else None)


def _documents(path: Path, body: Flat) -> Documents:
    return _olmo_bounds.read_ends(bounds_path(path), body.num_tokens), None


# ---------------------------------------------------------------------------------------------- writing


def check(target: Target, shards: Sequence[Content]) -> None:
    """Not many more empty documents than a reader admits."""
    if target.layout not in LAYOUTS:
        raise InputError(f"layout: got {target.layout!r}, expected one of {', '.join(map(repr, LAYOUTS))}")
    for number, content in enumerate(shards):
        if content.num_documents > content.num_tokens + MAX_EMPTY:
            raise LimitError(
                f"documents: got {content.num_documents} in shard {number} of {target.split}, expected at most "
                f"{content.num_tokens + MAX_EMPTY}, as most are empty; leave those out, or write another format"
            )


def file_name(target: Target, number: int) -> str:
    return _files.numbered(target, number, SUFFIX)


def write(path: Path, content: Content, target: Target) -> list[WrittenFile]:
    """The ids, after NumPy's header or after nothing, and the bounds of the documents beside them."""
    head = _npy.header(id_dtype(target.dtype), content.num_tokens) if target.layout == "npy" else b""
    bounds = bounds_path(path)
    rows = _olmo_rows.rows(content, target.sources)
    blocks = _olmo_rows.compressed(bounds.name.removesuffix(".gz"), rows)
    return [_files.write_flat(path, head, content), _files.write_file(bounds, blocks)]
