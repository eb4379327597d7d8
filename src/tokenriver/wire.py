"""What a download is made of: what is wanted, a store that has it, an answer that streams, a reason to try again.

A store (remotes/<name>.py) has `open_store(access) -> Store`. It maps what its library says to two kinds of failure: a
RiverError, which is final, and TryAgain, which is not.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

BLOCK = 1 << 20
"""Bytes that an answer gives at once, at most about so many."""


class TryAgain(Exception):
    """A try that failed for a reason that may pass; `wait` are the seconds that the server asks for, if it does."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Access:
    """How remote stores are reached; filled in by the command line, which knows the environment."""

    trust_env: bool = False
    """May the HTTP library take proxies and passwords from the usual variables and .netrc?"""
    token: str | None = None
    """Of the Hugging Face Hub; sent to its endpoint alone."""
    endpoint: str = "https://huggingface.co"
    """Of the Hub."""


@dataclass(frozen=True, slots=True)
class Download:
    """One file that is wanted."""

    url: str
    path: Path
    """Where it is to lie."""
    size: int | None = None
    """In bytes, if it is known."""
    sha256: str | None = None
    """In hex digits, if it is known."""
    token: str | None = field(default=None, repr=False)


class Answer(Protocol):
    """The bytes of one version of a file, from some place on."""

    @property
    def start(self) -> int:
        """Of the first byte that comes: the one that was asked for, or 0."""

    @property
    def size(self) -> int | None:
        """Bytes of the whole file, if the server says so; if not, the store itself notices an answer that broke off."""

    @property
    def tag(self) -> str:
        """Two answers with the same tag are of the same bytes; "" if nothing is known."""

    def read(self) -> bytes:
        """The next bytes, b"" at the end; RiverError or TryAgain."""

    def close(self) -> None: ...


class Store(Protocol):
    """Files behind addresses of some schemes; used by many threads at once."""

    def open(self, url: str, start: int, token: str | None) -> Answer:
        """The file from byte `start` on, or from 0 where that cannot be had; RiverError or TryAgain."""

    def close(self) -> None:
        """Break off whatever is still open."""


def scheme(url: str) -> str:
    """ "https" of "https://..."; "" for what is no URL."""
    word, mark, _ = url.partition("://")
    return word.lower() if mark and word.isalnum() else ""


def shown(url: str) -> str:
    """An address for messages: without password, query and fragment, which may hold secrets."""
    word, mark, rest = url.partition("://")
    host, slash, path = rest.partition("?")[0].partition("#")[0].partition("/")
    return f"{word}{mark}{host.rpartition('@')[2]}{slash}{path}"
