"""Stretches of the inputs of a build, evenly spaced, read and encoded: what estimates are made from.

Plain files are sampled all over, tables by row groups or record batches; a compressed file can only be read from its
first byte, a row group from its first row, so their stretches follow one another from there. Which stretches are taken
depends on the inputs' sizes alone.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from tokenriver import registry
from tokenriver.inputs import InputFile
from tokenriver.rowblocks import row_blocks, spread
from tokenriver.streams import read_blocks, read_range
from tokenriver.types import DocumentBatch, Piece, SourceOptions, StreamSource, TableSource, Tokenizer

STRETCHES = 64
"""Of each kind of input."""
LEAST_STRETCH = 1 << 12
LEAST_HEAD = 1 << 20
"""Of each compressed file that is read; shorter heads say little about its compression."""
MOST_FILES = 8
"""Compressed files of which the first bytes are read."""
BLOCK = 1 << 12

Clock = Callable[[], float]
Values = tuple[int, int, float]
"""(bytes of text, ids, documents)"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a part of the inputs came to."""

    stored: float
    """Bytes of the files on disk; of a compressed file its share of them."""
    text_bytes: int
    text_ids: int
    """Without framing."""
    documents: float
    seconds: float


@dataclass(slots=True)
class Group:
    """All inputs of one kind and compression, and the stretches of them that were read."""

    kind: str
    compression: str
    files: list[InputFile]
    stretches: list[Stretch] = field(default_factory=list)
    rows: int = 0
    bad: int = 0
    """Rows of the stretches that gave no document and should have."""
    invalid: int = 0
    """Bytes of plain text that are not UTF-8."""
    heads: bool = False
    """Were several stretches taken from the first rows of one row group or record batch?"""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def stored(self) -> float:
        return sum(stretch.stored for stretch in self.stretches)


@dataclass(frozen=True, slots=True)
class Reader:
    """How stretches are read and encoded."""

    tokenizer: Tokenizer
    options: SourceOptions
    clock: Clock | None

    def now(self) -> float:
        return self.clock() if self.clock is not None else 0.0


def sample(files: Sequence[InputFile], reader: Reader, sample_bytes: int) -> list[Group]:
    """Read about so many bytes of the inputs: all of it where there is no more. InputError for damaged ones."""
    groups: dict[tuple[str, str], Group] = {}
    for file in files:
        groups.setdefault((file.kind, file.compression), Group(file.kind, file.compression, [])).files.append(file)
    total = max(1, sum(file.size for file in files))
    reader.tokenizer.encode("a")  # loading it is no part of the measured time
    for group in groups.values():
        if not group.size:
            continue  # empty texts
        budget = max(STRETCHES * LEAST_STRETCH, sample_bytes * group.size // total)
        if group.compression:
            _read_heads(group, reader, budget)
        elif not registry.load("sources", group.kind).STREAMS:
            _read_tables(group, reader, budget)
        else:
            _read_ranges(group, reader, budget)
    return list(groups.values())


def _read_ranges(group: Group, reader: Reader, budget: int) -> None:
    """Evenly spaced ranges of all plain files end to end; a range ends with its file."""
    size, total, begin = _up(budget), group.size, 0
    starts = [total * (2 * i + 1) // (2 * STRETCHES) - size // 2 for i in range(STRETCHES)]
    for file in group.files:
        inside = [s - begin for s in starts if begin <= s < begin + file.size]
        if total <= budget:  # all is read: each file as a build reads it
            inside, size = [0], file.size
        for start in inside:
            stop = min(file.size, start + size)
            moment = reader.now()
            if group.kind == "jsonl" or total <= budget:
                found = registry.load("sources", group.kind).read(Piece(0, file.path, start, stop), reader.options)
                values = _encode_rows(group, reader, found)
            else:
                data = b"".join(read_range(file.path, start, stop))
                values = _encode_text(group, reader, data, len(data))
            _add(group, values, stop - start, reader.now() - moment)
        begin += file.size


@dataclass(frozen=True, slots=True)
class _Part:
    """A row group or a record batch."""

    piece: Piece
    rows: int
    stored: float
    """Its share of the file."""


def _parts(source: TableSource, file: InputFile, options: SourceOptions) -> list[_Part]:
    """All that have rows; of a table without rows there is one."""
    known = [(i, rows, size) for i, (rows, size) in enumerate(source.extents(file.path, options)) if rows]
    total = sum(size for _, _, size in known)
    return [
        _Part(Piece(0, file.path, i, i + 1), rows, file.size * (size / total if total else 1 / len(known)))
        for i, rows, size in known
    ] or [_Part(Piece(0, file.path, 0, 0), 0, file.size)]


def _read_tables(group: Group, reader: Reader, budget: int) -> None:
    """Evenly spaced row groups or record batches of all files end to end; of large ones the first rows."""
    source: TableSource = registry.load("sources", group.kind)
    parts = [part for file in group.files for part in _parts(source, file, reader.options)]
    whole = group.size <= budget
    counts = [1] * len(parts) if whole else spread([part.stored for part in parts], STRETCHES)
    group.heads = max(counts) > 1
    for part, count in zip(parts, counts, strict=True):
        if count and not part.rows:
            _add(group, (0, 0, 0), part.stored, 0.0)
        size = part.rows if whole else math.ceil(part.rows * min(1.0, _up(budget) / max(1.0, part.stored)))
        moment = reader.now()
        for block in islice(row_blocks(source.read(part.piece, reader.options), max(1, size)), count):
            group.rows += block.rows
            group.bad += block.bad
            values = _encode(reader, block.texts)
            _add(group, values, part.stored * block.rows / part.rows, reader.now() - moment)
            moment = reader.now()


def _read_heads(group: Group, reader: Reader, budget: int) -> None:
    """The first bytes of some compressed files, evenly spaced among them; of all where they are few."""
    count = min(MOST_FILES, len(group.files))
    source: StreamSource = registry.load("sources", group.kind)
    for file in [group.files[(2 * i + 1) * len(group.files) // (2 * count)] for i in range(count)]:
        moment = reader.now()
        head = _read_head(file, reader, max(budget // count, LEAST_HEAD))
        spent, at = (reader.now() - moment) / max(1, len(head.text)), 0
        before = len(group.stretches)
        for part in [head.text] if head.whole and group.kind == "text" else _cut(group.kind, reader, head.text, count):
            moment = reader.now()
            stored = head.stored(at + len(part)) - head.stored(at)
            if group.kind == "jsonl" or head.whole:
                values = _encode_rows(group, reader, source.parse(iter([part]), reader.options, 0, first=True))
            else:
                values = _encode_text(group, reader, part, stored)
            _add(group, values, stored, reader.now() - moment + spent * len(part))
            at += len(part)
        if len(group.files) > 1:  # parts of one file are alike: what differs is files
            group.stretches[before:] = [_together(group.stretches[before:])]


def _together(parts: Sequence[Stretch]) -> Stretch:
    """Some stretches as one."""
    return Stretch(
        sum(part.stored for part in parts),
        sum(part.text_bytes for part in parts),
        sum(part.text_ids for part in parts),
        sum(part.documents for part in parts),
        sum(part.seconds for part in parts),
    )


def _add(group: Group, values: Values, stored: float, seconds: float) -> None:
    text, ids, documents = values
    group.stretches.append(Stretch(stored, text, ids, documents, seconds))


@dataclass(frozen=True, slots=True)
class _Head:
    """The start of a compressed file."""

    text: bytes
    marks: list[tuple[int, int]]
    """(bytes of text, bytes of the file that they take), rising, from (0, 0)."""
    whole: bool

    def stored(self, position: int) -> float:
        """Bytes of the file before a position of the text."""
        return float(np.interp(position, [text for text, _ in self.marks], [stored for _, stored in self.marks]))


def _read_head(file: InputFile, reader: Reader, budget: int) -> _Head:
    """The first `budget` bytes of text up to a record's end, or all."""
    data = bytearray()
    marks = [(0, 0)]
    raw = 0

    def on_raw(block: bytes) -> None:
        nonlocal raw
        # more of the file is wanted: what was read is text now, but for a block that the decoder holds back until it
        # has all of it, so only where the text has grown are the two of one place
        if len(data) > marks[-1][0]:
            marks.append((len(data), raw))
        raw += len(block)

    source: StreamSource = registry.load("sources", file.kind)
    for block in read_blocks(file.path, file.compression, on_raw=on_raw, block_bytes=BLOCK):
        data += block
        if len(data) >= budget and raw < file.size:
            known = marks[-1][0]
            end = known if _has_no_ends(file.kind, reader) else source.cut(bytes(data[:known]), reader.options)
            if end:
                return _Head(bytes(data[:end]), marks, False)
            budget *= 2
    return _Head(bytes(data), [*(mark for mark in marks if mark[0] < len(data)), (len(data), file.size)], True)


def _up(budget: int) -> int:
    """Bytes of one stretch."""
    return -(-budget // STRETCHES)


def _has_no_ends(kind: str, reader: Reader) -> bool:
    """Is a file one document, so that it may be cut anywhere?"""
    return kind == "text" and reader.options.separator is None


def _cut(kind: str, reader: Reader, data: bytes, files: int) -> Iterator[bytes]:
    """Parts of the head of one of some files, each up to a record's end, so that all files have STRETCHES together."""
    source: StreamSource = registry.load("sources", kind)
    size, at = max(LEAST_STRETCH, len(data) * files // STRETCHES), 0
    while at < len(data):
        found, window = 0, size
        while not found and at + window < len(data):
            found = window if _has_no_ends(kind, reader) else source.cut(data[at : at + window], reader.options)
            window *= 2
        yield data[at : at + found] if found else data[at:]
        at = at + found if found else len(data)


def _encode_rows(group: Group, reader: Reader, batches: Iterator[DocumentBatch]) -> Values:
    """Some rows."""
    text = ids = documents = 0
    for batch in batches:
        group.rows += batch.rows_read
        group.bad += len(batch.bad)
        found = _encode(reader, batch.texts)
        text, ids, documents = text + found[0], ids + found[1], documents + len(batch.texts)
    return text, ids, documents


def _encode(reader: Reader, texts: list[bytes]) -> Values:
    """Some documents."""
    return sum(map(len, texts)), len(reader.tokenizer.encode_batch(texts)[0]) if texts else 0, len(texts)


def _encode_text(group: Group, reader: Reader, data: bytes, stored: float) -> Values:
    """A piece of plain text, which may begin and end inside a character. Its documents are those that end in it; where
    a file is one, the piece's share of all files."""
    clean = data.decode("utf-8", "ignore").encode()
    group.invalid += max(0, len(data) - len(clean) - 6)
    separator = reader.options.separator
    pieces = [clean] if separator is None else clean.split(separator)
    kept = separator if separator is not None and reader.options.keep_separator else b""
    texts = [piece + kept for piece in pieces if piece]
    ids = len(reader.tokenizer.encode_batch(texts)[0]) if texts else 0
    documents = len(pieces) - 1 if separator is not None else len(group.files) * stored / group.size
    return sum(map(len, texts)), ids, documents
