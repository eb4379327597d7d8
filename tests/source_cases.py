"""What the tests of sources share: collecting batches into plain lists, and small archives."""

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import zstandard

from tokenriver.types import DocumentBatch, Piece, SourceOptions

BatchLimit = (4 << 20) + (1 << 20)
SKIPPABLE = b"\x5a\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"


@dataclass
class Collected:
    """All that some batches said, as plain values; `rows` shifts the numbers of the pieces that follow."""

    docs: list[tuple[int, bytes]] = field(default_factory=list)
    bad: list[tuple[int, int, str]] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    rows: int = 0

    @property
    def texts(self) -> list[bytes]:
        return [text for _, text in self.docs]

    def add_piece(self, batches: Iterable[DocumentBatch]) -> None:
        before, rows = self.rows, 0
        for batch in batches:
            assert len(batch.records) == len(batch.texts)
            assert str(batch.records.dtype) == "int64"
            numbers = [*batch.records.tolist(), *(row.record for row in batch.bad)]
            assert all(rows <= number < rows + batch.rows_read for number in numbers)
            assert sorted(batch.records.tolist()) == batch.records.tolist()
            assert len(set(numbers)) == len(numbers)
            skipped = sum(batch.notes.get(reason, 0) for reason in ("blank", "empty"))
            assert len(numbers) + skipped == batch.rows_read
            self.docs += [(before + r, text) for r, text in zip(batch.records.tolist(), batch.texts, strict=True)]
            self.bad += [(before + row.record, row.offset, row.reason) for row in batch.bad]
            self.notes.update(batch.notes)
            rows += batch.rows_read
        self.rows += rows


def collect(batches: Iterable[DocumentBatch]) -> Collected:
    out = Collected()
    out.add_piece(batches)
    return out


def parse(source: ModuleType, data: bytes, options: SourceOptions, block: int = 1 << 20) -> Collected:
    """All of `data` as one stream, fed in blocks of `block` bytes."""
    return collect(source.parse(blocks_of(data, block), options, 0, first=True))


def blocks_of(data: bytes, block: int) -> Iterator[bytes]:
    return (data[i : i + block] for i in range(0, len(data), block))


def read_pieces(source: ModuleType, path: Path, ranges: list[tuple[int, int]], options: SourceOptions) -> Collected:
    out = Collected()
    for start, stop in ranges:
        out.add_piece(source.read(Piece(0, path, start, stop), options))
    return out


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(data)
