"""llm.c's header, which two formats share: 256 int32, then the ids (formats.md, sections 1 and 2)."""

import os
import struct
from pathlib import Path

from tokenriver.errors import FormatError, LimitError
from tokenriver.formats._mapping import DTYPES, id_dtype, open_regular, read_head
from tokenriver.formats._reader import Flat

LLMC_HEADER_BYTES = 1024
LLMC_KINDS = {"uint16": (20240520, 1), "uint32": (20240801, 7)}
"""(magic, version) of llm.c's two shard flavours; its evaluation and tokenizer files carry others."""
LLMC_MAX_TOKENS = 2**31 - 1


def llmc_header(num_tokens: int, dtype: str) -> bytes:
    """The 1024 bytes before the ids of an llm.c shard: magic, version, count, and zeros."""
    if not 0 < num_tokens <= LLMC_MAX_TOKENS:
        raise LimitError(
            f"num_tokens: got {num_tokens}, expected 1 to {LLMC_MAX_TOKENS} in one llm.c shard; cut shards"
        )
    return struct.pack("<3i", *LLMC_KINDS[dtype], num_tokens).ljust(LLMC_HEADER_BYTES, b"\0")


def read_llmc_header(path: Path, fd: int, size: int) -> tuple[str, int]:
    """(dtype name, num_tokens) of an open llm.c shard, every field checked against the file's size."""
    head = os.pread(fd, 12, 0)
    if size < LLMC_HEADER_BYTES or len(head) < 12:
        raise FormatError(f"{path}: size: got {size} bytes, expected a header of {LLMC_HEADER_BYTES} bytes and ids")
    magic, version, count = struct.unpack("<3i", head)
    dtype = next((name for name, kind in LLMC_KINDS.items() if kind[0] == magic), None)
    if dtype is None:
        raise FormatError(f"{path}: magic at byte 0: got {magic}, expected {_magics()}{_foreign(magic)}")
    if version != LLMC_KINDS[dtype][1]:
        raise FormatError(f"{path}: version at byte 4: got {version}, expected {LLMC_KINDS[dtype][1]}")
    if count <= 0:
        raise FormatError(f"{path}: number of ids at byte 8: got {count}, expected at least 1")
    expected = LLMC_HEADER_BYTES + count * DTYPES[dtype].itemsize
    if size != expected:
        raise FormatError(f"{path}: size: got {size} bytes, expected {expected} ({count} {dtype} ids after the header)")
    return dtype, count


def map_llmc(path: Path, asked: str | None) -> Flat:
    """The ids of an llm.c shard, mapped; FormatError where the file is damaged or `asked` is not its dtype."""
    fd, size = open_regular(path)
    try:
        name, count = read_llmc_header(path, fd, size)
        if asked is not None and id_dtype(asked) != DTYPES[name]:
            raise FormatError(f"{path}: dtype: got {name} by its magic, expected {asked}; leave dtype out")
        return Flat(fd, DTYPES[name], LLMC_HEADER_BYTES, count)
    finally:
        os.close(fd)


def _magics() -> str:
    return " or ".join(f"{magic} ({name})" for name, (magic, _) in LLMC_KINDS.items())


def _foreign(magic: int) -> str:
    known = {20240522: "an llm.c evaluation file", 20240328: "an llm.c tokenizer file"}
    return f"; this is {known[magic]}, not token ids" if magic in known else ""


def has_llmc_magic(path: Path) -> bool:
    """Does a regular file start with the magic of an llm.c shard of either width?"""
    return read_head(path, 4) in {struct.pack("<i", magic) for magic, _ in LLMC_KINDS.values()}
