"""Files that grow by whole lines: a journal is added to while a run goes on, and read at any time.

A line is one write behind all others. What was cut off by the end of a process or of a machine is the last line alone;
readers leave it out, and the next writer takes it off.
"""

import errno
import os
from pathlib import Path

from tokenriver import files
from tokenriver.files import naming

TAIL = 1 << 16


class Journal:
    """One file, open for adding; made if it is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with naming(path, "write"):
            self._fd = files.system.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            size = os.fstat(self._fd).st_size
            whole = _whole(self._fd, size)
            if whole < size:
                files.system.truncate(self._fd, whole)
        self._size = whole

    def add(self, line: bytes, *, sync: bool = False) -> None:
        """Add one line (without its end); in the hands of the system when this returns, with `sync` on the disk."""
        data = memoryview(line + b"\n")
        with naming(self.path, "write"):
            try:
                if files.system.write(self._fd, data) != len(data):
                    raise OSError(errno.EIO, "the system took only a part of a line")
                if sync:
                    files.system.fsync(self._fd)
            except OSError:
                # whoever goes on in spite of the error must not write behind half a line
                files.system.truncate(self._fd, self._size)
                raise
        self._size += len(data)

    def close(self) -> None:
        with naming(self.path, "write"):
            files.system.close(self._fd)


def read_lines(path: Path) -> list[bytes]:
    """The whole lines of a journal; a last one that was cut off is left out. InputError if it cannot be read."""
    with naming(path, "read"):
        return path.read_bytes().split(b"\n")[:-1]


def _whole(fd: int, size: int) -> int:
    """Length of a file up to the end of its last whole line."""
    end = size
    while end > 0:
        start = max(0, end - TAIL)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
