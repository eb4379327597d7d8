"""Real text that every machine with Python has: the standard library and the installed packages."""

import hashlib
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import zstandard

from tokenriver.files import write_atomic

ENDS = (".py", ".md", ".rst", ".txt")
LEAST, MOST = 200, 1_000_000


@dataclass(frozen=True, slots=True)
class Text:
    """What was taken."""

    path: Path
    files: int
    text_bytes: int
    stored_bytes: int
    roots: tuple[Path, ...]


def write_text(path: Path, limit: int) -> Text:
    """Write about `limit` bytes of text found on this machine as JSON lines in a zstd file; the same on every run.
    Copies and files that are no UTF-8 are passed over."""
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    packed: list[bytes] = []
    files = size = 0
    for file, text in _texts():
        packed.append(compressor.compress(orjson.dumps({"text": text, "path": file}, option=orjson.OPT_APPEND_NEWLINE)))
        files += 1
        size += len(text.encode())
        if size >= limit:
            break
    packed.append(compressor.flush())
    write_atomic(path, data := b"".join(packed))
    return Text(path, files, size, len(data), roots())


def roots() -> tuple[Path, ...]:
    """The standard library, then the installed packages."""
    paths = sysconfig.get_paths()
    return tuple(Path(folder) for folder in dict.fromkeys((paths["stdlib"], paths["purelib"], paths["platlib"])))


def _texts() -> Iterator[tuple[str, str]]:
    seen: set[bytes] = set()
    for root in roots():
        for file in _files(root):
            data = file.read_bytes()
            digest = hashlib.sha256(data).digest()
            if digest in seen:
                continue
            seen.add(digest)
            try:
                yield file.relative_to(root).as_posix(), data.decode("utf-8")
            except UnicodeDecodeError:
                continue


def _files(root: Path) -> Iterator[Path]:
    """Readable text files below a folder, in the order of their names."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - {"__pycache__", "site-packages", "dist-packages"})
        for name in sorted(names):
            file = Path(folder, name)
            if name.endswith(ENDS) and os.access(file, os.R_OK) and LEAST <= file.stat().st_size <= MOST:
                yield file
