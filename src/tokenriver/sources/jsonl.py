"""JSON lines: one object a line, the text in one of its fields.

Rules, one for each kind of row. Blank rows and empty texts are skipped and noted. A row that is not UTF-8, not JSON,
not an object, without the field, with null or another type in it, or longer than `max_row_bytes` is a bad row: it is
never coerced and never takes its neighbours with it. A lone surrogate escape becomes U+FFFD and is noted. A carriage
return before the line feed is white space of JSON; a byte-order mark is dropped at the start of the input alone.

A row of n bytes is held as its blocks and one joined copy, then as the joined copy, the parsed text (up to 4n outside
the basic plane) and its UTF-8: at most 6n, 3n for ASCII.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import orjson

from tokenriver.sources import _reasons
from tokenriver.sources._rows import MARK, Rows, begin, is_utf8
from tokenriver.streams import BLOCK, read_range
from tokenriver.types import DocumentBatch, Piece, SourceOptions

Line = bytes | memoryview
SUFFIXES = (".jsonl", ".ndjson", ".json")
STREAMS = True
LOCAL_ENDS = True

_RUN = 512  # rows that are tried together before each is looked at by itself
_GLANCE = 1 << 14
_LONG = 1 << 10  # bytes of a line from which on a view of it costs less than a copy
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def sniff(head: bytes) -> bool:
    """Is the first row that is not blank an object, whole or cut by the end of the head?"""
    line, newline, _ = head.removeprefix(MARK).lstrip().partition(b"\n")
    if not line.startswith(b"{"):
        return False
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return not newline and re.match(rb'\{\s*"', line) is not None
    return True


def plan(path: Path, size: int, options: SourceOptions, unit_bytes: int) -> list[tuple[int, int]] | None:
    """Equal byte ranges; each owns the rows that start in it, so any cut gives the same rows."""
    count = max(1, round(size / unit_bytes))
    return [(size * i // count, size * (i + 1) // count) for i in range(count)]


def read(piece: Piece, options: SourceOptions) -> Iterator[DocumentBatch]:
    """Documents of the rows that start in bytes [start, stop) of a plain file."""
    start = _first_row(piece)
    if start < piece.stop:
        blocks = _owned(piece, start)
        yield from parse(blocks, options, start, first=start == 0)


def cut(block: bytes, options: SourceOptions) -> int:
    """Length of the block up to and with its last line feed."""
    return block.rfind(b"\n") + 1


def parse(blocks: Iterator[bytes], options: SourceOptions, offset: int, *, first: bool) -> Iterator[DocumentBatch]:
    """Documents of consecutive blocks of one stream, which starts at byte `offset` of the input."""
    rows, blocks, offset = begin(blocks, offset, first=first)
    for start, lines in _lines(_sliced(blocks), offset, options.max_row_bytes):
        if not lines:
            rows.reject(_reasons.ROW_TOO_LONG, start)
        for i in range(0, len(lines), _RUN):
            run = lines[i : i + _RUN]
            size = sum(map(len, run)) + len(run)
            if not _add_run(rows, run, size, options):
                _add_each(rows, run, start, options)
            start += size
            if rows.full:
                yield rows.take()
    if rows.waiting:
        yield rows.take()


def lines(blocks: Iterator[bytes], options: SourceOptions) -> Iterator[tuple[int, list[Line]]]:
    """(byte offset of the first, consecutive lines) of a whole input; no lines at all stand for one that is longer than
    `max_row_bytes`."""
    _, blocks, offset = begin(blocks, 0, first=True)
    yield from _lines(_sliced(blocks), offset, options.max_row_bytes)


def load_row(line: bytes) -> tuple[object, str, bool]:
    """The value of a line; why it has none, a reason of `_reasons` (`blank` among them), or ""; and whether lone
    surrogate escapes in it became U+FFFD."""
    try:
        return orjson.loads(line), "", False
    except ValueError:
        if line.isspace() or not line:
            return None, _reasons.BLANK, False
        if not is_utf8(line):
            return None, _reasons.INVALID_UTF8, False
    try:
        return orjson.loads(_ESCAPE.sub(_mend, line)), "", True
    except ValueError:
        return None, _reasons.NOT_JSON, False


def fields(path: Path, head: bytes) -> list[str]:
    """Names of the fields in the first rows, sorted: what a message shows when the wanted one is missing."""
    seen: set[str] = set()
    for line in head.removeprefix(MARK).split(b"\n")[:100]:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        seen.update(row if isinstance(row, dict) else ())
    return sorted(seen)


# ------------------------------------------------------------------------------------------ cutting into lines


def _sliced(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks of at most BLOCK, so that batches stay bounded whatever the caller feeds."""
    for block in blocks:
        if len(block) <= BLOCK:
            yield block
        else:
            for i in range(0, len(block), BLOCK):
                yield block[i : i + BLOCK]


def _lines(blocks: Iterator[bytes], offset: int, limit: int) -> Iterator[tuple[int, list[Line]]]:
    """(offset of the first line, consecutive whole lines); no lines at all stand for one line that grew over the
    limit while it was read and was not kept."""
    held: list[Line] = []  # the blocks of a line that has not ended yet
    size = 0  # its bytes so far, kept or not
    position = offset  # of the next block; `offset` is that of the line
    for block in blocks:
        position += len(block)
        lines = _split(block)
        tail = lines.pop()
        if not lines:
            size += len(tail)
            if size <= limit:
                held.append(tail)
            else:
                held = []
            continue
        if size + len(lines[0]) > limit:
            yield offset, []
            offset += size + len(lines.pop(0)) + 1
        elif held:
            held.append(lines[0])
            lines[0] = b"".join(held)
        held = []  # before the line is parsed, which may take all the memory there is
        if lines:
            yield offset, lines
        offset, size = position - len(tail), len(tail)
        held = [tail] if tail else []
    if size:
        yield offset, [b"".join(held)] if size <= limit else []


def _split(block: bytes) -> list[Line]:
    """block.split(b"\\n"), which looks at every byte by itself and copies it: where lines are long, views of what lies
    between the ends that `find` finds are much faster."""
    if block.count(b"\n", 0, _GLANCE) > _GLANCE // _LONG:
        return [*block.split(b"\n")]
    view, lines, start = memoryview(block), list[Line](), 0
    while (end := block.find(b"\n", start)) >= 0:
        lines.append(view[start:end])
        start = end + 1
    lines.append(view[start:])
    return lines


def _first_row(piece: Piece) -> int:
    """Offset of the first row that starts in the piece; its stop if there is none."""
    if piece.start == 0:
        return 0
    at = piece.start - 1  # a line feed here means that a row starts with the piece
    for block in read_range(piece.path, at, piece.stop - 1):
        found = block.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(block)
    return piece.stop


def _owned(piece: Piece, start: int) -> Iterator[bytes]:
    """The bytes from `start` to the end of the last row that starts before the piece's stop."""
    yield from read_range(piece.path, start, piece.stop - 1)
    # the row of byte stop - 1 ends at the first line feed from there on
    for block in read_range(piece.path, piece.stop - 1, piece.path.stat().st_size):
        found = block.find(b"\n")
        if found >= 0:
            yield block[: found + 1]
            return
        yield block


# ------------------------------------------------------------------------------------------ lines into texts


def _add_run(rows: Rows, lines: list[Line], size: int, options: SourceOptions) -> bool:
    """Add rows that are all ordinary; False, and nothing added, if one of them is not."""
    if options.max_row_bytes < BLOCK and max(map(len, lines)) > options.max_row_bytes:
        return False
    loads, field = orjson.loads, options.text_field
    try:
        texts = [loads(line)[field].encode() for line in lines]
    except (ValueError, TypeError, KeyError, AttributeError):
        return False
    if b"" in texts:
        return False
    rows.extend(texts, size)
    return True


def _add_each(rows: Rows, lines: list[Line], offset: int, options: SourceOptions) -> None:
    loads, field, limit = orjson.loads, options.text_field, options.max_row_bytes
    for line in lines:
        if len(line) > limit:
            rows.reject(_reasons.ROW_TOO_LONG, offset)
        else:
            try:
                rows.add(loads(line)[field].encode())
            except (ValueError, TypeError, KeyError, AttributeError):
                _add_odd(rows, bytes(line), offset, field)
        offset += len(line) + 1


def _add_odd(rows: Rows, line: bytes, offset: int, field: str) -> None:
    """A row that is not ordinary: repair it by a rule, or say what is wrong with it."""
    row, reason, _ = load_row(line)
    if reason == _reasons.BLANK:
        rows.skip(reason)
        return
    reason = reason or _fault(row, field)
    if reason or not isinstance(row, dict):
        rows.reject(reason, offset)
        return
    if "\ufffd" in row[field]:
        rows.note(_reasons.LONE_SURROGATE)
    rows.add(row[field].encode())


def _mend(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if escape[1] else escape[0]


def _fault(row: object, field: str) -> str:
    if not isinstance(row, dict):
        return _reasons.NOT_AN_OBJECT
    if field not in row:
        return _reasons.FIELD_MISSING
    if row[field] is None:
        return _reasons.NULL
    return "" if isinstance(row[field], str) else _reasons.NOT_A_STRING
