"""llm.c's evaluation file: 256 int32 of header (magic, version, examples, bytes of the longest record), then one record
of uint16 an example: 65535, bytes of the record, its number, the label, 4, and five times a count and so many ids: the
context and four choices.

A record tells its own size, so records are found one after another; everything else is checked and read for all of
them at once.
"""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokenriver.choicedata import ChoiceExamples, fault
from tokenriver.errors import FormatError, LimitError
from tokenriver.types import Int64

MAGIC, VERSION = 20240522, 1
HEADER_BYTES = 1024
START = 65535
CHOICES = 4
MAX_EXAMPLES = 65535
MAX_RECORD_BYTES = 65535
MAX_ID = START - 1
OVERHEAD = 10
"""uint16 of a record that are no ids: five at its head, one before each piece."""
_HEAD = 5
_PIECES = CHOICES + 1
_LEAST = OVERHEAD + _PIECES

Words = NDArray[np.uint16]


# ------------------------------------------------------------------------------------------------ writing


def record_bytes(examples: ChoiceExamples) -> Int64:
    """(N,) int64: size of each record, if there are four choices everywhere."""
    ends = examples.piece_ends[_PIECES - 1 :: _PIECES]
    return 2 * (OVERHEAD + np.diff(ends, prepend=0))


def refuse(examples: ChoiceExamples) -> None:
    """LimitError for what the file cannot hold."""
    way_out = "leave it out, or use the native format, which has no such limit"
    if template := examples.about.get("options", {}).get("template"):
        raise LimitError(
            f"template: got examples in the turns of {template}, expected plain texts in llm.c's file, which knows no "
            "conversation; use the native format, or leave the template out"
        )
    if len(examples) > MAX_EXAMPLES:
        raise LimitError(f"examples: got {len(examples)}, expected at most {MAX_EXAMPLES} in llm.c's file; {way_out}")
    other = examples.counts != CHOICES
    if other.any():
        at = int(other.argmax())
        raise LimitError(
            f"{examples.name(at)}: choices: got {examples.counts[at]}, expected {CHOICES} in llm.c's file; {way_out}"
        )
    if int(examples.ids.max()) > MAX_ID:
        place = int((examples.ids > MAX_ID).argmax())
        at = int(np.searchsorted(examples.piece_ends, place, "right")) // _PIECES
        raise LimitError(
            f"{examples.name(at)}: id: got {examples.ids[place]}, expected at most {MAX_ID} in llm.c's file; {way_out}"
        )
    sizes = record_bytes(examples)
    if int(sizes.max()) > MAX_RECORD_BYTES:
        at = int((sizes > MAX_RECORD_BYTES).argmax())
        raise LimitError(
            f"{examples.name(at)}: record: got {sizes[at]} bytes, expected at most {MAX_RECORD_BYTES} in llm.c's "
            f"file; {way_out}"
        )


def pack(examples: ChoiceExamples) -> tuple[bytes, Words]:
    """The file's header and its records; LimitError for what it cannot hold."""
    refuse(examples)
    sizes = record_bytes(examples)
    words = sizes // 2
    starts = np.cumsum(words) - words
    lengths = np.diff(examples.piece_ends, prepend=0).reshape(-1, _PIECES)
    heads = starts[:, None] + np.arange(_HEAD)
    counts = starts[:, None] + _HEAD + np.cumsum(lengths + 1, axis=1) - (lengths + 1)
    out = np.zeros(int(words.sum()), "<u2")
    numbers = np.arange(len(examples))
    constants = [np.full_like(numbers, START), sizes, numbers, examples.labels, np.full_like(numbers, CHOICES)]
    out[heads] = np.stack(constants, axis=1)
    out[counts] = lengths
    holds_id = np.ones(len(out), np.bool_)
    holds_id[heads] = holds_id[counts] = False
    out[holds_id] = examples.ids
    header = struct.pack("<4i", MAGIC, VERSION, len(examples), int(sizes.max()))
    return header.ljust(HEADER_BYTES, b"\0"), out


# ------------------------------------------------------------------------------------------------ reading


def unpack(path: Path, data: NDArray[np.uint8]) -> ChoiceExamples:
    """The examples of a mapped file, every field checked before it is used; FormatError."""
    count, longest = _read_header(path, data)
    if (len(data) - HEADER_BYTES) % 2:
        raise FormatError(f"{path}: size: got {len(data)} bytes, expected an even number")
    words = data[HEADER_BYTES:].view("<u2")
    bounds = _find_records(path, words, count, longest)
    starts = bounds[:-1]
    numbers = np.arange(count)
    _demand(path, "start mark", starts, words, np.full(count, START))
    _demand(path, "number", starts + 2, words, numbers)
    _demand(path, "choices", starts + 4, words, np.full(count, CHOICES))
    places, lengths = _find_pieces(path, words, bounds)
    holds_id = np.ones(len(words), np.bool_)
    holds_id[starts[:, None] + np.arange(_HEAD)] = holds_id[places] = False
    ids = words[holds_id]
    if int(ids.max()) > MAX_ID:
        at = HEADER_BYTES + 2 * int(np.flatnonzero(holds_id)[(ids > MAX_ID).argmax()])
        raise FormatError(f"{path}: id at byte {at}: got {ids.max()}, expected at most {MAX_ID}")
    found = ChoiceExamples(
        labels=words[starts + 3].astype(np.int64),
        choice_ends=CHOICES * (numbers + 1),
        piece_ends=np.cumsum(lengths.ravel()),
        ids=ids.astype(np.uint32),
        records=numbers,
        sources=np.zeros(count, np.int32),
    )
    if wrong := fault(found):
        raise FormatError(f"{path}: {wrong}")
    return found


def _read_header(path: Path, data: NDArray[np.uint8]) -> tuple[int, int]:
    """(examples, bytes of the longest record)"""
    if len(data) < HEADER_BYTES:
        raise FormatError(f"{path}: size: got {len(data)} bytes, expected a header of {HEADER_BYTES} bytes and records")
    magic, version, count, longest = struct.unpack("<4i", data[:16].tobytes())
    if magic != MAGIC:
        raise FormatError(f"{path}: magic at byte 0: got {magic}, expected {MAGIC}")
    if version != VERSION:
        raise FormatError(f"{path}: version at byte 4: got {version}, expected {VERSION}")
    if not 0 < count <= MAX_EXAMPLES:
        raise FormatError(f"{path}: number of examples at byte 8: got {count}, expected 1 to {MAX_EXAMPLES}")
    if not 2 * _LEAST <= longest <= MAX_RECORD_BYTES:
        raise FormatError(
            f"{path}: longest record at byte 12: got {longest} bytes, expected {2 * _LEAST} to {MAX_RECORD_BYTES}"
        )
    return count, longest


def _find_records(path: Path, words: Words, count: int, longest: int) -> Int64:
    """(count + 1,) where each record starts, in words, and where the last one ends."""
    bounds = np.empty(count + 1, np.int64)
    at, end = 0, len(words)
    for number in range(count):
        bounds[number] = at
        size = int(words[at + 1]) if at + 1 < end else 0
        if size % 2 or not _LEAST <= size // 2 <= min(longest // 2, end - at):
            raise FormatError(
                f"{path}: record {number} at byte {HEADER_BYTES + 2 * at}: got {size} bytes, expected an even number "
                f"from {2 * _LEAST} to {longest} that the rest of the file, {2 * (end - at)} bytes, holds"
            )
        at += size // 2
    if at != end:
        raise FormatError(
            f"{path}: size: got {HEADER_BYTES + 2 * end} bytes, expected {HEADER_BYTES + 2 * at} for {count} examples"
        )
    bounds[count] = at
    return bounds


def _demand(path: Path, what: str, places: Int64, words: Words, expected: Int64) -> None:
    wrong = words[places] != expected
    if wrong.any():
        at = int(wrong.argmax())
        raise FormatError(
            f"{path}: {what} of record {at} at byte {HEADER_BYTES + 2 * int(places[at])}: got {words[places[at]]}, "
            f"expected {expected[at]}"
        )


def _find_pieces(path: Path, words: Words, bounds: Int64) -> tuple[Int64, Int64]:
    """(where the count of each piece stands, the counts), (N, 5) both; the counts of a record fill it exactly."""
    sizes = np.diff(bounds)
    places = np.empty((len(sizes), _PIECES), np.int64)
    lengths = np.empty((len(sizes), _PIECES), np.int64)
    at = bounds[:-1] + _HEAD
    for piece in range(_PIECES):
        places[:, piece], lengths[:, piece] = at, words[at]
        # a count that leads out of its record is caught below; until then it must not lead out of the file
        at = np.minimum(at + 1 + lengths[:, piece], len(words) - 1)
    wrong = (OVERHEAD + lengths.sum(axis=1) != sizes) | (lengths < 1).any(axis=1)
    if wrong.any():
        first = int(wrong.argmax())
        got = ", ".join(map(str, lengths[first].tolist()))
        raise FormatError(
            f"{path}: ids of the context and the choices of record {first}: got {got}, expected at least 1 each and "
            f"{int(sizes[first]) - OVERHEAD} together, as its size says"
        )
    return places, lengths
