"""The `.csv.gz` beside an OLMo array: where its documents begin and end, a row for each, read in bounded memory.

dolma writes `start,end,id,source,line` with CRLF and quotes where CSV needs them, OLMo-core `start,end` with LF. Only
the first two columns count; the others may hold anything, line ends in quotes included.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tokenriver import streams
from tokenriver.errors import FormatError, InputError
from tokenriver.formats._decimals import parse
from tokenriver.formats._runs import Bytes
from tokenriver.types import Int64

SUFFIX = ".csv.gz"
MAX_EMPTY = 1 << 20
"""So many more documents than ids are admitted: without a limit a file of a megabyte could ask for gigabytes."""
MAX_ROW = 1 << 20
_BLOCK = 1 << 20
_LF, _CR, _COMMA, _QUOTE = b'\n\r,"'


def bounds_path(array: Path) -> Path:
    """part-0-00000.npy has its bounds in part-0-00000.csv.gz."""
    return array.with_suffix(SUFFIX)


def last_end(path: Path) -> int:
    """The end of the last document in ids, which tells how wide an id is, without a look at the rows before it; 0 if
    there are none. FormatError."""
    last = None
    for text, begins, stops in _rows(path):
        last = text, (begins[-1:], stops[-1:])
    return 0 if last is None else int(_numbers(path, -1, *last)[1][0])


def read_ends(path: Path, num_tokens: int) -> Int64:
    """(k,) ends of documents, which follow one another from 0 to num_tokens; FormatError."""
    found = list(_read(path, num_tokens + MAX_EMPTY))
    ends = np.concatenate([np.empty(0, np.int64), *found])
    last = int(ends[-1]) if len(ends) else 0
    if last != num_tokens:
        raise FormatError(
            f"{path}: end of the last document: got {last}, expected {num_tokens}, by the array's size; if its ids are "
            "wider or narrower, say so with dtype"
        )
    return ends


def _read(path: Path, most: int) -> Iterator[Int64]:
    """Blocks of ends, none empty; FormatError where the rows do not follow one another, or are more than `most`."""
    number, before = 0, 0
    for text, begins, stops in _rows(path):
        starts, ends = _numbers(path, number, text, (begins, stops))
        expected = np.concatenate([[before], ends[:-1]])
        wrong = (starts != expected) | (ends < starts)
        if wrong.any():
            bad = int(np.argmax(wrong))
            raise FormatError(
                f"{path}: row {number + bad}: got a document from {starts[bad]} to {ends[bad]}, expected one that "
                f"begins at {expected[bad]}"
            )
        number += len(ends)
        if number > most:
            raise FormatError(f"{path}: rows: got more than {most}, expected at most so many for the array's ids")
        before = int(ends[-1])
        yield ends


def _rows(path: Path) -> Iterator[tuple[Bytes, Int64, Int64]]:
    """Blocks of text with the first byte of each whole row in it and the line feed that ends it."""
    rest = b""
    try:
        for block in _large(streams.read_blocks(path, "gzip")):
            data = rest + block
            text = np.frombuffer(data, np.uint8)
            stops = _line_feeds(text)
            used = int(stops[-1]) + 1 if len(stops) else 0
            rest = data[used:]
            if len(rest) > MAX_ROW:
                raise FormatError(f"{path}: row: got one of over {MAX_ROW} bytes, expected `start,end` and little more")
            if used:
                yield text, np.concatenate([[0], stops[:-1] + 1]), stops
        if rest:
            text = np.frombuffer(rest + b"\n", np.uint8)
            if len(_line_feeds(text)) != 1:
                raise FormatError(f"{path}: last row: got a text in quotes that does not end, expected a whole row")
            yield text, np.zeros(1, np.int64), np.array([len(rest)])
    except InputError as error:
        raise FormatError(str(error)) from error


def _large(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Blocks joined to about a mebibyte: an archive of many tiny members gives as many tiny ones."""
    held = bytearray()
    for block in blocks:
        held += block
        if len(held) >= _BLOCK:
            yield bytes(held)
            held.clear()
    yield bytes(held)


def _line_feeds(text: Bytes) -> Int64:
    """Where the line feeds are that end rows: an even number of quotes stands before them, as text begins a row."""
    feeds = np.flatnonzero(text == _LF)
    quotes = np.flatnonzero(text == _QUOTE)
    return feeds[np.searchsorted(quotes, feeds) % 2 == 0] if len(quotes) else feeds


def _numbers(path: Path, number: int, text: Bytes, rows: tuple[Int64, Int64]) -> tuple[Int64, Int64]:
    """The first two columns of some rows, `number` that of the first row."""
    begins, stops = rows
    commas = np.append(np.flatnonzero(text == _COMMA), [len(text), len(text)])
    first = np.searchsorted(commas, begins)
    middles = np.minimum(commas[first], stops)
    # a row of two columns ends where its line does
    ended = stops - ((stops > begins) & (text[np.maximum(stops - 1, 0)] == _CR))
    ends_at = np.minimum(commas[np.minimum(first + 1, len(commas) - 1)], ended)
    starts, good = parse(text, begins, middles)
    ends, good_end = parse(text, np.minimum(middles + 1, stops), ends_at)
    good &= good_end
    if not good.all():
        bad = int(np.argmin(good))
        row = text[begins[bad] : min(int(stops[bad]), int(begins[bad]) + 100)].tobytes()
        raise FormatError(f"{path}: row {number + bad}: got {row!r}, expected `start,end` in decimal digits")
    return starts, ends
