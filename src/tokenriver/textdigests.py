"""Digests of a corpus's texts, kept where duplicates are left out, so that an append knows what the corpus has.

NAME_NNNNNN.digests, one file a build and listed in the manifest: uint64[k, 2], of each of its k documents the 128 bits
that the filter compares, in the order in which they were read.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tokenriver.digests import sha256_file
from tokenriver.errors import FormatError, InputError
from tokenriver.files import AtomicFile, naming
from tokenriver.manifest import FileInfo, Manifest
from tokenriver.parts import differs
from tokenriver.types import UInt64

SUFFIX = ".digests"
ROW_BYTES = 16
BLOCK_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Earlier:
    """Digests of the documents that a corpus has already."""

    folder: Path = Path()
    files: tuple[FileInfo, ...] = ()

    @property
    def num_documents(self) -> int:
        return sum(info.num_bytes for info in self.files) // ROW_BYTES

    def read(self) -> Iterator[UInt64]:
        """(k, 2) at a time. FormatError for a file that is not what the manifest says."""
        for info in self.files:
            path = self.folder / info.file
            if info.num_bytes % ROW_BYTES or sha256_file(path) != info.sha256:
                raise FormatError(
                    f"{path}: digests of texts: got another file than the manifest names; restore it, or build anew "
                    "from all inputs"
                )
            with naming(path, "read"), path.open("rb") as file:
                while data := file.read(BLOCK_ROWS * ROW_BYTES):
                    yield np.frombuffer(data, "<u8").reshape(-1, 2)


NOTHING = Earlier()


def listed(manifest: Manifest | None) -> tuple[FileInfo, ...]:
    """The files of a corpus that hold digests."""
    return tuple(info for info in manifest.files if info.file.endswith(SUFFIX)) if manifest is not None else ()


def earlier(folder: Path, manifest: Manifest | None) -> Earlier:
    """What an append to a corpus must not repeat; InputError if the corpus does not say."""
    files = listed(manifest)
    if manifest is not None and not files:
        raise InputError(
            f"{folder}: append: got a corpus without the digests of its texts, which exact-dedup compares; build anew "
            "from all inputs, and later appends will find them"
        )
    return Earlier(folder, files)


def write(path: Path, blocks: Iterable[UInt64]) -> FileInfo:
    """Write the digests of a build, in blocks of (k, 2), and read them back."""
    rows = 0
    with AtomicFile(path) as file:
        for block in blocks:
            file.write(np.ascontiguousarray(block, "<u8").data)
            rows += len(block)
    if sha256_file(path) != file.sha256:
        raise differs(path)
    return FileInfo(path.name, rows * ROW_BYTES, file.sha256)


def path_of(out: Path, name: str, manifest: Manifest | None) -> Path:
    """Where the digests of the next build of a corpus lie."""
    return out / f"{name}_{len(listed(manifest)):06d}{SUFFIX}"
