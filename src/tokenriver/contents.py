"""What lies behind a path: the shards of one split, from a manifest or, without one, from the files themselves.

Opening reads the manifest, or headers and a small sample; a manifest's shards are looked at only when they are used.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tokenriver import foreign, registry
from tokenriver.documents import Parting
from tokenriver.errors import FormatError, InputError, MismatchError
from tokenriver.lossmask import LossMask, mask_name
from tokenriver.manifest import BUILD_FOLDER, MANIFEST_NAME, Manifest, index_name, read_manifest
from tokenriver.river import River
from tokenriver.shelf import LIMIT, Shelf
from tokenriver.storage import ShardFile, ShardReader
from tokenriver.types import Tokenizer
from tokenriver.weights import WeightMask


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of a corpus: its path, ids and documents (None where the format has no bounds)."""

    path: Path
    num_tokens: int
    num_documents: int | None


@dataclass(frozen=True, slots=True)
class Asked:
    """The call that opened a corpus; also its pickle."""

    path: Path
    split: str
    format: str | None
    tokenizer: str | Path | Tokenizer | None
    tokenizer_search: tuple[Path, ...]
    source_root: Path | None
    dtype: str | None
    parting: Parting | None


@dataclass(frozen=True, slots=True)
class Contents:
    """The shards of one split in river order, and what is known of them all."""

    format: str
    dtype: np.dtype[Any]
    splits: tuple[str, ...]
    split: str
    shards: tuple[Shard, ...]
    fingerprint: str
    manifest: Manifest | None = None
    root: Path | None = None
    """The folder of the manifest."""
    assumptions: tuple[str, ...] = ()
    largest: int | None = None
    """Largest id of the sample; None where a manifest says what the vocabulary is."""
    vocab_size: int | None = None
    """As a file beside the shards says, where their format has such."""
    row_length: int | None = None
    """Ids of a row, where the first file's lie in rows."""
    weights: str | None = None
    """The dtype of the loss mask that lies in the files themselves; None if there is none."""


def look(asked: Asked) -> Contents:
    """Find the shards of a path; InputError if it or the split is not there, FormatError if it is damaged."""
    folder = asked.path.parent if asked.path.name == MANIFEST_NAME else asked.path
    if (folder / MANIFEST_NAME).is_file() or (folder / BUILD_FOLDER).is_dir():
        manifest = read_manifest(folder)
        if asked.format in (None, manifest.format):
            return _ours(folder, manifest, asked)
    return _foreign(asked)


def check_tokenizer(path: Path, contents: Contents, found: Tokenizer) -> None:
    """MismatchError if it is not the tokenizer that made these ids."""
    made_by = contents.manifest.tokenizer if contents.manifest is not None else None
    if made_by is not None and found.fingerprint != made_by.fingerprint:
        raise MismatchError(
            f"{path}: tokenizer {found.name}: fingerprint: got {found.fingerprint}, expected "
            f"{made_by.fingerprint} of {made_by.name}; another one made these ids"
        )
    if contents.largest is not None and contents.largest >= found.vocab_size:
        raise MismatchError(
            f"{path}: id: got {contents.largest}, expected at most {found.vocab_size - 1}, the last of {found.name}; "
            "the tokenizer or the dtype is another"
        )


def make_shelf(contents: Contents) -> Shelf:
    """The shards, opened when they are used and checked against what is known of them."""
    module = registry.load("formats", contents.format)
    root, manifest = contents.root, contents.manifest
    unseen = bytearray(len(contents.shards)) if manifest is None else bytearray(b"\1" * len(contents.shards))
    others = [] if manifest is None else [info.file for info in manifest.files]

    def opener(number: int) -> ShardReader:
        shard = contents.shards[number]
        if unseen[number] and root is not None:
            name = shard.path.relative_to(root).as_posix()
            indexes = [] if shard.num_documents is None else [index_name(name)]
            for file in [name, *indexes, *others]:
                _check_inside(root, file)
            others.clear()
            unseen[number] = 0
        reader: ShardReader = module.open_reader(shard.path, dtype=contents.dtype.name)
        if reader.num_tokens != shard.num_tokens or reader.dtype != contents.dtype:
            raise FormatError(
                f"{shard.path}: got {reader.num_tokens} {reader.dtype} ids, expected {shard.num_tokens} "
                f"{contents.dtype} ids; the file was replaced"
            )
        return reader

    return Shelf(opener)


def make_mask(contents: Contents) -> LossMask | WeightMask | None:
    """The loss mask of the river; None if its manifest lists none, and its files hold none."""
    root, manifest = contents.root, contents.manifest
    if contents.weights is not None:
        return WeightMask(contents.shards[0].path, _weights(contents))
    if root is None or manifest is None or not manifest.masked:
        return None
    names = [mask_name(shard.path.relative_to(root).as_posix()) for shard in contents.shards]
    return LossMask([root / name for name in names], [shard.num_tokens for shard in contents.shards])


def _weights(contents: Contents) -> River:
    """The loss mask of files that hold their own, as a river of weights."""
    module, dtype = registry.load("formats", contents.format), np.dtype(contents.weights)

    def opener(number: int) -> ShardReader:
        path = contents.shards[number].path
        found: ShardReader | None = module.open_loss_mask(path)
        if found is None or found.dtype != dtype:
            got = "none" if found is None else f"{found.dtype} weights"
            raise FormatError(f"{path}: loss_mask: got {got}, expected {dtype} weights as in the corpus's other files")
        return found

    return River(np.array([shard.num_tokens for shard in contents.shards], np.int64), dtype, Shelf(opener))


def _own_mask(module: ModuleType, shards: Sequence[Shard]) -> str | None:
    """The dtype of the loss mask that files hold, by the first ones; files of which some have one are refused later."""
    if not hasattr(module, "open_loss_mask"):
        return None
    found = (module.open_loss_mask(shard.path) for shard in shards[:LIMIT])
    return next((mask.dtype.name for mask in found if mask is not None), None)


def _check_inside(root: Path, name: str) -> None:
    """A name from a manifest must be a file of its folder, or of a folder in it: a link could lead anywhere. The
    corpus itself may be reached by one."""
    path = root / name
    if path.parent != root and path.parent.is_symlink():
        raise FormatError(f"{path.parent}: got a symbolic link, expected a folder; put the folder itself there")
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError as error:
        raise FormatError(
            f"{path}: got no such file, expected it by the manifest; restore it, or build anew"
        ) from error
    if not stat.S_ISREG(mode):
        what = "a symbolic link" if stat.S_ISLNK(mode) else "a folder, pipe or device"
        raise FormatError(f"{path}: got {what}, expected a regular file; put the file itself there")


def _ours(folder: Path, manifest: Manifest, asked: Asked) -> Contents:
    if asked.dtype not in (None, manifest.dtype):
        raise FormatError(
            f"{folder}: dtype: got {manifest.dtype} in the manifest, expected {asked.dtype}; leave it out"
        )
    infos = manifest.split(asked.split)
    if not infos:
        raise _no_split(folder, asked.split, manifest.splits)
    shards = tuple(Shard(folder / i.file, i.num_tokens, i.num_documents if i.index_bytes else None) for i in infos)
    dtype = np.dtype(manifest.dtype)
    fingerprint = manifest.river_fingerprint(asked.split)
    contents = Contents(manifest.format, dtype, manifest.splits, asked.split, shards, fingerprint, manifest, folder)
    if asked.parting is None or all(shard.num_documents is not None for shard in shards):
        return contents
    return replace(contents, assumptions=(_parted(asked.parting),))


def _parted(parting: Parting) -> str:
    return f"id {parting.id} {'ends' if parting.framing == 'eos-after' else 'begins'} a document"


def _no_split(path: Path, split: str, splits: tuple[str, ...]) -> InputError:
    return InputError(f"{path}: split: got {split!r}, expected one of {', '.join(splits) or 'none: it has no shards'}")


def _foreign(asked: Asked) -> Contents:
    found = foreign.find_shards(asked.path, asked.format)
    splits = tuple(found.splits)
    # a file that was named is meant, whatever its name says
    meant = asked.path.is_file() or len(splits) == 1
    split = splits[0] if asked.split == "train" and meant else asked.split
    if split not in found.splits:
        raise _no_split(asked.path, asked.split, splits)
    module = registry.load("formats", found.format)
    shards = [_shard(module, file, asked.dtype) for file in found.splits[split]]
    dtypes = {dtype for _, dtype in shards}
    if len(dtypes) > 1:
        raise FormatError(f"{asked.path}: dtype: got shards of {sorted(map(str, dtypes))}, expected one; give a glob")
    # an index may speak of shards without a single id
    kept = tuple(shard for shard, _ in shards if shard.num_tokens)
    empty = [shard for shard, _ in shards if not shard.num_tokens]
    if not kept:
        raise FormatError(f"{asked.path}: got {len(shards)} shards without an id, expected some")
    vocab_size = module.vocab_size(kept[0].path) if hasattr(module, "vocab_size") else None
    told = all(file.dtype is not None for file in found.splits[split]) or "dtype" in module.STORES
    documents = sum(shard.num_documents or 0 for shard in empty)
    notes = [f"left out: {len(empty)} shards without an id, of {documents} documents"] if empty else []
    if hasattr(module, "passed_over") and (what := module.passed_over(kept[0].path)):
        notes.append(f"passed over: {what}")
    length = module.row_length(kept[0].path) if hasattr(module, "row_length") else None
    contents = Contents(
        found.format,
        dtypes.pop(),
        splits,
        split,
        kept,
        "",
        assumptions=tuple(notes),
        vocab_size=vocab_size,
        row_length=length,
        weights=_own_mask(module, kept),
    )
    return _sampled(contents, asked, told=told or asked.dtype is not None)


def _shard(module: ModuleType, file: ShardFile, dtype: str | None) -> tuple[Shard, np.dtype[Any]]:
    """A shard and its dtype, from its format's index or, where that does not say, from the opened file."""
    without_bounds = "doc_ends" not in module.STORES and not file.path.with_name(index_name(file.path.name)).is_file()
    if (
        file.num_tokens is not None
        and file.dtype is not None
        and dtype in (None, file.dtype)
        and (file.num_documents is not None or without_bounds)
    ):
        return Shard(file.path, file.num_tokens, file.num_documents), np.dtype(file.dtype)
    reader: ShardReader = module.open_reader(file.path, dtype=dtype or file.dtype)
    ends = reader.doc_ends
    return Shard(file.path, reader.num_tokens, None if ends is None else len(ends)), reader.dtype


def _sampled(contents: Contents, asked: Asked, *, told: bool) -> Contents:
    """What a sample of the ids shows; FormatError for one outside the vocabulary. `told`: the dtype is no guess."""
    sizes = np.array([shard.num_tokens for shard in contents.shards], np.int64)
    river = River(sizes, contents.dtype, make_shelf(contents))
    seen = foreign.sample(river.read, river.num_tokens, contents.dtype.name, contents.format)
    assumptions = list(contents.assumptions)
    if contents.vocab_size is not None and seen.largest >= contents.vocab_size:
        raise FormatError(
            f"{asked.path}: id: got {seen.largest} in a sample, expected at most {contents.vocab_size - 1} by the "
            "vocabulary beside it; the dtype or the vocabulary is another"
        )
    if not told:
        assumptions.append(f"ids are {contents.dtype.name}: the file does not say")
        if seen.looks_wider:
            assumptions.append("every second sampled id is 0 or 1: if the ids are 32-bit, open it with dtype='uint32'")
    bounded = all(shard.num_documents is not None for shard in contents.shards)
    if asked.parting is not None and not bounded:
        assumptions.append(_parted(asked.parting))
    elif not bounded:
        assumptions.append("no document bounds: the file has none")
    fingerprint = seen.fingerprint
    if contents.weights is not None:
        mask = foreign.sample(_weights(contents).read, river.num_tokens, contents.weights, contents.format)
        fingerprint = foreign.with_mask(fingerprint, mask.fingerprint)
    return replace(contents, fingerprint=fingerprint, largest=seen.largest, assumptions=tuple(assumptions))
