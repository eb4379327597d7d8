"""Real text that every machine with Python has: the standard library and the installed packages."""

import hashlib
import os
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
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
    files: dict[str, int]
    """By folder: files taken from it."""
    text_bytes: int
    stored_bytes: int


def write_text(path: Path, limit: int) -> Text:
    """Write about `limit` bytes of text found on this machine as JSON lines in a zstd file, an equal share from each
    folder as far as it goes; the same on every run. Copies and files that are no UTF-8 are passed over."""
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    packed: list[bytes] = []
    files: dict[str, int] = {}
    size = 0
    seen: set[bytes] = set()
    for number, root in enumerate(roots(), 1):
        share = limit * number // len(roots())
        files[str(root)] = 0
        for name, text in _texts(root, seen):
            if size >= share:
                break
            row = {"text": text, "path": name}
            packed.append(compressor.compress(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)))
            files[str(root)] += 1
            size += len(text.encode())
    packed.append(compressor.flush())
    write_atomic(path, data := b"".join(packed))
    return Text(path, files, size, len(data))


def roots() -> tuple[Path, ...]:
    """The standard library, then the installed packages."""
    paths = sysconfig.get_paths()
    return tuple(Path(folder) for folder in dict.fromkeys((paths["stdlib"], paths["purelib"], paths["platlib"])))


def _texts(root: Path, seen: set[bytes]) -> Iterator[tuple[str, str]]:
    """(path below root, text) of each file that was not seen before."""
    for file in _files(root):
        data = file.read_bytes()
        digest = hashlib.sha256(data).digest()
        if digest in seen:
            continue
        seen.add(digest)
        with suppress(UnicodeDecodeError):
            yield file.relative_to(root).as_posix(), data.decode("utf-8")


def _files(root: Path) -> Iterator[Path]:
    """Readable text files below a folder, in the order of their names."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - {"__pycache__", "site-packages", "dist-packages"})
        for name in sorted(names):
            file = Path(folder, name)
            if name.endswith(ENDS) and os.access(file, os.R_OK) and LEAST <= file.stat().st_size <= MOST:
                yield file
