"""Shards on disk: what a reader of one offers, what a writer of one is given, and the contract of a format.

Values are frozen dataclasses, contracts are Protocols; ids and documents travel as columns.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tokenriver.extents import Extents
from tokenriver.types import Ids, Int32, Int64

BLOCK_IDS = 1 << 20
UNKNOWN = -1
"""Source number of a document that came from nowhere that is known."""

Columns = tuple[Int64, Int64, Int32]
"""(ends, records, sources) of some documents; ends are positions of the flow."""


class ShardReader(Protocol):
    """One open shard. Opening has checked header, sizes and counts against the file; ids are mapped where they can be,
    not loaded. Readers pickle as the call that opened them, and are safe to use after a fork."""

    @property
    def num_tokens(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def doc_ends(self) -> Int64 | None:
        """(num_documents,) exclusive end of each document in this shard, never falling; None where there are no bounds.
        Ids behind the last end belong to a document that ends in a later shard (only a sidecar index has such)."""

    @property
    def origins(self) -> tuple[Int64, Int32] | None:
        """(records, sources), both (num_documents,): raw row and input of each document, mapped; None where the format
        does not keep them."""

    @property
    def ids(self) -> Ids | None:
        """(num_tokens,) all ids, mapped read-only; None where they do not lie in one run of a file."""

    @property
    def extents(self) -> Extents | None:
        """Where all ids lie in a mapped file; None where they are decoded."""

    def read(self, start: int, stop: int) -> Ids:
        """The ids [start, stop), a view where that is possible; the caller has checked the range."""

    def windows(self, starts: Int64, n: Int64 | int) -> list[memoryview]:
        """The bytes of the ids [s, s + n) of each start (and each n, if they differ), in one piece or several, one
        window after another; the caller has checked that all lie in the shard."""

    def read_ahead(self, start: int, stop: int) -> None:
        """Say that the ids [start, stop) of the shard are read next, in order."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A shard as its format's own index tells of it; None is what only opening the file can tell."""

    path: Path
    dtype: str | None = None
    num_tokens: int | None = None
    num_documents: int | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """One split of a corpus that is to be written in a format."""

    name: str
    """First word of the file names: letters, digits, `.`, `_` and `-`."""
    split: str
    dtype: str
    """How ids are stored; one of the format's DTYPES."""
    shards: int
    """How many shards there will be."""
    tokenizer: str | None
    """Its name, never a path; None if it is not known. So with the rest."""
    vocab_size: int | None
    bos_id: int | None
    eos_id: int | None
    sources: Sequence[str]
    """Paths of the inputs, for formats that keep them; numbers of Content.origins point here."""
    layout: str = ""
    """A variant of the format by name; "" is the module's usual one."""


@dataclass(frozen=True, slots=True)
class Content:
    """What goes into one shard. Each call of a column starts it anew, so that a writer may pass over it several times;
    a block holds at most a few million values."""

    num_tokens: int
    """At least 1."""
    num_documents: int
    """Entries of `ends`; at least 1 (without known bounds a shard is one document)."""
    ids: Callable[[], Iterator[Ids]]
    """Blocks of ids: contiguous, of the target's dtype, each inside its range."""
    ends: Callable[[], Iterator[Int64]]
    """Blocks of exclusive document ends in ids of this shard, never falling (an empty document repeats its neighbour's
    end), the last one num_tokens: a document that goes on in the next shard is closed here."""
    origins: Callable[[], Iterator[tuple[Int64, Int32]]] | None
    """Blocks of (records, sources), one entry a document; None if they are not known."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that was written and committed: its path, size in bytes and sha256 (hex)."""

    path: Path
    num_bytes: int
    sha256: str


class Format(Protocol):
    """What a module of formats/ offers. More is asked for where it is there: `vocab_size(path)`, what a file beside a
    shard says of its vocabulary; `audit(folder)`, FormatErrors for damage that only a full look shows;
    `passed_over(path)`, what a file holds that a river of ids has no place for; `LOSS_MASKS`, true where a mask may
    lie beside a shard; `SAMPLES`, true where trainers take the documents of the format one by one;
    `open_loss_mask(path)`, a reader of a file's own weights, 0 or 1 an id, or None; `row_length` of a file whose ids
    lie in rows, or None."""

    @property
    def SUFFIX(self) -> str:
        """Name ending of a shard's own file."""

    @property
    def STORES(self) -> frozenset[str]:
        """Of {"doc_ends", "dtype", "count"}: what a file of this format says about itself."""

    def sniff(self, path: Path) -> bool:
        """Cheap and sure: is this file, or this folder as a whole, of the format? By magic bytes, by a companion file,
        by an index file. False, never an error, for what is damaged beyond recognition, absent or no regular file."""

    def find(self, path: Path) -> list[ShardFile]:
        """The shards of a file or a folder, in river order: by the format's own index file where it has one (checked:
        no path may leave its folder), else by the byte order of the names. FormatError if there are none."""

    def open_reader(self, path: Path, *, dtype: str | None = None) -> ShardReader:
        """Raises FormatError with path, offset, value and expectation; also when `dtype` is not what the file says."""

    @property
    def DTYPES(self) -> tuple[str, ...]:
        """What ids can be stored as, the usual one first; () if the format is read only."""

    @property
    def SHARD_TOKENS(self) -> int | None:
        """Ids in a shard when nobody asks for a number; None writes one shard a split."""

    @property
    def MAX_SHARD_TOKENS(self) -> int:
        """The most ids that one shard can hold."""

    @property
    def SPLIT_FOLDERS(self) -> bool:
        """Does each split need a folder of its own (index files and fixed names)? Else names hold the split."""

    def check(self, target: Target, shards: Sequence[Content]) -> None:
        """LimitError, with the number and the cure, for what the format cannot hold; called before anything is
        written. Ids and MAX_SHARD_TOKENS have been checked."""

    def file_name(self, target: Target, number: int) -> str:
        """The name of a shard's own file; number counts from 0."""

    def write(self, path: Path, content: Content, target: Target) -> list[WrittenFile]:
        """Write one shard by the commit protocol: the shard's own file (path) first in the answer, then those that
        belong to it alone. The same content gives the same bytes."""

    def finish(self, folder: Path, target: Target, shards: Sequence[tuple[WrittenFile, Content]]) -> list[WrittenFile]:
        """Write what belongs to all shards of a split together (an index file), after them; [] if there is none."""


class Flow(Protocol):
    """What a writer of corpora reads: ids and documents of one split in order, whatever they come from. Positions are
    those of [0, num_tokens), as in a river."""

    @property
    def num_tokens(self) -> int: ...
    @property
    def num_documents(self) -> int: ...
    def blocks(self, start: int, stop: int) -> Iterator[Ids]:
        """The ids [start, stop), in the dtype in which they are stored, a million at a time."""

    def ended(self, position: int) -> int:
        """How many documents end at or before a position."""

    def end_around(self, position: int) -> int:
        """Where the document ends that holds a position."""

    def documents(self, first: int, last: int) -> Iterator[Columns]:
        """The columns of the documents [first, last), a bounded number at a time."""


def bytes_of(ids: Ids) -> memoryview:
    """The bytes of some ids, as a view."""
    return ids.data.cast("B") if ids.size else memoryview(b"")
