"""What one input file is: its compression by content alone, its kind by content and name together.

They must agree where both say something, and one that only content or neither knows is refused: `source` is the way
to insist. Only the first 64 KiB are looked at.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tokenriver import magic, registry
from tokenriver.errors import InputError
from tokenriver.files import naming
from tokenriver.streams import read_blocks, sniff_compression

HEAD = 1 << 16

_ZIPPED = (".gz", ".gzip", ".zst", ".zstd")


@dataclass(frozen=True, slots=True)
class Kind:
    """How one source is recognised."""

    name: str
    suffixes: tuple[str, ...]
    sniff: Callable[[bytes], bool]
    is_stream: bool


def known_kinds() -> list[Kind]:
    """Every source of the registry; those that need an extra are known without it."""
    columnar = {
        "parquet": Kind("parquet", magic.PARQUET_SUFFIXES, magic.is_parquet, False),
        "arrow": Kind("arrow", magic.ARROW_SUFFIXES, magic.is_arrow, False),
    }
    return [columnar.get(name) or _loaded(name) for name in registry.names("sources")]


def named_kind(source: str) -> Kind:
    """The kind that a person insists on; InputError for an unknown one, MissingPackageError for a missing extra."""
    return _loaded(source)


def _loaded(name: str) -> Kind:
    module = registry.load("sources", name)
    return Kind(name, module.SUFFIXES, module.sniff, module.STREAMS)


def read_head(path: Path) -> tuple[str, bytes, InputError | None]:
    """(compression, the first decompressed bytes, the damage if an archive gave none at all)."""
    with naming(path, "read"), path.open("rb", buffering=0) as file:
        raw = file.read(HEAD)
    compression = sniff_compression(raw)
    if not compression:
        return "", raw, None
    head = b""
    try:
        for block in read_blocks(path, compression, block_bytes=HEAD):
            head += block
            if len(head) >= HEAD:
                break
    except InputError as error:
        return compression, head[:HEAD], None if head else error
    return compression, head[:HEAD], None


def named(path: Path, kinds: list[Kind]) -> Kind | None:
    """The kind that a file's name says, the ending of a compression removed."""
    name = path.name.lower()
    for suffix in _ZIPPED:
        name = name.removesuffix(suffix)
    return next((kind for kind in kinds if name.endswith(kind.suffixes)), None)


def settle(
    path: Path, head: bytes, compression: str, kinds: list[Kind], insisted: Kind | None, *, arrays: bool = False
) -> Kind:
    """The kind of a file with these first (decompressed) bytes, or an InputError that says why there is none. With
    `arrays` a JSON array is of the kind jsonl."""
    kind = insisted or _agreed(path, head, kinds)
    if kind.is_stream and not compression and path.name.lower().endswith(_ZIPPED) and not kind.sniff(head):
        raise InputError(
            f"{path}: compression: got none ({head[:4]!r}) under a name that ends in {path.suffix}, expected gzip or "
            "zstd; replace the file, or rename it if it is plain"
        )
    _refuse_foreign(path, head, kind)
    if kind.is_stream:
        encoding = magic.wide_encoding(head)
        if encoding:
            raise InputError(f"{path}: encoding: got {encoding}, expected UTF-8; convert it: iconv -t UTF-8")
    if kind.name == "jsonl" and not (arrays and magic.is_array(head)):
        _refuse_other_json(path, head)
    if not kind.is_stream and not kind.sniff(head):
        raise InputError(
            f"{path}: kind: expected {kind.name} ({'--source' if insisted else path.suffix}), "
            f"got bytes that are none: {head[:8]!r}; check the file"
        )
    return kind


def _agreed(path: Path, head: bytes, kinds: list[Kind]) -> Kind:
    by_name = named(path, kinds)
    by_content = next((kind for kind in kinds if kind.sniff(head)), None)
    if by_name is None:
        _refuse_foreign(path, head, None)
        looks = f"; its content looks like {by_content.name}" if by_content else ""
        known = " ".join(suffix for kind in kinds for suffix in kind.suffixes)
        raise InputError(
            f"{path}: kind: got an unknown name ending, expected one of {known}{looks}; "
            f"name the kind with --source {by_content.name if by_content else 'KIND'}, or choose files with --include"
        )
    if by_content is not None and by_content is not by_name:
        raise InputError(
            f"{path}: kind: got the content of {by_content.name} under the name of {by_name.name}, expected them to "
            f"agree; rename the file or name the kind with --source {by_content.name}"
        )
    return by_name


def _refuse_foreign(path: Path, head: bytes, kind: Kind | None) -> None:
    if kind is not None and not kind.is_stream:
        return
    foreign = magic.foreign_name(head)
    if foreign:
        raise InputError(f"{path}: content: got {foreign}, expected text, gzip or zstd; unpack it first")
    if sniff_compression(head):
        raise InputError(f"{path}: content: got compressed data inside compressed data; unpack it once")


def _refuse_other_json(path: Path, head: bytes) -> None:
    """JSON that is not one object a line."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    line = text.partition(b"\n")[0].rstrip()
    if magic.is_array(head):
        raise InputError(
            f"{path}: rows: got a JSON array, expected one object a line; rewrite it: jq -c '.[]' {path.name}"
        )
    if line == b"{" and text != line:
        raise InputError(
            f"{path}: rows: got one JSON value over several lines, expected one object a line; "
            f"rewrite it: jq -c . {path.name}"
        )
