"""Digests of files."""

import hashlib
from io import FileIO
from pathlib import Path

from tokenriver.files import naming

HASHED = 1 << 18
"""Bytes that are read at a time."""


def sha256_file(path: Path, name: Path | None = None, size: int | None = None) -> str:
    """Hex sha256 of a file, or of its first `size` bytes; errors call it `name`, if it has that name only later."""
    with naming(name or path, "read"), path.open("rb", buffering=0) as file:
        return sha256_from(file, size)


def sha256_from(file: FileIO, size: int | None = None) -> str:
    """Hex sha256 of the next `size` bytes of an open file, or of all to its end. They are read into one small place,
    which stays in the cache; memory that is new for each read would have to be cleared first."""
    digest, room = hashlib.sha256(), memoryview(bytearray(HASHED))
    while count := file.readinto(room if size is None else room[: min(size, HASHED)]):
        digest.update(room[:count])
        size = None if size is None else size - count
    return digest.hexdigest()
