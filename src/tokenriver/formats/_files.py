"""What writers and finders share: flat files by the commit protocol, and the shards of a folder by their names."""

from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokenriver import files
from tokenriver.errors import FormatError
from tokenriver.storage import Content, ShardFile, Target, WrittenFile

UNLIMITED = 2**63 - 1


def write_file(path: Path, pieces: Iterable[bytes | NDArray[np.generic]]) -> WrittenFile:
    """Write bytes and arrays one after another, by the commit protocol."""
    with files.AtomicFile(path) as file:
        for piece in pieces:
            if len(piece):
                file.write(piece if isinstance(piece, bytes) else np.ascontiguousarray(piece).data)
    return WrittenFile(path, file.num_bytes, file.sha256)


def write_flat(path: Path, head: bytes, content: Content) -> WrittenFile:
    """Write `head`, then the ids of a shard."""
    return write_file(path, chain([head], content.ids()))


def numbered(target: Target, number: int, suffix: str) -> str:
    """NAME_train_000000.bin, as llm.c names shards."""
    return f"{target.name}_{target.split}_{number:06d}{suffix}"


def named(target: Target, number: int, suffix: str) -> str:
    """NAME_train.bin for the only shard of a split; of several, each has its number."""
    return numbered(target, number, suffix) if target.shards > 1 else f"{target.name}_{target.split}{suffix}"


def find_by_name(path: Path, suffix: str, belongs: Callable[[Path], bool]) -> list[ShardFile]:
    """A file itself; of a folder, the files with the suffix in the byte order of their names, hidden ones left out.
    FormatError if there are none, or one of them does not belong."""
    if not path.is_dir():
        return [ShardFile(path)]
    names = [name for name in files.list_folder(path) if name.endswith(suffix) and not name.startswith(".")]
    if not names:
        raise FormatError(f"{path}: got no {suffix} file, expected shards; check the path")
    strange = next((name for name in names if not belongs(path / name)), None)
    if strange is not None:
        raise FormatError(
            f"{path}: got {strange} beside {names[0]}, expected one format; give a glob of the shards that belong "
            "together"
        )
    return [ShardFile(path / name) for name in names]


def any_by_name(path: Path, suffix: str, belongs: Callable[[Path], bool]) -> bool:
    """Is the file, or the first file with the suffix in the folder, one that belongs?"""
    if not path.is_dir():
        return path.name.endswith(suffix) and belongs(path)
    names = [name for name in files.list_folder(path) if name.endswith(suffix) and not name.startswith(".")]
    return bool(names) and belongs(path / names[0])


def nothing_more(folder: Path, target: Target, shards: object) -> list[WrittenFile]:
    """`finish` of a format without an index file."""
    return []


def no_limits(target: Target, shards: Iterable[Content]) -> None:
    """`check` of a format that holds whatever its dtypes and MAX_SHARD_TOKENS allow."""
