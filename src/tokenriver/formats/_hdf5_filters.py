"""The HDF5 filters that a chunk may have passed: gzip, shuffle, fletcher32 and lzf, undone without the C library.

A stored chunk is hostile until it is decoded: no step makes more bytes than the chunk may hold, so a bomb of a few
kilobytes costs no more memory than an honest chunk (the C library lets gzip and lzf grow without a bound).
"""

import zlib
from collections.abc import Sequence

import numpy as np

from tokenriver.files import Buffer

GZIP, SHUFFLE, FLETCHER32, LZF = 1, 2, 3, 32000
NAMES = {GZIP: "gzip", SHUFFLE: "shuffle", FLETCHER32: "fletcher32", LZF: "lzf"}
CHECKSUM_BYTES = 4


class BadChunkError(ValueError):
    """A stored chunk that cannot be what its filters made; the caller knows which file and chunk it is."""


def decode(data: Buffer, filters: Sequence[int], mask: int, num_bytes: int, item: int) -> Buffer:
    """The num_bytes bytes of a chunk of `item`-byte ids that went through `filters`, in the order of writing; those
    whose bit is set in `mask` were left out. BadChunkError for anything else."""
    room = num_bytes + CHECKSUM_BYTES * len(filters)
    for number in reversed(range(len(filters))):
        if mask >> number & 1:
            continue
        if filters[number] == GZIP:
            data = _gunzip(data, room)
        elif filters[number] == LZF:
            data = _unlzf(bytes(data), room)
        elif filters[number] == FLETCHER32:
            data = _checked(data)
        else:
            data = _unshuffled(data, item)
    found = memoryview(data).nbytes
    if found != num_bytes:
        raise BadChunkError(f"got {found} decoded bytes, expected {num_bytes}")
    return data


def _gunzip(data: Buffer, room: int) -> bytes:
    engine = zlib.decompressobj()
    try:
        out = engine.decompress(data, room + 1)
    except zlib.error as error:
        raise BadChunkError(f"got {error}, expected a gzip stream") from error
    if not engine.eof:
        raise BadChunkError(f"got a gzip stream that is cut off or makes over {room} bytes, expected a whole one")
    return out


def _unlzf(data: bytes, room: int) -> bytearray:
    """LZF: a control byte below 32 is followed by that many bytes and one more as they are; any other has in its upper
    three bits the length (less 2; 7 takes the next byte along), and with the byte after in the lower 13 how far back
    the bytes to repeat lie (less 1)."""
    out, at, size = bytearray(), 0, len(data)
    try:
        while at < size:
            control = data[at]
            at += 1
            if control < 32:
                if at + control >= size:
                    raise IndexError
                out += data[at : at + control + 1]
                at += control + 1
            else:
                length = control >> 5
                if length == 7:
                    length += data[at]
                    at += 1
                back = ((control & 31) << 8 | data[at]) + 1
                at += 1
                _repeat(out, back, length + 2)
            if len(out) > room:
                raise BadChunkError(f"got an lzf stream of over {room} bytes, expected a chunk")
    except IndexError as error:
        raise BadChunkError(f"got an lzf stream that breaks at byte {at}, expected a whole one") from error
    return out


def _repeat(out: bytearray, back: int, length: int) -> None:
    if back > len(out):
        raise IndexError
    start = len(out) - back
    piece = out[start : start + length]
    while len(piece) < length:  # the copy overlaps itself: what it writes is read again
        piece = piece + piece
    out += piece[:length]


def _unshuffled(data: Buffer, item: int) -> bytes:
    """First bytes of all ids, then the second ones, ...; bytes that fill no whole id stand at the end as they are."""
    raw = np.frombuffer(data, np.uint8)
    whole = raw.size - raw.size % item
    return raw[:whole].reshape(item, -1).T.tobytes() + raw[whole:].tobytes()


def _checked(data: Buffer) -> Buffer:
    view = memoryview(data).cast("B")
    if len(view) < CHECKSUM_BYTES:
        raise BadChunkError(f"got {len(view)} bytes, expected a fletcher32 checksum of {CHECKSUM_BYTES}")
    content, stored = view[:-CHECKSUM_BYTES], int.from_bytes(view[-CHECKSUM_BYTES:], "little")
    found = fletcher32(content)
    # libraries of before 2008 swapped the bytes of each half on some machines; both are legal
    swapped = (found >> 8 & 0xFF00FF) | (found & 0xFF00FF) << 8
    if stored not in (found, swapped):
        raise BadChunkError(f"got a fletcher32 checksum of {stored:#010x}, expected {found:#010x}")
    return content


def fletcher32(data: Buffer) -> int:
    """Fletcher's checksum over 16-bit big-endian words; the last odd byte is a word's upper half."""
    view = memoryview(data).cast("B")
    first = second = 0
    for at in range(0, len(view), 1 << 16):
        block = view[at : at + (1 << 16)]
        words = np.frombuffer(bytes(block) + b"\0" if len(block) % 2 else block, ">u2").astype(np.int64)
        second += first * words.size + int((words * np.arange(words.size, 0, -1)).sum())
        first += int(words.sum())
    return _folded(second) << 16 | _folded(first)


def _folded(total: int) -> int:
    """A sum whose carries were added back: never 0 unless all was 0."""
    return total % 0xFFFF or min(total, 0xFFFF)
