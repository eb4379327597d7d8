"""A web server on loopback inside the test process, which does what it is told: serve ranges, cut, refuse, redirect."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Any


@dataclass
class Served:
    """One file, and what the server does at its first requests in place of serving it."""

    data: bytes
    tag: str | None = '"1"'
    headers: dict[str, str] = field(default_factory=dict)
    tricks: list[dict[str, Any]] = field(default_factory=list)
    """One for each request, in order; after the last one the file is served. Keys: status, headers, body, cut (bytes
    that are sent before the connection breaks), ranges (False: the whole file comes, whatever was asked), length (what
    is promised; None: nothing), chunked, serve (another Served from here on), hang (nothing more
    comes behind the cut, and the connection stays), mute (not even a status comes), bye (the connection is closed
    behind the whole file, which no header says)."""


@dataclass
class Web:
    """The files by their paths, and what was asked."""

    files: dict[str, Served] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """(path, range) of each request, in order."""
    tokens: list[str | None] = field(default_factory=list)
    """The Authorization header of each."""
    proxied: list[str] = field(default_factory=list)
    """The Proxy-Authorization headers."""
    clients: set[object] = field(default_factory=set)
    """Address of each connection that asked."""
    left: threading.Event = field(default_factory=threading.Event)
    """A connection was closed."""
    url: str = ""
    hanging: threading.Event = field(default_factory=threading.Event)
    """A client waits for the rest of an answer."""
    ended: threading.Event = field(default_factory=threading.Event)

    def put(self, path: str, data: bytes, *tricks: dict[str, Any], tag: str | None = '"1"', **headers: str) -> str:
        """Serve bytes; the address."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.files[f"/{path}"] = Served(data, tag, named, list(tricks))
        return f"{self.url}/{path}"

    def ranges(self, path: str) -> list[str | None]:
        return [ranged for name, ranged in self.asked if name == f"/{path}"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    web: Web

    def log_message(self, format: str, *args: object) -> None:
        """Tests say what they want to see."""

    def do_GET(self) -> None:
        self._note()
        served = self.web.files.get(self.path)
        if served is None:
            self._answer(404, {}, b"not here")
            return
        trick = served.tricks.pop(0) if served.tricks else {}
        if trick.get("mute"):
            self.web.hanging.set()
            self.web.ended.wait()
            self.close_connection = True
            return
        if "serve" in trick:
            served = self.web.files[self.path] = trick["serve"]
        if "status" in trick:
            self._answer(trick["status"], trick.get("headers", {}), trick.get("body", b"no"))
            return
        self._serve(served, trick)

    def do_CONNECT(self) -> None:
        """Nobody is let through."""
        self._note()
        self._answer(407, {}, b"")

    def _note(self) -> None:
        self.web.asked.append((self.path, self.headers["Range"]))
        self.web.tokens.append(self.headers["Authorization"])
        self.web.clients.add(self.client_address)
        if "Proxy-Authorization" in self.headers:
            self.web.proxied.append(self.headers["Proxy-Authorization"])

    def _serve(self, served: Served, trick: dict[str, Any]) -> None:
        start = int((self.headers["Range"] or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        start = start if trick.get("ranges", True) else 0
        headers = dict(served.headers) | ({"ETag": served.tag} if served.tag else {}) | trick.get("headers", {})
        if start and start >= len(served.data):
            self._answer(416, headers, b"")
            return
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(served.data) - 1}/{len(served.data)}"
        self._answer(206 if start else 200, headers, served.data[start:], trick)

    def _answer(self, status: int, headers: dict[str, str], body: bytes, trick: dict[str, Any] | None = None) -> None:
        trick = trick or {}
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if trick.get("chunked"):
            self.send_header("Transfer-Encoding", "chunked")
        elif trick.get("length", 0) is not None:
            self.send_header("Content-Length", str(trick.get("length", len(body))))
        else:
            self.close_connection = True
        self.end_headers()
        sent = body[: trick.get("cut", len(body))]
        if trick.get("chunked"):
            sent = b"%x\r\n%s\r\n" % (len(sent), sent) + (b"0\r\n\r\n" if "cut" not in trick else b"")
        self.wfile.write(sent)
        if trick.get("hang"):
            self.web.hanging.set()
            self.web.ended.wait()
        if "cut" in trick or "bye" in trick or trick.get("length", len(body)) != len(body):
            self.wfile.flush()
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    web: Web

    def shutdown_request(self, request: socket | tuple[bytes, socket]) -> None:
        super().shutdown_request(request)
        self.web.left.set()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no news."""


@contextmanager
def serving() -> Iterator[Web]:
    """A server for as long as the block lasts."""
    web = Web()
    handler = type("Handler", (_Handler,), {"web": web})
    server = _Server(("127.0.0.1", 0), handler)
    server.web = web
    web.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
