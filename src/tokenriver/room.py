"""Is there room on the disk for files that come? Asked once for many small ones, and for each large one."""

import threading
from pathlib import Path

from tokenriver import files
from tokenriver.errors import LimitError

MOST = 256 << 20
"""Bytes after which a disk is asked again: others write to it too."""


def free_bytes(folder: Path) -> int:
    """Bytes that an ordinary user can still write below `folder` (or its nearest existing parent)."""
    while not folder.exists() and folder.parent != folder:
        folder = folder.parent
    with files.naming(folder, "ask for free space"):
        return files.system.free_bytes(folder)


class Room:
    """The room in some folders, shared by all threads."""

    def __init__(self) -> None:
        self._left: dict[Path, int] = {}
        """Bytes that can still be promised before the disk is asked again."""
        self._lock = threading.Lock()

    def take(self, path: Path, size: int) -> None:
        """Room for `size` bytes of a file; LimitError if there is not so much."""
        folder = path.parent
        with self._lock:
            left = self._left.get(folder, 0)
            if size > left:
                free = free_bytes(folder)
                if size > free:
                    raise LimitError(f"{path}: free space: got {free} bytes, expected {size}; free some and run again")
                left = max(size, min(free, MOST))
            self._left[folder] = left - size
