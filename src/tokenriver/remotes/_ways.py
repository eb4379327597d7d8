"""The way to a host over http: connections, directly or through the proxies of the usual variables, and the names and
passwords of .netrc. urllib3 connects; what is open is known, so that it can be broken off."""

import netrc
import socket
import ssl
import threading
import weakref
from contextlib import suppress
from typing import Any
from urllib.parse import unquote
from urllib.request import getproxies, proxy_bypass

from urllib3.connection import HTTPConnection, HTTPSConnection, ProxyConfig
from urllib3.util import Url, make_headers, parse_url

from tokenriver.remotes._line import Head, Line

IDLE = 16
"""Connections to a host that are kept for the next request."""
PORTS = {"http": 80, "https": 443}
_Key = tuple[str, str | None, str | None, int | None]


class Ways:
    """Connections to all hosts, shared by all threads."""

    def __init__(self, trust_env: bool, connect_seconds: float, silent_seconds: float) -> None:
        self._connect_seconds, self._silent_seconds = connect_seconds, silent_seconds
        self._proxies = getproxies() if trust_env else {}
        self._logins = _logins() if trust_env else None
        self._idle: dict[_Key, list[Line]] = {}
        self._lines: weakref.WeakSet[Line] = weakref.WeakSet()
        self._authorities: ssl.SSLContext | None = None
        self._closed = False
        self._lock = threading.Lock()

    def ask(self, url: Url, headers: dict[str, str]) -> "Asked":
        """The answer to a GET, body not read, redirects not followed; HTTPError of urllib3's, HTTPException of the
        standard library's, ValueError, OSError."""
        login = self._login(url)
        if login and "Authorization" not in headers:
            headers = {**headers, **make_headers(basic_auth=login)}
        proxy = self._proxy(url)
        request = _request(url, headers, parse_url(proxy) if proxy else None)
        key = proxy, url.scheme, url.host, url.port
        line = self._free(key) or self._connect(url, proxy)
        try:
            return Asked(self, key, line, line.ask(request))
        except BaseException:
            line.close()
            raise

    def give_back(self, key: _Key, line: Line) -> None:
        """Keep a line for the next request, if it can be."""
        with self._lock:
            idle = self._idle.setdefault(key, [])
            if line.is_free and len(idle) < IDLE and not self._closed:
                idle.append(line)
                return
        line.close()

    def close(self) -> None:
        """Break off what is open; whoever waits for it gets an error."""
        with self._lock:
            self._closed = True
            idle = [line for lines in self._idle.values() for line in lines]
            lines = self._lines.difference(idle)
            self._idle.clear()
        for line in idle:
            with suppress(OSError):
                line.close()
        for line in lines:
            with suppress(AttributeError, TypeError, OSError):  # it may have ended already
                line.shutdown(socket.SHUT_RDWR)

    def _free(self, key: _Key) -> Line | None:
        while True:
            with self._lock:
                idle = self._idle.get(key)
                if not idle:
                    return None
                line = idle.pop()
            if line.is_alive():
                return line
            line.close()

    def _connect(self, url: Url, proxy: str) -> Line:
        connection = self._connection(url, parse_url(proxy) if proxy else None)
        try:
            connection.connect()
            connection.sock.settimeout(self._silent_seconds)
            line = Line(connection)
            with self._lock:
                if self._closed:
                    raise ConnectionError("the store was closed")
                self._lines.add(line)
        except BaseException:
            connection.close()
            raise
        return line

    def _connection(self, url: Url, proxy: Url | None) -> HTTPConnection:
        """A connection to a host, or to the proxy on the way to it; not open yet."""
        to = proxy or url
        if to.scheme not in PORTS or not to.host:
            raise ValueError(f"got a proxy of scheme {to.scheme}, expected http or https")
        host, port = to.host.strip("[]"), to.port or PORTS[to.scheme]
        if "https" not in (url.scheme, to.scheme):
            return HTTPConnection(host, port, timeout=self._connect_seconds)
        options: dict[str, Any] = {"timeout": self._connect_seconds, "ssl_context": self._tls()}
        if proxy is None or url.scheme == "http":
            return HTTPSConnection(host, port, **options)
        config = ProxyConfig(None, False, None, None)
        connection = HTTPSConnection(host, port, proxy=proxy, proxy_config=config, **options)
        connection.set_tunnel(url.host or "", url.port or PORTS["https"], _to_proxy(proxy), proxy.scheme or "")
        return connection

    def _tls(self) -> ssl.SSLContext:
        """One for all connections: to make it is to read the system's list of authorities."""
        with self._lock:
            if self._authorities is None:
                self._authorities = ssl.create_default_context()
            return self._authorities

    def _proxy(self, url: Url) -> str:
        """The address of the proxy for an address, "" for none."""
        proxy = self._proxies.get(url.scheme or "", self._proxies.get("all", ""))
        if not proxy or proxy_bypass(url.netloc or ""):
            return ""
        return proxy if "://" in proxy else f"http://{proxy}"

    def _login(self, url: Url) -> str:
        """NAME:PASSWORD for a host, from the address or .netrc; "" for none."""
        if url.auth:
            return unquote(url.auth)
        found = self._logins.authenticators(url.host or "") if self._logins is not None else None
        return f"{found[0]}:{found[2]}" if found else ""


class Asked:
    """An answer whose head has come."""

    def __init__(self, ways: Ways, key: _Key, line: Line, head: Head) -> None:
        self.head = head
        self._ways, self._key, self._line = ways, key, line
        self._closed = False

    def read(self) -> bytes:
        """See Line."""
        return self._line.read()

    def close(self) -> None:
        """Be done with it: after this nothing is read."""
        if not self._closed:
            self._closed = True
            self._ways.give_back(self._key, self._line)


def _request(url: Url, headers: dict[str, str], proxy: Url | None) -> bytes:
    """What is sent for a GET; ValueError for what cannot be."""
    target = url.request_uri
    if proxy is not None and url.scheme == "http":
        target = url._replace(auth=None, fragment=None).url
        headers = {**headers, **_to_proxy(proxy)}
    host = (url.host or "").rstrip(".")
    port = "" if url.port in (None, PORTS.get(url.scheme or "")) else f":{url.port}"
    lines = [f"GET {target} HTTP/1.1", f"Host: {host}{port}", *(f"{name}: {word}" for name, word in headers.items())]
    text = "\r\n".join(lines)
    if text.count("\r") != len(lines) - 1 or text.count("\n") != len(lines) - 1:
        raise ValueError("got a line break in a header")
    return f"{text}\r\n\r\n".encode("latin-1")


def _to_proxy(proxy: Url) -> dict[str, str]:
    return make_headers(proxy_basic_auth=unquote(proxy.auth)) if proxy.auth else {}


def _logins() -> netrc.netrc | None:
    try:
        return netrc.netrc()
    except (OSError, netrc.NetrcParseError):
        return None
