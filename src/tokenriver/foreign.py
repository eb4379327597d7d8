"""Files that have no manifest: which format they are, which splits they make, and what a sample of them shows.

A format knows its own files (`sniff`, `find`). `_train_` and `_val_` in a name (or `train.bin`, `val.bin`) put a file
into a split, and so do folders called train and val. The fingerprint of such a river is taken from format, size and 64
sampled blocks, and starts with `sampled:`; a full scan belongs to `verify`.
"""

import glob
import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tokenriver import files, kinds, magic, registry
from tokenriver.errors import FormatError, InputError
from tokenriver.storage import ShardFile
from tokenriver.types import Ids

BLOCKS = 64
BLOCK_IDS = 2048
FOLDERS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
"""What folders are called that hold a split each, and the split's name here."""
_SPLIT = re.compile(r"(?:^|[._-])(train|val)(?:[._-]|$)")
_DEV = re.compile(r"_dev(?=[._-])")


@dataclass(frozen=True, slots=True)
class Found:
    """The shards behind a path, by split, all of one format."""

    format: str
    splits: dict[str, tuple[ShardFile, ...]]


@dataclass(frozen=True, slots=True)
class Sample:
    """What up to 64 blocks of a river show."""

    fingerprint: str
    largest: int
    looks_wider: bool
    """Every second value of the blocks is 0 or 1 while the others are not: 16-bit values that may be 32-bit ids."""


def find_shards(path: Path, format: str | None) -> Found:
    """The shards of a path (file, folder, prefix or glob) in river order; InputError if there are none, FormatError if
    they are of several formats or of none."""
    name = _sniff(path, format)
    if name is None and path.is_dir():
        found = _split_folders(path, format)
        if found is not None:
            return found
    if name is None and not path.exists():
        return _matches(path, format)
    chosen = name or format
    if chosen is None:
        raise _unknown(path)
    module = registry.load("formats", chosen)
    return Found(chosen, _by_split(path, module.find(path), folders=module.SPLIT_FOLDERS))


def _nothing(path: Path) -> InputError:
    return InputError(f"{path}: got no such file, folder or glob with a match, expected a corpus; check the path")


def _unknown(path: Path) -> FormatError:
    what = "neither manifest.json nor files of a known format" if path.is_dir() else "a file of no known format"
    known = ", ".join(registry.names("formats"))
    kind = _text_kind(path)
    cure = "check the path, or name its format"
    if kind is not None:
        cure = f"it looks like {kind}: make a corpus of it first (tokenriver build {shlex.quote(str(path))} -o DIR)"
    return FormatError(f"{path}: got {what}, expected one of {known}; {cure}")


def _text_kind(path: Path) -> str | None:
    """The kind of source that a file, or a file of a folder, is by its name or content, if it is one."""
    known = kinds.known_kinds()
    if path.is_dir():
        inside = (kinds.named(path / name, known) for name in files.list_folder(path) if not name.startswith("."))
        return next((kind.name for kind in inside if kind is not None), None)
    found = kinds.named(path, known)
    if found is None:
        head = kinds.read_head(path)[1]
        found = next((kind for kind in known if kind.sniff(head)), None)
    return found.name if found is not None else None


def _matches(path: Path, format: str | None) -> Found:
    """The matches of a glob, in the byte order of their names."""
    matches = sorted(glob.glob(str(path)), key=os.fsencode) if glob.has_magic(str(path)) else []
    if not matches:
        raise _nothing(path)
    formats: dict[str, str] = {}
    shards: list[ShardFile] = []
    for match in map(Path, matches):
        name = format or _sniff(match, None)
        if name is None:
            raise _unknown(match)
        formats.setdefault(name, match.name)
        shards += registry.load("formats", name).find(match)
    if len(formats) > 1:
        (first, a), (other, b) = list(formats.items())[:2]
        raise FormatError(
            f"{path}: got {a} ({first}) beside {b} ({other}), expected one format; give a glob of the shards that "
            "belong together"
        )
    # a shard of two files may be matched by both of its names
    return Found(next(iter(formats)), _by_split(path, dict.fromkeys(shards), folders=False))


def _by_split(path: Path, shards: Iterable[ShardFile], *, folders: bool) -> dict[str, tuple[ShardFile, ...]]:
    own = FOLDERS.get(path.name if path.is_dir() else path.parent.name, "train") if folders else None
    shards = list(shards)
    names = {shard.path.name for shard in shards}
    if len({split_of(name, names) for name in names}) > 1:
        own = None  # files called train and val side by side say more than their folder
    splits: dict[str, list[ShardFile]] = {}
    for shard in shards:
        splits.setdefault(own or split_of(shard.path.name, names), []).append(shard)
    return {name: tuple(members) for name, members in sorted(splits.items())}


def split_of(name: str, beside: Set[str] = frozenset()) -> str:
    """`train` or `val` as the file's name says; `train` if it says neither. `sft_dev_packed.h5` beside `sft_packed.h5`
    is `val`: elsewhere "dev" may be part of any word."""
    found = _SPLIT.findall(name)
    if not found and _DEV.search(name) and _DEV.sub("", name) in beside:
        return "val"
    return str(found[-1]) if found else "train"


def _split_folders(path: Path, format: str | None) -> Found | None:
    """The folders of a folder that are called like splits, all of one format; None if there are none."""
    splits: dict[str, tuple[ShardFile, ...]] = {}
    formats: set[str] = set()
    for folder in (path / name for name in files.list_folder(path) if name in FOLDERS and (path / name).is_dir()):
        name = format or _sniff(folder, None)
        if name is not None and FOLDERS[folder.name] not in splits:
            formats.add(name)
            splits[FOLDERS[folder.name]] = tuple(registry.load("formats", name).find(folder))
    if len(formats) > 1:
        raise FormatError(f"{path}: got folders of {', '.join(sorted(formats))}, expected one format; open one of them")
    return Found(formats.pop(), dict(sorted(splits.items()))) if formats else None


def _sniff(path: Path, format: str | None) -> str | None:
    """The format that knows this path, of those that may (all, or the one insisted on); of several, the one whose files
    say most about themselves. A module is loaded only for a path that looks as if it needs it."""
    names = [format] if format is not None else magic.likely(registry.names("formats"), path)
    modules = [(name, registry.load("formats", name)) for name in names]
    claims = [(len(module.STORES), name) for name, module in modules if module.sniff(path)]
    return max(claims)[1] if claims else None


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


def with_mask(ids: str, mask: str) -> str:
    """One fingerprint of those of the ids and of the loss mask beside them."""
    return f"sampled:{hashlib.sha256(f'{ids} {mask}'.encode()).hexdigest()}"
