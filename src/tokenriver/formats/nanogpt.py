"""nanoGPT's train.bin and val.bin: ids and nothing else.

The file says nothing about itself, so a reader can only check that the size divides, and must be told the dtype if it
is not nanoGPT's uint16 (formats.md, section 6). What cannot be known is stated by `open_corpus` as an assumption.
"""

import os
from pathlib import Path

from tokenriver.errors import FormatError, LimitError
from tokenriver.formats._bin import BinReader, BinWriter, has_llmc_magic, id_dtype, map_ids, open_regular

SUFFIX = ".bin"
STORES: frozenset[str] = frozenset()
DEFAULT_DTYPE = "uint16"


def sniff(path: Path) -> bool:
    """A regular `.bin` file without the magic of another format: all that can be known of a file without a header."""
    return path.suffix == SUFFIX and path.is_file() and not has_llmc_magic(path)


def open_reader(path: Path, *, dtype: str | None = None) -> BinReader:
    """Open one file of ids, uint16 unless `dtype` says uint32; FormatError for an empty or a torn file."""
    kind = id_dtype(dtype or DEFAULT_DTYPE)
    fd, size = open_regular(path)
    try:
        if size == 0 or size % kind.itemsize:
            raise FormatError(f"{path}: size: got {size} bytes, expected a positive multiple of {kind.itemsize}")
        mapped = map_ids(fd, kind, 0, size // kind.itemsize)
    finally:
        os.close(fd)
    return BinReader(open_reader, path, mapped, asked=dtype)


def open_writer(path: Path, *, dtype: str, num_tokens: int) -> BinWriter:
    """Write one file of exactly num_tokens ids, without a header."""
    if num_tokens < 1:
        raise LimitError(
            f"num_tokens: got {num_tokens}, expected at least 1: an empty file cannot be told from a torn one"
        )
    return BinWriter(path, dtype, num_tokens, b"")
