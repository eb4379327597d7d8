"""Answers over one connection, in whatever pieces they come: the same head and bytes, or an error, and never a line
that is used again where something is left on it."""

import gc
import itertools
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from urllib3.exceptions import HTTPError, ProtocolError

from tokenriver.remotes import _line
from tokenriver.remotes._line import Head, Line

BODY = bytes(range(256)) * 40


class Wire:
    """A socket that gives what was sent in pieces of some sizes, again and again; at the end it is closed, or fails."""

    def __init__(self, sent: bytes, sizes: list[int], failure: OSError | None = None) -> None:
        self.sent, self.sizes, self.failure = sent, itertools.cycle(sizes), failure
        self.asked: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.asked.append(data)

    def recv_into(self, view: memoryview) -> int:
        assert len(view)
        if not self.sent and self.failure is not None:
            raise self.failure
        data = self.sent[: min(next(self.sizes), len(view))]
        self.sent = self.sent[len(data) :]
        view[: len(data)] = data
        return len(data)


def line_of(*parts: bytes, sizes: list[int] | None = None, failure: OSError | None = None) -> Line:
    connection: Any = SimpleNamespace(sock=Wire(b"".join(parts), sizes or [1 << 20], failure), close=lambda: None)
    return Line(connection)


def body_of(line: Line) -> bytes:
    """All of a body; each piece is taken before the next comes."""
    body = b""
    while data := line.read():
        body += data
    return body


def in_chunks(body: bytes, sizes: list[int]) -> bytes:
    out, at, size = b"", 0, itertools.cycle(sizes)
    while at < len(body):
        piece = body[at : at + next(size)]
        out += b"%X;a=b\r\n%s\r\n" % (len(piece), piece)
        at += len(piece)
    return out + b"0\r\nTrailer: x\r\n\r\n"


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_line, "BUFFER", 512)
    monkeypatch.setattr(_line, "GATHERED", 256)
    monkeypatch.setattr(_line, "MOST_HEAD", 128)


@pytest.mark.usefixtures("_small")
@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 2000), min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 700), min_size=1, max_size=6),
    chunks=st.one_of(st.none(), st.lists(st.integers(1, 400), min_size=1, max_size=4)),
)
def test_any_pieces_give_the_same(lengths: list[int], sizes: list[int], chunks: list[int] | None) -> None:
    answers = []
    for length in lengths:
        body = BODY[:length]
        framing = b"Content-Length: %d" % length if chunks is None else b"Transfer-Encoding: Chunked"
        sent = b"\r\n".join([b"HTTP/1.1 103 Early", b"Link: x", b"", b"HTTP/1.1 200 OK", framing, b"", b""])
        sent += body if chunks is None else in_chunks(body, chunks)
        answers.append(sent)
    line = line_of(sizes=sizes)
    for answer, length in zip(answers, lengths, strict=True):
        line._sock.sent = answer
        head = line.ask(b"ask")
        assert (head.status, head.reason) == (200, "OK")
        assert body_of(line) == BODY[:length]
        assert not line.read()
        assert line.is_free


@pytest.mark.usefixtures("_small")
@settings(max_examples=60)
@given(
    cut=st.integers(0, 1400),
    sizes=st.lists(st.integers(1, 700), min_size=1, max_size=4),
    chunked=st.booleans(),
    fails=st.booleans(),
)
def test_a_cut_is_an_error_behind_what_came(cut: int, sizes: list[int], chunked: bool, fails: bool) -> None:
    body = in_chunks(BODY[:1000], [300]) if chunked else BODY[:1000]
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 1000"
    sent = b"HTTP/1.1 200 OK\r\n%s\r\n\r\n%s" % (framing, body)
    whole = cut >= len(sent)
    line = line_of(sent[:cut], sizes=sizes, failure=TimeoutError("timed out") if fails else None)
    came = b""
    error: Exception | None = None
    try:
        line.ask(b"ask")
        while data := line.read():
            came += data
    except (HTTPError, OSError) as caught:
        error = caught
    assert BODY.startswith(came)
    assert (error is None) == whole == (came == BODY[:1000] and line.is_free)
    if error is not None:
        assert isinstance(error, TimeoutError) == fails
        assert chunked or len(came) == max(0, cut - (len(sent) - 1000))


def test_heads() -> None:
    def head(*lines: bytes) -> tuple[Head, bool]:
        line = line_of(b"\r\n".join([*lines, b"", b""]))
        found = line.ask(b"ask")
        assert body_of(line) == b""
        return found, line.is_free

    nothing = b"content-length: 0"
    told = {"a": "1, x y", "b": "2 3", "content-length": "0", "connection": "Close, x"}
    assert head(b"HTTP/1.1 200 Very Good", b"A: 1", b"B:2 3", b"a:  x y ", nothing, b"Connection: Close, x") == (
        Head(200, "Very Good", told),
        False,
    )
    assert head(b"HTTP/1.0 404") == (Head(404, "", {}), False)
    assert head(b"HTTP/1.0 200 OK", b"connection: keep-alive", nothing)[1]
    assert not head(b"HTTP/1.0 200 OK", nothing)[1]
    assert head(b"HTTP/1.1 200 OK", nothing, b"x: \xe4")[0].headers["x"] == "\xe4"


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        (b"", "ended before the answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "expected it as it is or chunked"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200_000, "no end of the head"),
        (b"HTTP/1.1 100 Go on\r\n\r\n" * 50_000, "no end of the head"),
        (b"HTTP/1.1 101 Other\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "no answer of HTTP"),
        (b"HTTP/2 200 OK\r\n\r\n", "no answer of HTTP"),
        (b"ICY 200 OK\r\n\r\n", "no answer of HTTP"),
        (b"HTTP/1.1 20 OK\r\n\r\n", "no answer of HTTP"),
        (b"HTTP/1.1 200 OK\r\nword\r\n\r\n", "no answer of HTTP"),
        (b"HTTP/1.1 200 OK\r\n: x\r\n\r\n", "no answer of HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "no answer of HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabcd", "no answer of HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", "no answer of HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", "no answer of HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", "no answer of HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * 30_000, "ended before"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", "ended 3 bytes early"),
    ],
)
def test_what_is_no_answer(sent: bytes, what: str) -> None:
    line = line_of(sent)
    with pytest.raises(ProtocolError, match=what):
        line.ask(b"ask") and body_of(line)
    assert not line.is_free


def test_too_many_bytes_of_a_chunk_are_told_behind_it() -> None:
    line = line_of(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n")
    line.ask(b"ask")
    assert bytes(line.read()) == b"abc"
    with pytest.raises(ProtocolError, match="no answer of HTTP"):
        line.read()


def test_when_a_line_is_free() -> None:
    line = line_of(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", b"HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n")
    assert not line.is_free
    line.ask(b"first")
    assert not line.is_free
    assert body_of(line) == b"ab"
    assert not line.is_free  # something came unasked
    for tail in (b"Content-Length: 2\r\nConnection: close\r\n\r\nab", b"Content-Length: 2\r\n\r\nabc", b"\r\nab"):
        line = line_of(b"HTTP/1.1 200 OK\r\n", tail)
        line.ask(b"ask")
        assert body_of(line) == b"ab"
        assert not line.is_free
    line = line_of(b"HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n")
    line.ask(b"ask")
    assert (body_of(line), line.is_free) == (b"", True)


def test_a_closed_line_is_freed_without_a_search_for_garbage() -> None:
    """Each has a buffer of its own, and a server that closes every connection costs one a file."""
    line = line_of(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab")
    line.ask(b"ask")
    assert body_of(line) == b"ab"
    gone = weakref.ref(line)
    gc.disable()
    try:
        line.close()
        del line
        assert gone() is None
    finally:
        gc.enable()
