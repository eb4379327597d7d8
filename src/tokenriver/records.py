"""Input files -> raw records, in order: objects of JSON lines, of a JSON array, or of Parquet rows.

A row that is no object is not left out: it stands in its place as a `Fault`, so that numbers of rows stay right and
every fault is counted and listed.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tokenriver import magic, registry
from tokenriver.ahead import run_ahead
from tokenriver.errors import InputError, RiverError
from tokenriver.inputs import InputFile
from tokenriver.kinds import read_head
from tokenriver.streams import read_blocks
from tokenriver.types import SourceOptions

BLANK = "blank"
LONE_SURROGATE = "lone-surrogate"
NOT_AN_OBJECT = "not-an-object"
TOO_LONG = "row-too-long"
LINES = 2048
OnRaw = Callable[[bytes], None]
Progress = Callable[[int, int], None]
Line = bytes | memoryview
LoadRow = Callable[[bytes], tuple[object, str, bool]]
ARRAY_BYTES = 1 << 30
"""A JSON array is read as a whole: this many bytes at most."""


class Fault(NamedTuple):
    """A row that gave nothing, and why."""

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Records:
    """Some consecutive rows of one input."""

    first: int
    """Number of the first in its input, from 0."""
    rows: Sequence[dict[str, Any] | Fault]
    """Blank lines of a file of lines are faults of the reason `blank`."""
    offset: int = -1
    """Byte offset of the first in the decompressed input; -1 where there is none."""
    sizes: Sequence[int] = ()
    """Bytes of each, line feed included, where there is an offset."""
    mended: int = 0
    """Rows of which a lone surrogate escape became U+FFFD."""

    def offset_of(self, place: int) -> int | None:
        """Byte offset of the row at a place in `rows`, None where there is none."""
        if self.offset < 0:
            return None
        return self.offset + next(iter(reversed([0, *accumulate(self.sizes[:place])])))


def read_records(
    file: InputFile, options: SourceOptions, on_raw: OnRaw | None = None, *, ahead: int = 0
) -> Generator[Records, None, None]:
    """All rows of an input that `find_inputs(..., arrays=True)` found; InputError for one that cannot be read. `on_raw`
    is called with stored bytes of lines as they are read. So many blocks of lines are read and unpacked `ahead`, by a
    thread, which then calls `on_raw`, and which ends when this is closed."""
    if file.kind == "jsonl" and magic.is_array(read_head(file.path)[1]):
        yield from _of_array(file)
    elif file.kind == "jsonl":
        with closing(_blocks(file, on_raw)) as blocks, closing(run_ahead(blocks, ahead) if ahead else blocks) as given:
            yield from _of_lines(options, given)
    elif file.kind == "parquet":
        first = 0
        for rows in registry.load("sources", "parquet").records(file.path):
            yield Records(first, rows)
            first += len(rows)
    else:
        raise InputError(
            f"{file.path}: kind: got {file.kind}, expected records: JSON lines, a JSON array, or Parquet; convert it"
        )


def read_all(files: Sequence[InputFile], progress: Progress | None = None) -> Iterator[tuple[int, Records]]:
    """(number of the input, some rows) of all inputs, in order; `progress(done, total)` is called with stored bytes."""
    total, done = sum(file.size for file in files), 0
    for source, file in enumerate(files):
        seen = 0

        def count(data: bytes) -> None:
            nonlocal seen
            seen += len(data)

        for found in read_records(file, SourceOptions(), count):
            yield source, found
            if progress is not None:
                progress(done + min(seen, file.size), total)
        done += file.size
        if progress is not None:
            progress(done, total)


def joined_records(several: Iterable[Records], size: int) -> Iterator[Records]:
    """The same rows, those of lines that follow on one another so many together that they have `size` bytes at least,
    or are the last. An error comes behind the rows before it."""
    held: list[Records] = []
    stop = total = 0
    try:
        for some in several:
            if held and (total >= size or some.offset < 0 or some.offset != stop):
                yield _joined(held)
                held, total = [], 0
            held.append(some)
            total += sum(some.sizes)
            stop = some.offset + sum(some.sizes)
    except RiverError:
        if held:
            yield _joined(held)
        raise
    if held:
        yield _joined(held)


def _joined(held: Sequence[Records]) -> Records:
    if len(held) == 1:
        return held[0]
    rows = [row for some in held for row in some.rows]
    sizes = [size for some in held for size in some.sizes]
    return Records(held[0].first, rows, held[0].offset, sizes, sum(some.mended for some in held))


def _blocks(file: InputFile, on_raw: OnRaw | None) -> Generator[bytes, None, None]:
    yield from read_blocks(file.path, file.compression, on_raw=on_raw)


def _of_lines(options: SourceOptions, blocks: Iterator[bytes]) -> Iterator[Records]:
    source = registry.load("sources", "jsonl")
    first = 0
    for offset, lines in source.lines(blocks, options):
        if not lines:
            yield Records(first, [Fault(TOO_LONG)], offset, [0])
            first += 1
        for at in range(0, len(lines), LINES):
            run = lines[at : at + LINES]
            sizes = [len(line) + 1 for line in run]
            rows, mended = _parsed(source.load_row, run, options.max_row_bytes)
            yield Records(first, rows, offset, sizes, mended)
            first, offset = first + len(run), offset + sum(sizes)


def _parsed(load_row: LoadRow, lines: Sequence[Line], limit: int) -> tuple[list[dict[str, Any] | Fault], int]:
    """The rows of some lines, and of how many a lone surrogate was mended."""
    loads = orjson.loads
    if max(map(len, lines)) <= limit:
        try:
            rows = [loads(line) for line in lines]
        except ValueError:
            pass
        else:
            if set(map(type, rows)) == {dict}:
                return rows, 0
    found = [_one(load_row, line, limit) for line in lines]
    return [row for row, _ in found], sum(mended for _, mended in found)


def _one(load_row: LoadRow, line: Line, limit: int) -> tuple[dict[str, Any] | Fault, bool]:
    if len(line) > limit:
        return Fault(TOO_LONG), False
    row, reason, mended = load_row(bytes(line))
    if reason:
        return Fault(reason), False
    return (row, mended) if isinstance(row, dict) else (Fault(NOT_AN_OBJECT, type(row).__name__), False)


def _of_array(file: InputFile) -> Iterator[Records]:
    rows = _load_array(file.path, file.compression)
    for first in range(0, len(rows), LINES):
        some = rows[first : first + LINES]
        yield Records(first, [r if isinstance(r, dict) else Fault(NOT_AN_OBJECT, type(r).__name__) for r in some])


def _load_array(path: Path, compression: str) -> list[object]:
    data = bytearray()
    for block in read_blocks(path, compression):
        data += block
        if len(data) > ARRAY_BYTES:
            raise InputError(
                f"{path}: size: got an array of more than {ARRAY_BYTES} bytes, expected one object a line; "
                f"rewrite it: jq -c '.[]' {path.name}"
            )
    try:
        rows = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise InputError(f"{path}: content: got no JSON array ({error}), expected one; mend or replace it") from error
    if not isinstance(rows, list):
        raise InputError(f"{path}: content: got {type(rows).__name__}, expected an array of objects; replace it")
    return rows
