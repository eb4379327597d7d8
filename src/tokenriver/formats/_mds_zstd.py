"""Compressed MDS shards: one zstd stream each, which can only be decoded from its start.

Opening decodes a shard once to check it and to count its ids, and keeps nothing. The first read decodes it again and
keeps its ids, until a read reaches the end of the shard: who reads in order holds one shard at a time, who reads here
and there holds what he has open, and should convert such a set first.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import zstandard
from numpy.typing import NDArray

from tokenriver import streams
from tokenriver.errors import FormatError, InputError
from tokenriver.extents import Extents
from tokenriver.formats._mapping import read_head
from tokenriver.formats._mds_shard import Bytes, Samples, read_samples
from tokenriver.formats._reader import Blocks
from tokenriver.formats._runs import take
from tokenriver.types import Ids, Int64

MAX_DECODED = 1 << 30
LEVEL = 3


def is_compressed(path: Path) -> bool:
    return streams.sniff_compression(read_head(path, 4)) == "zstd"


def decode(path: Path, limit: int = MAX_DECODED) -> Bytes:
    """All bytes of a compressed shard; FormatError for a damaged one, and for one of more than `limit` bytes."""
    out = bytearray()
    try:
        for block in streams.read_blocks(path, "zstd"):
            out += block
            if len(out) > limit:
                raise FormatError(
                    f"{path}: decompressed: got more than {limit} bytes, expected at most that; decompress it with "
                    "`zstd -d` first"
                )
    except InputError as error:
        raise FormatError(str(error)) from error
    return np.frombuffer(out, np.uint8)


class Decoded:
    """The ids of a compressed shard."""

    def __init__(self, path: Path, samples: Samples) -> None:
        self._path, self._dtype_asked = path, samples.dtype.name
        self.num_tokens, self.dtype = count_ids(samples), samples.dtype
        self.ids: Ids | None = None
        self.extents: Extents | None = None
        self._blocks = self._fresh()

    def _fresh(self) -> Blocks:
        return Blocks(self.dtype, np.array([self.num_tokens], np.int64), self._load, keep=1)

    def _load(self, number: int) -> Ids:
        data = decode(self._path)
        samples = read_samples(self._path, data, self._dtype_asked)
        ids = ids_of(data, samples)
        if len(ids) != self.num_tokens:
            raise FormatError(
                f"{self._path}: got {len(ids)} ids, expected {self.num_tokens}; the file has changed since "
                "it was opened"
            )
        return ids

    def read(self, start: int, stop: int) -> Ids:
        found = self._blocks.read(start, stop)
        if stop == self.num_tokens:
            self._blocks = self._fresh()
        return found

    def windows(self, starts: Int64, n: Int64 | int) -> list[memoryview]:
        return self._blocks.windows(starts, n)

    def read_ahead(self, start: int, stop: int) -> None:
        """Decoding reads the whole shard anyway."""


def count_ids(samples: Samples) -> int:
    """Ids of a shard."""
    return int(samples.counts.sum()) if samples.run is None else samples.run[1]


def ids_of(data: Bytes, samples: Samples) -> Ids:
    """All ids of a shard whose bytes are in memory."""
    item = samples.dtype.itemsize
    if samples.run is not None:
        begin, count = samples.run
        found = data[begin : begin + count * item]
    else:
        found = take(data, samples.offsets, samples.counts * item)
    ids = found.copy().view(samples.dtype)
    ids.flags.writeable = False
    return ids


def compressed(pieces: Iterable[bytes | NDArray[np.generic]], num_bytes: int) -> Iterator[bytes]:
    """One frame with a checksum that says how much it holds, which the original's reader needs."""
    packer = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compressobj(size=num_bytes)
    for piece in pieces:
        if len(piece):
            yield packer.compress(piece if isinstance(piece, bytes) else np.ascontiguousarray(piece).data)
    yield packer.flush()
