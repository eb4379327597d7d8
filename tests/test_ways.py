"""The way to a host: lines that are used again, proxies, certificates, and what may be sent."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from loopback import Served, serving
from tokenriver.errors import InputError
from tokenriver.remotes import http
from tokenriver.wire import Access, Answer, Store, TryAgain

BODY = bytes(range(256)) * 40
LONG = BODY * 1000


def body_of(answer: Answer) -> bytes:
    """All of a body."""
    body = bytearray()
    take(answer, body)
    return bytes(body)


def take(answer: Answer, body: bytearray) -> None:
    """Add what comes; each piece is taken before the next one."""
    while data := answer.read():
        body += data


def ask(store: Store, url: str, times: int) -> None:
    """Read the body some times, one after another."""
    for _ in range(times):
        answer = store.open(url, 0, None)
        assert body_of(answer) == BODY
        answer.close()


def test_lines_are_used_again_and_a_redirect_keeps_its_own() -> None:
    with serving() as web:
        there = web.put("there", BODY)
        here = web.put("here", b"", *[{"status": 302, "headers": {"Location": there}}] * 3)
        store = http.open_store(Access())
        ask(store, here, 3)
        assert len(web.clients) == 1
        store.open(there, 0, None).close()  # not read to its end
        store.open(there, 0, None).close()
        assert len(web.clients) == 2
        store.close()
        with pytest.raises(TryAgain, match="the store was closed"):
            store.open(there, 0, None)


def test_an_idle_line_that_the_server_closed_is_not_used() -> None:
    with serving() as web:
        url = web.put("a", b"x", *[{"bye": True}] * 3)
        store = http.open_store(Access())
        for _ in range(3):
            web.left.clear()
            answer = store.open(url, 0, None)
            assert body_of(answer) == b"x"
            answer.close()
            assert web.left.wait(5)
        store.close()


def test_nothing_is_slipped_into_a_request() -> None:
    with serving() as web:
        url = web.put("a", BODY)
        store = http.open_store(Access())
        for token in ("a\r\nX: y", "a\nX: y", "a\rb", "\u20ac"):
            with pytest.raises(InputError, match="cannot be asked for"):
                store.open(url, 0, token)
        with pytest.raises(InputError, match="404"):
            store.open(f"{url}\r\nX: y b\u00e9?c d#e", 0, None)
        assert [path for path, _ in web.asked] == ["/a%0D%0AX:%20y%20b%C3%A9?c%20d"]


def test_proxies_are_told_their_password(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with serving() as web:
        web.files["http://data.invalid/a"] = Served(BODY)
        proxy = web.url.replace("//", "//me:word@")
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("https_proxy", proxy)
        store = http.open_store(Access(trust_env=True))
        answer = store.open("http://data.invalid/a", 0, None)
        assert (answer.size, web.proxied) == (len(BODY), ["Basic bWU6d29yZA=="])
        with pytest.raises(TryAgain, match="Tunnel connection failed: 407"):
            store.open("https://data.invalid/a", 0, "secret")
        assert web.asked[1:] == [("data.invalid:443", None)]
        assert web.proxied == ["Basic bWU6d29yZA=="] * 2
        assert web.tokens == [None, None]
        answer.close()
        store.close()
        monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:9")
        with pytest.raises(InputError, match="got a proxy of scheme socks5"):
            http.open_store(Access(trust_env=True)).open("http://data.invalid/a", 0, None)


class _Handler(BaseHTTPRequestHandler):
    """Gives BODY, or lets clients through to any host."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""

    def do_GET(self) -> None:
        self.send_response(200)
        body = LONG if self.path == "/long" else BODY
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_CONNECT(self) -> None:
        host, _, port = self.path.partition(":")
        with socket.create_connection((host, int(port))) as there:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=_pass_on, args=(there, self.connection))
            back.start()
            _pass_on(self.connection, there)
            back.join()
        self.close_connection = True


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no news."""


@contextmanager
def answering(context: ssl.SSLContext | None) -> Iterator[int]:
    """A server, encrypted with a context; its port."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """The certificate of localhost, which nobody knows, and the context of a server that has it."""
    made = tmp_path_factory.mktemp("certificate") / "made.pem"
    words = f"openssl req -x509 -nodes -days 2 -subj /CN=x -addext subjectAltName=DNS:localhost -newkey ec -out {made}"
    curve = f"-pkeyopt ec_paramgen_curve:prime256v1 -keyout {made}.key"
    try:
        subprocess.run(f"{words} {curve}".split(), check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("there is no openssl that makes certificates")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, f"{made}.key")
    return made, context


def trust(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine says of certificates and of hosts without a proxy."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


def test_https_with_a_certificate_that_is_known_and_one_that_is_not(
    certificate: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, context = certificate
    with answering(context) as port:
        with pytest.raises(InputError, match=r"cannot be asked for: .*CERTIFICATE_VERIFY_FAILED"):
            http.open_store(Access()).open(f"https://localhost:{port}/", 0, None)
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        store = http.open_store(Access())
        ask(store, f"https://localhost:{port}/", 2)
        with pytest.raises(InputError, match=r"cannot be asked for: .*CERTIFICATE_VERIFY_FAILED"):
            store.open(f"https://127.0.0.1:{port}/", 0, None)
        store.close()


@pytest.mark.parametrize("encrypted", [False, True])
def test_https_through_a_proxy(
    certificate: tuple[Path, ssl.SSLContext], encrypted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, context = certificate
    trust(path, monkeypatch)
    with answering(context) as port, answering(context if encrypted else None) as proxy:
        monkeypatch.setenv("https_proxy", f"http{'s' * encrypted}://localhost:{proxy}")
        store = http.open_store(Access(trust_env=True))
        ask(store, f"https://localhost:{port}/", 2)
        store.close()


@pytest.mark.parametrize("way", ["straight", "http", "https"])
def test_what_comes_of_an_encrypted_answer_that_is_broken_off_is_of_the_file(
    certificate: tuple[Path, ssl.SSLContext], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in the system's buffers then is still encrypted."""
    path, context = certificate
    trust(path, monkeypatch)
    with answering(context) as port, answering(context if way == "https" else None) as proxy:
        monkeypatch.setenv("https_proxy", f"{way}://localhost:{proxy}")
        store = http.open_store(Access(trust_env=way != "straight"))
        answer = store.open(f"https://localhost:{port}/long", 0, None)
        came = bytearray(answer.read())
        store.close()
        with pytest.raises(TryAgain, match="the connection failed"):
            take(answer, came)
        assert LONG.startswith(came)
        answer.close()
