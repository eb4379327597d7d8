"""One connection, and one answer after another over it: the head as a dict, then the body as it comes.

For small files the work on a request is what a download costs, so a request is one write, and head and body come
through one buffer that stays with the connection. urllib3 connects, httptools (llhttp) parses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from socket import socket
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, ProtocolError
from urllib3.util import wait_for_read

from tokenriver.wire import BLOCK

BUFFER = BLOCK // 2
GATHERED = BUFFER // 2
"""Bytes that are gathered before they are handed on, where the wire brings less at once."""
MOST_HEAD = BUFFER // 4


@dataclass(frozen=True, slots=True)
class Head:
    """What comes before a body."""

    status: int
    reason: str
    headers: Mapping[str, str]
    """Names in small letters; of a header that comes twice, both values with a comma between."""


class Line:
    """One open connection of urllib3's. Errors: OSError, and HTTPError for what is no HTTP or breaks off."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection
        self._sock: Any = connection.sock
        self._view = memoryview(bytearray(BUFFER))
        self._parser: Any = HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._reason = ""
        self._head: Head | None = None
        self._came: list[bytes] = []
        self._size = self._given = 0
        """Bytes of the body that wait in `came`, and of those that were given."""
        self._over, self._keeps = True, False
        self._failure: Exception | None = None

    @property
    def is_free(self) -> bool:
        """Can another request be sent? Once the answer was read to its end, if nothing lies behind it."""
        return self._over and self._keeps and not self._came and self._failure is None

    def is_alive(self) -> bool:
        """Is a free line still open? Only its end can come unasked."""
        return not wait_for_read(self._sock, timeout=0.0)

    def ask(self, request: bytes) -> Head:
        """Send a request; the head of its answer."""
        self._sock.sendall(request)
        self._head, self._headers, self._reason, self._given = None, {}, "", 0
        self._over = self._keeps = False
        head = self._wait_for_head()
        coding = head.headers.get("transfer-encoding", "").lower()
        if coding not in ("", "chunked"):
            raise ProtocolError(f"got a body in {coding[:60]!r}, expected it as it is or chunked")
        return head

    def read(self) -> bytes:
        """The next bytes of the body, empty at the end. What came before an error is given first."""
        while self._size < GATHERED and not self._over and self._failure is None:
            self._feed()
        if not self._came and self._failure is not None and not self._over:
            raise self._failure
        data = self._came[0] if len(self._came) == 1 else b"".join(self._came)
        self._came, self._size, self._given = [], 0, self._given + len(data)
        return data

    def shutdown(self, how: int) -> None:
        """Break off: whoever waits for bytes gets an error."""
        # SSLSocket's own gives up decryption too, and what still lies there would be taken for bytes of the file; where
        # a connection is encrypted inside that to a proxy, the socket is inside as well
        socket.shutdown(getattr(self._sock, "socket", self._sock), how)

    def close(self) -> None:
        self._keeps = False
        self._parser = None  # it refers to the line: else only a search for garbage would free both, and the buffer
        self._connection.close()

    def _wait_for_head(self) -> Head:
        seen = 0
        while True:
            seen += self._feed()
            if self._head is not None:
                return self._head
            if self._failure is not None:
                raise self._failure
            if seen > MOST_HEAD:
                raise ProtocolError(f"got no end of the head in {MOST_HEAD} bytes")

    def _feed(self) -> int:
        """Take what the wire has; what goes wrong is kept as the failure."""
        count = 0
        try:
            count = self._sock.recv_into(self._view)
            if count:
                self._parser.feed_data(self._view[:count])
            else:
                self._end()
        except (HttpParserError, HttpParserUpgrade) as error:
            self._failure = ProtocolError(f"got no answer of HTTP/1.1: {error}")
        except (HTTPError, OSError) as error:
            self._failure = error
        return count

    def _end(self) -> None:
        """The connection has ended, which is the end of a body of which nothing else was said."""
        if self._head is None:
            raise ProtocolError("the connection ended before the answer did")
        if "content-length" in self._head.headers:
            left = int(self._head.headers["content-length"]) - self._given - self._size
            raise ProtocolError(f"the connection ended {left} bytes early")
        if "transfer-encoding" in self._head.headers:
            raise ProtocolError("the connection ended before the last chunk")
        self._over = True

    # ------------------------------------------------------------------------------------ what the parser calls

    def on_message_begin(self) -> None:
        if self._over:  # nobody has asked
            self._keeps = False

    def on_status(self, reason: bytes) -> None:
        self._reason += reason.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is None:  # what follows the last chunk says nothing of the bytes
            key, word = name.decode("latin-1").lower(), value.decode("latin-1").strip()
            self._headers[key] = f"{self._headers[key]}, {word}" if key in self._headers else word

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and self._head is None:
            self._head = Head(status, self._reason, self._headers)
            self._keeps = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        if not self._over:
            self._came.append(data)
            self._size += len(data)

    def on_message_complete(self) -> None:
        self._headers, self._reason = {}, ""  # the answer itself is still to come
        self._over = self._head is not None
