"""A plan on disk: the rows of a packing as one mapped file, shared by all processes of a machine.

Its name is the digest of what determines it: the packing, its options, and where every document of the river ends.
`plans/<digest>.npy` is one column of little-endian int64, which numpy.load reads:

    word             content
    0                b"TRPLAN01"
    1 to 4           the digest
    5, 6             seq_len, ids of the river
    7, 8             R rows, S spans
    9 to 12          sha256 of the words from 16 on
    16               S pairs: river position of a span's first id, ids of the span
    16 + 2 * S       R: spans of this row and all before it

A plan can be made again at any time, so one that is damaged is planned anew, with a warning. Of several processes that
plan at once one writes, and they all would write the same bytes.
"""

import hashlib
import mmap
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tokenriver import files
from tokenriver.errors import FormatError, RiverError
from tokenriver.locks import hold_lock
from tokenriver.packing._table import Table, join
from tokenriver.types import Int64

MAGIC = b"TRPLAN01"
LOCK_NAME = ".lock"
STORED_FROM = 1 << 20
"""From so many documents on a plan is kept without being asked for; below, planning takes a few seconds at most."""
_HEAD_WORDS = 16
_HEAD_BYTES = 128
"""Of the `.npy` header."""
_CHECKED_ROWS = 1 << 20
Blocks = Callable[[], Iterator[Table]]


@dataclass(frozen=True, slots=True)
class Planned:
    """Rows of several spans each, looked up in a table: what a packing with a plan gives (types.Packing)."""

    seq_len: int
    tag: str
    table: Table
    balance: Mapping[str, int]
    num_targets: int
    """Positions with loss of an epoch."""
    plan: Path | None = None
    """Where the plan lies, if it is mapped from a file."""
    chained: bool = False
    windows: bool = False

    def __len__(self) -> int:
        return len(self.table)

    @property
    def padding(self) -> int:
        """Positions of an epoch that no id fills."""
        return len(self) * self.seq_len - self.num_targets

    def spans(self, rows: Int64, epoch: int) -> tuple[Int64, Int64, Int64]:
        """(row, start, stop) of the spans of k rows, each (m,) int64; `row` indexes into `rows`."""
        return self.table.spans(rows)

    def runs(self, rows: Int64) -> tuple[Int64, Int64, Int64] | None:
        """The spans of k rows as runs, as course.Runs has them; None where only `spans` gives them."""
        return self.table.runs(rows, self.seq_len + self.chained, chained=self.chained)

    def starts(self, rows: Int64, epochs: Int64) -> Int64:
        """River position of each row's first id, (k,) int64."""
        return self.table.starts[self.table.firsts(rows)]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What determines a plan, and what has to hold of it."""

    name: str
    """The packing and all its options."""
    seq_len: int
    ends: Int64
    num_targets: int | None
    """Of all rows, where that is known beforehand; None where every row is full and chained."""

    @property
    def num_tokens(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def digest(self) -> bytes:
        """sha256 of the name and of the documents' ends."""
        digest = hashlib.sha256(f"tokenriver plan 1\n{self.name}\n".encode())
        digest.update(np.ascontiguousarray(self.ends, "<i8").data)
        return digest.digest()


def planned(wanted: Wanted, folder: Path | None, blocks: Blocks, *, insist: bool) -> tuple[Table, Path | None]:
    """The plan of a folder, or the one that blocks make, which is kept there for many documents or if the caller
    insists; and where it lies. Failing to keep it is a warning, unless the caller insists."""
    many = len(wanted.ends) >= STORED_FROM
    if folder is None or not (insist or many or folder.is_dir()):
        return join(blocks()), None
    digest = wanted.digest()
    path = folder / f"{digest.hex()}.npy"
    try:
        if os.path.lexists(path):
            return _read(path, wanted, digest), path
    except RiverError as error:
        warnings.warn(f"{error}; the rows are planned anew", stacklevel=5)
    try:
        # nobody has to be told that a corpus on a read-only disk stays as it is
        if (insist or (many and _writable(folder))) and _store(path, wanted, digest, blocks):
            return _read(path, wanted, digest), path
    except RiverError as error:
        if insist:
            raise
        warnings.warn(f"{error}; the plan is kept in memory", stacklevel=5)
    return join(blocks()), None


def _writable(folder: Path) -> bool:
    return os.access(folder if folder.is_dir() else folder.parent, os.W_OK)


def _store(path: Path, wanted: Wanted, digest: bytes, blocks: Blocks) -> bool:
    """Write a plan, block by block; False if another process is at it."""
    files.make_folder(path.parent)
    with hold_lock(path.parent / LOCK_NAME) as held:
        if held:
            with files.AtomicFile(path) as file:
                file.write(bytes(_HEAD_BYTES + 8 * _HEAD_WORDS))
                body, spans, row_ends = hashlib.sha256(), 0, [np.empty(0, np.int64)]
                for block in blocks():
                    data = np.stack([block.starts, block.sizes], axis=1).astype("<i8").data
                    file.write(data)
                    body.update(data)
                    row_ends.append(block.row_ends + spans)
                    spans += len(block.starts)
                last = np.concatenate(row_ends).astype("<i8")
                file.write(last.data)
                body.update(last.data)
                file.patch(_head(wanted, digest, (len(last), spans), body.digest()))
            files.remove(path.parent / LOCK_NAME)
    return held


def _head(wanted: Wanted, digest: bytes, counts: tuple[int, int], body: bytes) -> bytes:
    """The `.npy` header and the first 16 words."""
    rows, spans = counts
    shape = _HEAD_WORDS + 2 * spans + rows
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({shape},), }}".ljust(_HEAD_BYTES - 11) + "\n"
    numbers = np.array([wanted.seq_len, wanted.num_tokens, rows, spans], "<i8").tobytes()
    head = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
    return (head + MAGIC + digest + numbers + body).ljust(_HEAD_BYTES + 8 * _HEAD_WORDS, b"\0")


def _read(path: Path, wanted: Wanted, digest: bytes) -> Table:
    """A mapped plan, all of it checked; FormatError for one that is damaged or another."""
    with files.naming(path, "read"):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        head = os.pread(fd, _HEAD_BYTES + 8 * _HEAD_WORDS, 0) if stat.S_ISREG(status.st_mode) else b""
        rows, spans = (int.from_bytes(head[at : at + 8], "little", signed=True) for at in (184, 192))
        body = head[200:232]
        if head != _head(wanted, digest, (max(0, rows), max(0, spans)), body):
            raise FormatError(f"{path}: header: got another one, expected that of the plan {digest.hex()[:16]}")
        size = len(head) + 8 * (2 * spans + rows)
        if status.st_size != size:
            raise FormatError(f"{path}: size: got {status.st_size} bytes, expected {size} for {rows} rows")
        words = np.frombuffer(mmap.mmap(fd, size, prot=mmap.PROT_READ), "<i8", 2 * spans + rows, len(head))
    finally:
        os.close(fd)
    found = hashlib.sha256(words.data)
    if found.digest() != body:
        raise FormatError(f"{path}: sha256: got {found.hexdigest()}, expected {body.hex()}")
    pairs = words[: 2 * spans].reshape(spans, 2)
    table = Table(words[2 * spans :], pairs[:, 0], pairs[:, 1])
    _check(path, table, wanted)
    return table


def _check(path: Path, table: Table, wanted: Wanted) -> None:
    """Every span lies in the river, every row in seq_len, and all targets are there or every row is full."""
    targets = before = 0
    full = wanted.num_targets is None
    spare, room = (0, wanted.seq_len + 1) if full else (1, wanted.seq_len)
    for at in range(0, len(table), _CHECKED_ROWS):
        ends = table.row_ends[at : at + _CHECKED_ROWS]
        # compared, not subtracted: a difference of hostile numbers can wrap round to a good one
        rising = before < ends[0] and bool((ends[1:] > ends[:-1]).all()) and ends[-1] <= len(table.starts)
        if not rising:
            raise FormatError(f"{path}: spans of rows: got some that do not rise, expected each row to have one")
        starts, sizes = (column[before : int(ends[-1])] for column in (table.starts, table.sizes))
        fits = (sizes > spare) & (sizes <= wanted.seq_len + 1) & (starts >= 0) & (starts <= wanted.num_tokens - sizes)
        filled = np.add.reduceat(np.where(fits, sizes - spare, 0), np.append(0, ends[:-1] - before))
        if not fits.all() or int(filled.max()) > room or (full and int(filled.min()) < room):
            raise FormatError(f"{path}: spans: got one outside the river or its row, expected none")
        targets, before = targets + int(filled.sum()), int(ends[-1])
    if before != len(table.starts) or not (full or targets == wanted.num_targets):
        raise FormatError(f"{path}: targets: got {targets}, expected {wanted.num_targets}, those of the corpus")
