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
from typing import TYPE_CHECKING

from tokenriver import registry
from tokenriver.errors import InputError
from tokenriver.files import naming
from tokenriver.streams import read_blocks
from tokenriver.types import Piece, SourceOptions, StreamSource

if TYPE_CHECKING:  # workers do not find inputs, they are told
    from tokenriver.inputs import InputFile

EDGE_BYTES = 64 << 10
SMALL_STREAM = 8
"""Compressed files under unit_bytes / SMALL_STREAM are grouped: text is seldom packed tighter than that."""

Key = tuple[int, int]
View = memoryview


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
    data: list[View]
    size: int
    prefix: str
    """Digest of the stored bytes read so far: a changed input shows when it is read again."""


def unit_name(key: Key) -> str:
    return f"u{key[0]:06d}-{key[1]:06d}"


def make_lots(files: "list[InputFile]", options: SourceOptions, unit_bytes: int) -> list[Lot]:
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


def _text_bytes(file: "InputFile") -> int:
    return file.size * SMALL_STREAM if file.compression else file.size


def _grouped_bytes(small: "list[tuple[int, InputFile]]") -> int:
    return sum(_text_bytes(file) for _, file in small)


def _group(index: int, small: "list[tuple[int, InputFile]]") -> Lot:
    pieces = tuple(Piece(source, file.path, 0, file.size) for source, file in small)
    compressions = tuple(file.compression for _, file in small)
    blocks = tuple((0, 1) for _ in small)
    return Lot(index, small[0][1].kind, pieces, compressions, blocks, False, sum(file.size for _, file in small))


def _cut(index: int, source: int, file: "InputFile", options: SourceOptions, unit_bytes: int) -> list[Lot]:
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
    source: StreamSource = registry.load("sources", lot.kind)
    blocks = read_blocks(lot.pieces[0].path, lot.compressions[0], on_raw=digest.update)
    rest: list[View] = []
    offset = k = 0
    window = unit_bytes
    while True:
        parts, rest, ended = _take(rest, blocks, window)
        cut = sum(len(part) for part in parts) if ended else _record_end(source, parts, options)
        if cut == 0 and not ended:
            rest = [*parts, *rest]
            window *= 2
            continue
        data, left = _split(parts, cut)
        if cut:
            yield Block(k, offset, data, cut, digest.hexdigest())
        if ended:
            return
        offset += cut
        k += 1
        window = unit_bytes
        rest = [*left, *rest]


def _take(rest: list[View], blocks: Iterator[bytes], window: int) -> tuple[list[View], list[View], bool]:
    """The next `window` bytes, what lies beyond them, and whether the stream ended inside them."""
    size = sum(len(part) for part in rest)
    while size < window:
        block = next(blocks, None)
        if block is None:
            return rest, [], True
        rest.append(memoryview(block))
        size += len(block)
    return *_split(rest, window), False


def _split(parts: list[View], at: int) -> tuple[list[View], list[View]]:
    """The first `at` bytes of some parts, and the others; nothing is copied."""
    head: list[View] = []
    for number, part in enumerate(parts):
        if at < len(part):
            tail = [part[at:], *parts[number + 1 :]]
            return ([*head, part[:at]] if at else head), tail
        head.append(part)
        at -= len(part)
    return head, []


def _record_end(source: StreamSource, parts: list[View], options: SourceOptions) -> int:
    """Length of the longest prefix that ends at a record end. Where any part shows its own record ends, the last part
    that has one decides, and the parts are not joined (megabytes that would leave the cache)."""
    if not source.LOCAL_ENDS:
        return source.cut(b"".join(parts), options)
    before = sum(len(part) for part in parts)
    for part in reversed(parts):
        before -= len(part)
        found = source.cut(bytes(part), options)
        if found:
            return before + found
    return 0


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
