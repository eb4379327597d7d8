"""http and https: ranges, redirects, and what a server may answer instead of the file."""

import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from email.utils import mktime_tz, parsedate_tz
from http.client import HTTPException
from urllib.parse import urljoin

from urllib3.exceptions import HTTPError, LocationParseError, SSLError
from urllib3.util import Url, parse_url

from tokenriver.errors import InputError
from tokenriver.remotes._line import Head
from tokenriver.remotes._ways import Asked, Ways
from tokenriver.wire import Access, Answer, Store, TryAgain, shown

CONNECT_SECONDS, SILENT_SECONDS = 15, 60
REDIRECTS = 10
SMALL = 1 << 16
"""Bytes of a redirect's page that are read, so that its connection can be used again."""
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
MOVED = frozenset({301, 302, 303, 307, 308})
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "tokenriver"}


def open_store(access: Access) -> Store:
    """A store for http and https."""
    return HttpStore(access)


class HttpStore:
    """Pools of connections, shared by all threads."""

    def __init__(self, access: Access) -> None:
        self._ways = Ways(access.trust_env, CONNECT_SECONDS, SILENT_SECONDS)

    def open(self, url: str, start: int, token: str | None) -> Answer:
        """See wire.Store."""
        headers = {**_HEADERS, **({"Range": f"bytes={start}-"} if start else {})}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        asked = self._follow(url, headers)
        try:
            place = _checked(url, asked.head, start)
            if place is not None:
                return HttpAnswer(asked, place)
        except BaseException:
            asked.close()
            raise
        asked.close()
        return self.open(url, 0, token)

    def close(self) -> None:
        """See wire.Store."""
        self._ways.close()

    def _follow(self, url: str, headers: dict[str, str]) -> Asked:
        """The answer behind all redirects."""
        chain = [url]
        while True:
            asked = self._ask(url, chain[-1], headers)
            location = asked.head.headers.get("location", "")
            if asked.head.status not in MOVED or not location:
                return asked
            _finish(asked)
            # headers are read as Latin-1, and some servers send UTF-8
            chain.append(urljoin(chain[-1], location.encode("latin-1", "replace").decode("utf-8", "replace")))
            if len(chain) > REDIRECTS:
                raise _unreachable(url, f"more than {REDIRECTS} redirects")
            refuse_unencrypted(chain)
            if _origin(url, chain[-1]) != _origin(url, chain[-2]):
                headers = {name: value for name, value in headers.items() if name != "Authorization"}

    def _ask(self, url: str, address: str, headers: dict[str, str]) -> Asked:
        try:
            return self._ways.ask(_parsed(url, address), headers)
        except ValueError as error:
            raise _unreachable(url, _words(error)) from error
        except (SSLError, ssl.SSLError) as error:
            if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
                raise TryAgain(f"the connection failed: {_words(error)}") from error
            raise _unreachable(url, _words(error)) from error
        except (HTTPError, HTTPException, OSError) as error:
            raise TryAgain(f"the connection failed: {_words(error)}") from error


class HttpAnswer:
    """The body of one answer."""

    def __init__(self, asked: Asked, place: tuple[int, int | None]) -> None:
        self.start, self.size = place
        self.tag = _tag(asked.head.headers)
        self._asked = asked

    def read(self) -> bytes:
        """See wire.Answer; what came before a cut is given first."""
        try:
            return self._asked.read()
        except (HTTPError, OSError) as error:
            raise TryAgain(f"the connection failed: {_words(error)}") from error

    def close(self) -> None:
        """See wire.Answer."""
        self._asked.close()


def _finish(asked: Asked) -> None:
    """Be done with an answer that nobody wants; a small one is read, and its connection kept."""
    size = 0
    with suppress(HTTPError, OSError):
        while size <= SMALL and (data := asked.read()):
            size += len(data)
    asked.close()


def _parsed(url: str, address: str) -> Url:
    try:
        parts = parse_url(address)
    except LocationParseError as error:
        raise _unreachable(url, f"got {shown(address)}, expected an address with a host") from error
    if parts.scheme not in ("http", "https") or not parts.host:
        raise _unreachable(url, f"got {shown(address)}, expected http or https")
    return parts


def _origin(url: str, address: str) -> tuple[str | None, str | None, int]:
    parts = _parsed(url, address)
    return parts.scheme, parts.host, parts.port or (443 if parts.scheme == "https" else 80)


def _unreachable(url: str, why: str) -> InputError:
    return InputError(f"{shown(url)}: cannot be asked for: {why}; check the address")


def refuse_unencrypted(chain: list[str]) -> None:
    """Addresses that redirects led through: what was asked for over https is not taken from anywhere else."""
    if chain[0].startswith("https:") and any(not step.startswith("https:") for step in chain):
        raise InputError(f"{shown(chain[0])}: redirect: got one to an unencrypted address, expected https")


def _checked(url: str, head: Head, start: int) -> tuple[int, int | None] | None:
    """(first byte, bytes of the whole file) of an answer that is what was asked for, None if it is of other bytes."""
    status, headers = head.status, head.headers
    if start and (status == 416 or (status == 206 and _place(headers)[0] != start)):
        return None
    if status in AGAIN:
        raise TryAgain(f"the server said {status} ({head.reason})", _retry_after(headers))
    if status not in (200, 206):
        raise InputError(f"{shown(url)}: got {status} ({head.reason}), expected a file; {_cure(url, status)}")
    if headers.get("content-type", "").startswith("text/html") and not url.endswith((".html", ".htm")):
        raise InputError(f"{shown(url)}: got a web page (text/html), expected data; check the address in a browser")
    coding = headers.get("content-encoding", "identity")
    if coding != "identity":
        raise InputError(f"{shown(url)}: got it packed in transit ({coding}), expected it as it is; try another mirror")
    place = _place(headers) if status == 206 else (0, _length(headers))
    if place[1] is None and headers.get("transfer-encoding", "").lower() != "chunked":
        raise InputError(f"{shown(url)}: got no length, so a cut would go unseen; try another mirror")
    return place


def _place(headers: Mapping[str, str]) -> tuple[int, int | None]:
    """(first byte, bytes of the whole file) of a part; (-1, None) if the server does not say."""
    found = _RANGE.fullmatch(headers.get("content-range", "").strip())
    return (int(found[1]), int(found[2])) if found else (-1, None)


def _length(headers: Mapping[str, str]) -> int | None:
    text = headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _tag(headers: Mapping[str, str]) -> str:
    """A strong entity tag, else the time of the last change; a weak tag says nothing of bytes."""
    tag = str(headers.get("etag", ""))
    return tag if tag and not tag.startswith("W/") else str(headers.get("last-modified", ""))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait; a date is taken against the server's own clock."""
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text)
    then, now = parsedate_tz(text), parsedate_tz(headers.get("date", ""))
    return float(max(0, mktime_tz(then) - mktime_tz(now))) if then and now else None


def _cure(url: str, status: int) -> str:
    if "/resolve/" in url and "/datasets/" not in url:
        return "this is the address of a model repository, that of a dataset has datasets/ before the owner"
    if status in (401, 403):
        return "if the data has terms to accept, accept them on its page and set HF_TOKEN; if not, check the address"
    return "check the address, or try another --base-url"


def _words(error: BaseException) -> str:
    """urllib3 puts its words first, then what it caught."""
    said = str(error.args[0] if isinstance(error, HTTPError) and error.args else error)
    return " ".join(said.split())[:300] or type(error).__name__
