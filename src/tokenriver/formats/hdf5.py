"""HDF5 files of ids: one dataset `tokens`, and shards of them listed in shards.json.

Read: 1-D ids of any integer type, in one run or in chunks of any size; 2-D rows (packed SFT files: `tokens` and
`loss_mask`) end to end; counts on the dataset or the file. Ids that lie in the file as they are get mapped, filtered
chunks are decoded one by one; no HDF5 handle stays open, so forks and worker processes are safe. Anything that leads
out of the file, and a file whose writer died, is refused (formats.md, sections 7, 8 and 10).

Layouts written: the usual one; "pile", the pre-training file of train-llm-from-scratch; "lesson", shards with a
shards.json as the sharded-HDF5 lesson's code makes them, and "lesson-list", as its text describes them.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenriver import files
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import _files, _hdf5_attributes, _hdf5_dataset, _hdf5_head, _hdf5_index
from tokenriver.formats._hdf5_body import make_body
from tokenriver.formats._hdf5_open import library, opened
from tokenriver.formats._hdf5_write import OLDEST, Style, write_ids, write_rows
from tokenriver.formats._mapping import id_dtype
from tokenriver.formats._reader import Opened, Reader
from tokenriver.storage import Content, ShardFile, Target, WrittenFile

SUFFIX = ".h5"
OTHER_SUFFIX = ".hdf5"
STORES = frozenset({"dtype", "count"})
DTYPES = ("uint16", "uint32", "int32")
SHARD_TOKENS = None
MAX_SHARD_TOKENS = _files.UNLIMITED
SPLIT_FOLDERS = True

STYLES = {
    "": Style(0),
    "pile": Style(8_000_000, OLDEST, attributes=""),
    "lesson": Style(8192, live=True, text=True),
    "lesson-list": Style(8192, attributes="file", documents="doc_count"),
}
_LAYOUT_DTYPES = {"pile": "int32", "lesson": "uint16", "lesson-list": "int32"}
_HASHED = 1 << 20
__all__ = ["write_rows"]


def sniff(path: Path) -> bool:
    """By the signature of the file, or of the first `.h5` file of a folder; a folder with a shards.json, or that file,
    by the signature of the first `.h5` file beside it."""
    folder = path.parent if path.name == _hdf5_index.NAME and path.is_file() else path
    if not folder.is_dir():
        return _hdf5_head.has_signature(path)
    return _files.any_by_name(folder, _suffix(folder), _hdf5_head.has_signature)


def find(path: Path) -> list[ShardFile]:
    """A file; the shards that a shards.json lists; else the `.h5` files of a folder by name."""
    index = _index_of(path)
    if index is not None:
        rows = _hdf5_index.read_rows(index)
        # all shards of an index are of one type; each of the others is compared with it when it is opened
        dtype = open_reader(rows[0].path).dtype.name
        return [ShardFile(row.path, dtype, row.num_tokens) for row in rows]
    return _files.find_by_name(path, _suffix(path) if path.is_dir() else SUFFIX, _hdf5_head.has_signature)


def _index_of(path: Path) -> Path | None:
    index = path / _hdf5_index.NAME if path.is_dir() else path
    return index if index.name == _hdf5_index.NAME and index.is_file() else None


def _suffix(folder: Path) -> str:
    names = files.list_folder(folder)
    found = next((name for name in names if name.endswith((SUFFIX, OTHER_SUFFIX)) and not name.startswith(".")), "")
    return OTHER_SUFFIX if found.endswith(OTHER_SUFFIX) else SUFFIX


def open_reader(path: Path, *, dtype: str | None = None) -> Reader:
    """Open the ids of one file: dataset `tokens`, cut at its `token_count`; FormatError where it is damaged, leads out
    of the file, was never finished, or holds another type than `dtype`."""
    return _open(path, dtype, "tokens", Opened(open_reader, path, dtype))


def row_length(path: Path) -> int | None:
    """Ids of a row of the file's dataset; None for ids that lie in no rows."""
    with opened(path) as file:
        found = _hdf5_dataset.read_dataset(file, "tokens")
        return found.columns if found.columns > 1 else None


def open_loss_mask(path: Path, *, dtype: str | None = None) -> Reader | None:
    """The weights of a packed SFT file's ids (dataset `loss_mask`, 1 where the id is predicted), one for each id of
    `open_reader` and in its order; None if the file has none. FormatError as there."""
    with opened(path) as file:
        if not _hdf5_dataset.has_dataset(file, "loss_mask"):
            return None
    mask = _open(path, dtype, "loss_mask", Opened(_reopen_mask, path, dtype))
    ids = open_reader(path)
    if mask.num_tokens != ids.num_tokens:
        raise FormatError(f"{path}: loss_mask: got {mask.num_tokens} weights, expected {ids.num_tokens}, one an id")
    return mask


def _reopen_mask(path: Path, *, dtype: str | None = None) -> Reader:
    found = open_loss_mask(path, dtype=dtype)
    if found is None:
        raise FormatError(f"{path}: got no dataset 'loss_mask', expected the one that was there before")
    return found


def _open(path: Path, dtype: str | None, name: str, how: Opened) -> Reader:
    with opened(path) as file:
        found = _hdf5_dataset.read_dataset(file, name)
        if dtype is not None and id_dtype(dtype) != found.dtype.newbyteorder("<"):
            raise FormatError(f"{path}: dtype: got {found.dtype.name}, expected {dtype}; leave dtype out")
        return Reader(how, make_body(file, found))


def audit(path: Path) -> Iterator[FormatError]:
    """What only reading all ids of a file or folder shows: those whose sha256 is another than the attribute of the
    file, or the row of shards.json, says."""
    index = _index_of(path)
    rows = [] if index is None else _hdf5_index.read_rows(index)
    stated = [(row.path, row.sha256) for row in rows] if rows else [(shard.path, None) for shard in find(path)]
    for shard, by_index in stated:
        try:
            by_file, found = stored_sha256(shard), sha256_of_ids(shard)
        except FormatError as error:
            yield error
            continue
        for expected, where in ((by_file, "its attribute"), (by_index, _hdf5_index.NAME)):
            if expected not in (None, found):
                yield FormatError(f"{shard}: sha256 of the ids: got {found}, expected {expected} by {where}")


def sha256_of_ids(path: Path) -> str:
    """Hex sha256 over the little-endian bytes of a file's ids, what is filling left out."""
    reader = open_reader(path)
    digest = hashlib.sha256()
    for at in range(0, reader.num_tokens, _HASHED):
        digest.update(reader.read(at, min(at + _HASHED, reader.num_tokens)).tobytes())
    return digest.hexdigest()


def stored_sha256(path: Path) -> str | None:
    """What the attribute `sha256` of the ids (or the file) says; None if there is none."""
    with opened(path) as file, library(path, "attribute sha256"):
        return _hdf5_attributes.digest(file, *_hdf5_dataset.open_hard(file, "tokens"))


def check(target: Target, shards: Sequence[Content]) -> None:
    """What the layout fixes: its ids' width, and for "pile" that there is one file a split."""
    if target.layout not in STYLES:
        raise InputError(f"layout: got {target.layout!r}, expected one of {', '.join(filter(None, STYLES))} or none")
    dtype = _LAYOUT_DTYPES.get(target.layout, target.dtype)
    if target.dtype != dtype:
        raise LimitError(f"dtype: got {target.dtype}, expected {dtype} in layout {target.layout!r}; ask for that dtype")
    if target.layout == "pile" and target.shards > 1:
        raise LimitError(f"shards: got {target.shards} of {target.split}, expected 1; leave shard_tokens out")


def file_name(target: Target, number: int) -> str:
    if target.layout == "pile":
        return f"pile_{'dev' if target.split == 'val' else target.split}{SUFFIX}"
    if target.layout in ("lesson", "lesson-list"):
        return f"shard-{number:04d}{SUFFIX}"
    return _files.named(target, number, SUFFIX)


def write(path: Path, content: Content, target: Target) -> list[WrittenFile]:
    """One file of ids, in chunks; its attributes say how many ids and documents, and their sha256."""
    return [write_ids(path, content, target.dtype, STYLES[target.layout])]


def finish(folder: Path, target: Target, shards: Sequence[tuple[WrittenFile, Content]]) -> list[WrittenFile]:
    """shards.json, for the layouts that have one; paths are relative to it."""
    if target.layout not in ("lesson", "lesson-list"):
        return []
    rows: list[dict[str, Any]] = []
    start = 0
    for written, content in shards:
        row: dict[str, Any] = {"path": written.path.name, "token_count": content.num_tokens}
        if target.layout == "lesson":
            row |= {
                "document_count": content.num_documents,
                "global_start": start,
                "sha256": stored_sha256(written.path),
                "shard_id": written.path.stem,
            }
        rows.append(row)
        start += content.num_tokens
    chunk = STYLES[target.layout].chunk if target.layout == "lesson" else None
    return [_files.write_file(folder / _hdf5_index.NAME, [_hdf5_index.index_bytes(chunk, rows)])]
