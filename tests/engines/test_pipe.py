"""Frames between a build and its workers."""

import io
import os
from collections.abc import Iterator
from typing import IO, Any, cast

import numpy as np
import pytest

from tokenriver.engines._pipe import receive, send


class Trickle:
    """A stream that takes three bytes at a time."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: memoryview) -> int:
        self.data += data[:3]
        return len(data[:3])


def test_messages_come_back() -> None:
    stream = Trickle()
    heads: list[dict[str, Any]] = [{"a": 1, "text": "é\n"}, {}, {"sizes": [1, 2]}]
    messages = list(zip(heads, [b"", b"payload" * 100, b"x"], strict=True))
    for head, payload in messages:
        send(cast(IO[bytes], stream), head, [payload[:4], memoryview(payload[4:])])
    reader = io.BytesIO(stream.data)
    assert [receive(reader) for _ in messages] == messages
    assert receive(reader) is None


def test_arrays_are_plain_lists() -> None:
    stream = io.BytesIO()
    send(stream, {"ids": np.array([1, 2], np.int64)})
    stream.seek(0)
    assert receive(stream) == ({"ids": [1, 2]}, b"")


def test_a_message_that_breaks_off_is_the_end() -> None:
    stream = io.BytesIO()
    send(stream, {"a": 1}, [b"payload"])
    whole = stream.getvalue()
    for size in range(len(whole)):
        assert receive(io.BytesIO(whole[:size])) is None


@pytest.fixture
def pipe() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    read, write = os.pipe()
    with open(write, "wb", buffering=0) as out, open(read, "rb") as into:
        yield out, into


def test_over_a_pipe(pipe: tuple[IO[bytes], IO[bytes]]) -> None:
    out, into = pipe
    send(out, {"n": 3}, [b"abc"])
    assert receive(into) == ({"n": 3}, b"abc")
    out.close()
    assert receive(into) is None
