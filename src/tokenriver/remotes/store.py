"""Whatever else fsspec reads: objects of S3 and Google's store, files of this machine."""

from typing import IO, Any

import fsspec

from tokenriver.errors import InputError, MissingPackageError
from tokenriver.wire import BLOCK, Access, Answer, Store, TryAgain, scheme, shown

_TAGS = ("ETag", "etag", "md5Hash", "generation", "LastModified", "updated", "mtime")


def open_store(access: Access) -> Store:
    """A store for all schemes of fsspec's but http."""
    return OtherStore()


class OtherStore:
    """File systems by their scheme, each opened once."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def open(self, url: str, start: int, token: str | None) -> Answer:
        """See wire.Store."""
        name = scheme(url)
        try:
            files = self._known.setdefault(name, fsspec.filesystem(name))
            path = files._strip_protocol(url)
            info = files.info(path)
            if info.get("type") == "directory":
                raise InputError(f"{shown(url)}: got a folder, expected a file; name one")
            file = files.open(path, "rb", block_size=4 * BLOCK, cache_type="readahead")
            file.seek(start)
        except ImportError as error:
            raise MissingPackageError(
                f"{shown(url)}: {name}:// needs a package ({error}); run: pip install 'tokenriver[remote]'"
            ) from error
        except InputError:
            raise
        except Exception as error:
            raise _mapped(url, error) from error
        tag = next((str(info[key]) for key in _TAGS if info.get(key) is not None), "")
        return OtherAnswer(url, file, (start, info.get("size")), tag)

    def close(self) -> None:
        """See wire.Store; nothing is kept open here."""


class OtherAnswer:
    """An open file of fsspec's."""

    def __init__(self, url: str, file: IO[bytes], place: tuple[int, int | None], tag: str) -> None:
        self.start, self.size = place
        self.tag = tag
        self._url, self._file = url, file

    def read(self) -> bytes:
        """See wire.Answer."""
        try:
            return bytes(self._file.read(BLOCK))
        except Exception as error:
            raise _mapped(self._url, error) from error

    def close(self) -> None:
        """See wire.Answer."""
        self._file.close()


def _mapped(url: str, error: Exception) -> Exception:
    """Each store has errors of its own: only what says that something is missing, forbidden or may pass is known."""
    words = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(error, FileNotFoundError | IsADirectoryError):
        return InputError(f"{shown(url)}: no such file; check the address")
    if isinstance(error, OSError) and not isinstance(error, PermissionError):
        return TryAgain(f"the store failed: {words}")
    return InputError(f"{shown(url)}: cannot be opened: {words}; check the address and your rights to it")
