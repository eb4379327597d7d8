"""Plain text: a file is one document, or a separator ends each.

Bytes are kept as they are: no universal newlines, no stripping. A piece of white space is a text like any other; an
empty piece is skipped and noted. With `keep_separator` the separator stays at the end of its piece, so nothing of the
input is lost (llm.c's rule for tiny Shakespeare); what follows the last separator is a piece if it is not empty.
"""

from collections.abc import Iterator
from pathlib import Path

from tokenriver.errors import InputError
from tokenriver.sources import _reasons
from tokenriver.sources._rows import Rows, begin, is_utf8
from tokenriver.streams import read_range
from tokenriver.types import DocumentBatch, Piece, SourceOptions

SUFFIXES = (".txt", ".text")
STREAMS = True
LOCAL_ENDS = False  # a separator may lie across a cut, or overlap itself

_RUN = 512  # pieces that are checked together before each is looked at by itself


def sniff(head: bytes) -> bool:
    """Never sure: anything may be text, so text is known by its name or by the user's word alone."""
    return False


def plan(path: Path, size: int, options: SourceOptions, unit_bytes: int) -> list[tuple[int, int]] | None:
    """The whole file, unless it is large and has separators: these are found by reading from the start alone, since
    one may overlap the next."""
    return None if options.separator is not None and size > unit_bytes else [(0, size)]


def read(piece: Piece, options: SourceOptions) -> Iterator[DocumentBatch]:
    """Documents of bytes [start, stop) of a plain file."""
    yield from parse(read_range(piece.path, piece.start, piece.stop), options, piece.start, first=piece.start == 0)


def cut(block: bytes, options: SourceOptions) -> int:
    """Length of the block up to and with its last separator, counted from the left as `parse` does; 0 without one."""
    if options.separator is None:
        return 0
    return len(block) - len(block.split(_separator(options))[-1])


def parse(blocks: Iterator[bytes], options: SourceOptions, offset: int, *, first: bool) -> Iterator[DocumentBatch]:
    """Documents of consecutive blocks of one stream, which starts at byte `offset` of the input."""
    rows, blocks, offset = begin(blocks, offset, first=first)
    runs = _whole(blocks, options) if options.separator is None else _split(blocks, options)
    gap = len(options.separator or b"")
    for pieces, kept, size in runs:
        if not pieces:
            rows.reject(_reasons.ROW_TOO_LONG, offset)
        start = offset
        for i in range(0, len(pieces), _RUN):
            run = pieces[i : i + _RUN]
            _add_run(rows, run, kept, start, options)
            start += sum(map(len, run)) + gap * len(run)
            if rows.full:
                yield rows.take()
        offset += size
    if rows.waiting:
        yield rows.take()


def fields(path: Path, head: bytes) -> list[str]:
    """Plain text has no fields."""
    return []


def _separator(options: SourceOptions) -> bytes:
    if not options.separator:
        raise InputError(
            "separator: got an empty one, expected at least one byte; leave it out for one document a file"
        )
    return options.separator


_Runs = Iterator[tuple[list[bytes], bytes, int]]
"""(consecutive pieces without their separators, what to put behind each, bytes of the input that they took); no pieces
at all stand for one that grew over the limit while it was read and was not kept."""


def _whole(blocks: Iterator[bytes], options: SourceOptions) -> _Runs:
    held: list[bytes] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block)
        if size > options.max_row_bytes:
            yield [], b"", size
            return
    text = b"".join(held)
    held.clear()  # before the text is checked and encoded
    yield [text], b"", size


def _split(blocks: Iterator[bytes], options: SourceOptions) -> _Runs:
    separator, limit = _separator(options), options.max_row_bytes
    gap, kept = len(separator), separator if options.keep_separator else b""
    held: list[bytes] = []  # the piece that has not ended yet, without `edge`
    size = 0  # bytes of `held`, kept or not
    edge = b""  # the last bytes of that piece, where a separator may have begun
    for block in blocks:
        pieces = (edge + block).split(separator)
        tail = pieces.pop()
        if pieces:
            first = size + len(pieces[0])
            if first > limit:
                yield [], b"", first + gap
                del pieces[0]
            elif held:
                pieces[0] = b"".join([*held, pieces[0]])
            held, size = [], 0
            if pieces:
                yield pieces, kept, sum(map(len, pieces)) + gap * len(pieces)
        inner = max(0, len(tail) - gap + 1)
        edge = tail[inner:]
        size += inner
        if size <= limit:
            held.append(tail[:inner])
        else:
            held = []
    size += len(edge)
    if size:
        yield [b"".join([*held, edge])] if size <= limit else [], b"", size


def _add_run(rows: Rows, pieces: list[bytes], kept: bytes, offset: int, options: SourceOptions) -> None:
    texts = [piece + kept for piece in pieces] if kept else pieces
    fit = b"" not in texts and max(map(len, pieces)) <= options.max_row_bytes
    if fit and (all(map(bytes.isascii, texts)) or all(map(is_utf8, texts))):
        rows.extend(texts, sum(map(len, texts)))
        return
    for piece, text in zip(pieces, texts, strict=True):
        if len(piece) > options.max_row_bytes:
            rows.reject(_reasons.ROW_TOO_LONG, offset)
        elif is_utf8(text):
            rows.add(text)
        else:
            rows.reject(_reasons.INVALID_UTF8, offset)
        offset += len(piece) + len(options.separator or b"")
