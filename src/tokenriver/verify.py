"""Is a corpus what its manifest says? Every file is read; every damage is a finding, none hides another.

Opening a corpus checks headers and sizes; here are the checks that read all of it: checksums, the largest id, the sum
of all document lengths, the balance, and, if asked for, every document against the source that it came from.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

import numpy as np

from tokenriver import digests, files, foreign, registry
from tokenriver.against import compare
from tokenriver.choices import choice_faults, choice_format
from tokenriver.corpus import open_corpus
from tokenriver.errors import FormatError, InputError, RiverError
from tokenriver.manifest import (
    BUILD_FOLDER,
    MANIFEST_NAME,
    Manifest,
    ShardInfo,
    index_name,
    read_manifest,
)
from tokenriver.storage import UNKNOWN, ShardFile, ShardReader
from tokenriver.types import Tokenizer

MAX_DIFFERENCES = 100
BLOCK_IDS = 1 << 22
MAX_ID = 2**32 - 1
BAD_ROWS_NAME = "bad_rows.jsonl"
_WORDING = re.compile(r"(?P<what>.*?):? got (?P<got>.*?), expected (?P<expected>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: where, what it is about, what was found and what should be."""

    path: str
    what: str
    got: str
    expected: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}: got {self.got}, expected {self.expected}"


def verify(
    path: str | Path,
    *,
    against_inputs: bool = False,
    inputs_root: str | Path | None = None,
    tokenizer: str | Path | Tokenizer | None = None,
    tokenizer_search: Sequence[Path] = (),
    dtype: str | None = None,
) -> list[Finding]:
    """Everything that is wrong with a corpus (a folder with a manifest, or shards without one) or a file of
    multiple-choice examples; empty if nothing is.

    against_inputs decodes every document and compares it with its source below inputs_root (else the working folder or
    the folder that holds the corpus). Raises InputError if there is no corpus, or an input cannot be read."""
    place = Path(path).absolute()
    if choice_format(place):
        if against_inputs:
            raise InputError(f"{path}: got multiple-choice examples, expected a corpus of ours to compare with inputs")
        return [_finding(place, error) for error in choice_faults(place)]
    folder = place.parent if place.name == MANIFEST_NAME else place
    if not ((folder / MANIFEST_NAME).is_file() or (folder / BUILD_FOLDER).is_dir()):
        if against_inputs:
            raise InputError(f"{path}: got shards without a manifest, expected a corpus of ours to compare with inputs")
        return list(_foreign(place, dtype))
    try:
        manifest = read_manifest(folder)
    except FormatError as error:
        return [_finding(folder / MANIFEST_NAME, error), *_loose(folder)]
    findings = [found for shard in manifest.shards for found in _shard(folder, manifest, shard)]
    findings += [found for info in manifest.files for found in _file(folder / info.file, info.num_bytes, info.sha256)]
    findings += [*_strangers(folder, manifest), *_balance(folder, manifest)]
    if against_inputs and not findings:
        findings = _compare(folder, manifest, inputs_root, (tokenizer, tokenizer_search))
    return findings


def _finding(path: Path, error: RiverError) -> Finding:
    text = str(error).removeprefix(f"{path}: ")
    found = _WORDING.fullmatch(text)
    if found is None:
        return Finding(str(path), text, "damage", "none")
    return Finding(str(path), found["what"], found["got"], found["expected"])


# ---------------------------------------------------------------------------------------------- a corpus of ours


def _shard(folder: Path, manifest: Manifest, shard: ShardInfo) -> Iterator[Finding]:
    """The two files of a shard; what is inside one is looked at only if the file is the manifest's."""
    path, index = folder / shard.file, folder / index_name(shard.file)
    damaged = list(_file(path, shard.num_bytes, shard.sha256))
    unindexed = list(_file(index, shard.index_bytes, shard.index_sha256)) if shard.index_bytes else []
    yield from [*damaged, *unindexed]
    if damaged:
        return
    try:
        reader: ShardReader = registry.load("formats", manifest.format).open_reader(path, dtype=manifest.dtype)
        if reader.num_tokens != shard.num_tokens or reader.dtype != np.dtype(manifest.dtype):
            got = f"{reader.num_tokens} {reader.dtype} ids"
            yield Finding(str(path), "header", got, f"{shard.num_tokens} {manifest.dtype} ids")
        yield from _ids(path, reader, manifest.tokenizer.vocab_size if manifest.tokenizer is not None else None)
        if shard.index_bytes and not unindexed:
            yield from _documents(index, reader, manifest, shard)
    except (FormatError, InputError) as error:
        yield _finding(path, error)


def _file(path: Path, size: int, sha256: str) -> Iterator[Finding]:
    """A file's kind, size and content; the content of a file of another size is another, which needs no saying."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        yield Finding(str(path), "file", "none", f"{size} bytes")
        return
    if not stat.S_ISREG(status.st_mode):
        yield Finding(str(path), "file", "a link, folder or device", "a regular file")
    elif status.st_size != size:
        yield Finding(str(path), "size", f"{status.st_size} bytes", f"{size} bytes")
    else:
        found = digests.sha256_file(path)
        if found != sha256:
            yield Finding(str(path), "sha256", found, sha256)


def _ids(path: Path, reader: ShardReader, vocab_size: int | None) -> Iterator[Finding]:
    """The first id that is negative or outside the vocabulary."""
    limit = vocab_size if vocab_size is not None else MAX_ID + 1
    for at in range(0, reader.num_tokens, BLOCK_IDS):
        stop = min(at + BLOCK_IDS, reader.num_tokens)
        reader.read_ahead(at, stop)
        block = reader.read(at, stop)
        if int(block.max()) >= limit or int(block.min()) < 0:
            first = at + int(np.argmax((block >= limit) | (block < 0)))
            yield Finding(str(path), f"id at position {first}", str(int(block[first - at])), f"0 to {limit - 1}")
            return


def _documents(index: Path, reader: ShardReader, manifest: Manifest, shard: ShardInfo) -> Iterator[Finding]:
    """The number of documents, and where each says it came from; that their lengths add up, opening has checked."""
    ends, origins = reader.doc_ends, reader.origins
    if ends is None or origins is None or len(ends) != shard.num_documents:
        got = "none" if ends is None else str(len(ends))
        yield Finding(str(index), "documents", got, str(shard.num_documents))
        return
    carried = reader.num_tokens - (int(ends[-1]) if len(ends) else 0)
    if carried and shard == manifest.split(shard.split)[-1]:
        yield Finding(str(index), "ids of a document that goes on", str(carried), "none in the last shard")
    if not manifest.sources:
        return  # a converted corpus whose documents came from nowhere that is known
    records, sources = origins
    known = np.array([source.records for source in manifest.sources], np.int64)
    # corpora joined by a conversion may hold documents that came from nowhere that is known
    lowest = UNKNOWN if "converted_from" in manifest.options else 0
    strange = (sources < lowest) | (sources >= len(known))
    if not strange.any():
        strange = (records < 0) | (records >= np.append(known, 1)[sources])
    if strange.any():
        at = int(np.argmax(strange))
        got = f"record {int(records[at])} of source {int(sources[at])}"
        yield Finding(str(index), f"origin of document {at}", got, f"one of the manifest's {len(known)} sources")


def _strangers(folder: Path, manifest: Manifest) -> Iterator[Finding]:
    """Shards that no manifest speaks of: a trainer that reads the folder by a glob would see them."""
    if (folder / BUILD_FOLDER).is_dir():
        return
    known = {name for shard in manifest.shards for name in (shard.file, index_name(shard.file))}
    known |= {info.file for info in manifest.files}
    suffixes = (registry.load("formats", manifest.format).SUFFIX, ".docs", ".mask")
    for inner in sorted({str(PurePosixPath(name).parent) for name in known} | {"."}):
        for name in files.list_folder(folder / inner) if (folder / inner).is_dir() else ():
            path = name if inner == "." else f"{inner}/{name}"
            if name.endswith(suffixes) and path not in known and not name.startswith("."):
                yield Finding(str(folder / path), "file", "a shard that the manifest does not name", "none")


def _balance(folder: Path, manifest: Manifest) -> Iterator[Finding]:
    """Ids and documents of each split against the balance, and the list of bad rows against their count."""
    path = str(folder / MANIFEST_NAME)
    for name, column in (("ids", "num_tokens"), ("documents", "num_documents")):
        kept = _counts(_inner(manifest.balance, name, "kept"))
        for split in sorted({*kept, *manifest.splits}):
            count = sum(getattr(shard, column) for shard in manifest.split(split))
            if kept.get(split, 0) != count:
                yield Finding(
                    path, f"balance: {name} of {split}", str(kept.get(split, 0)), f"{count}, those of its shards"
                )
    bad = sum(_counts(_inner(manifest.balance, "bad_rows")).values())
    listed = folder / BAD_ROWS_NAME
    lines = _lines(listed) if listed.is_file() else 0
    # an append that is not finished lists its own behind them
    if lines < bad or (lines > bad and not (folder / BUILD_FOLDER).is_dir()):
        yield Finding(str(listed), "bad rows listed", str(lines), str(bad))


def _lines(path: Path) -> int:
    with files.naming(path, "read"), path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(files.CHUNK), b""))


def _inner(value: object, *names: str) -> object:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _counts(value: object) -> dict[str, int]:
    """The numbers of a part of the balance, which a manifest may hold in any form."""
    return {k: v for k, v in value.items() if isinstance(v, int)} if isinstance(value, Mapping) else {}


def _compare(
    folder: Path,
    manifest: Manifest,
    inputs_root: str | Path | None,
    tokenizer: tuple[str | Path | Tokenizer | None, Sequence[Path]],
) -> list[Finding]:
    given, search = tokenizer
    corpora = [
        open_corpus(folder, split=split, tokenizer=given, tokenizer_search=search)
        for split in sorted(manifest.splits, reverse=True)
    ]
    if not corpora:
        return []
    loaded = corpora[0].load_tokenizer()
    roots = [Path(inputs_root)] if inputs_root is not None else [Path.cwd(), folder.parent]
    found = compare(corpora, manifest, loaded, [root.absolute() for root in roots])
    return [Finding(*difference) for difference in islice(found, MAX_DIFFERENCES)]


# ---------------------------------------------------------------------------------- shards without a manifest


def _loose(folder: Path) -> Iterator[Finding]:
    """Damage that shows without a manifest."""
    for name in files.list_folder(folder):
        if name.endswith(".bin") and not name.startswith("."):
            format = "native" if (folder / index_name(name)).is_file() else "llmc"
            yield from _opens(ShardFile(folder / name), format, None)


def _foreign(path: Path, dtype: str | None) -> Iterator[Finding]:
    try:
        found = foreign.find_shards(path, None)
    except FormatError as error:
        yield _finding(path, error)
        return
    module = registry.load("formats", found.format)
    for shards in found.splits.values():
        for shard in shards:
            yield from _opens(shard, found.format, dtype)
        if hasattr(module, "audit"):
            yield from (_finding(path, error) for error in module.audit(shards[0].path.parent))


def _opens(shard: ShardFile, format: str, dtype: str | None) -> Iterator[Finding]:
    """Open a shard and read all of it: what decodes, and what an id can be."""
    module = registry.load("formats", format)
    try:
        reader: ShardReader = module.open_reader(shard.path, dtype=dtype or shard.dtype)
        _ = reader.doc_ends
        for name, got in (("num_tokens", reader.num_tokens), ("dtype", reader.dtype.name)):
            expected = getattr(shard, name)
            if expected not in (None, got):
                yield Finding(str(shard.path), name, str(got), f"{expected}, by the index of its folder")
        yield from _ids(shard.path, reader, None)
    except FormatError as error:
        yield _finding(shard.path, error)
