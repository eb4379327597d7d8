"""The document index beside a shard of any format: where each document ends, and which record of which source it was.

    offset           size     content
    0                8        b"TRDOCS01"
    8                8        int64 count, number of documents that end in the shard
    16               8        int64 carried, ids behind the last end: of a document that ends in a later shard
    24               8*count  int64 exclusive end of each document in the shard; never falling
    24 + 8*count     8*count  int64 record number in the source
    24 + 16*count    4*count  int32 source number in the manifest

All little-endian. The last end and `carried` make up the shard's ids. Only the ends can lead a reader astray, so all
of them are checked when the index is opened.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tokenriver.errors import FormatError
from tokenriver.formats import _mapping
from tokenriver.storage import Columns
from tokenriver.types import Int32, Int64

SUFFIX = ".docs"
MAGIC = b"TRDOCS01"
HEADER_BYTES = 24
BYTES_PER_DOCUMENT = 20
_CHECK = 1 << 20


@dataclass(frozen=True, slots=True)
class DocIndex:
    """Columns of k documents, mapped read-only: ends (exclusive, in ids of the shard), records, sources."""

    ends: Int64
    records: Int64
    sources: Int32


def index_path(shard: Path) -> Path:
    """The index of a shard has its name with the suffix `.docs`."""
    return shard.with_suffix(SUFFIX)


def index_header(count: int, carried: int = 0) -> bytes:
    """The first 24 bytes of an index of `count` documents; the columns follow."""
    return MAGIC + count.to_bytes(8, "little") + carried.to_bytes(8, "little")


def pack_index(count: int, carried: int, columns: Callable[[], Iterator[Columns]]) -> Iterator[bytes | memoryview]:
    """The file's content in pieces, to be written one after another. Each call of `columns` gives the documents anew,
    a bounded number at a time, with ends counted from the shard's first id."""
    yield index_header(count, carried)
    for number, dtype in enumerate(("<i8", "<i8", "<i4")):
        for block in columns():
            if len(block[number]):
                yield np.ascontiguousarray(block[number], dtype).data


def open_index(path: Path, num_tokens: int) -> DocIndex:
    """Map an index and check magic, size, count and every end against the shard's num_tokens; FormatError."""
    fd, size = _mapping.open_regular(path)
    try:
        head = os.pread(fd, HEADER_BYTES, 0)
        if head[:8] != MAGIC or len(head) < HEADER_BYTES:
            raise FormatError(f"{path}: magic at byte 0: got {head[:8]!r}, expected {MAGIC!r}")
        count, carried = (int.from_bytes(head[at : at + 8], "little", signed=True) for at in (8, 16))
        if not 0 <= count <= size:
            raise FormatError(f"{path}: number of documents at byte 8: got {count}, expected what {size} bytes hold")
        if not 0 <= carried <= num_tokens:
            raise FormatError(f"{path}: carried ids at byte 16: got {carried}, expected 0 to {num_tokens}")
        if size != HEADER_BYTES + count * BYTES_PER_DOCUMENT:
            expected = HEADER_BYTES + count * BYTES_PER_DOCUMENT
            raise FormatError(f"{path}: size: got {size} bytes, expected {expected} for {count} documents")
        starts = [HEADER_BYTES, HEADER_BYTES + 8 * count, HEADER_BYTES + 16 * count]
        whole = _mapping.map_array(fd, np.dtype("u1"), 0, size)
    finally:
        os.close(fd)
    ends = whole[starts[0] : starts[1]].view("<i8")
    _check_ends(path, ends, num_tokens - carried)
    return DocIndex(ends, whole[starts[1] : starts[2]].view("<i8"), whole[starts[2] :].view("<i4"))


def _check_ends(path: Path, ends: Int64, total: int) -> None:
    before = 0
    for at in range(0, len(ends), _CHECK):
        block = ends[at : at + _CHECK]
        # compared, not subtracted: a difference of hostile ends can wrap round to a good one
        falling = np.concatenate([[block[0] < before], block[1:] < block[:-1]])
        if falling.any():
            bad = at + int(np.argmax(falling))
            got, least = int(ends[bad]), int(ends[bad - 1]) if bad else 0
            raise FormatError(f"{path}: end of document {bad}: got {got}, expected at least {least}")
        before = int(block[-1])
    if before != total:
        raise FormatError(f"{path}: end of the last document: got {before}, expected {total}, by the shard's ids")
