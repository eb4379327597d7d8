"""The `.idx` file of Megatron's indexed data sets (formats.md, section 13).

    offset            size  content
    0                 9     b"MMIDIDX" and two zeros
    9                 8     uint64 version, 1
    17                1     code of the ids' dtype
    18                8     uint64 S, number of sequences
    26                8     uint64 D, length of the document array: documents + 1
    34                4*S   int32 ids in each sequence
    34 + 4*S          8*S   int64 byte offset of each sequence in the `.bin` file
    34 + 12*S         8*D   int64 sequences before each document, and S
    34 + 12*S + 8*D   S     int8 mode of each sequence, of multimodal sets only; the file's size tells

Sequences lie back to back, so offsets are running sums of lengths. Megatron itself checks magic and version.
"""

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver.errors import FormatError
from tokenriver.formats._columns import BLOCK, first_fall, lengths_of, read_blocks
from tokenriver.formats._mapping import DTYPES
from tokenriver.storage import Content
from tokenriver.types import Int64

MAGIC = b"MMIDIDX\0\0"
VERSION = 1
HEADER_BYTES = 34
CODES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}
FLOATS = {6: "float64", 7: "float32"}
_HEADER = struct.Struct("<9sQBQQ")
_TOP = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Index:
    """What the header of an index says."""

    path: Path
    dtype: np.dtype[Any]
    sequences: int
    entries: int
    """Length of the document array."""

    @property
    def documents(self) -> int | None:
        """Number of documents; None for a set whose writer never ended one."""
        return self.entries - 1 if self.entries > 1 or self.sequences == 0 else None

    @property
    def plain_size(self) -> int:
        """Bytes of the index without the modes of a multimodal set."""
        return self.documents_at + 8 * self.entries

    @property
    def offsets_at(self) -> int:
        return HEADER_BYTES + 4 * self.sequences

    @property
    def documents_at(self) -> int:
        return HEADER_BYTES + 12 * self.sequences


def read_header(path: Path, fd: int, size: int) -> Index:
    """The header, checked against the file's size; FormatError names byte, value and expectation."""
    head = os.pread(fd, HEADER_BYTES, 0)
    if head[: len(MAGIC)] != MAGIC:
        raise FormatError(f"{path}: magic at byte 0: got {head[:9]!r}, expected {MAGIC!r}")
    if len(head) < HEADER_BYTES:
        raise FormatError(f"{path}: size: got {size} bytes, expected at least {HEADER_BYTES}")
    _, version, code, sequences, entries = _HEADER.unpack(head)
    if version != VERSION:
        raise FormatError(f"{path}: version at byte 9: got {version}, expected {VERSION}")
    if code in FLOATS:
        raise FormatError(f"{path}: dtype code at byte 17: got {code} ({FLOATS[code]}), expected one of integers")
    if code not in CODES:
        raise FormatError(f"{path}: dtype code at byte 17: got {code}, expected one of {', '.join(map(str, CODES))}")
    if entries < 1:
        raise FormatError(f"{path}: length of the document array at byte 26: got 0, expected at least 1")
    expected = HEADER_BYTES + 12 * sequences + 8 * entries
    if size not in (expected, expected + sequences):
        raise FormatError(
            f"{path}: size: got {size} bytes, expected {expected} for {sequences} sequences and {entries - 1} "
            f"documents (with modes {expected + sequences})"
        )
    return Index(path, DTYPES[CODES[code]], sequences, entries)


def check_sequences(index: Index, fd: int, bin_path: Path, bin_bytes: int) -> None:
    """The sequences must lie back to back and fill the `.bin` file; the document array must begin and end with them."""
    at, number = 0, 0
    lengths = read_blocks(index.path, fd, "<i4", HEADER_BYTES, index.sequences)
    offsets = read_blocks(index.path, fd, "<i8", index.offsets_at, index.sequences)
    for counts, begins in zip(lengths, offsets, strict=True):
        at = _check_block(index, number, (counts, begins), at)
        number += len(counts)
        if at > bin_bytes:
            break
    if at != bin_bytes:
        raise FormatError(
            f"{bin_path}: size: got {bin_bytes} bytes, expected {at} by the first {number} of {index.sequences} "
            f"sequences of {index.path.name}"
        )
    _check_corners(index, fd)


def _check_block(index: Index, number: int, block: tuple[np.ndarray[Any, Any], Int64], at: int) -> int:
    """Check a block of (lengths, offsets) from sequence `number` on, which begins at byte `at`; where it ends."""
    counts, begins = block
    if int(counts.min()) < 0:
        bad = int(np.argmax(counts < 0))
        where = HEADER_BYTES + 4 * (number + bad)
        raise FormatError(
            f"{index.path}: length of sequence {number + bad} at byte {where}: got {int(counts[bad])}, expected 0 or "
            "more"
        )
    sizes = counts.astype(np.int64) * index.dtype.itemsize
    # numbers of 64 bits that differ by what they should, from a right one on, are right: nothing can wrap round
    if int(begins[0]) != at or (np.diff(begins) != sizes[:-1]).any():
        expected = np.cumsum(sizes) - sizes + at
        bad = int(np.argmax(begins != expected))
        raise FormatError(
            f"{index.path}: offset of sequence {number + bad} at byte {index.offsets_at + 8 * (number + bad)}: got "
            f"{int(begins[bad])}, expected {int(expected[bad])}, where the one before it ends"
        )
    return at + int(sizes.sum())


def _check_corners(index: Index, fd: int) -> None:
    """The first entry of the document array is 0, the last one S; a set in which no document was ended has the first
    alone."""
    for at, expected in ((0, 0), (index.entries - 1, index.sequences)):
        where = index.documents_at + 8 * at
        got = int(next(read_blocks(index.path, fd, "<i8", where, 1))[0])
        if got != expected and (index.documents is not None or got != 0):
            raise FormatError(
                f"{index.path}: entry {at} of the document array at byte {where}: got {got}, expected {expected}"
            )


def read_documents(index: Index, fd: int, num_tokens: int) -> Int64:
    """(documents,) exclusive end of each document in ids; FormatError for an array that falls or leaves the sequences.
    Beside the answer a few megabytes are needed."""
    ends = np.empty(index.entries - 1, np.int64)
    at, before = 0, 0
    for block in read_blocks(index.path, fd, "<i8", index.documents_at + 8, len(ends)):
        bad = first_fall(block, before)
        if bad is not None:
            least = int(block[bad - 1]) if bad else before
            where = index.documents_at + 8 + 8 * (at + bad)
            raise FormatError(
                f"{index.path}: entry {at + bad + 1} of the document array at byte {where}: got {int(block[bad])}, "
                f"expected at least {least}"
            )
        ends[at : at + len(block)] = block
        at, before = at + len(block), int(block[-1])
    found = _to_ids(index, fd, ends)
    if before != index.sequences or found != num_tokens:
        raise FormatError(
            f"{index.path}: documents: got {found} ids in {before} sequences, expected {num_tokens} in "
            f"{index.sequences}; the file has changed since it was opened"
        )
    return ends


def _to_ids(index: Index, fd: int, ends: Int64) -> int:
    """Replace numbers of sequences, never falling, by numbers of ids before them; the number of all ids."""
    done, ids, number = int(np.searchsorted(ends, 0, "right")), 0, 0
    for counts in read_blocks(index.path, fd, "<i4", HEADER_BYTES, index.sequences):
        behind = np.cumsum(counts, dtype=np.int64) + ids
        stop = done + int(np.searchsorted(ends[done:], number + len(counts), "right"))
        for at in range(done, stop, BLOCK):
            part = ends[at : min(at + BLOCK, stop)]
            part[:] = behind[part - number - 1]
        done, ids, number = stop, int(behind[-1]), number + len(counts)
    return ids


@dataclass(frozen=True, slots=True)
class Layout:
    """What an index is to say: `lengths` gives blocks of ids in each sequence, `entries` blocks of the document array
    behind its leading 0; each call starts anew."""

    dtype: str
    sequences: int
    documents: int
    lengths: Callable[[], Iterable[Int64]]
    entries: Callable[[], Iterable[Int64]]


def index_pieces(layout: Layout) -> Iterator[bytes | np.ndarray[Any, Any]]:
    """The bytes of an index, piece by piece, as Megatron's own writer makes them."""
    code = next(code for code, name in CODES.items() if name == layout.dtype)
    yield _HEADER.pack(MAGIC, VERSION, code, layout.sequences, layout.documents + 1)
    for lengths in layout.lengths():
        yield lengths.astype("<i4")
    at, item = 0, DTYPES[layout.dtype].itemsize
    for lengths in layout.lengths():
        ends = np.cumsum(lengths, dtype=np.int64) * item
        yield (np.concatenate([[0], ends[:-1]])[: len(ends)] + at).astype("<i8")
        at += int(ends[-1]) if len(ends) else 0
    yield bytes(8)
    for entries in layout.entries():
        yield entries.astype("<i8")


def layout_of(dtype: str, content: Content) -> Layout:
    """A sequence a document, and none for an empty one: its entry repeats its neighbour's, as Megatron's builder
    writes it."""

    def lengths() -> Iterator[Int64]:
        for block in lengths_of(content.ends()):
            yield block[block > 0]

    def entries() -> Iterator[Int64]:
        number = 0
        for block in lengths_of(content.ends()):
            numbers = np.cumsum(block > 0, dtype=np.int64) + number
            yield numbers
            number = int(numbers[-1])

    sequences = sum(map(len, lengths()))
    return Layout(dtype, sequences, content.num_documents, lengths, entries)
