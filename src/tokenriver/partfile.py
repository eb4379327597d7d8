"""The beginning of a file that is being fetched: `.NAME.part`, and `.NAME.part.journal` beside it.

The journal's first line says of which version the bytes are, each later one how many of them are on the disk. Whoever
goes on takes no more than the journal vouches for: behind it, a machine that lost power may have left anything. The
file gets its name by the steps of files.py, complete and on disk, or never.
"""

import hashlib
import json
import os
from pathlib import Path

from tokenriver import files, rules
from tokenriver.errors import FormatError, InputError
from tokenriver.files import naming
from tokenriver.journal import Journal, read_lines

KEEP_BYTES = 64 << 20
"""Bytes after which what came is made to last."""
_HEAD: rules.Table = {
    "size": rules.or_none(rules.COUNT),
    "tag": ("a text", lambda value: isinstance(value, str)),
}
_KEPT: rules.Table = {"bytes": rules.COUNT}


def part_name(path: Path) -> Path:
    """Where the beginning of `path` lies; a dot file, which no input folder shows."""
    return path.with_name(f".{path.name}.part")


class PartFile:
    """The part of `path`, open for adding; takes up what an earlier run left. The caller holds its lock."""

    def __init__(self, path: Path) -> None:
        self.path, self.part = path, part_name(path)
        self._journal_path = self.part.with_name(f"{self.part.name}.journal")
        self._journal: Journal | None = None
        self.size: int | None = None
        self.tag = ""
        self.num_bytes = 0
        self._hash = hashlib.sha256()
        with naming(path, "create"):
            self._fd = files.system.open(self.part, os.O_RDWR | os.O_CREAT)
        try:
            self._take_up()
        except BaseException:
            self.close()
            raise
        self._kept = self.num_bytes

    @property
    def sha256(self) -> str:
        """Hex digest of the bytes so far."""
        return self._hash.hexdigest()

    def forget(self) -> None:
        """Go back to nothing."""
        self._drop_journal()
        with naming(self.path, "write"):
            files.system.truncate(self._fd, 0)
        self.size, self.tag, self.num_bytes, self._kept = None, "", 0, 0
        self._hash = hashlib.sha256()

    def begin(self, size: int | None, tag: str) -> None:
        """Forget what is there: bytes of this version come, from the first one on."""
        self.forget()
        self.size, self.tag = size, tag
        self._journal = Journal(self._journal_path)
        self._journal.add(json.dumps({"size": size, "tag": tag}).encode())

    def write(self, data: bytes) -> None:
        """Add bytes."""
        view, done = memoryview(data), 0
        with naming(self.path, "write"):
            while done < len(view):
                count = files.system.write(self._fd, view[done:])
                if count <= 0:
                    raise OSError(f"the system took {count} bytes")
                done += count
        self._hash.update(data)
        self.num_bytes += len(data)
        if self.num_bytes - self._kept >= KEEP_BYTES:
            self.keep()

    def keep(self) -> None:
        """Make what came last, whatever happens from here on."""
        if self._journal is None or self.num_bytes == self._kept:
            return
        with naming(self.path, "write"):
            files.system.fsync(self._fd)
        self._journal.add(json.dumps({"bytes": self.num_bytes}).encode(), sync=True)
        self._kept = self.num_bytes

    def commit(self) -> None:
        """Give the file its name, complete and on disk."""
        with naming(self.path, "write"):
            files.system.fsync(self._fd)
            files.system.replace(self.part, self.path)
        files.sync_folder(self.path.parent)
        self._drop_journal()
        self.close()

    def discard(self) -> None:
        """Remove what is there."""
        self._drop_journal()
        files.remove(self.part)
        self.close()

    def close(self) -> None:
        """Let go of the part; it stays if it holds something."""
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with naming(self.path, "write"):
                files.system.close(fd)

    def _take_up(self) -> None:
        if not self._journal_path.exists():
            return
        try:
            head, kept = _read_journal(self._journal_path)
        except (FormatError, InputError):
            return  # nothing vouches for the bytes: `begin` forgets them
        if os.fstat(self._fd).st_size < kept:
            return
        self.size, self.tag = head
        with naming(self.path, "write"):
            files.system.truncate(self._fd, kept)
        with naming(self.path, "read"):
            while self.num_bytes < kept:
                data = os.pread(self._fd, min(files.CHUNK, kept - self.num_bytes), self.num_bytes)
                if not data:
                    raise OSError("the part became shorter while it was read")
                self._hash.update(data)
                self.num_bytes += len(data)
        self._journal = Journal(self._journal_path)

    def _drop_journal(self) -> None:
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()
        files.remove(self._journal_path)


def _read_journal(path: Path) -> tuple[tuple[int | None, str], int]:
    """((size, tag), bytes that are on the disk)."""
    rows = []
    for line in read_lines(path):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise FormatError(f"{path}: got a line that is no JSON, expected an object") from error
    if not rows:
        raise FormatError(f"{path}: got no line, expected one that names the version")
    head = rules.check(path, "version", rows[0], _HEAD)
    kept = [rules.check(path, "kept", row, _KEPT)["bytes"] for row in rows[1:]]
    return (head["size"], head["tag"]), kept[-1] if kept else 0
