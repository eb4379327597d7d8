"""manifest.json: what a corpus is. It is written last; without it a folder is no corpus.

JSON in one canonical form (keys sorted, one space of indent, ASCII, one newline at the end), shards and sources as
columns. `digest` is the sha256 of the file with the digest's own 64 digits written as zeros, so that one changed byte
anywhere in the file is found before the file is parsed, and any language can check it without a JSON library.

Nothing in a manifest is trusted: types, names, sizes and sums are checked here, once, for all readers.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any

from tokenriver import files, manifest_tables, rules
from tokenriver.errors import FormatError
from tokenriver.lossmask import SUFFIX, check_listed, mask_name
from tokenriver.types import Tokenizer

MANIFEST_NAME = "manifest.json"
BUILD_FOLDER = ".build"
VERSION = 1
MAX_BYTES = 1 << 30
VOCAB_MULTIPLE = 128
"""Models pad their vocabulary to this for speed: 50,257 becomes 50,304."""

# a key of the outermost object: one space of indent, and no string of JSON holds a raw newline
_DIGEST = re.compile(rb'^ "digest": "([0-9a-f]{64})",$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """One shard: its file name, split, counts, size and sha256, and those of its document index (0 and "" if none)."""

    file: str
    split: str
    num_tokens: int
    num_documents: int
    num_bytes: int
    sha256: str
    index_bytes: int
    index_sha256: str


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """One input: POSIX path relative to the inputs' deepest common folder, size in bytes, sha256 (None if the build
    stopped before it had read all of it), kind, compression ("" if none) and raw records read."""

    path: str
    size: int
    sha256: str | None
    kind: str
    compression: str
    records: int


@dataclass(frozen=True, slots=True)
class TokenizerInfo:
    """What made the ids: name, fingerprint (sha256), vocabulary (model_vocab_size is padded), special ids."""

    name: str
    fingerprint: str
    vocab_size: int
    model_vocab_size: int
    bos_id: int | None
    eos_id: int | None
    pad_id: int | None


def tokenizer_info(found: Tokenizer) -> TokenizerInfo:
    """What a manifest says of a tokenizer."""
    size, ids = found.vocab_size, (found.bos_id, found.eos_id, found.pad_id)
    return TokenizerInfo(found.name, found.fingerprint, size, -(-size // VOCAB_MULTIPLE) * VOCAB_MULTIPLE, *ids)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file that belongs to a shard of a format of two files, or to all shards of a split: name, size and sha256."""

    file: str
    num_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All of a corpus but its ids."""

    format: str
    tokenizer: TokenizerInfo | None
    """None where a converted corpus did not say what made its ids."""
    framing: str
    dtype: str
    options: Mapping[str, Any]
    sources: tuple[SourceInfo, ...]
    shards: tuple[ShardInfo, ...]
    balance: Mapping[str, Any]
    files: tuple[FileInfo, ...] = ()
    rivers: Mapping[str, str] = field(default_factory=dict)
    """By split, the fingerprint that a river had before it was converted; it is the river's still."""

    @property
    def fingerprint(self) -> str:
        """Hex sha256 of what determines the rivers: tokenizer, dtype, and the ids of each split in order; of a
        converted corpus, of its rivers' fingerprints."""
        if not self.rivers:
            return self._fingerprint(self.splits)
        return _digest([self.rivers.get(split, "") for split in self.splits])

    def river_fingerprint(self, split: str) -> str:
        """The same for the river of one split alone."""
        return self.rivers.get(split) or self._fingerprint((split,))

    def _fingerprint(self, splits: Sequence[str]) -> str:
        own = {info.file: (info.sha256,) for info in self.files}
        shards = {n: [(s.num_tokens, s.sha256, *own.get(mask_name(s.file), ())) for s in self.split(n)] for n in splits}
        made_by = self.tokenizer.fingerprint if self.tokenizer is not None else None
        return _digest([made_by, self.dtype, shards])

    @property
    def masked(self) -> bool:
        """Is there a loss mask beside each shard?"""
        return any(info.file.endswith(SUFFIX) for info in self.files)

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits, sorted."""
        return tuple(sorted({shard.split for shard in self.shards}))

    def counts(self) -> dict[str, dict[str, int]]:
        """By split: ids, documents and shards."""
        out = {name: {"ids": 0, "documents": 0, "shards": 0} for name in self.splits}
        for shard in self.shards:
            for what, count in (("ids", shard.num_tokens), ("documents", shard.num_documents), ("shards", 1)):
                out[shard.split][what] += count
        return out

    def split(self, name: str) -> tuple[ShardInfo, ...]:
        """The shards of one split in river order; empty for an unknown name."""
        return tuple(shard for shard in self.shards if shard.split == name)


def _digest(content: list[Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(b"tokenriver corpus 1\n" + text.encode()).hexdigest()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Commit a corpus: write its manifest by the commit protocol. What a reader would refuse is refused here."""
    data = _dump(manifest)
    path = folder / MANIFEST_NAME
    _parse(path, data)
    files.write_atomic(path, data)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a corpus folder, checked; FormatError if it is damaged, unknown or not there."""
    path = folder / MANIFEST_NAME
    if not path.is_file():
        if (folder / BUILD_FOLDER).is_dir():
            raise FormatError(f"{folder}: not committed: this is an unfinished build; run the same build again")
        raise FormatError(f"{path}: got no such file, expected the manifest of a corpus; check the path")
    with files.naming(path, "read"), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_BYTES:
            raise FormatError(f"{path}: size: got {size} bytes, expected at most {MAX_BYTES}")
        data = file.read(size + 1)
    return _parse(path, data)


def index_name(file: str) -> str:
    """The file name of a shard's document index: `tokens_train_000000.bin` has `tokens_train_000000.docs`."""
    return str(PurePosixPath(file).with_suffix(".docs"))


# ------------------------------------------------------------------------------------------------ writing


def _columns(rows: Sequence[Any], kind: type[Any]) -> dict[str, list[Any]]:
    return {column.name: [getattr(row, column.name) for row in rows] for column in fields(kind)}


def _dump(manifest: Manifest) -> bytes:
    content = {
        "balance": dict(manifest.balance),
        "digest": "0" * 64,
        "dtype": manifest.dtype,
        "files": _columns(manifest.files, FileInfo),
        "format": manifest.format,
        "framing": manifest.framing,
        "options": dict(manifest.options),
        "rivers": dict(manifest.rivers),
        "shards": _columns(manifest.shards, ShardInfo),
        "sources": _columns(manifest.sources, SourceInfo),
        "tokenizer": asdict(manifest.tokenizer) if manifest.tokenizer is not None else None,
        "version": VERSION,
    }
    data = _canonical(content)
    start = _digest_at(Path(MANIFEST_NAME), data)
    return data[:start] + hashlib.sha256(data).hexdigest().encode() + data[start + 64 :]


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"


def _digest_at(path: Path, data: bytes) -> int:
    found = list(_DIGEST.finditer(data))
    if len(found) != 1:
        raise FormatError(
            f"{path}: digest: got {len(found)} lines of it, expected 1; the manifest is damaged or foreign"
        )
    return found[0].start(1)


# ------------------------------------------------------------------------------------------------ reading


def _parse(path: Path, data: bytes) -> Manifest:
    start = _digest_at(path, data)
    found = data[start : start + 64].decode()
    digest = hashlib.sha256(data[:start] + b"0" * 64 + data[start + 64 :]).hexdigest()
    if found != digest:
        raise FormatError(f"{path}: digest: got {found}, expected {digest}; the manifest was changed after the build")
    try:
        content = json.loads(data, object_pairs_hook=rules.no_duplicates, parse_constant=rules.no_constant)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not the JSON of a manifest: {error}") from error
    version = content.get("version") if isinstance(content, dict) else None
    if type(version) is not int or version != VERSION:
        raise FormatError(f"{path}: version: got {version!r}, expected {VERSION}; read it with another tokenriver")
    rules.check(path, "manifest", content, manifest_tables.MANIFEST)
    manifest = Manifest(
        format=content["format"],
        tokenizer=_tokenizer(path, content["tokenizer"]),
        framing=content["framing"],
        dtype=content["dtype"],
        options=content["options"],
        sources=tuple(
            map(SourceInfo, *rules.check_columns(path, "sources", content["sources"], manifest_tables.SOURCE))
        ),
        shards=tuple(map(ShardInfo, *rules.check_columns(path, "shards", content["shards"], manifest_tables.SHARD))),
        balance=content["balance"],
        files=tuple(map(FileInfo, *rules.check_columns(path, "files", content["files"], manifest_tables.FILE))),
        rivers=content["rivers"],
    )
    _check_together(path, manifest)
    return manifest


def _tokenizer(path: Path, content: object) -> TokenizerInfo | None:
    if content is None:
        return None
    found = TokenizerInfo(**rules.check(path, "tokenizer", content, manifest_tables.TOKENIZER))
    if found.model_vocab_size < found.vocab_size:
        raise FormatError(
            f"{path}: tokenizer.model_vocab_size: got {found.model_vocab_size}, "
            f"expected at least vocab_size {found.vocab_size}"
        )
    return found


def _check_together(path: Path, manifest: Manifest) -> None:
    """What no single field can show: unique names, sizes that follow from counts."""
    names: set[str] = {MANIFEST_NAME}
    groups = [{shard.file.casefold(), index_name(shard.file).casefold()} for shard in manifest.shards]
    for group in [*groups, *({info.file.casefold()} for info in manifest.files)]:
        for name in group & names:
            raise FormatError(f"{path}: shards: got the file name {name!r} twice, expected each once")
        names |= group
    for shard in manifest.shards:
        if manifest.format == "native":
            _check_native(path, manifest.dtype, shard)
    sizes = {shard.file: shard.num_tokens for shard in manifest.shards}
    check_listed(path, sizes if manifest.format == "native" else {}, {i.file: i.num_bytes for i in manifest.files})
    for split, fingerprint in manifest.rivers.items():
        rules.check(path, f"rivers of {split[:100]}", {"river": fingerprint}, {"river": manifest_tables.RIVER})
    if sum(shard.num_tokens for shard in manifest.shards) > rules.MAX_COUNT:
        raise FormatError(f"{path}: shards: got more than {rules.MAX_COUNT} ids in all")


def _check_native(path: Path, dtype: str, shard: ShardInfo) -> None:
    if dtype not in ("uint16", "uint32"):
        raise FormatError(f"{path}: dtype: got {dtype}, expected uint16 or uint32 in a native corpus")
    if shard.num_tokens > 2**31 - 1:
        raise FormatError(f"{path}: shards: {shard.file}: num_tokens: got {shard.num_tokens}, expected below 2^31")
    sizes = (
        ("num_bytes", shard.num_bytes, 1024 + shard.num_tokens * (2 if dtype == "uint16" else 4)),
        ("index_bytes", shard.index_bytes, 24 + 20 * shard.num_documents),
    )
    for name, got, expected in sizes:
        if got != expected:
            raise FormatError(f"{path}: shards: {shard.file}: {name}: got {got}, expected {expected} by its counts")
