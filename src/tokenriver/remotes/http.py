"""http and https, through fsspec's session: ranges, redirects, and what a server may answer instead of the file."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from email.utils import mktime_tz, parsedate_tz
from typing import Any, TypeVar

import aiohttp
import fsspec
from fsspec.asyn import sync

from tokenriver.errors import InputError
from tokenriver.wire import BLOCK, Access, Answer, Store, TryAgain, shown

CONNECT_SECONDS, SILENT_SECONDS = 30, 60
AHEAD = 4 * BLOCK
"""Bytes of a file that wait in memory to be written."""
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "tokenriver"}
_FINAL = (
    aiohttp.ClientSSLError,
    aiohttp.InvalidURL,
    aiohttp.NonHttpUrlClientError,
    aiohttp.TooManyRedirects,
    ValueError,
)
Value = TypeVar("Value")


def open_store(access: Access) -> Store:
    """A store for http and https."""
    return HttpStore(access)


class HttpStore:
    """One session; its connections are shared by all threads."""

    def __init__(self, access: Access) -> None:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS)
        options = {"trust_env": access.trust_env, "timeout": timeout, "auto_decompress": False, "read_bufsize": 1 << 18}
        self._files: Any = fsspec.filesystem("http", skip_instance_cache=True, client_kwargs=options)
        self._session: Any = sync(self._files.loop, self._files.set_session)
        self._waiting: set[asyncio.Task[Any]] = set()
        self._closed = False

    def open(self, url: str, start: int, token: str | None) -> Answer:
        """See wire.Store."""
        headers = {**_HEADERS, **({"Range": f"bytes={start}-"} if start else {})}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        answer = self.run(url, lambda: self._ask(url, headers, start))
        return answer if answer is not None else self.open(url, 0, token)

    async def _ask(self, url: str, headers: dict[str, str], start: int) -> "HttpAnswer | None":
        """The answer, or None if it has to be asked again from byte 0."""
        response: aiohttp.ClientResponse = await self._session.get(self._files.encode_url(url), headers=headers)
        try:
            refuse_unencrypted([str(step.url) for step in (*response.history, response)])
            place = _checked(url, response, start)
            if place is not None:
                return HttpAnswer(self, url, response, place)
        except BaseException:
            response.close()
            raise
        response.close()
        return None

    def run(self, url: str, what: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """Wait for something on the session's loop; failures come out as wire.Store says."""
        try:
            value: Value = sync(self._files.loop, self._guarded, what)
            return value
        except _FINAL as error:
            raise InputError(f"{shown(url)}: cannot be asked for: {_words(error)}; check the address") from error
        except (aiohttp.ClientError, OSError) as error:
            raise TryAgain(f"the connection failed: {_words(error)}") from error

    async def _guarded(self, what: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """Whoever waits when the store is closed is told so: aiohttp would let it wait."""
        if self._closed:
            raise ConnectionError("the store was closed")
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            return await what()
        except asyncio.CancelledError:
            raise ConnectionError("the store was closed") from None
        finally:
            self._waiting.discard(task)

    def let_go(self, what: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something on the session's loop that never waits, closed or not."""
        sync(self._files.loop, what)

    def close(self) -> None:
        """See wire.Store."""
        sync(self._files.loop, self._close)

    async def _close(self) -> None:
        self._closed = True
        for task in self._waiting:
            task.cancel()
        await self._session.close()


class HttpAnswer:
    """The body of one response. A task on the session's loop takes it off the wire while what came before is written,
    and at once: at a cut aiohttp forgets what nobody has read yet."""

    def __init__(
        self, store: HttpStore, url: str, response: aiohttp.ClientResponse, place: tuple[int, int | None]
    ) -> None:
        self.start, self.size = place
        self.tag = _tag(response.headers)
        self._store, self._url, self._response = store, url, response
        self._came: list[bytes] = []
        self._bytes = 0
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._failure: BaseException | None = None
        self._ended = False
        self._task = asyncio.create_task(self._pump())

    def read(self) -> bytes:
        """See wire.Answer; what came before a cut is given first."""
        return self._store.run(self._url, self._read)

    def close(self) -> None:
        """See wire.Answer."""
        self._store.let_go(self._close)

    async def _pump(self) -> None:
        try:
            while data := await self._response.content.readany():
                self._came.append(data)
                self._bytes += len(data)
                self._news.set()
                while self._bytes >= AHEAD:
                    self._room.clear()
                    await self._room.wait()
        except (aiohttp.ClientError, OSError) as error:
            self._failure = error
        finally:
            self._ended = True
            self._news.set()

    async def _read(self) -> bytes:
        while not self._came and not self._ended:
            self._news.clear()
            await self._news.wait()
        if not self._came and self._failure is not None:
            raise self._failure
        data = b"".join(self._came)
        self._came.clear()
        self._bytes = 0
        self._room.set()
        return data

    async def _close(self) -> None:
        self._task.cancel()
        self._response.close()


def refuse_unencrypted(chain: list[str]) -> None:
    """Addresses that redirects led through: what was asked for over https is not taken from anywhere else."""
    if chain[0].startswith("https:") and any(not step.startswith("https:") for step in chain):
        raise InputError(f"{shown(chain[0])}: redirect: got one to an unencrypted address, expected https")


def _checked(url: str, response: aiohttp.ClientResponse, start: int) -> tuple[int, int | None] | None:
    """(first byte, bytes of the whole file) of a response that is what was asked for, None if it is of other bytes."""
    status, headers = response.status, response.headers
    if start and (status == 416 or (status == 206 and _place(headers)[0] != start)):
        return None
    if status in AGAIN:
        raise TryAgain(f"the server said {status} ({response.reason})", _retry_after(headers))
    if status not in (200, 206):
        raise InputError(f"{shown(url)}: got {status} ({response.reason}), expected a file; {_cure(url, status)}")
    if headers.get("Content-Type", "").startswith("text/html") and not url.endswith((".html", ".htm")):
        raise InputError(f"{shown(url)}: got a web page (text/html), expected data; check the address in a browser")
    coding = headers.get("Content-Encoding", "identity")
    if coding != "identity":
        raise InputError(f"{shown(url)}: got it packed in transit ({coding}), expected it as it is; try another mirror")
    place = _place(headers) if status == 206 else (0, _length(headers))
    if place[1] is None and headers.get("Transfer-Encoding", "").lower() != "chunked":
        raise InputError(f"{shown(url)}: got no length, so a cut would go unseen; try another mirror")
    return place


def _place(headers: Mapping[str, str]) -> tuple[int, int | None]:
    """(first byte, bytes of the whole file) of a part; (-1, None) if the server does not say."""
    found = _RANGE.fullmatch(headers.get("Content-Range", "").strip())
    return (int(found[1]), int(found[2])) if found else (-1, None)


def _length(headers: Mapping[str, str]) -> int | None:
    text = headers.get("Content-Length", "")
    return int(text) if text.isdecimal() else None


def _tag(headers: Mapping[str, str]) -> str:
    """A strong entity tag, else the time of the last change; a weak tag says nothing of bytes."""
    tag = str(headers.get("ETag", ""))
    return tag if tag and not tag.startswith("W/") else str(headers.get("Last-Modified", ""))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait; a date is taken against the server's own clock."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    then, now = parsedate_tz(text), parsedate_tz(headers.get("Date", ""))
    return float(max(0, mktime_tz(then) - mktime_tz(now))) if then and now else None


def _cure(url: str, status: int) -> str:
    if "/resolve/" in url and "/datasets/" not in url:
        return "this is the address of a model repository, that of a dataset has datasets/ before the owner"
    if status in (401, 403):
        return "if the data has terms to accept, accept them on its page and set HF_TOKEN; if not, check the address"
    return "check the address, or try another --base-url"


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
