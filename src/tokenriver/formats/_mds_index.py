"""MDS's index.json: the shards of a folder in order, as raw files or compressed ones, with sizes and hashes."""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenriver import files, rules
from tokenriver.errors import FormatError
from tokenriver.formats import _json_index
from tokenriver.formats._mds_columns import COLUMNS, MAX_BYTES, VERSION, Column, find_column
from tokenriver.storage import ShardFile

_TOP: rules.Table = {"shards": rules.LIST, "version": rules.integer(VERSION, VERSION)}
_SHARD: rules.Table = {
    **COLUMNS,
    "raw_data": rules.OBJECT,
    "samples": rules.integer(0, MAX_BYTES // 4),
    "zip_data": rules.or_none(rules.OBJECT),
}
_FILE: rules.Table = {"basename": rules.INSIDE, "bytes": rules.integer(0, 2**48), "hashes": rules.OBJECT}
_ZSTD = re.compile(r"zstd(:[0-9]{1,2})?")
# the names that MDS and hashlib share; its others need packages of their own
_HASHES = {"blake2b", "blake2s", "md5", "sha1", "sha224", "sha256", "sha384", "sha512"} | {
    f"sha3_{bits}" for bits in (224, 256, 384, 512)
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A shard of an index: its row (checked), the column of its ids, and the file of the two that is there."""

    row: dict[str, Any]
    column: Column
    path: Path
    which: str
    """raw_data or zip_data."""


def read_entries(index: Path) -> Iterator[Entry]:
    """The shards of an index in order, empty ones too, each checked against its file's size; FormatError."""
    rows = rules.check(index, "index", _json_index.read_index(index), _TOP)["shards"]
    folder = _json_index.Folder(index)
    last: tuple[list[Any], Column] | None = None
    seen: list[str] = []
    for number, row in enumerate(rows):
        what = f"shards[{number}]"
        rules.check(index, what, row, _SHARD)
        for name in ("raw_data", "zip_data"):
            if row[name] is not None:
                rules.check(index, f"{what}.{name}", row[name], _FILE)
        columns = [row["column_names"], row["column_encodings"], row["column_sizes"]]
        if last is None or last[0] != columns:
            last = (columns, find_column(index, row))
        path, which = _existing(folder, index, row)
        seen.append(row["raw_data"]["basename"])
        yield Entry(row, last[1], path, which)
    _json_index.check_unique(index, seen)


def _existing(folder: _json_index.Folder, index: Path, row: dict[str, Any]) -> tuple[Path, str]:
    """The raw file if it is there, as the original's reader prefers it, else the compressed one."""
    raw, packed = row["raw_data"], row["zip_data"]
    if packed is None or folder.size_of(raw["basename"]) is not None:
        return folder.check_size(raw["basename"], raw["bytes"]), "raw_data"
    if _ZSTD.fullmatch(row["compression"] or "") is None:
        raise FormatError(
            f"{index}: compression: got {row['compression']!r}, expected zstd or none; decompress "
            f"{packed['basename']} to {raw['basename']} first"
        )
    return folder.check_size(packed["basename"], packed["bytes"]), "zip_data"


def shard_file(entry: Entry) -> ShardFile:
    """What an index tells of a shard."""
    dtype = None if entry.column.dtype is None else entry.column.dtype.name
    samples, count = entry.row["samples"], entry.column.count
    return ShardFile(entry.path, dtype, None if count is None else count * samples, samples)


def wrong_hashes(entry: Entry) -> Iterator[FormatError]:
    """The hashes of an index that are not its file's; those of algorithms that Python does not have are passed over."""
    for name, expected in entry.row[entry.which]["hashes"].items():
        if name not in _HASHES:
            continue
        with files.naming(entry.path, "read"), entry.path.open("rb", buffering=0) as file:
            found = hashlib.file_digest(file, name).hexdigest()
        if found != expected:
            yield FormatError(f"{entry.path}: {name}: got {found}, expected {expected!r} by the index")


def columns_text(encoding: str, size: int | None, *, compression: str | None, size_limit: int) -> dict[str, Any]:
    """The columns of a shard with one column, `tokens`, as MDS writes them into the shard and the index."""
    return {
        "column_encodings": [encoding],
        "column_names": ["tokens"],
        "column_sizes": [size],
        "compression": compression,
        "format": "mds",
        "hashes": [],
        "size_limit": size_limit,
        "version": VERSION,
    }


def file_row(name: str, num_bytes: int) -> dict[str, Any]:
    return {"basename": name, "bytes": num_bytes, "hashes": {}}


def index_bytes(rows: Sequence[dict[str, Any]]) -> bytes:
    """index.json as the original writes it."""
    return json.dumps({"shards": list(rows), "version": VERSION}, sort_keys=True).encode()
