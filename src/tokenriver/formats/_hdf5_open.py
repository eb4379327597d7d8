"""An HDF5 file, open while its structure is read; afterwards no handle is left for a fork to share."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from h5py import h5f, h5p

from tokenriver.errors import FormatError
from tokenriver.formats import _hdf5_head
from tokenriver.formats._hdf5_head import CURE
from tokenriver.formats._hdf5_messages import OutsideError
from tokenriver.formats._mapping import map_array, open_regular
from tokenriver.storage import bytes_of

UNREADABLE = (OSError, RuntimeError, ValueError, LookupError, TypeError, MemoryError, OverflowError)
"""All that h5py makes of an error of the library."""


@dataclass(frozen=True, slots=True)
class File:
    """The same file three ways: a descriptor, its bytes mapped, and the library's handle."""

    path: Path
    fd: int
    view: memoryview
    handle: h5f.FileID


@contextmanager
def library(path: Path, doing: str) -> Iterator[None]:
    """Turn any error of the C library, or of our own look at the bytes, inside the block into a FormatError."""
    try:
        yield
    except OutsideError as error:
        raise FormatError(f"{path}: {doing}: got {error}; the file is damaged: {CURE}") from error
    except UNREADABLE as error:
        reason = " ".join(str(error).split())[:200]
        raise FormatError(f"{path}: {doing}: got {reason!r} from the HDF5 library; it is damaged: {CURE}") from error


@contextmanager
def opened(path: Path) -> Iterator[File]:
    """A file, open for the block: its superblock has been looked at, and the library has the very same file, read only
    and without locks (some network disks have none; whether a writer is at work stands in the superblock)."""
    fd, size = open_regular(path)
    try:
        _hdf5_head.check_head(path, os.pread(fd, _hdf5_head.HEAD_BYTES, 0), size)
        access = h5p.create(h5p.FILE_ACCESS)
        access.set_fclose_degree(h5f.CLOSE_STRONG)
        access.set_file_locking(False, True)
        with library(path, "open"):
            file = h5f.open(os.fsencode(path), h5f.ACC_RDONLY, fapl=access)
        try:
            if not os.path.samestat(os.fstat(file.get_vfd_handle()), os.fstat(fd)):
                raise FormatError(f"{path}: got another file at the second look, expected one that stays; try again")
            yield File(path, fd, bytes_of(map_array(fd, np.dtype(np.uint8), 0, size)), file)
        finally:
            file.close()
    finally:
        os.close(fd)
