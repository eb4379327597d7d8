"""nanoGPT's train.bin and val.bin: ids and nothing else.

The file says nothing about itself, so a reader can only check that the size divides, and must be told the dtype if it
is not nanoGPT's uint16 (formats.md, section 6). What cannot be known is stated by `open_corpus` as an assumption.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from tokenriver.defaults import CHARACTERS_FILE
from tokenriver.errors import FormatError, LimitError
from tokenriver.formats import _files, _meta
from tokenriver.formats._bin import has_llmc_magic
from tokenriver.formats._mapping import id_dtype, open_regular, read_head
from tokenriver.formats._reader import Flat, Opened, Reader
from tokenriver.storage import Content, ShardFile, Target, WrittenFile

SUFFIX = ".bin"
STORES: frozenset[str] = frozenset()
DEFAULT_DTYPE = "uint16"
DTYPES = ("uint16", "uint32")
SHARD_TOKENS = None
MAX_SHARD_TOKENS = _files.UNLIMITED
SPLIT_FOLDERS = False

finish = _files.nothing_more
read_characters = _meta.read_meta
write_characters = _meta.write_meta


def sniff(path: Path) -> bool:
    """A regular `.bin` file without the magic of another format: all that can be known of a file without a header."""
    return _files.any_by_name(path, SUFFIX, _is_bare)


def _is_bare(path: Path) -> bool:
    return path.is_file() and bool(read_head(path, 1)) and not has_llmc_magic(path)


def find(path: Path) -> list[ShardFile]:
    """A file, or the `.bin` files of a folder by name."""
    return _files.find_by_name(path, SUFFIX, lambda file: file.is_file() and not has_llmc_magic(file))


def open_reader(path: Path, *, dtype: str | None = None) -> Reader:
    """Open one file of ids, uint16 unless `dtype` says otherwise; FormatError for an empty or a torn file."""
    kind = id_dtype(dtype or DEFAULT_DTYPE)
    fd, size = open_regular(path)
    try:
        if size == 0 or size % kind.itemsize:
            raise FormatError(f"{path}: size: got {size} bytes, expected a positive multiple of {kind.itemsize}")
        return Reader(Opened(open_reader, path, dtype), Flat(fd, kind, 0, size // kind.itemsize))
    finally:
        os.close(fd)


def vocab_size(path: Path) -> int | None:
    """The number of characters by the meta.pkl beside a file; None if there is none, FormatError if it is damaged or
    holds anything but plain texts and numbers."""
    meta = path.with_name(CHARACTERS_FILE)
    return len(_meta.read_meta(meta)) if meta.is_file() else None


def check(target: Target, shards: Sequence[Content]) -> None:
    """One file a split is all that nanoGPT reads."""
    if target.shards > 1:
        raise LimitError(f"shards: got {target.shards} of {target.split}, expected 1; leave shard_tokens out")


def file_name(target: Target, number: int) -> str:
    return f"{target.split}{SUFFIX}"


def write(path: Path, content: Content, target: Target) -> list[WrittenFile]:
    """The ids, and nothing else."""
    return [_files.write_flat(path, b"", content)]
