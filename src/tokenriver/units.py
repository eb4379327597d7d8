"""Cutting inputs into lots and units: what one worker does at a time, whatever the number of workers.

A *lot* is what the plan knows in advance: some pieces that a worker reads by itself (a byte range, row groups, a group
of small files), or a whole stream that only one reader can cut (a compressed file, text with a separator). A lot of
pieces is one unit; a stream gives a unit for about every `unit_bytes` of decompressed text. Units are numbered
(lot, k); their order is the order of the corpus. The cut depends on inputs and options alone.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tokenriver import registry
from tokenriver.errors import InputError
from tokenriver.files import naming
from tokenriver.inputs import InputFile
from tokenriver.streams import read_blocks
from tokenriver.types import Piece, SourceOptions

UNIT_BYTES = 16 << 20
EDGE_BYTES = 64 << 10
SMALL_STREAM = 8
"""Compressed files under unit_bytes / SMALL_STREAM are grouped: text is seldom packed tighter than that."""

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Lot:
    """One entry of the plan, in input order."""

    index: int
    kind: str
    pieces: tuple[Piece, ...]
    """What a worker reads by itself; a stream has one piece, the whole file."""
    compressions: tuple[str, ...]
    """Of each piece's file."""
    blocks: tuple[tuple[int, int], ...]
    """Of each piece: the range of digest blocks (unit_bytes long) of its file that this lot hashes."""
    stream: bool
    num_bytes: int
    """Stored bytes of the inputs that the lot covers, for progress."""
    tag: str = ""
    """Digest of all that determines the lot's units; their receipts carry it."""


@dataclass(frozen=True, slots=True)
class Block:
    """One unit of a stream: whole records, and where they lie."""

    k: int
    offset: int
    """First byte, in the decompressed input."""
    data: memoryview
    prefix: str
    """Digest of the stored bytes read so far: a changed input shows when it is read again."""


def unit_name(key: Key) -> str:
    return f"u{key[0]:06d}-{key[1]:06d}"


def make_lots(files: list[InputFile], options: SourceOptions, unit_bytes: int) -> list[Lot]:
    """The plan: lots that cover all inputs in order."""
    lots: list[Lot] = []
    small: list[tuple[int, InputFile]] = []

    def flush() -> None:
        if small:
            lots.append(_group(len(lots), small))
            small.clear()

    for source, file in enumerate(files):
        if small and (file.kind != small[0][1].kind or _grouped_bytes(small) + _text_bytes(file) > unit_bytes):
            flush()
        if _text_bytes(file) < unit_bytes and file.kind not in ("parquet", "arrow"):
            small.append((source, file))
            continue
        flush()
        lots.extend(_cut(len(lots), source, file, options, unit_bytes))
    flush()
    return lots


def _text_bytes(file: InputFile) -> int:
    return file.size * SMALL_STREAM if file.compression else file.size


def _grouped_bytes(small: list[tuple[int, InputFile]]) -> int:
    return sum(_text_bytes(file) for _, file in small)


def _group(index: int, small: list[tuple[int, InputFile]]) -> Lot:
    pieces = tuple(Piece(source, file.path, 0, file.size) for source, file in small)
    compressions = tuple(file.compression for _, file in small)
    blocks = tuple((0, 1) for _ in small)
    return Lot(index, small[0][1].kind, pieces, compressions, blocks, False, sum(file.size for _, file in small))


def _cut(index: int, source: int, file: InputFile, options: SourceOptions, unit_bytes: int) -> list[Lot]:
    whole = Piece(source, file.path, 0, file.size)
    ranges = None
    if not file.compression:
        ranges = registry.load("sources", file.kind).plan(file.path, file.size, options, unit_bytes)
    if ranges is None:
        return [Lot(index, file.kind, (whole,), (file.compression,), ((0, 0),), True, file.size)]
    count = -(-file.size // unit_bytes)
    lots = []
    for i, (start, stop) in enumerate(ranges):
        piece = Piece(source, file.path, start, stop)
        blocks = (count * i // len(ranges), count * (i + 1) // len(ranges))
        share = file.size * (i + 1) // len(ranges) - file.size * i // len(ranges)
        lots.append(Lot(index + i, file.kind, (piece,), ("",), (blocks,), False, share))
    return lots


class TreeDigest:
    """sha256 of a stored file as the manifest has it: plain (block_bytes 0), or by blocks like `join_digests`."""

    def __init__(self, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        self._blocks: list[str] = []
        self._current = hashlib.sha256()
        self._room = block_bytes

    def update(self, data: bytes) -> None:
        view = memoryview(data)
        while self._block_bytes and len(view) > self._room:
            self._current.update(view[: self._room])
            self._blocks.append(self._current.hexdigest())
            view = view[self._room :]
            self._current, self._room = hashlib.sha256(), self._block_bytes
        self._current.update(view)
        self._room -= len(view)

    def hexdigest(self) -> str:
        return join_digests([*self._blocks, self._current.hexdigest()])


def stream_blocks(lot: Lot, options: SourceOptions, unit_bytes: int, digest: TreeDigest) -> Iterator[Block]:
    """Units of a stream: each is the longest run of whole records in the next unit_bytes of text (a longer record
    doubles the window until it fits). `digest` sees the stored bytes."""
    source = registry.load("sources", lot.kind)
    blocks = read_blocks(lot.pieces[0].path, lot.compressions[0], on_raw=digest.update)
    rest: list[bytes | memoryview] = []
    offset = k = 0
    window = unit_bytes
    while True:
        data, rest, ended = _take(rest, blocks, window)
        cut = len(data) if ended else source.cut(data, options)
        if cut == 0 and not ended:
            rest.insert(0, data)
            window *= 2
            continue
        if data:
            yield Block(k, offset, memoryview(data)[:cut], digest.hexdigest())
        if ended:
            return
        offset += cut
        k += 1
        window = unit_bytes
        rest.insert(0, memoryview(data)[cut:])


def _take(
    rest: list[bytes | memoryview], blocks: Iterator[bytes], window: int
) -> tuple[bytes, list[bytes | memoryview], bool]:
    """The next `window` bytes, what lies beyond them, and whether the stream ended inside them."""
    size = sum(len(part) for part in rest)
    while size < window:
        block = next(blocks, None)
        if block is None:
            return b"".join(rest), [], True
        rest.append(block)
        size += len(block)
    last = memoryview(rest.pop())
    over = size - window
    keep = len(last) - over
    data = b"".join([*rest, last[:keep]])
    return data, ([last[keep:]] if over else []), False


def file_edges(path: Path, size: int) -> str:
    """Hex sha256 over the first and last 64 KiB: with name and size, a quick test for a changed input."""
    digest = hashlib.sha256()
    with naming(path, "read"), path.open("rb") as file:
        digest.update(file.read(EDGE_BYTES))
        file.seek(max(0, size - EDGE_BYTES))
        digest.update(file.read(EDGE_BYTES))
    return digest.hexdigest()


def block_digests(path: Path, first: int, last: int, block_bytes: int) -> list[str]:
    """sha256 of digest blocks [first, last) of a stored file."""
    out = []
    with naming(path, "read"), path.open("rb", buffering=0) as file:
        file.seek(first * block_bytes)
        for _ in range(first, last):
            digest = hashlib.sha256()
            left = block_bytes
            while left and (data := file.read(min(left, 1 << 20))):
                digest.update(data)
                left -= len(data)
            out.append(digest.hexdigest())
    return out


def join_digests(digests: Iterable[str]) -> str:
    """The digest of a file: its block's own sha256 if it has one block, else the sha256 of its blocks' digests."""
    parts = [bytes.fromhex(digest) for digest in digests]
    if not parts:
        raise InputError("digest: got no blocks, expected at least one; the input is empty")
    return parts[0].hex() if len(parts) == 1 else hashlib.sha256(b"".join(parts)).hexdigest()
