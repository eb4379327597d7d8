"""The way to a host over http: pools of connections, directly or through the proxies of the usual variables, and the
names and passwords of .netrc. What is open is known, so that it can be broken off."""

import netrc
import socket
import ssl
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.util import Url, make_headers, parse_url

Pool = TypeVar("Pool")
Connection = TypeVar("Connection")
IDLE = 16
"""Connections to a host that are kept for the next request."""


class Ways:
    """Pools for all hosts, shared by all threads."""

    def __init__(self, trust_env: bool, timeout: urllib3.Timeout) -> None:
        self._timeout = timeout
        self._proxies = getproxies() if trust_env else {}
        self._logins = _logins() if trust_env else None
        self._managers: dict[tuple[str, str], urllib3.PoolManager] = {}
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        self._answers: weakref.WeakSet[urllib3.BaseHTTPResponse] = weakref.WeakSet()
        self._closed = False
        self._lock = threading.Lock()

    def ask(self, url: Url, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        """The answer to a GET, body not read, redirects not followed; HTTPError of urllib3's, ValueError, OSError."""
        login = self._login(url)
        if login and "Authorization" not in headers:
            headers = {**headers, **make_headers(basic_auth=login)}
        manager = self._manager(self._proxy(url), url.scheme or "")
        address = url._replace(auth=None, fragment=None).url
        answer = manager.request(
            "GET", address, headers=headers, redirect=False, retries=False, preload_content=False, decode_content=False
        )
        with self._lock:
            self._answers.add(answer)
        return answer

    def close(self) -> None:
        """Break off what is open; whoever waits for it gets an error."""
        with self._lock:
            self._closed = True
            answers, connections = list(self._answers), list(self._connections)
        for answer in answers:  # of which a server that closes behind them keeps no connection
            with suppress(RuntimeError, ValueError, OSError):  # it may have ended already
                answer.shutdown()
        for connection in connections:
            with suppress(AttributeError, OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _manager(self, proxy: str, scheme: str) -> urllib3.PoolManager:
        with self._lock:
            if (proxy, scheme) not in self._managers:
                self._managers[proxy, scheme] = self._open(proxy, scheme)
            return self._managers[proxy, scheme]

    def _open(self, proxy: str, scheme: str) -> urllib3.PoolManager:
        options: dict[str, Any] = {"maxsize": IDLE, "timeout": self._timeout}
        if "https" in (scheme, proxy.partition("://")[0]):
            # one for all connections: to make it is to read the system's list of authorities
            options["ssl_context"] = ssl.create_default_context()
        if proxy:
            auth = parse_url(proxy).auth
            headers = make_headers(proxy_basic_auth=unquote(auth)) if auth else None
            manager: Any = urllib3.ProxyManager(proxy, proxy_headers=headers, **options)
        else:
            manager = urllib3.PoolManager(**options)
        pools = manager.pool_classes_by_scheme
        manager.pool_classes_by_scheme = {scheme: partial(self._pool, pool) for scheme, pool in pools.items()}
        opened: urllib3.PoolManager = manager
        return opened

    def _pool(self, make: Callable[..., Pool], host: str, port: int, **options: object) -> Pool:
        made = make(host, port, **options)
        pool: Any = made
        pool.ConnectionCls = partial(self._connect, pool.ConnectionCls)
        return made

    def _connect(self, make: Callable[..., Connection], **options: object) -> Connection:
        connection = make(**options)
        with self._lock:
            if self._closed:
                raise ConnectionError("the store was closed")
            self._connections.add(connection)
        return connection

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


def _logins() -> netrc.netrc | None:
    try:
        return netrc.netrc()
    except (OSError, netrc.NetrcParseError):
        return None
