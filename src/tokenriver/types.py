"""The nouns that travel between rooms, and the contracts of the registries. Imports numpy only.

Values are frozen dataclasses, contracts are Protocols with read-only properties. Everything that is many (documents,
ids, rows) is a column, never a list of objects per token.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

IGNORE = -100
"""The target of a position without loss (torch's ignore_index)."""
PADDING = -1
"""Where a run of padding starts: nowhere in the river."""

Ids = NDArray[np.integer[Any]]
"""Token ids, 1-D: uint32 where they are computed, uint16 or uint32 where we store them, any integer dtype elsewhere."""
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]
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


class TableSource(Source, Protocol):
    """A source that is a column of texts."""

    def extents(self, path: Path, options: SourceOptions) -> list[tuple[int, int]]:
        """(rows, about how many bytes) of each of the parts that the pieces of `read` count in."""


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


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Some encoded texts or examples as columns."""

    ids: Ids
    """(n,) uint32, one after another."""
    lengths: Int64
    """(k,) ids of each."""
    loss_mask: Bools | None = None
    """(n,): is the id trained, that is, predicted with loss? None: all are."""


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


# --------------------------------------------------------------------------------------------- packing


@dataclass(frozen=True, slots=True)
class Buckets:
    """Rows of like length together: what is asked of a padded packing."""

    widths: int | tuple[int, ...]
    """So many at most, to be chosen by the lengths of the rows; or the widths themselves, rising."""
    max_tokens: int | None
    """Positions that a step may have; None: its rows are counted alone."""


class Packing(Protocol):
    """Where each row lies in the river. The law: a span of n ids fills n - 1 positions. Rows of other systems may be
    chained instead: all ids of a row end to end, so that spans of n ids in all fill n - 1 positions."""

    @property
    def seq_len(self) -> int: ...
    @property
    def balance(self) -> Mapping[str, int]:
        """ids of one epoch by fate: "river", "served" (distinct ids that are an input or a target), "unused", ..."""

    @property
    def num_targets(self) -> int:
        """Positions with loss of one epoch."""

    @property
    def tag(self) -> str:
        """Everything that determines the rows but the corpus, as a short text ("concat T=1024")."""

    def __len__(self) -> int:
        """Number of rows of one epoch."""

    @property
    def windows(self) -> bool:
        """Is every row one span of seq_len + 1 ids, wherever documents end, and are all rows of an epoch equally far
        apart? Else no span crosses a document, and epochs have the same rows."""

    @property
    def chained(self) -> bool:
        """Is the id after a span, the first of the row's next one, the target of its last? Then the spans of a row have
        at most seq_len + 1 ids."""

    def spans(self, rows: Int64, epoch: int) -> tuple[Int64, Int64, Int64]:
        """(row, start, stop), one entry a span, grouped by row in the order asked: `row` indexes into `rows`,
        [start, stop) are river positions."""

    def starts(self, rows: Int64, epochs: Int64) -> Int64:
        """River position of each row's first id."""


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

    def take(self, starts: Int64, sizes: Int64, out: Int64) -> None:
        """Fill out, row by row, with the ids [s, s + n) of each start and size, one run after another; a start of -1
        stands for zeros. The sizes sum to out's."""

    def document_at(self, position: int) -> int:
        """Number of the document that holds a position, in O(log n)."""

    def documents_at(self, positions: Int64) -> Int64:
        """Numbers of the documents that hold some positions, (k,) int64 both, in O(k log n)."""

    def ends_of(self, documents: Int64) -> Int64:
        """Where some documents end, (k,) int64 both."""

    def doc_ends(self) -> Int64:
        """(num_documents,) int64: where each document ends."""

    def doc_bounds(self, i: int) -> tuple[int, int]:
        """[start, stop) of document i in the river."""
