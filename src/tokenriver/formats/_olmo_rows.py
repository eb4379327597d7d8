"""The `.csv.gz` beside an OLMo array, written: rows made by numpy, one gzip member without a clock."""

import csv
import io
import struct
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tokenriver.formats._decimals import Bytes, digits, shown
from tokenriver.formats._taker import Taker
from tokenriver.storage import UNKNOWN, Content
from tokenriver.types import Int32, Int64

LEVEL = 4
"""dolma's is 9, which takes eight times as long and packs such rows no tighter."""
_ROWS = 1 << 14

Cells = tuple[Bytes, NDArray[np.bool_]]
"""(k, w) bytes of k rows, and which of them are there."""


def rows(content: Content, sources: Sequence[str]) -> Iterator[bytes]:
    """The rows of a shard as dolma writes them, or as OLMo-core does if nobody knows where the documents come from.
    The documents' own ids are left empty, as they are not kept; lines count from 1, that of an unknown source is 0."""
    origins = None if content.origins is None else Taker(content.origins())
    before = 0
    for block in content.ends():
        for at in range(0, len(block), _ROWS):
            ends = block[at : at + _ROWS]
            starts = np.concatenate([[before], ends[:-1]])
            before = int(ends[-1])
            columns = [_number(starts), _text(b",", len(ends)), _number(ends)]
            if origins is None:
                columns.append(_text(b"\n", len(ends)))
            else:
                records, numbers = origins.take(len(ends))
                lines = np.where(numbers == UNKNOWN, 0, records + 1)
                columns += [_source(numbers, sources), _number(lines), _text(b"\r\n", len(ends))]
            cells = np.hstack([cells for cells, _ in columns])
            yield cells[np.hstack([there for _, there in columns])].tobytes()


def _number(values: Int64) -> Cells:
    table, counts = digits(values)
    return table, shown(counts)


def _text(text: bytes, count: int) -> Cells:
    return np.tile(np.frombuffer(text, np.uint8), (count, 1)), np.ones((count, len(text)), bool)


def _source(numbers: Int32, sources: Sequence[str]) -> Cells:
    """`,,source,` with quotes where CSV needs them; an unknown source is empty."""
    used, which = np.unique(numbers, return_inverse=True)
    texts = [b",," + _quoted("" if number == UNKNOWN else sources[number]) + b"," for number in used.tolist()]
    widest = max(map(len, texts))
    table = np.frombuffer(b"".join(text.ljust(widest, b"\0") for text in texts), np.uint8).reshape(-1, widest)
    lengths = np.array([len(text) for text in texts])
    return table[which], np.arange(widest) < lengths[which][:, None]


def _quoted(text: str) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out).writerow([text, ""])
    return out.getvalue().removesuffix(",\r\n").encode("utf-8", "surrogateescape")


def compressed(name: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """One gzip member that says the file's name and, instead of a time, zero."""
    yield b"\x1f\x8b\x08\x08" + bytes(4) + b"\x00\xff" + name.encode("latin-1", "replace") + b"\0"
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
    check, size = 0, 0
    for block in blocks:
        check, size = zlib.crc32(block, check), size + len(block)
        yield packer.compress(block)
    yield packer.flush() + struct.pack("<II", check, size % 2**32)
