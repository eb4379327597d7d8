"""Plain text: a file is one document, or a separator ends each.

Bytes are kept as they are: no universal newlines, no stripping. A piece of white space is a text like any other; an
empty piece is skipped and noted. With `keep_separator` the separator stays at the end of its piece, so nothing of the
input is lost (llm.c's rule for tiny Shakespeare); what follows the last separator is a piece if it is not empty.
"""

from collections.abc import Iterator
from pathlib import Path

from tokenriver.errors import InputError
from tokenriver.sources import _reasons
from tokenriver.sources._rows import MARK, Rows, drop_mark, is_utf8
from tokenriver.streams import read_range
from tokenriver.types import DocumentBatch, Piece, SourceOptions

SUFFIXES = (".txt", ".text")
STREAMS = True


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
    rows = Rows()
    if first:
        blocks, marked = drop_mark(blocks)
        if marked:
            rows.note(_reasons.BYTE_ORDER_MARK)
            offset += len(MARK)
    texts = _whole(blocks, options) if options.separator is None else _split(blocks, options)
    for size, text in texts:
        if text is None:
            rows.reject(_reasons.ROW_TOO_LONG, offset)
        elif is_utf8(text):
            rows.add(text)
        else:
            rows.reject(_reasons.INVALID_UTF8, offset)
        offset += size
        if rows.full:
            yield rows.take()
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


def _whole(blocks: Iterator[bytes], options: SourceOptions) -> Iterator[tuple[int, bytes | None]]:
    """(bytes, all of it), or None for a text over the limit, whose rest is not read."""
    held: list[bytes] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block)
        if size > options.max_row_bytes:
            yield size, None
            return
    text = b"".join(held)
    held.clear()  # before the text is checked and encoded
    yield size, text


def _split(blocks: Iterator[bytes], options: SourceOptions) -> Iterator[tuple[int, bytes | None]]:
    """(bytes with the separator, text) of each piece; None for a text over the limit."""
    separator, limit = _separator(options), options.max_row_bytes
    kept = separator if options.keep_separator else b""
    held: list[bytes] = []  # the piece that has not ended yet, without `edge`
    size = 0  # bytes of `held`, kept or not
    edge = b""  # the last bytes of that piece, where a separator may have begun
    for block in blocks:
        pieces = (edge + block).split(separator)
        tail = pieces.pop()
        for piece in pieces:
            size += len(piece)
            text = b"".join((*held, piece, kept)) if size <= limit else None
            yield size + len(separator), text
            held, size = [], 0
        inner = max(0, len(tail) - len(separator) + 1)
        edge = tail[inner:]
        size += inner
        if size <= limit:
            held.append(tail[:inner])
        else:
            held.clear()
    size += len(edge)
    if size:
        yield size, b"".join((*held, edge)) if size <= limit else None
