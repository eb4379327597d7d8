"""Files opened once and mapped: the size is taken from the open descriptor, checked against what the file says about
itself, and the same descriptor is mapped, so that what the map shows is what was checked. Devices, pipes and folders
are refused.
"""

import mmap
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver import files
from tokenriver.errors import FormatError, InputError

DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(name).newbyteorder("<")
    for name in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
}
_SHORT = {f"{kind}{size}": f"{word}{8 * size}" for kind, word in (("u", "uint"), ("i", "int")) for size in (1, 2, 4, 8)}


def id_dtype(name: str) -> np.dtype[Any]:
    """The little-endian dtype of a stored id; InputError for any name that is not exactly known."""
    short = name.removeprefix("numpy.").removeprefix("np.").removeprefix("<")
    dtype = DTYPES.get(_SHORT.get(short, short))
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


def regular_size(path: Path) -> int:
    """Size of a regular file that is not opened, for `find` over thousands of them; FormatError for anything else."""
    with files.naming(path, "open"):
        status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise FormatError(f"{path}: got {_kind(status.st_mode)}, expected a regular file")
    return status.st_size


def _kind(mode: int) -> str:
    for test, name in ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket")):
        if test(mode):
            return name
    return "a device"


def read_head(path: Path, count: int) -> bytes:
    """The first bytes of a regular file; b"" for anything else: for `sniff`, which never fails."""
    try:
        fd, _ = open_regular(path)
    except (FormatError, InputError):
        return b""
    try:
        return os.pread(fd, count, 0)
    finally:
        os.close(fd)


def map_array(fd: int, dtype: np.dtype[Any], offset: int, count: int) -> np.ndarray[Any, Any]:
    """(count,) values of an open file from byte `offset` on, mapped read-only; the caller has checked the size.
    The array keeps the map alive, so a view outlives its reader."""
    if count == 0:
        return np.empty(0, dtype)
    return np.frombuffer(mmap.mmap(fd, offset + count * dtype.itemsize, access=mmap.ACCESS_READ), dtype, count, offset)
