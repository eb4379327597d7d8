"""Lightning's litdata token chunks, as its TokensLoader reads them: a folder of chunks with an index.json.

    offset         size       content
    0              4          uint32 n, number of items (documents)
    4              4*(n+1)    uint32 byte offset of each item, and of the end
    4 + 4*(n+1)    ...        the ids, item after item, without heads

Only the index knows the dtype. Compressed and encrypted sets are refused. Layouts: "" (NumPy's dtypes) and "tensor"
(torch's, which have no uint32 here). See formats.md, section 15.
"""

import json
import os
import re
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver import rules
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import _ends, _files
from tokenriver.formats._json_index import INDEX, MAX_BYTES, Folder, check_unique, known_keys, read_index
from tokenriver.formats._mapping import DTYPES as ID_DTYPES
from tokenriver.formats._mapping import id_dtype, map_array, open_regular, read_head
from tokenriver.formats._reader import Documents, Flat, Opened, Reader
from tokenriver.storage import Content, ShardFile, Target, WrittenFile
from tokenriver.types import Int64

SUFFIX = ".bin"
STORES = frozenset({"doc_ends", "dtype", "count"})
DTYPES = ("uint16", "uint32", "int32", "int64")
SHARD_TOKENS = 32_000_000
LARGEST = 2**32 - 1
MAX_SHARD_TOKENS = LARGEST // 2
SPLIT_FOLDERS = True
LAYOUTS = ("", "tensor")
UPDATED_AT = "0.0"
"""The original writes the time here, and uses it as a name only; the same content gives the same bytes."""

NUMPY = {0: "int8", 1: "int16", 2: "int32", 3: "int64", 4: "uint8", 5: "uint16", 6: "uint32", 7: "uint64"}
TENSOR = {11: "uint8", 12: "int8", 13: "int16", 14: "int16", 15: "int32", 16: "int32", 17: "int64", 18: "int64"} | {
    20: "uint16"
}
_KINDS = {f"no_header_numpy:{code}": name for code, name in NUMPY.items()} | {
    f"no_header_tensor:{code}": name for code, name in TENSOR.items()
}
# the key as it stands in the file: inside another text its quotes would have backslashes
_DATA_FORMAT = re.compile(rb'"data_format"\s*:\s*\[\s*"([a-z_]{1,40}(?::[0-9]{1,2})?)"\s*\]')

_TOP: rules.Table = {"chunks": rules.LIST, "config": rules.OBJECT}
_CHUNK: rules.Table = {
    "chunk_bytes": rules.integer(0, LARGEST),
    "chunk_size": rules.integer(0, LARGEST // 4),
    "dim": rules.or_none(rules.integer(0, LARGEST)),
    "filename": rules.INSIDE,
}
_CONFIG: rules.Table = {"compression": rules.or_none(rules.TEXT), "data_format": rules.LIST}
_BLOCK = 1 << 18
_ENDS = 1 << 12


# ---------------------------------------------------------------------------------------------- reading


def sniff(path: Path) -> bool:
    """A folder whose index.json names chunks of plain ids, or a chunk of such a folder by its table."""
    index = (path if path.is_dir() else path.parent) / INDEX
    if _chunk_format(index) not in _KINDS:
        return False
    if path.is_dir():
        return True
    head = read_head(path, 8)
    begin = 4 * (int.from_bytes(head[:4], "little") + 2)
    return path.name.endswith(SUFFIX) and len(head) == 8 and int.from_bytes(head[4:], "little") == begin


def _chunk_format(index: Path) -> str:
    """What an index says of its data, found without parsing it (there may be many thousand chunks, each opened for
    itself), for litdata in its last bytes; "" where it does not say it once."""
    try:
        fd, size = open_regular(index)
    except (FormatError, InputError):
        return ""
    try:
        if b'"chunks"' not in os.pread(fd, _ENDS, 0):
            return ""
        found = _DATA_FORMAT.findall(os.pread(fd, _ENDS, max(0, size - _ENDS)))
        if not found and size <= MAX_BYTES:
            found = _DATA_FORMAT.findall(os.pread(fd, size, 0))
    finally:
        os.close(fd)
    return found[0].decode() if len(found) == 1 else ""


def find(path: Path) -> list[ShardFile]:
    """A chunk, or the chunks of a folder's index in its order."""
    if not path.is_dir():
        return [ShardFile(path)]
    index = path / INDEX
    content = known_keys(index, "index", read_index(index), _TOP)
    dtype = _index_dtype(index, content["config"])
    folder = Folder(index)
    found, names = [], []
    for number, row in enumerate(content["chunks"]):
        chunk = known_keys(index, f"chunks[{number}]", row, _CHUNK)
        if chunk["dim"] is None:
            raise FormatError(
                f"{index}: chunks[{number}].dim: got null, expected a number of ids; the set was not written for "
                "TokensLoader"
            )
        expected = 4 * (chunk["chunk_size"] + 2) + chunk["dim"] * dtype.itemsize
        if chunk["chunk_bytes"] != expected:
            raise FormatError(
                f"{index}: chunks[{number}].chunk_bytes: got {chunk['chunk_bytes']}, expected {expected} for "
                f"{chunk['chunk_size']} items and {chunk['dim']} {dtype.name} ids"
            )
        place = folder.check_size(chunk["filename"], expected)
        names.append(chunk["filename"])
        if chunk["chunk_size"]:
            found.append(ShardFile(place, dtype.name, chunk["dim"], chunk["chunk_size"]))
    check_unique(index, names)
    if not found:
        raise FormatError(f"{index}: got no items, expected chunks; check the path")
    return found


def _index_dtype(index: Path, config: object) -> np.dtype[Any]:
    """The dtype by the config of an index; FormatError for what is no row of plain ids."""
    row = known_keys(index, "config", config, _CONFIG)
    encryption = config.get("encryption") if isinstance(config, dict) else None
    if row["compression"] is not None or encryption is not None:
        got = f"compression {row['compression']!r} and encryption {str(encryption)[:100]!r}"
        raise FormatError(f"{index}: config: got {got}, expected neither; optimize the data again without them")
    kinds = row["data_format"]
    if len(kinds) != 1 or not isinstance(kinds[0], str) or kinds[0] not in _KINDS:
        raise FormatError(
            f"{index}: config.data_format: got {str(kinds)[:200]}, expected one no_header_numpy or no_header_tensor of "
            "integers; optimize the data again with item_loader=TokensLoader()"
        )
    return ID_DTYPES[_KINDS[kinds[0]]]


def open_reader(path: Path, *, dtype: str | None = None) -> Reader:
    """Open one chunk, with the dtype of the index beside it; without an index `dtype` says it. FormatError with path,
    offset, value and expectation, also when `dtype` is not the index's."""
    fd, size = open_regular(path)
    try:
        kind = _dtype(path, dtype)
        head = os.pread(fd, 8, 0)
        number, first = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little")
        begin = 4 * (number + 2)
        if len(head) < 8 or size < begin:
            raise FormatError(f"{path}: items at byte 0: got {number}, expected what {size} bytes hold")
        last = int.from_bytes(os.pread(fd, 4, begin - 4), "little")
        if first != begin or last != size:
            raise FormatError(
                f"{path}: offsets at byte 4 and {begin - 4}: got {first} and {last}, expected {begin} and {size}"
            )
        if (size - begin) % kind.itemsize:
            raise FormatError(f"{path}: size: got {size - begin} bytes of ids, expected a multiple of {kind.itemsize}")
        count = (size - begin) // kind.itemsize
        table = map_array(fd, np.dtype("<u4"), 4, number + 1)
        body = Flat(fd, kind, begin if count else 0, count)
        return Reader(Opened(open_reader, path, dtype), body, partial(_documents, path, table, body))
    finally:
        os.close(fd)


def _dtype(path: Path, asked: str | None) -> np.dtype[Any]:
    """The dtype of a chunk's ids: the one of the index beside it, else the one asked for."""
    stored = _KINDS.get(_chunk_format(path.parent / INDEX))
    if stored is None and (asked is None or (path.parent / INDEX).exists()):
        stored = _stored_dtype(path)
    if stored is not None and asked is not None and id_dtype(asked) != ID_DTYPES[stored]:
        raise FormatError(f"{path}: dtype: got {stored} by {INDEX}, expected {asked}; leave dtype out")
    return id_dtype(stored or asked or "")


def _stored_dtype(path: Path) -> str:
    """The dtype by the index beside a chunk, read strictly; its errors say what is wrong."""
    index = path.parent / INDEX
    if not index.exists():
        raise FormatError(f"{path}: got no {INDEX} beside it, expected one with the dtype; say it with dtype")
    return _index_dtype(index, known_keys(index, "index", read_index(index), _TOP)["config"]).name


def _documents(path: Path, table: np.ndarray[Any, Any], body: Flat) -> Documents:
    """The end of each item in ids, from its offset in bytes."""
    item, begin = body.dtype.itemsize, 4 * (len(table) + 1)
    ends = np.empty(len(table) - 1, np.int64)
    for at in range(0, len(ends), _BLOCK):
        offsets = table[at + 1 : at + 1 + _BLOCK].astype(np.int64) - begin
        odd = offsets % item != 0
        if odd.any():
            bad = at + 1 + int(np.argmax(odd))
            raise FormatError(
                f"{path}: offset {bad} at byte {4 + 4 * bad}: got {table[bad]}, expected {begin} and a multiple of "
                f"{item}"
            )
        ends[at : at + _BLOCK] = offsets // item
    _ends.check(path, ends, body.num_tokens)
    return ends, None


# ---------------------------------------------------------------------------------------------- writing


def _data_format(target: Target) -> str:
    if target.layout not in LAYOUTS:
        raise InputError(f"layout: got {target.layout!r}, expected one of {', '.join(map(repr, LAYOUTS))}")
    prefix = f"no_header_{target.layout or 'numpy'}:"
    # of two codes of a dtype the original's writer has the higher one
    return max((kind for kind, name in _KINDS.items() if kind.startswith(prefix) and name == target.dtype), default="")


def check(target: Target, shards: Sequence[Content]) -> None:
    """Offsets below 2^32, and no uint32 in tensors."""
    if not _data_format(target):
        raise LimitError(
            f"dtype: got {target.dtype}, expected what torch's tensors have here: uint16, int32 or int64; write int32, "
            "or leave the layout 'tensor' out"
        )
    for number, content in enumerate(shards):
        size = 4 * (content.num_documents + 2) + content.num_tokens * id_dtype(target.dtype).itemsize
        if size > LARGEST:
            raise LimitError(
                f"chunk {number} of {target.split}: got {size} bytes, expected at most {LARGEST}; cut shards of fewer "
                f"than {content.num_tokens} ids"
            )


def file_name(target: Target, number: int) -> str:
    return f"chunk-0-{number}{SUFFIX}"


def write(path: Path, content: Content, target: Target) -> list[WrittenFile]:
    """One chunk: the table of offsets, then the ids."""
    item = id_dtype(target.dtype).itemsize
    begin = 4 * (content.num_documents + 2)

    def offsets(ends: Int64) -> np.ndarray[Any, Any]:
        return (begin + ends * item).astype("<u4")

    head = np.array([content.num_documents, begin], "<u4")
    return [_files.write_file(path, chain([head], map(offsets, content.ends()), content.ids()))]


def finish(folder: Path, target: Target, shards: Sequence[tuple[WrittenFile, Content]]) -> list[WrittenFile]:
    """index.json of a split; its limit of ids is the longest chunk's."""
    chunks = [
        {
            "chunk_bytes": written.num_bytes,
            "chunk_size": content.num_documents,
            "dim": content.num_tokens,
            "filename": written.path.name,
        }
        for written, content in shards
    ]
    config = {
        "chunk_bytes": None,
        "chunk_size": max(content.num_tokens for _, content in shards),
        "compression": None,
        "compression_batch_size": None,
        "compression_level": None,
        "data_format": [_data_format(target)],
        "data_spec": '[1, {"type": null, "context": null, "children_spec": []}]',
        "encryption": None,
        "ipc_compression": None,
        "item_loader": "TokensLoader",
        "types": target.layout or "json",
    }
    text = json.dumps({"chunks": chunks, "config": config, "updated_at": UPDATED_AT}, sort_keys=True)
    return [_files.write_file(folder / INDEX, [text.encode()])]
