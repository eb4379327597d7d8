"""Digests of files: sha256 of what stays, for everybody to compare, and XXH3, which costs a tenth of it, of what only
the build that wrote it reads again."""

import hashlib
from collections.abc import Iterable
from io import FileIO
from pathlib import Path

import xxhash

from tokenriver.files import Buffer, Digest, naming

HASHED = 1 << 18
"""Bytes that are read at a time."""


def sha256_file(path: Path, name: Path | None = None) -> str:
    """Hex sha256 of a file; errors call it `name`, if it has that name only later."""
    with naming(name or path, "read"), path.open("rb", buffering=0) as file:
        return _of_rest(file, None, hashlib.sha256())


def xxh3(data: Iterable[Buffer]) -> str:
    """Hex XXH3 (128 bits) of some bytes, one after another."""
    digest = xxhash.xxh3_128()
    for some in data:
        digest.update(some)
    return digest.hexdigest()


def xxh3_file(path: Path, size: int) -> str:
    """Hex XXH3 (128 bits) of the first `size` bytes of a file."""
    with naming(path, "read"), path.open("rb", buffering=0) as file:
        return xxh3_from(file, size)


def xxh3_from(file: FileIO, size: int | None = None) -> str:
    """Hex XXH3 (128 bits) of the next `size` bytes of an open file, or of all to its end."""
    return _of_rest(file, size, xxhash.xxh3_128())


def _of_rest(file: FileIO, size: int | None, digest: Digest) -> str:
    """They are read into one small place, which stays in the cache; memory that is new for each read would have to be
    cleared first."""
    room = memoryview(bytearray(HASHED))
    while count := file.readinto(room if size is None else room[: min(size, HASHED)]):
        digest.update(room[:count])
        size = None if size is None else size - count
    return digest.hexdigest()
