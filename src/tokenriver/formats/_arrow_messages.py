"""What the metadata of Arrow IPC messages claims, read before pyarrow acts on it: that the buffers of a batch lie one
behind the other in its body, as the format demands, and how large they become when they are decompressed.

The metadata are flatbuffers: tables whose fields are found by a table of 16-bit places, all positions relative.
pyarrow has verified their structure; here a position outside is a ValueError all the same.
"""

import struct
from collections.abc import Iterator

import pyarrow as pa

MAX_GROWTH = 1024
"""Bytes that a byte of a compressed batch may become,"""
SMALL_BATCH = 1 << 26
"""but this many in any case."""

_MAX_PADDING = 64
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_MAGIC = b"ARROW1"


def check_message(message: pa.Message) -> None:
    """ValueError unless a message's buffers tile its body and its batch does not explode."""
    root = _root(memoryview(message.metadata))
    kind, header = root.number(1, "B"), root.table(2)
    if kind == _DICTIONARY_BATCH and header is not None:
        header = header.table(1)
    elif kind != _RECORD_BATCH:
        return
    if header is None:
        raise ValueError("a batch without a header")
    body = memoryview(message.body) if message.body is not None else memoryview(b"")
    compressed = header.table(3) is not None
    end = claimed = 0
    for start, length in header.structs(2, "qq"):
        if length == 0:
            continue
        if not end <= start < end + _MAX_PADDING or start + length > len(body):
            raise ValueError(f"a buffer of {length} bytes at byte {start} of a body of {len(body)}, after one to {end}")
        end = start + length
        claimed += struct.unpack_from("<q", body, start)[0] if compressed and length >= 8 else length
    if claimed > max(SMALL_BATCH, MAX_GROWTH * len(body)):
        raise ValueError(f"{claimed} bytes compressed to {len(body)}, more than {MAX_GROWTH} to 1")


def batch_places(data: memoryview) -> list[int]:
    """The bytes at which the dictionaries and batches of a whole IPC file begin, by its footer; ValueError unless they
    lie one behind the other."""
    if bytes(data[-len(_MAGIC) :]) != _MAGIC:
        raise ValueError("no magic at its end: truncated")
    size = _unpack("i", data, len(data) - 10)
    if not 0 < size <= len(data) - 18:
        raise ValueError(f"a footer of {size} bytes in {len(data)}")
    begin = len(data) - 10 - size
    footer = _root(data[begin : begin + size])
    found = sorted(place for number in (2, 3) for place in footer.structs(number, "qi4xq"))
    end = 0
    for start, metadata, body in found:
        if metadata < 0 or body < 0 or start < max(end, 8) or (end and start >= end + _MAX_PADDING):
            raise ValueError(f"a batch of {metadata} and {body} bytes at byte {start}, after one to {end}")
        end = start + metadata + body
    if found and not begin - _MAX_PADDING < end <= begin:
        raise ValueError(f"batches to byte {end} and a footer at byte {begin}")
    return [start for start, _, _ in found]


class _Table:
    """A flatbuffers table at a position of some data."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, at
        self._places = at - _unpack("i", data, at)
        self._size = _unpack("H", data, self._places)

    def _place(self, number: int) -> int | None:
        if 4 + 2 * number + 2 > self._size:
            return None
        offset = _unpack("H", self._data, self._places + 4 + 2 * number)
        return self._at + offset if offset else None

    def number(self, number: int, kind: str) -> int:
        """A field that is one number; 0 if it is left out."""
        place = self._place(number)
        return 0 if place is None else _unpack(kind, self._data, place)

    def table(self, number: int) -> "_Table | None":
        place = self._place(number)
        return None if place is None else _Table(self._data, place + _unpack("I", self._data, place))

    def structs(self, number: int, kind: str) -> Iterator[tuple[int, ...]]:
        """The entries of a field that is a vector of structs."""
        place = self._place(number)
        if place is None:
            return iter(())
        start = place + _unpack("I", self._data, place)
        size = struct.calcsize("<" + kind) * _unpack("I", self._data, start)
        if size > len(self._data) - start - 4:
            raise ValueError(f"a vector of {size} bytes at byte {start} of {len(self._data)}")
        return struct.iter_unpack("<" + kind, self._data[start + 4 : start + 4 + size])


def _root(data: memoryview) -> _Table:
    return _Table(data, _unpack("I", data, 0))


def _unpack(kind: str, data: memoryview, at: int) -> int:
    if not 0 <= at <= len(data) - struct.calcsize(kind):
        raise ValueError(f"a position {at} of {len(data)}")
    found: int = struct.unpack_from("<" + kind, data, at)[0]
    return found
