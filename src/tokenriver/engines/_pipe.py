"""Messages between a build and its worker processes: a JSON header and bytes, over a pipe.

Frame: uint32 header length, uint64 payload length (little-endian), header, payload. Only plain data crosses: paths,
numbers, text and ids; nothing is pickled.
"""

import io
import struct
from collections.abc import Sequence
from typing import IO, Any

import orjson

FRAME = struct.Struct("<IQ")
Message = tuple[dict[str, Any], bytes]


def send(stream: IO[bytes] | io.FileIO, header: dict[str, Any], payload: Sequence[bytes | memoryview] = ()) -> None:
    """Write one message to an unbuffered stream."""
    head = orjson.dumps(header, option=orjson.OPT_SERIALIZE_NUMPY)
    _write(stream, FRAME.pack(len(head), sum(len(part) for part in payload)) + head)
    for part in payload:
        _write(stream, part)


def receive(stream: IO[bytes]) -> Message | None:
    """Read one message from a buffered stream; None when the other side has closed or died."""
    frame = stream.read(FRAME.size)
    if len(frame) < FRAME.size:
        return None
    head_size, payload_size = FRAME.unpack(frame)
    head = stream.read(head_size)
    payload = stream.read(payload_size)
    if len(head) < head_size or len(payload) < payload_size:
        return None
    return orjson.loads(head), payload


def _write(stream: IO[bytes] | io.FileIO, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while len(view):
        view = view[stream.write(view) :]
