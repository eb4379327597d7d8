"""Files that have no manifest: which format they are, which splits they make, and what a sample of them shows.

A folder or a glob of shards is read in the byte order of the names; `_train_` and `_val_` in a name (or `train.bin`,
`val.bin`) put a file into a split. Their fingerprint is taken from format, size and 64 sampled blocks, and starts
with `sampled:`; a full scan belongs to `verify`.
"""

import glob
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from tokenriver import files, registry
from tokenriver.errors import FormatError, InputError, MissingPackageError
from tokenriver.types import Ids

BLOCKS = 64
BLOCK_IDS = 2048
_SPLIT = re.compile(r"(?:^|[._-])(train|val)(?:[._-]|$)")


@dataclass(frozen=True, slots=True)
class Found:
    """The shards behind a path, by split, all of one format."""

    format: str
    splits: dict[str, tuple[Path, ...]]


@dataclass(frozen=True, slots=True)
class Sample:
    """What up to 64 blocks of a river show."""

    fingerprint: str
    largest: int
    looks_wider: bool
    """Every second value of the blocks is 0 or 1 while the others are not: 16-bit values that may be 32-bit ids."""


def find_shards(path: Path, format: str | None) -> Found:
    """The files of a path (file, folder or glob) in river order; InputError if there are none, FormatError if they
    are of several formats or of none."""
    paths = _files(path)
    formats = {file: format or _sniff(file) for file in paths}
    if len(set(formats.values())) > 1:
        first, other = paths[0], next(file for file in paths if formats[file] != formats[paths[0]])
        raise FormatError(
            f"{path}: got {first.name} ({formats[first]}) beside {other.name} ({formats[other]}), expected one format; "
            "give a glob of the shards that belong together"
        )
    splits: dict[str, list[Path]] = {}
    for file in paths:
        splits.setdefault(split_of(file.name), []).append(file)
    return Found(formats[paths[0]], {name: tuple(members) for name, members in sorted(splits.items())})


def split_of(name: str) -> str:
    """`train` or `val` as the file's name says; `train` if it says neither."""
    found = _SPLIT.findall(name)
    return str(found[-1]) if found else "train"


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        names = [name for name in files.list_folder(path) if not name.startswith(".") and name.endswith(".bin")]
        if not names:
            raise FormatError(f"{path}: got neither manifest.json nor a .bin file, expected a corpus; check the path")
        return [path / name for name in names]
    if path.exists():
        return [path]
    matches = sorted(glob.glob(str(path)), key=os.fsencode) if glob.has_magic(str(path)) else []
    if not matches:
        raise InputError(f"{path}: got no such file, folder or glob with a match, expected a corpus; check the path")
    return [Path(match) for match in matches]


def _sniff(path: Path) -> str:
    """The format that knows this file; of several, the one whose files say most about themselves."""
    claims = [(len(module.STORES), name) for name, module in _formats() if module.sniff(path)]
    if not claims:
        raise FormatError(
            f"{path}: got a file of no known format, expected one of {', '.join(registry.names('formats'))}; "
            "check the file, or name its format"
        )
    return max(claims)[1]


def _formats() -> list[tuple[str, ModuleType]]:
    found = []
    for name in registry.names("formats"):
        try:
            found.append((name, registry.load("formats", name)))
        except MissingPackageError:
            continue
    return found


def sample(read: Callable[[int, int], Ids], num_tokens: int, dtype: str, format: str) -> Sample:
    """Look at 64 blocks of a river, evenly spread, the first and the last among them."""
    size = min(BLOCK_IDS, num_tokens)
    digest = hashlib.sha256(f"tokenriver sample 1 {format} {dtype} {num_tokens}\n".encode())
    largest, even, odd = 0, 0, 0
    for at in sorted({(num_tokens - size) * i // (BLOCKS - 1) & ~1 for i in range(BLOCKS)} | {num_tokens - size}):
        block = read(at, at + size)
        digest.update(np.ascontiguousarray(block).data)
        largest = max(largest, int(block.max()))
        if at % 2 == 0:
            even, odd = max(even, int(block[::2].max())), max(odd, int(block[1::2].max(initial=0)))
    return Sample(f"sampled:{digest.hexdigest()}", largest, dtype == "uint16" and odd <= 1 < even)
