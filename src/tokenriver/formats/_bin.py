"""What the `.bin` formats share: ids in one run of a file behind a header of fixed size, or behind none.

A file is opened once: its size is taken from the open descriptor, checked against what it says about itself, and the
same descriptor is mapped. What the map shows is therefore what was checked. Devices, pipes and folders are refused.
"""

import mmap
import os
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tokenriver import files
from tokenriver.errors import FormatError, InputError, LimitError, MismatchError
from tokenriver.types import Ids, Int32, Int64

DTYPES: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
_ALIASES = {"u2": "uint16", "<u2": "uint16", "u4": "uint32", "<u4": "uint32"}

LLMC_HEADER_BYTES = 1024
LLMC_KINDS = {"uint16": (20240520, 1), "uint32": (20240801, 7)}
"""(magic, version) of llm.c's two shard flavours; its evaluation and tokenizer files carry others."""
LLMC_MAX_TOKENS = 2**31 - 1


Index = Callable[[Path, int], tuple[Int64, Int64, Int32]]
"""Opens the columns (ends, records, sources) of a shard's documents, given its path and number of ids."""


def id_dtype(name: str) -> np.dtype[Any]:
    """The little-endian dtype of a stored id; InputError for any name that is not exactly known."""
    short = name.removeprefix("numpy.").removeprefix("np.")
    dtype = DTYPES.get(_ALIASES.get(short, short))
    if dtype is None:
        raise InputError(f"dtype: got {name!r}, expected one of {', '.join(DTYPES)}")
    return dtype


def open_regular(path: Path) -> tuple[int, int]:
    """(descriptor, size) of a regular file; FormatError for anything else (a pipe is not waited for)."""
    with files.naming(path, "open"):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise FormatError(f"{path}: got {_kind(status.st_mode)}, expected a regular file")
    return fd, status.st_size


def _kind(mode: int) -> str:
    for test, name in ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket")):
        if test(mode):
            return name
    return "a device"


def map_array(fd: int, dtype: np.dtype[Any], offset: int, count: int) -> np.ndarray[Any, Any]:
    """(count,) values of an open file from byte `offset` on, mapped read-only; the caller has checked the size.
    The array keeps the map alive, so a view outlives its reader."""
    if count == 0:
        return np.empty(0, dtype)
    return np.frombuffer(mmap.mmap(fd, offset + count * dtype.itemsize, access=mmap.ACCESS_READ), dtype, count, offset)


@dataclass(frozen=True, slots=True)
class MappedIds:
    """The ids of a file, and the map that they are in."""

    ids: Ids
    mapping: mmap.mmap
    offset: int


def map_ids(fd: int, dtype: np.dtype[Any], offset: int, count: int) -> MappedIds:
    """The ids of an open file, mapped for windows here and there: the system is told not to read ahead, which around
    a window of 2 KiB would be megabytes. The caller has checked the size and that there are ids."""
    mapping = mmap.mmap(fd, offset + count * dtype.itemsize, access=mmap.ACCESS_READ)
    mapping.madvise(mmap.MADV_RANDOM)
    return MappedIds(np.frombuffer(mapping, dtype, count, offset), mapping, offset)


def llmc_header(num_tokens: int, dtype: str) -> bytes:
    """The 1024 bytes before the ids of an llm.c shard: magic, version, count, and zeros (formats.md, 1 and 2)."""
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


def map_llmc(path: Path, asked: str | None) -> MappedIds:
    """The ids of an llm.c shard, mapped; FormatError where the file is damaged or `asked` is not its dtype."""
    fd, size = open_regular(path)
    try:
        name, count = read_llmc_header(path, fd, size)
        if asked is not None and id_dtype(asked) != DTYPES[name]:
            raise FormatError(f"{path}: dtype: got {name} by its magic, expected {asked}; leave dtype out")
        return map_ids(fd, DTYPES[name], LLMC_HEADER_BYTES, count)
    finally:
        os.close(fd)


def _magics() -> str:
    return " or ".join(f"{magic} ({name})" for name, (magic, _) in LLMC_KINDS.items())


def _foreign(magic: int) -> str:
    known = {20240522: "an llm.c evaluation file", 20240328: "an llm.c tokenizer file"}
    return f"; this is {known[magic]}, not token ids" if magic in known else ""


def has_llmc_magic(path: Path) -> bool:
    """Does a regular file start with the magic of an llm.c shard of either width?"""
    try:
        fd, _ = open_regular(path)
    except (FormatError, InputError):
        return False
    try:
        head = os.pread(fd, 4, 0)
    finally:
        os.close(fd)
    return head in {struct.pack("<i", magic) for magic, _ in LLMC_KINDS.values()}


class BinReader:
    """One open `.bin` shard: ids (num_tokens,) mapped read-only; the columns of its documents, where the format has
    them, mapped and checked when first asked for. Pickles as the call that opened it."""

    def __init__(
        self,
        opener: Callable[..., Self],
        path: Path,
        mapped: MappedIds,
        index: Index | None = None,
        *,
        asked: str | None,
    ) -> None:
        self._opener, self._path, self._asked = opener, path, asked
        self._mapped: MappedIds | None = mapped
        self._index, self._columns = index, None
        self.num_tokens, self.dtype = len(mapped.ids), mapped.ids.dtype

    _columns: tuple[Int64, Int64, Int32] | None

    @property
    def ids(self) -> Ids:
        return np.empty(0, self.dtype) if self._mapped is None else self._mapped.ids

    def read_ahead(self, start: int, stop: int) -> None:
        """Have the system read the ids [start, stop) from the disk while others are looked at."""
        if self._mapped is not None and start < stop:
            begin, end = (self._mapped.offset + at * self.dtype.itemsize for at in (start, stop))
            begin -= begin % mmap.PAGESIZE
            self._mapped.mapping.madvise(mmap.MADV_WILLNEED, begin, end - begin)

    @property
    def doc_ends(self) -> Int64 | None:
        return self._documents()[0] if self._index else None

    @property
    def origins(self) -> tuple[Int64, Int32] | None:
        return self._documents()[1:] if self._index else None

    def _documents(self) -> tuple[Int64, Int64, Int32]:
        if self._columns is None:
            assert self._index is not None, "asked only of a format that has documents"
            self._columns = self._index(self._path, self.num_tokens)
        return self._columns

    def close(self) -> None:
        """Let go of the maps; arrays already handed out stay valid."""
        self._mapped = self._columns = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._opener, self._path, self._asked)


def _reopen(opener: Callable[..., BinReader], path: Path, asked: str | None) -> BinReader:
    return opener(path, dtype=asked)


class BinWriter:
    """Writes `head` and then exactly num_tokens ids of one dtype by the commit protocol; bounds of documents have no
    place in the file and are not kept."""

    def __init__(self, path: Path, dtype: str, num_tokens: int, head: bytes) -> None:
        self._dtype, self._expected, self._written = id_dtype(dtype), num_tokens, 0
        self._path, self._file = path, files.AtomicFile(path)
        try:
            self._file.write(head)
        except BaseException:
            self._file.discard()
            raise

    def write(self, ids: NDArray[np.integer[Any]], doc_ends: Int64 | None = None) -> None:
        """Append ids of any integer dtype; LimitError for one that the file's dtype cannot hold."""
        limit = int(np.iinfo(self._dtype).max)
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) <= limit:
            worst = int(ids.max()) if int(ids.max()) > limit else int(ids.min())
            raise LimitError(f"{self._path}: id: got {worst}, expected 0 to {limit} in {self._dtype.name}; use uint32")
        self._file.write(np.ascontiguousarray(ids, self._dtype).data)
        self._written += len(ids)

    def close(self) -> None:
        if self._written != self._expected:
            self._file.discard()
            raise MismatchError(f"{self._path}: ids written: got {self._written}, expected {self._expected}")
        self._file.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._file.discard()
