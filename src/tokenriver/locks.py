"""A lock file keeps two builds out of one folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tokenriver import files


@contextmanager
def hold_lock(path: Path) -> Iterator[bool]:
    """Hold a lock file for as long as the block lasts; False if another process holds it. It dies with the process."""
    with files.naming(path, "lock"):
        fd = files.system.open(path, os.O_RDWR | os.O_CREAT)
    try:
        yield lock(fd, path) is not None
    finally:
        os.close(fd)


def lock(fd: int, path: Path) -> os.stat_result | None:
    """Hold the open file `path` until it is closed, and tell of it; None if another process holds it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # whoever held it may have removed it meanwhile: then it keeps nobody out
        held = os.fstat(fd)
        return held if os.path.samestat(held, os.stat(path)) else None
    except OSError:
        return None
