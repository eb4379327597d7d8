"""The one seam to the disk: every call that changes a file system goes through `system`, and every file that we
leave behind is written by the commit protocol: a temporary name in the same folder (`.NAME.tmp`), writes whose short
counts are checked, fsync of the file, rename, fsync of the folder. So a name either holds a complete file or does not
exist. Tests put a faulty system in place of `system` and let every call fail, write short, or be the last one before
the power went.
"""

import errno
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from tokenriver.errors import InputError, LimitError

CHUNK = 1 << 20
HURRY_BYTES = 8 << 20
"""Bytes after which the disk is asked to begin with them."""
NO_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
Buffer = bytes | bytearray | memoryview


class Digest(Protocol):
    """What a digest of hashlib or xxhash does."""

    def update(self, data: Buffer, /) -> None: ...
    def hexdigest(self) -> str: ...


class System:
    """The operating system's calls that change a disk; replaced as a whole in tests."""

    def open(self, path: Path, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, 0o644)

    def write(self, fd: int, data: memoryview) -> int:
        return os.write(fd, data)

    def copy(self, source_fd: int, target_fd: int, count: int, offset: int) -> int:
        """Append [offset, offset + count) of one file to another inside the kernel; bytes copied, 0 at the end."""
        try:
            return os.copy_file_range(source_fd, target_fd, count, offset)
        except (AttributeError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in NO_COPY:
                raise
            return os.write(target_fd, os.pread(source_fd, min(count, CHUNK), offset))

    def pwrite(self, fd: int, data: memoryview, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)
        os.lseek(fd, size, os.SEEK_SET)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def hurry(self, fd: int, start: int, count: int) -> None:
        """Let the disk begin with some bytes, so that there is less to wait for later: pages that are not written yet
        are not given up by this, they are written. A file system that knows no such wish does without."""
        with suppress(AttributeError, OSError):
            os.posix_fadvise(fd, start, count, os.POSIX_FADV_DONTNEED)

    def close(self, fd: int) -> None:
        os.close(fd)

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def mkdir(self, path: Path) -> None:
        os.mkdir(path)

    def rmdir(self, path: Path) -> None:
        os.rmdir(path)

    def free_bytes(self, folder: Path) -> int:
        status = os.statvfs(folder)
        return status.f_bavail * status.f_frsize


system = System()


@contextmanager
def naming(path: Path, doing: str) -> Iterator[None]:
    """Turn an OSError inside the block into the RiverError that names the path and the cure."""
    try:
        yield
    except OSError as error:
        text = f"{path}: cannot {doing}: {error.strerror or error}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise LimitError(f"{text}; free space (or raise the limit) and run the same command again") from error
        raise InputError(f"{text}; check the path and its permissions") from error


def temporary_name(path: Path) -> Path:
    """The name under which `path` is written; a dot file of the same folder, the same at every run."""
    return path.with_name(f".{path.name}.tmp")


class AtomicFile:
    """A file that appears under its name complete and on disk, or not at all.

    Use as a context manager: leaving the block commits, leaving it by an exception removes the temporary file.
    `num_bytes` and `sha256` describe what was written (sha256 only what went through `write`; another `digest`, if one
    is given, is told instead). One that is not `lasting` is not waited for: when the power is lost soon after, it may
    be gone or hold anything, so whoever reads it then must know its digest."""

    def __init__(self, path: Path, *, lasting: bool = True, digest: Digest | None = None) -> None:
        self.path = path
        self._lasting = lasting
        self.num_bytes = self._begun = 0
        self._hash = hashlib.sha256() if digest is None else digest
        self._temporary = temporary_name(path)
        with naming(path, "create"):
            self._fd = system.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def write(self, data: Buffer) -> None:
        """Append all of data (any C-contiguous buffer)."""
        self._hash.update(data)
        with naming(self.path, "write"):
            self.num_bytes += write_all(self._fd, data)
        self._hurry()

    def copy_from(self, source_fd: int, start: int, stop: int) -> None:
        """Append bytes [start, stop) of an open file, in the kernel where it can."""
        with naming(self.path, "write"):
            while start < stop:
                count = _progress(system.copy(source_fd, self._fd, stop - start, start))
                start += count
                self.num_bytes += count
        self._hurry()

    def _hurry(self) -> None:
        """Let the disk begin with what came, so that there is less to wait for in the end."""
        if self._lasting and self.num_bytes - self._begun >= HURRY_BYTES:
            with naming(self.path, "write"):
                system.hurry(self._fd, self._begun, self.num_bytes - self._begun)
            self._begun = self.num_bytes

    def release(self) -> None:
        """Let go of the descriptor for a while; what was written stays under the temporary name."""
        self.sync()
        fd, self._fd = self._fd, -1
        with naming(self.path, "write"):
            system.close(fd)

    def take_up(self) -> None:
        """Go on with a file that was released."""
        if self._fd < 0:
            with naming(self.path, "write"):
                self._fd = system.open(self._temporary, os.O_WRONLY)

    def cut(self, num_bytes: int) -> None:
        """Forget what lies behind the first num_bytes."""
        with naming(self.path, "write"):
            system.truncate(self._fd, num_bytes)
        self.num_bytes = num_bytes
        self._begun = min(self._begun, num_bytes)

    def patch(self, data: Buffer) -> None:
        """Overwrite the first bytes; short counts are an error, as data is small."""
        with naming(self.path, "write"):
            if system.pwrite(self._fd, memoryview(data), 0) != len(data):
                raise OSError(errno.EIO, "the system took only a part")

    def sync(self) -> None:
        """Wait until what was written is on the disk."""
        with naming(self.path, "write"):
            system.fsync(self._fd)

    def commit(self, *, synced: bool = False) -> None:
        """Give the file its name, complete and on disk; `synced`: nothing was written since `sync`."""
        if self._lasting and not synced:
            self.sync()
        with naming(self.path, "write"):
            fd, self._fd = self._fd, -1
            system.close(fd)
            system.replace(self._temporary, self.path)
        if self._lasting:
            sync_folder(self.path.parent)

    def discard(self) -> None:
        with suppress(OSError):
            if self._fd >= 0:
                fd, self._fd = self._fd, -1
                system.close(fd)
        with suppress(OSError):
            system.unlink(self._temporary)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.discard()
            return
        try:
            self.commit()
        except BaseException:
            self.discard()
            raise


def write_all(fd: int, data: Buffer) -> int:
    """Append all of data (any C-contiguous buffer), however little the system takes at a time; its bytes."""
    view = memoryview(data)
    view = view.cast("B") if view.nbytes else memoryview(b"")
    done = 0
    while done < len(view):
        done += _progress(system.write(fd, view[done:]))
    return done


def _progress(count: int) -> int:
    if count <= 0:
        raise OSError(errno.EIO, f"the system took {count} bytes")
    return count


def write_atomic(path: Path, data: Buffer, *, lasting: bool = True) -> None:
    """Write a small file by the commit protocol."""
    with AtomicFile(path, lasting=lasting) as file:
        file.write(data)


def sync_folder(folder: Path) -> None:
    """Make the names of a folder durable."""
    with naming(folder, "sync"):
        sync(folder)


def sync(path: Path) -> None:
    """Wait until what a path names is on the disk."""
    fd = system.open(path, os.O_RDONLY)
    try:
        system.fsync(fd)
    finally:
        system.close(fd)


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents, each name durable; an existing one is fine."""
    if path.is_dir():
        # whoever made it may have been killed before its name was on the disk
        if os.access(path.parent, os.R_OK):
            sync_folder(path.parent)
        return
    if path.parent != path:
        make_folder(path.parent)
    with naming(path, "create the folder"):
        try:
            system.mkdir(path)
        except FileExistsError:
            if not path.is_dir():
                raise
    sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a file of ours; a missing one is fine."""
    with naming(path, "remove"), suppress(FileNotFoundError):
        system.unlink(path)


def remove_folder(path: Path, *, last: Sequence[str] = ()) -> None:
    """Remove a folder of ours and the files in it (no folders inside), those of `last` after the others; a missing one
    is fine, and so is one in which somebody has just begun anew."""
    if not path.is_dir():
        return
    names = list_folder(path)
    for name in [*(name for name in names if name not in last), *(name for name in last if name in names)]:
        remove(path / name)
    with naming(path, "remove"):
        try:
            system.rmdir(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise


def list_folder(path: Path) -> list[str]:
    """Names in a folder, sorted by their bytes: no result depends on the disk's order."""
    with naming(path, "list"):
        return sorted(os.listdir(path), key=os.fsencode)
