"""The index.json of a folder of shards, and the files that it names: strict JSON of bounded size, and no name that
leads out of the folder, be it by its words or by a link.
"""

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from tokenriver import rules
from tokenriver.errors import FormatError, InputError
from tokenriver.formats._mapping import open_regular

INDEX = "index.json"
MAX_BYTES = 1 << 28


def read_index(path: Path) -> object:
    """What a JSON file says; FormatError for anything but strict JSON of at most 256 MiB."""
    fd, size = open_regular(path)
    try:
        if size > MAX_BYTES:
            raise FormatError(f"{path}: size: got {size} bytes, expected at most {MAX_BYTES} of an index")
        data = os.pread(fd, size, 0)
    finally:
        os.close(fd)
    return parse(path, data)


def parse(path: Path, data: bytes) -> object:
    """Strict JSON in UTF-8: no key twice, no NaN, no endless nesting; FormatError."""
    try:
        content: object = json.loads(data.decode(), object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: got what is no JSON ({str(error)[:200]}), expected an index; replace it") from error
    return content


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)[:100]!r} appears twice")
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def known_keys(path: Path, what: str, row: object, table: rules.Table) -> dict[str, Any]:
    """The keys of the table out of an object that may have more, each by its rule; FormatError."""
    if isinstance(row, dict):
        row = {name: row[name] for name in table if name in row}
    return rules.check(path, what, row, table)


class Folder:
    """The folder of an index, asked for the files that the index names."""

    def __init__(self, index: Path) -> None:
        self._index, self.path = index, index.parent
        self._text = str(self.path)
        self._real = os.path.realpath(self.path)

    def size_of(self, name: str) -> int | None:
        """Bytes of a regular file (its name checked by rules.INSIDE), or None if there is none; FormatError for
        anything else, and for a link that leads out of the folder."""
        place = f"{self._text}/{name}"
        try:
            status = os.lstat(place)
            if stat.S_ISLNK(status.st_mode) or "/" in name:
                real = os.path.realpath(place)
                if not real.startswith(f"{self._real.rstrip('/')}/"):
                    raise FormatError(f"{self._index}: {name!r}: got a link out of the folder, expected a file in it")
                status = os.stat(place)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise InputError(f"{place}: cannot look at it: {error.strerror}; check its permissions") from error
        if not stat.S_ISREG(status.st_mode):
            raise FormatError(f"{self._index}: {name!r}: got no regular file, expected a shard")
        return status.st_size

    def check_size(self, name: str, expected: int) -> Path:
        """The path of a file that must have `expected` bytes; FormatError if it has not, or is missing."""
        size = self.size_of(name)
        if size is None:
            raise FormatError(f"{self._index}: got no file {name!r} beside it, expected one of {expected} bytes")
        if size != expected:
            raise FormatError(
                f"{self.path / name}: size: got {size} bytes, expected {expected} by {self._index.name}; replace it"
            )
        return self.path / name


def check_unique(path: Path, names: Iterable[str]) -> None:
    """FormatError for a file that an index names twice: its ids would be served twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise FormatError(f"{path}: got {name!r} twice, expected each file once")
        seen.add(name)
