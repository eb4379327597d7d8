"""One connection, and one answer after another over it: the head as a dict, the body by its length, in chunks, or to
the end of the connection.

For small files the work on a request is what a download costs, so a request is one write, and head and body come
through one buffer that stays with the connection.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from socket import socket
from typing import Any

from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, ProtocolError
from urllib3.util import wait_for_read

from tokenriver.wire import BLOCK

BUFFER = BLOCK // 2
GATHERED = BUFFER // 2
"""Bytes that are gathered before they are handed on, where the wire brings less at once."""
MOST_HEAD = BUFFER // 4
_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(r"HTTP/1\.([01]) (\d{3})(?: ([^\n]*))?")
_FOLD = re.compile(r"\r?\n[ \t]+")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?", re.DOTALL)
BODILESS = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Head:
    """What comes before a body."""

    status: int
    reason: str
    headers: Mapping[str, str]
    """Names in small letters; of a header that comes twice, both values with a comma between."""
    keeps: bool
    """Does the connection stay open behind the body?"""


def parse_head(text: str) -> Head:
    """The lines of a head, without the empty one; ProtocolError for anything else."""
    first, _, rest = text.partition("\n")
    found = _STATUS.fullmatch(first.rstrip("\r"))
    if found is None:
        raise ProtocolError(f"got {first[:60]!r}, expected an answer of HTTP/1.1")
    headers: dict[str, str] = {}
    for line in _FOLD.sub(" ", rest).split("\n") if rest else ():
        name, colon, value = line.partition(":")
        key, value = name.strip().lower(), value.strip()
        if not colon or not key:
            raise ProtocolError(f"got {line[:60]!r}, expected a header")
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    options = {word.strip() for word in headers.get("connection", "").lower().split(",")}
    keeps = "close" not in options if found[1] == "1" else "keep-alive" in options
    return Head(int(found[2]), found[3] or "", headers, keeps)


class Line:
    """One open connection of urllib3's. Errors: OSError, and HTTPError for what is no HTTP or breaks off."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection
        self._sock: Any = connection.sock
        self._buffer = bytearray(BUFFER)
        self._view = memoryview(self._buffer)
        self._at = self._end = 0
        """What came and was not given yet is [at, end) of the buffer."""
        self._left: int | None = 0
        """Bytes of the body, or of its chunk, that were not given yet; None: until the connection ends."""
        self._chunked = self._keeps = False
        self._over = True
        self._failure: Exception | None = None

    @property
    def is_free(self) -> bool:
        """Can another request be sent? Once the answer was read to its end, if nothing lies behind it."""
        return self._over and self._keeps and self._at == self._end

    def is_alive(self) -> bool:
        """Is a free line still open? Only its end can come unasked."""
        return not wait_for_read(self._sock, timeout=0.0)

    def ask(self, request: bytes) -> Head:
        """Send a request; the head of its answer."""
        self._sock.sendall(request)
        head = self._read_head()
        while 100 <= head.status < 200:  # the answer itself is still to come
            head = self._read_head()
        coding = head.headers.get("transfer-encoding", "").lower()
        if coding not in ("", "chunked"):
            raise ProtocolError(f"got a body in {coding[:60]!r}, expected it as it is or chunked")
        self._chunked = bool(coding)
        self._left = 0 if self._chunked or head.status in BODILESS else body_length(head.headers)
        self._keeps = head.keeps and self._left is not None
        self._over = self._left == 0 and not self._chunked
        return head

    def read(self) -> memoryview:
        """The next bytes of the body, empty at the end; they are overwritten by the next call. What came before an
        error is given first."""
        if self._over:
            return self._view[:0]
        data = self._read_chunks() if self._chunked else self._read_plain()
        if not self._chunked:
            self._over = self._left == 0 or not data
        return data

    def shutdown(self, how: int) -> None:
        """Break off: whoever waits for bytes gets an error."""
        # SSLSocket's own gives up decryption too, and what still lies there would be taken for bytes of the file; where
        # a connection is encrypted inside that to a proxy, the socket is inside as well
        socket.shutdown(getattr(self._sock, "socket", self._sock), how)

    def close(self) -> None:
        self._keeps = False
        self._connection.close()

    def _read_head(self) -> Head:
        while (found := _END.search(self._buffer, self._at, self._end)) is None:
            if self._end - self._at > MOST_HEAD:
                raise ProtocolError(f"got no end of the head in {MOST_HEAD} bytes")
            self._need_more()
        text = str(self._view[self._at : found.start()], "latin-1")
        self._at = found.end()
        return parse_head(text)

    def _read_plain(self) -> memoryview:
        wanted = GATHERED if self._left is None else min(self._left, GATHERED)
        while self._end - self._at < wanted and self._failure is None:
            try:
                if not self._more():
                    if self._left is None:
                        break
                    raise ProtocolError(f"the connection ended {self._left - (self._end - self._at)} bytes early")
            except (HTTPError, OSError) as error:
                self._failure = error
        if self._failure is not None and self._at == self._end:
            raise self._failure
        stop = self._end if self._left is None else min(self._end, self._at + self._left)
        data = self._view[self._at : stop]
        self._at = stop
        if self._left is not None:
            self._left -= len(data)
        return data

    def _read_chunks(self) -> memoryview:
        came: list[bytes] = []
        size = 0
        try:
            while size < GATHERED and not self._over:
                if not self._left:
                    self._next_chunk()
                    continue
                came.append(bytes(self._read_plain()))
                size += len(came[-1])
                if not self._left and self._read_line():
                    raise ProtocolError("got more than the bytes of a chunk")
        except (HTTPError, OSError) as error:
            self._failure = error
            if not came:
                raise
        return memoryview(b"".join(came))

    def _next_chunk(self) -> None:
        if self._failure is not None:
            raise self._failure
        line = self._read_line()
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise ProtocolError(f"got {line[:60]!r}, expected the size of a chunk")
        self._left = int(found[1], 16)
        if not self._left:
            while self._read_line():  # what follows the last chunk says nothing of its bytes
                pass
            self._over = True

    def _read_line(self) -> bytes:
        while (end := self._buffer.find(b"\n", self._at, self._end)) < 0:
            if self._end - self._at > MOST_HEAD:
                raise ProtocolError(f"got no end of a line in {MOST_HEAD} bytes")
            self._need_more()
        line = bytes(self._view[self._at : end])
        self._at = end + 1
        return line.rstrip(b"\r")

    def _need_more(self) -> None:
        if not self._more():
            raise ProtocolError("the connection ended before the answer did")

    def _more(self) -> int:
        """Take what the wire has; 0 at its end."""
        if self._at == self._end:
            self._at = self._end = 0
        elif self._at + GATHERED > BUFFER:
            rest = bytes(self._view[self._at : self._end])
            self._at, self._end = 0, len(rest)
            self._view[: self._end] = rest
        count: int = self._sock.recv_into(self._view[self._end :])
        self._end += count
        return count


def body_length(headers: Mapping[str, str]) -> int | None:
    """What the header says; None if it says nothing, or two things."""
    words = {word.strip() for word in headers.get("content-length", "").split(",")}
    word = words.pop()
    return int(word) if not words and word.isascii() and word.isdecimal() else None
