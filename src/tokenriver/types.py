"""The nouns that travel between rooms, and the contracts of the registries. Imports numpy only.

Values are frozen dataclasses, contracts are Protocols with read-only properties. Everything that is many (documents,
ids, rows) is a column, never a list of objects per token.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

IGNORE = -100
"""The target of a position without loss (torch's ignore_index)."""

Ids = NDArray[np.integer[Any]]
"""Token ids, 1-D: uint32 where they are computed, uint16 or uint32 where we store them, any integer dtype elsewhere."""
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]
Json = Mapping[str, Any]


# ---------------------------------------------------------------------------------------------- sources


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How texts are found in the inputs; all of it determines the corpus."""

    text_field: str = "text"
    separator: bytes | None = None
    """Plain text only: where one document ends; None makes each file one document."""
    keep_separator: bool = False
    """The separator stays at the end of its document (blank-line) or is dropped."""
    max_row_bytes: int = 1 << 30
    """A raw row longer than this is a bad row (`row-too-long`)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one input that a worker reads by itself: [start, stop) of whatever the source counts in
    (bytes of a plain file, row groups of Parquet, record batches of Arrow)."""

    source: int
    """Index of the input in the plan."""
    path: Path
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class BadRow:
    """A raw row that gave no document, and why."""

    record: int
    """0-based number of the raw row, counted from the start of its piece (the build adds the rows before it)."""
    offset: int
    """Byte offset of the row in the (decompressed) input; -1 where the kind has none (Parquet, Arrow)."""
    reason: str
    """One of sources/_reasons.py."""


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """Some documents of one piece, in input order, as columns."""

    texts: list[bytes]
    """k texts, valid UTF-8, none empty."""
    records: Int64
    """(k,) 0-based number of each document's raw row, counted from the start of its piece."""
    rows_read: int
    """Raw rows consumed for this batch, blank, empty and bad ones included."""
    bad: tuple[BadRow, ...] = ()
    """Rows that gave no document and should have: they count towards the limit of bad rows."""
    notes: Mapping[str, int] = field(default_factory=dict)
    """Rows treated by a rule that is no fault, by reason: blank, empty, lone-surrogate, byte-order-mark."""


class Source(Protocol):
    """What a module of sources/ offers."""

    @property
    def SUFFIXES(self) -> tuple[str, ...]:
        """Lower-case name endings of this kind, compression suffix removed (".jsonl", ".ndjson")."""

    @property
    def STREAMS(self) -> bool:
        """Is this kind a stream of bytes (jsonl, text)? Then it may be compressed, and has `cut` and `parse`."""

    def sniff(self, head: bytes) -> bool:
        """Do the first bytes (decompressed, at most 64 KiB) surely belong to this kind?"""

    def fields(self, path: Path, head: bytes) -> list[str]:
        """Names of the fields that the input has, sorted, for the message about one that it has not; from the file or,
        for a stream, its first (decompressed) bytes."""

    def plan(self, path: Path, size: int, options: SourceOptions, unit_bytes: int) -> list[tuple[int, int]] | None:
        """Ranges of about unit_bytes of text that workers can read alone, covering the input in order; None when only
        one reader from the start can cut it (the build then feeds blocks cut by `cut`)."""

    def read(self, piece: Piece, options: SourceOptions) -> Iterator[DocumentBatch]:
        """The documents of a piece in batches of a few MiB; bounded memory for any piece. Raises InputError."""


class StreamSource(Source, Protocol):
    """A source that is a stream of bytes."""

    @property
    def LOCAL_ENDS(self) -> bool:
        """Does any piece of the stream show the record ends in it, whatever lies before it? (A line feed does.)"""

    def cut(self, block: bytes, options: SourceOptions) -> int:
        """Length of the longest prefix of block that ends at a record end; 0 if there is none."""

    def parse(
        self, blocks: Iterator[bytes], options: SourceOptions, offset: int, *, first: bool
    ) -> Iterator[DocumentBatch]:
        """Documents of consecutive blocks of one stream that starts at byte `offset` of the decompressed input;
        blocks may end anywhere. `first`: the stream starts at the input's first byte (a byte-order mark is legal)."""


# ------------------------------------------------------------------------------------------- tokenizers


class Tokenizer(Protocol):
    """Text <-> ids. Encoding never adds and never parses special tokens: framing is the build's alone."""

    @property
    def name(self) -> str:
        """What `load_tokenizer` was given, or the file's own name; never an absolute path."""

    @property
    def vocab_size(self) -> int:
        """One more than the largest id, special ids included."""

    @property
    def bos_id(self) -> int | None: ...
    @property
    def eos_id(self) -> int | None: ...
    @property
    def pad_id(self) -> int | None: ...
    @property
    def fingerprint(self) -> str:
        """sha256 (hex) over what determines ids: kind, ranks or file bytes, split pattern, special ids."""

    @property
    def encoder(self) -> str:
        """ "fast" or "reference": what encode_batch runs on."""

    def encode(self, text: str) -> Ids:
        """Ids of one text, uint32 (n,). Lone surrogates become U+FFFD."""

    def encode_batch(self, texts: Sequence[bytes] | Sequence[str]) -> tuple[Ids, Int64]:
        """Flat ids (uint32) of k texts and their lengths (int64, (k,)), in one native call.
        bytes must be valid UTF-8; a str with lone surrogates is cleaned to U+FFFD."""

    def encode_framed(
        self, texts: Sequence[bytes] | Sequence[str], before: int | None, after: int | None
    ) -> tuple[Ids, Int64]:
        """encode_batch with the id `before` in front of and `after` behind each text; lengths count them."""

    def check(self, texts: Sequence[bytes], ids: Ids, lengths: Int64) -> None:
        """Compare (ids, lengths) with the reference encoder's; MismatchError at the first difference (text excerpt,
        position, both id lists around it). Nothing to compare for a tokenizer without a separate reference."""

    def self_check(self) -> int:
        """Compare the fast encoder with the reference on the built-in hostile texts; number of texts compared."""

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """The text, invalid UTF-8 shown as U+FFFD; special ids by their content."""

    def decode_bytes(self, ids: Sequence[int] | Ids) -> bytes:
        """The exact bytes; special ids by their content. Raises LimitError for an id outside the vocabulary."""


# --------------------------------------------------------------------------------------------- formats


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

    def read(self, start: int, stop: int) -> Ids:
        """The ids [start, stop), a view where that is possible; the caller has checked the range."""

    def windows(self, starts: Int64, n: int) -> list[memoryview]:
        """The bytes of the ids [s, s + n) of each start, in one piece or several, one window after another; the caller
        has checked that all lie in the shard."""

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
    """What a module of formats/ offers. Two more are asked for where they are there: `vocab_size(path)`, what a file
    beside a shard says of its vocabulary, and `audit(folder)`, FormatErrors for damage that only a full look shows."""

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


# --------------------------------------------------------------------------------------------- packing


class Packing(Protocol):
    """Where each row lies in the river. The law: a span of n ids fills n - 1 positions."""

    @property
    def seq_len(self) -> int: ...
    @property
    def balance(self) -> Mapping[str, int]:
        """ids of one epoch by fate: "river", "served" (distinct ids that are an input or a target), "unused", ..."""

    @property
    def tag(self) -> str:
        """Everything that determines the rows but the corpus, as a short text ("concat T=1024")."""

    def __len__(self) -> int:
        """Number of rows of one epoch."""

    def spans(self, rows: Int64, epoch: int) -> tuple[Int64, Int64, Int64]:
        """(row, start, stop), one entry a span, grouped by row in the order asked: `row` indexes into `rows`,
        [start, stop) are river positions."""

    def starts(self, rows: Int64, epochs: Int64) -> Int64:
        """River position of each row's first id; every row is one span of seq_len + 1 ids."""


# ---------------------------------------------------------------------------------------------- reading


class River(Protocol):
    """What a loader reads: the ids of one split end to end. A Corpus is one; so is an array in a test.

    It pickles small and reopens in another process."""

    @property
    def num_tokens(self) -> int: ...
    @property
    def num_documents(self) -> int | None:
        """None where the format has no document bounds."""

    @property
    def fingerprint(self) -> str:
        """Hex digest of what determines the ids."""

    def gather(self, starts: Int64, n: int, out: Int64) -> None:
        """out[i] = ids[starts[i] : starts[i] + n], out (k, n) int64; windows may cross shards. The hot path."""

    def document_at(self, position: int) -> int:
        """Number of the document that holds a position, in O(log n)."""

    def doc_bounds(self, i: int) -> tuple[int, int]:
        """[start, stop) of document i in the river."""
