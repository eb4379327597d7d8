"""datatrove's token files, which nanotron trains on: `NAME.ds` with the ids, `NAME.ds.index` with the end of each
document, `NAME.ds.metadata` with the tokenizer and the width of an id, `NAME.ds.loss` with a byte an id.

Any of the last three may be missing: the context shuffler writes none of them. The width is what the metadata or the
index says; without both it must be given. A loss mask is checked for its size and passed over. datatrove leaves an
empty file behind where the last document filled the one before; a folder is read without such files.
"""

import os
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import numpy as np

from tokenriver import files
from tokenriver.errors import FormatError, LimitError
from tokenriver.formats import _docindex, _ends, _files
from tokenriver.formats import _nanotron_metadata as _metadata
from tokenriver.formats._mapping import DTYPES as KINDS
from tokenriver.formats._mapping import id_dtype, map_array, open_regular, regular_size
from tokenriver.formats._reader import Documents, Flat, Opened, Reader
from tokenriver.storage import Content, ShardFile, Target, WrittenFile

SUFFIX = ".ds"
INDEX = ".index"
LOSS = ".loss"
STORES = frozenset({"doc_ends", "dtype", "count"})
DTYPES = ("uint16", "uint32")
SHARD_TOKENS = None
MAX_SHARD_TOKENS = _files.UNLIMITED
MAX_SHARDS = 100_000
# its readers take every file of a folder
SPLIT_FOLDERS = True

finish = _files.nothing_more


def sniff(path: Path) -> bool:
    """By the name, of a folder by its first such name: ids have no header, and each companion may be missing."""
    return _files.any_by_name(path, SUFFIX, Path.is_file)


def find(path: Path) -> list[ShardFile]:
    """A file, or the files of a folder by name, empty ones left out; FormatError if there are no others."""
    if path.is_dir():
        names = files.list_folder(path)
        listed = set(names)
        found = [_describe(path / name, listed) for name in names if name.endswith(SUFFIX) and name[0] != "."]
    else:
        around = (_companion(path, INDEX), _companion(path, _metadata.SUFFIX), _docindex.index_path(path))
        found = [_describe(path, {file.name for file in around if file.exists()})]
    full = [shard for shard in found if shard.num_tokens != 0]
    if not full:
        raise FormatError(f"{path}: got {len(found)} {SUFFIX} files without ids, expected shards; check the path")
    return full


def _describe(path: Path, listed: Set[str]) -> ShardFile:
    """What can be known without reading the ids, given the names around a file; the last end of its index is left to
    its opening unless nothing else tells the width."""
    size, name = regular_size(path), path.name
    metadata = _metadata.read(path) if name + _metadata.SUFFIX in listed else None
    documents = None
    if name + INDEX in listed:
        documents = _check_index_size(_companion(path, INDEX), regular_size(_companion(path, INDEX)))
    if metadata is not None and metadata.width is not None:
        width: int | None = metadata.width
        _check_count(path, size, metadata)
    else:
        width = _width(path, size)
    if size == 0 and documents:
        raise FormatError(
            f"{path}: documents: got {documents} in a file without ids, expected none; leave the file out"
        )
    if width is None:
        return ShardFile(path, None, 0 if size == 0 else None, None)
    sidecar = name.removesuffix(SUFFIX) + _docindex.SUFFIX in listed
    return ShardFile(path, _NAMES[width], _num_tokens(path, size, width), None if sidecar else documents)


_NAMES = {2: "uint16", 4: "uint32"}


def _width(path: Path, size: int) -> int | None:
    """Bytes an id, from the metadata and the last end of the index; None if neither says. FormatError where they
    disagree with each other or with the file's size."""
    metadata = _metadata.read(path) if _companion(path, _metadata.SUFFIX).exists() else None
    last = _last_end(path)
    width = metadata.width if metadata is not None else None
    if width is None and last:
        width = next((found for found in _NAMES if found * last == size), None)
    if width is not None and metadata is not None:
        _check_count(path, size, _metadata.Metadata(width, metadata.tokens))
    if last is not None and size not in ([last * width] if width is not None else [0]):
        expected = f"{last * width}" if width is not None else f"{2 * last} or {4 * last}"
        raise FormatError(f"{path}: size: got {size} bytes, expected {expected} by the last document of its index")
    return width


def _check_count(path: Path, size: int, metadata: _metadata.Metadata) -> None:
    expected = metadata.tokens * (metadata.width or 0)
    if size != expected:
        raise FormatError(f"{path}: size: got {size} bytes, expected {expected} by its metadata")


def passed_over(path: Path) -> str | None:
    """What lies beside the ids that a river of ids has no place for."""
    return f"the loss mask in {_companion(path, LOSS).name}" if _companion(path, LOSS).exists() else None


def _companion(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _last_end(path: Path) -> int | None:
    """The end of the last document, 0 in an index without documents; None without an index."""
    index = _companion(path, INDEX)
    if not index.exists():
        return None
    fd, size = open_regular(index)
    try:
        _check_index_size(index, size)
        return int.from_bytes(os.pread(fd, 8, size - 8), "little") if size else 0
    finally:
        os.close(fd)


def _check_index_size(index: Path, size: int) -> int:
    """The number of documents."""
    if size % 8:
        raise FormatError(f"{index}: size: got {size} bytes, expected a multiple of 8")
    return size // 8


def _num_tokens(path: Path, size: int, width: int) -> int:
    if size % width:
        raise FormatError(f"{path}: size: got {size} bytes, expected a multiple of {width}")
    return size // width


def open_reader(path: Path, *, dtype: str | None = None) -> Reader:
    """Open one file; FormatError where ids, index, metadata and loss do not belong together, where there are no ids,
    and where nothing says how wide they are."""
    fd, size = open_regular(path)
    try:
        if size == 0:
            raise FormatError(f"{path}: size: got 0 bytes, expected ids; leave the file out")
        width = _width(path, size)
        kind = id_dtype(dtype) if dtype is not None else None
        if width is None and kind is None:
            raise FormatError(
                f"{path}: width of an id: got neither {path.name}{_metadata.SUFFIX} nor {path.name}{INDEX}, expected "
                "one of them; give dtype"
            )
        stored = KINDS[_NAMES[width]] if width is not None else kind
        assert stored is not None, "one of both is known"
        if kind is not None and kind != stored:
            raise FormatError(f"{path}: dtype: got {stored.name} by its companions, expected {dtype}; leave dtype out")
        tokens = _num_tokens(path, size, stored.itemsize)
        _check_loss(path, tokens)
        body = Flat(fd, stored, 0, tokens)
    finally:
        os.close(fd)
    indexed = _companion(path, INDEX).exists()
    return Reader(Opened(open_reader, path, dtype), body, (lambda: _documents(path, tokens)) if indexed else None)


def _check_loss(path: Path, tokens: int) -> None:
    loss = _companion(path, LOSS)
    if loss.exists():
        fd, size = open_regular(loss)
        os.close(fd)
        if size != tokens:
            raise FormatError(f"{loss}: size: got {size} bytes, expected {tokens}, one an id")


def _documents(path: Path, tokens: int) -> Documents:
    """The ends as the index has them, mapped; an end of 2^63 and more is negative here, and refused as such."""
    index = _companion(path, INDEX)
    fd, size = open_regular(index)
    try:
        ends = map_array(fd, np.dtype("<i8"), 0, _check_index_size(index, size))
    finally:
        os.close(fd)
    _ends.check(index, ends, tokens)
    return ends, None


def check(target: Target, shards: Sequence[Content]) -> None:
    """File names count to 99999, and a line of the metadata holds the tokenizer's name."""
    if target.shards > MAX_SHARDS:
        raise LimitError(
            f"shards: got {target.shards} of {target.split}, expected at most {MAX_SHARDS}; raise shard_tokens"
        )
    _metadata.check_name(target.tokenizer)


def file_name(target: Target, number: int) -> str:
    """As datatrove names a rank's file that was not shuffled."""
    return f"{target.name}_{number:05d}_unshuffled{SUFFIX}"


def write(path: Path, content: Content, target: Target) -> list[WrittenFile]:
    """Ids, ends and metadata, as datatrove's DocumentTokenizer writes them."""
    data = _files.write_flat(path, b"", content)
    index = _files.write_file(_companion(path, INDEX), _index_pieces(content))
    width = KINDS[target.dtype].itemsize
    text = _metadata.text(target.tokenizer, width, content.num_tokens)
    return [data, index, _files.write_file(_companion(path, _metadata.SUFFIX), [text])]


def _index_pieces(content: Content) -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    for block in content.ends():
        yield block.astype("<i8")
