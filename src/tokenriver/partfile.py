"""The beginning of a file that is being fetched: `.NAME.part`, and `.NAME.part.journal` beside it.

The journal's first line says of which version the bytes are, each later one how many of them are on the disk. Whoever
goes on takes no more than the journal vouches for: behind it, a machine that lost power may have left anything. There
is none until there is something to vouch for, so most small files never have one. The file gets its name by the steps
of files.py, complete and on disk, or never.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from tokenriver import files, rules
from tokenriver.errors import FormatError, InputError, MismatchError
from tokenriver.files import naming
from tokenriver.journal import Journal, read_lines
from tokenriver.locks import lock

KEEP_BYTES = 64 << 20
"""Bytes after which what came is made to last."""
_HEAD: rules.Table = {
    "size": rules.or_none(rules.COUNT),
    "tag": ("a text", lambda value: isinstance(value, str)),
}
_KEPT: rules.Table = {"bytes": rules.COUNT}


def part_name(path: Path) -> Path:
    """Where the beginning of `path` lies; a dot file, which no input folder shows."""
    return path.parent / f".{path.name}.part"


class PartFile:
    """The part of `path`, open for adding and locked; takes up what an earlier run left. InputError if another process
    has it."""

    def __init__(self, path: Path) -> None:
        self.path, self.part = path, part_name(path)
        self._journal: Journal | None = None
        self.size: int | None = None
        self.tag = ""
        self.num_bytes = self._kept = self._begun = 0
        self._named = self._lost = False
        self._left = False
        """Is there a journal of an earlier run?"""
        self._empty = False
        """Does the part hold no byte at all?"""
        self._hash = hashlib.sha256()
        with naming(path, "create"):
            self._fd = files.system.open(self.part, os.O_RDWR | os.O_CREAT)
        try:
            held = lock(self._fd, self.part)
            if held is None:
                raise InputError(f"{path}: is being fetched by another process; wait for it, then run again")
            self._empty = held.st_size == 0
            self._take_up()
        except BaseException:
            self.close()
            raise
        self._kept = self._begun = self.num_bytes

    @property
    def _journal_path(self) -> Path:
        return Path(f"{self.part}.journal")

    @property
    def sha256(self) -> str:
        """Hex digest of the bytes so far."""
        return self._hash.hexdigest()

    def forget(self) -> None:
        """Go back to nothing."""
        self._drop_journal()
        if not self._empty:
            with naming(self.path, "write"):
                files.system.truncate(self._fd, 0)
            self._empty = True
        self.size, self.tag, self.num_bytes, self._kept, self._begun = None, "", 0, 0, 0
        self._hash = hashlib.sha256()

    def begin(self, size: int | None, tag: str) -> None:
        """Forget what is there: bytes of this version come, from the first one on."""
        self.forget()
        self.size, self.tag = size, tag

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self._empty = False
        with naming(self.path, "write"):
            files.write_all(self._fd, data)
        self._hash.update(data)
        self.num_bytes += len(data)
        if self.num_bytes - self._begun >= files.HURRY_BYTES:
            self.hurry()
        if self.num_bytes - self._kept >= KEEP_BYTES:
            self.keep()

    def hurry(self) -> None:
        """Let the disk begin with what came, so that there is less to wait for in the end."""
        with naming(self.path, "write"):
            files.system.hurry(self._fd, self._begun, self.num_bytes - self._begun)
        self._begun = self.num_bytes

    def keep(self) -> None:
        """Make what came last, whatever happens from here on."""
        if self.num_bytes == self._kept:
            return
        self._sync()
        if self._journal is None:
            self._journal = Journal(self._journal_path)
            self._journal.add(json.dumps({"size": self.size, "tag": self.tag}).encode())
        self._journal.add(json.dumps({"bytes": self.num_bytes}).encode(), sync=True)
        self._kept = self.num_bytes

    def set_aside(self, error: BaseException) -> None:
        """Let go of it before it is whole: what came is kept, unless it is wrong; of nothing, nothing stays."""
        try:
            if self._named:
                return
            if isinstance(error, MismatchError) or not (self._kept if self._lost else self.num_bytes):
                self.discard()
            elif not self._lost:
                self.keep()
        finally:
            self.close()

    def _sync(self) -> None:
        # after an fsync that failed the next one may say that all is well: what the journal vouches for is all there is
        self._lost = True
        with naming(self.path, "write"):
            files.system.fsync(self._fd)
        self._lost = False

    def discard(self) -> None:
        """Remove what is there."""
        self._drop_journal()
        files.remove(self.part)
        self.close()

    def close(self) -> None:
        """Let go of the part; it stays if it holds something."""
        journal, self._journal = self._journal, None
        fd, self._fd = self._fd, -1
        try:
            if journal is not None:
                journal.close()
        finally:
            if fd >= 0:
                with naming(self.path, "write"):
                    files.system.close(fd)

    def _take_up(self) -> None:
        self._left = self._journal_path.exists()
        if not self._left:
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
        if journal is not None or self._left:
            files.remove(self._journal_path)
            self._left = False


def commit(parts: Sequence[PartFile]) -> None:
    """Give whole files their names, complete and on disk; the wait for the names of a folder is one for all of them.
    At an error some may have theirs; `set_aside` knows which."""
    for part in parts:
        part._sync()
    for part in parts:
        with naming(part.path, "write"):
            files.system.replace(part.part, part.path)
        part._named = True
    for folder in dict.fromkeys(part.path.parent for part in parts):
        files.sync_folder(folder)
    for part in parts:
        part._drop_journal()
        part.close()


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
