"""The way to a host: lines that are used again, proxies, certificates, and what may be sent."""

import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from loopback import Served, serving
from tokenriver.errors import InputError
from tokenriver.remotes import http
from tokenriver.wire import Access, Answer, TryAgain

BODY = bytes(range(256)) * 40


def body_of(answer: Answer) -> bytes:
    """All of a body; each piece is taken before the next comes."""
    body = b""
    while data := answer.read():
        body += data
    return body


def test_lines_are_used_again_and_a_redirect_keeps_its_own() -> None:
    with serving() as web:
        there = web.put("there", BODY)
        here = web.put("here", b"", *[{"status": 302, "headers": {"Location": there}}] * 3)
        store = http.open_store(Access())
        for _ in range(3):
            answer = store.open(here, 0, None)
            assert body_of(answer) == BODY
            answer.close()
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


class _Hello(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)


def test_https_with_a_certificate_that_is_known_and_one_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made.pem"
    words = f"openssl req -x509 -nodes -days 2 -subj /CN=x -addext subjectAltName=DNS:localhost -newkey ec -out {made}"
    curve = f"-pkeyopt ec_paramgen_curve:prime256v1 -keyout {made}.key"
    try:
        subprocess.run(f"{words} {curve}".split(), check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("there is no openssl that makes certificates")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, f"{made}.key")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hello)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    port = server.server_port
    with pytest.raises(InputError, match=r"cannot be asked for: .*CERTIFICATE_VERIFY_FAILED"):
        http.open_store(Access()).open(f"https://localhost:{port}/", 0, None)
    monkeypatch.setenv("SSL_CERT_FILE", str(made))
    store = http.open_store(Access())
    for _ in range(2):
        answer = store.open(f"https://localhost:{port}/", 0, None)
        assert body_of(answer) == BODY
        answer.close()
    with pytest.raises(InputError, match=r"cannot be asked for: .*CERTIFICATE_VERIFY_FAILED"):
        store.open(f"https://127.0.0.1:{port}/", 0, None)
    store.close()
    server.shutdown()
    server.server_close()
