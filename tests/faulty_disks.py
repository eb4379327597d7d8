"""Disks that fail: each takes the place of `tokenriver.files.system`, the one seam through which the package writes.

`FaultyDisk` lets one call go wrong. `RecordingDisk` notes every call, and `lost_power` says what a disk may hold when
the power went after any of them: what was not synced is there, lost, cut or zeros, and so are names.
"""

import errno
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from small_builds import QuickDisk


class Died(BaseException):
    """The process is no more: nothing may catch it, and no later call reaches the disk."""


DIE, SHORT, FULL, EIO = "die", "short", "full", "eio"


GROWING = ("create", "write", "pwrite", "copy", "truncate", "fsync", "mkdir")
"""Calls that need room on the disk."""


class FaultyDisk(QuickDisk):
    """Call number `at` (from 0) goes wrong: the process dies before it, it takes only a part of what it was given, the
    disk is full from there on, or it fails once."""

    def __init__(self, at: int = -1, fault: str = DIE) -> None:
        self.at = at
        self.fault = fault
        self.calls: list[str] = []
        self._dead = False

    @property
    def struck(self) -> bool:
        return 0 <= self.at < len(self.calls)

    def _call(self, name: str) -> None:
        number = len(self.calls)
        self.calls.append(name)
        if self.fault == DIE and (self._dead or number == self.at):
            self._dead = True
            raise Died
        if self.fault == FULL and 0 <= self.at <= number and name in GROWING:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.fault == EIO and number == self.at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _part(self, size: int) -> int:
        """How much of `size` bytes the call that was just counted takes."""
        return max(1, size // 2) if self.fault == SHORT and len(self.calls) - 1 == self.at else size

    def open(self, path: Path, flags: int) -> int:
        self._call("create" if flags & os.O_CREAT else "open")
        return super().open(path, flags)

    def write(self, fd: int, data: memoryview) -> int:
        self._call("write")
        return super().write(fd, data[: self._part(len(data))])

    def copy(self, source_fd: int, target_fd: int, count: int, offset: int) -> int:
        self._call("copy")
        return super().copy(source_fd, target_fd, self._part(count), offset)

    def pwrite(self, fd: int, data: memoryview, offset: int) -> int:
        self._call("pwrite")
        return super().pwrite(fd, data[: self._part(len(data))], offset)

    def truncate(self, fd: int, size: int) -> None:
        self._call("truncate")
        super().truncate(fd, size)

    def fsync(self, fd: int) -> None:
        self._call("fsync")
        super().fsync(fd)

    def close(self, fd: int) -> None:
        super().close(fd)  # a descriptor is closed in any case, as those of a dead process are
        self._call("close")

    def replace(self, source: Path, target: Path) -> None:
        self._call("replace")
        super().replace(source, target)

    def unlink(self, path: Path) -> None:
        self._call("unlink")
        super().unlink(path)

    def mkdir(self, path: Path) -> None:
        self._call("mkdir")
        super().mkdir(path)

    def rmdir(self, path: Path) -> None:
        self._call("rmdir")
        super().rmdir(path)

    def free_bytes(self, folder: Path) -> int:
        self._call("free_bytes")
        return super().free_bytes(folder)


class LyingDisk(QuickDisk):
    """Writing call number `at` to a part, a shard or an index says that all went well, and has changed one bit."""

    def __init__(self, at: int = -1) -> None:
        self.at = at
        self.calls = 0
        self._watched: set[int] = set()

    def open(self, path: Path, flags: int) -> int:
        fd = super().open(path, flags)
        (self._watched.add if path.name.endswith((".part.tmp", ".bin.tmp", ".docs.tmp")) else self._watched.discard)(fd)
        return fd

    def write(self, fd: int, data: memoryview) -> int:
        return super().write(fd, memoryview(self._lie(fd, bytes(data))))

    def copy(self, source_fd: int, target_fd: int, count: int, offset: int) -> int:
        return super().write(target_fd, memoryview(self._lie(target_fd, os.pread(source_fd, count, offset))))

    def pwrite(self, fd: int, data: memoryview, offset: int) -> int:
        return super().pwrite(fd, memoryview(self._lie(fd, bytes(data))), offset)

    def _lie(self, fd: int, data: bytes) -> bytes:
        if fd not in self._watched:
            return data
        self.calls += 1
        return data[:-1] + bytes([data[-1] ^ 1]) if self.calls - 1 == self.at else data


# ------------------------------------------------------------------------------------------------ lost power


@dataclass(frozen=True)
class Op:
    """One thing that happened to the disk: create, mkdir, unlink, rmdir, rename (a name), write (data at the end, or at
    a place), cut (to a size), sync (a file), or settle (the names of a folder are on the disk)."""

    kind: str
    path: str
    file: int = -1
    data: bytes = b""
    target: str = ""
    place: int = -1


@dataclass(frozen=True)
class Disk:
    """What a disk holds: folders, and files with their bytes, by path below the recorded folder."""

    folders: frozenset[str]
    files: tuple[tuple[str, bytes], ...]

    def write_to(self, root: Path) -> None:
        root.mkdir(parents=True)
        for folder in sorted(self.folders):
            (root / folder).mkdir(exist_ok=True)
        for name, data in self.files:
            (root / name).write_bytes(data)


class RecordingDisk(QuickDisk):
    """The real disk below `root`, with a log of what happened to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log: list[Op] = []
        self._names: dict[str, int] = {}
        self._open: dict[int, tuple[int, str]] = {}
        for path in sorted(root.rglob("*")):
            if path.is_file():
                self._names[self._name(path)] = len(self._names)

    def initial(self) -> Disk:
        """What lay there before the first call; to be asked before it."""
        folders = frozenset(self._name(path) for path in self.root.rglob("*") if path.is_dir())
        return Disk(folders, tuple((name, (self.root / name).read_bytes()) for name in self._names))

    def note(self, op: Op) -> None:
        self.log.append(op)

    def _name(self, path: Path) -> str:
        return os.path.relpath(path, self.root)

    def _next(self) -> int:
        return 1 + max(itertools.chain(self._names.values(), (op.file for op in self.log)), default=-1)

    def open(self, path: Path, flags: int) -> int:
        name = self._name(path)
        new = not path.exists()
        fd = super().open(path, flags)
        if flags & os.O_CREAT and new:
            number = self._next()
            self._names[name] = number
            self.note(Op("create", name, number))
        elif flags & os.O_TRUNC:
            self.note(Op("cut", name, self._names[name], place=0))
        self._open[fd] = (self._names.get(name, -1), name)
        return fd

    def write(self, fd: int, data: memoryview) -> int:
        count = super().write(fd, data)
        self.note(Op("write", "", self._open[fd][0], bytes(data[:count])))
        return count

    def copy(self, source_fd: int, target_fd: int, count: int, offset: int) -> int:
        done = super().copy(source_fd, target_fd, count, offset)
        self.note(Op("write", "", self._open[target_fd][0], os.pread(source_fd, done, offset)))
        return done

    def pwrite(self, fd: int, data: memoryview, offset: int) -> int:
        count = super().pwrite(fd, data, offset)
        self.note(Op("write", "", self._open[fd][0], bytes(data[:count]), place=offset))
        return count

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        self.note(Op("cut", "", self._open[fd][0], place=size))

    def fsync(self, fd: int) -> None:
        super().fsync(fd)
        number, name = self._open[fd]
        self.note(Op("sync", name, number) if number >= 0 else Op("settle", name))

    def close(self, fd: int) -> None:
        super().close(fd)
        self._open.pop(fd)

    def replace(self, source: Path, target: Path) -> None:
        super().replace(source, target)
        old, new = self._name(source), self._name(target)
        self._names[new] = self._names.pop(old)
        self.note(Op("rename", old, self._names[new], target=new))

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._names.pop(self._name(path))
        self.note(Op("unlink", self._name(path)))

    def mkdir(self, path: Path) -> None:
        super().mkdir(path)
        self.note(Op("mkdir", self._name(path)))

    def rmdir(self, path: Path) -> None:
        super().rmdir(path)
        self.note(Op("rmdir", self._name(path)))


@dataclass
class _Model:
    """A disk with what is on it for sure, and what happened since."""

    names: dict[str, int]
    folders: set[str]
    synced: dict[int, bytes]
    now: dict[int, bytearray]
    pending: dict[str, list[Op]] = field(default_factory=dict)
    """By folder: what happened to its names since they were settled."""

    def apply(self, op: Op) -> None:
        if op.kind == "write":
            place = op.place if op.place >= 0 else len(self.now[op.file])
            self.now[op.file][place : place + len(op.data)] = op.data
        elif op.kind == "cut":
            del self.now[op.file][op.place :]
        elif op.kind == "sync":
            self.synced[op.file] = bytes(self.now[op.file])
        elif op.kind == "settle":
            for one in self.pending.pop(_folder(f"{op.path}/x"), []):
                _rename(one, self.names, self.folders)
        else:
            if op.kind == "create":
                self.now[op.file], self.synced[op.file] = bytearray(), b""
            self.pending.setdefault(_folder(op.path), []).append(op)

    def states(self) -> Iterator[Disk]:
        """What may be found after the power went now."""
        choices = [[(folder, subset) for subset in _subsets(ops)] for folder, ops in self.pending.items()]
        for chosen in itertools.product(*choices):
            names, folders = dict(self.names), set(self.folders)
            for _, ops in sorted(chosen, key=lambda item: item[0].count("/")):
                for op in ops:
                    _rename(op, names, folders)
            there = {n: i for n, i in names.items() if _folder(n) in folders}
            for variant in range(4):
                files = tuple((name, self._content(number, variant)) for name, number in sorted(there.items()))
                yield Disk(frozenset(folders - {"."}), files)

    def _content(self, number: int, variant: int) -> bytes:
        synced, now = self.synced[number], bytes(self.now[number])
        if synced == now:
            return now
        keep = len(synced) if now.startswith(synced) else 0
        cut = keep + (len(now) - keep) // 2
        return (synced, now, now[:cut], now[:keep] + bytes(len(now) - keep))[variant]


def _folder(name: str) -> str:
    return os.path.normpath(os.path.dirname(name) or ".")


def _subsets(ops: list[Op]) -> list[list[Op]]:
    """Which of the pending changes of a folder reached the disk: none, all, the first, all but the last, the last."""
    found = [[], ops, ops[:1], ops[:-1], ops[-1:]]
    return [chosen for i, chosen in enumerate(found) if chosen not in found[:i]]


def _rename(op: Op, names: dict[str, int], folders: set[str]) -> None:
    """One change of a name, whether or not those before it happened."""
    if op.kind == "create":
        names[op.path] = op.file
    elif op.kind == "rename":
        names.pop(op.path, None)
        names[op.target] = op.file
    elif op.kind == "unlink":
        names.pop(op.path, None)
    elif op.kind == "mkdir":
        folders.add(op.path)
    elif op.kind == "rmdir":
        folders.discard(op.path)


def lost_power(initial: Disk, log: list[Op]) -> Iterator[tuple[int, Disk]]:
    """(calls before, disk) of every state in which the power may have left the disk, each once; `calls before` is the
    largest number of calls after which it can be found."""
    names = {name: number for number, (name, _) in enumerate(initial.files)}
    contents = {number: data for number, (_, data) in enumerate(initial.files)}
    model = _Model(names, {".", *initial.folders}, contents, {n: bytearray(data) for n, data in contents.items()})
    last: dict[Disk, int] = dict.fromkeys(model.states(), 0)
    for number, op in enumerate(log, 1):
        model.apply(op)
        last.update(dict.fromkeys(model.states(), number))
    yield from ((number, disk) for disk, number in last.items())
