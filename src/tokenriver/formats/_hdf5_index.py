"""shards.json: which HDF5 files make up a river, in what order, with how many ids each.

An object (version, chunk_size, total_tokens, shards), or the list of shards alone. A shard's path was written as seen
from the writer's working folder, from the index, or absolutely, perhaps on another machine: of all these only the end
counts that names a file in the folder of the index, so no path leads out of it.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenriver import rules
from tokenriver.errors import FormatError
from tokenriver.formats import _json_index

NAME = "shards.json"
VERSION = 1
_PATH = rules.matching(r"[^\0]{1,4000}", "a path")
_ROW: rules.Table = {"path": _PATH, "token_count": rules.COUNT}
_OPTIONAL: rules.Table = {
    "document_count": rules.COUNT,
    "doc_count": rules.COUNT,
    "global_start": rules.COUNT,
    "sha256": rules.SHA256,
    "shard_id": rules.TEXT,
}
_HEAD: rules.Table = {"version": rules.integer(VERSION, VERSION), "total_tokens": rules.COUNT, "shards": rules.LIST}


@dataclass(frozen=True, slots=True)
class Row:
    """A shard with ids in it, as the index tells of it."""

    path: Path
    num_tokens: int
    sha256: str | None


def read_rows(path: Path) -> list[Row]:
    """The shards of an index that have ids, in order; FormatError where it is damaged, counts do not add up, or a file
    is missing or outside the index's folder."""
    content = _json_index.read_index(path)
    if isinstance(content, dict):
        _check_keys(path, "index", content, _HEAD, {"chunk_size": rules.POSITIVE})
    rows = content["shards"] if isinstance(content, dict) else content
    if not isinstance(rows, list) or not rows:
        raise FormatError(f"{path}: got no shards, expected a list of them")
    start, places = 0, _Places(path)
    out = []
    for number, row in enumerate(rows):
        _check_keys(path, f"shards[{number}]", row, _ROW, _OPTIONAL)
        if row.get("global_start", start) != start:
            got = row["global_start"]
            raise FormatError(f"{path}: shards[{number}].global_start: got {got}, expected {start}, the ids before it")
        start += row["token_count"]
        found = places.find(f"shards[{number}].path", row["path"])
        if row["token_count"]:
            out.append(Row(found, row["token_count"], row.get("sha256")))
    if isinstance(content, dict) and content["total_tokens"] != start:
        raise FormatError(
            f"{path}: total_tokens: got {content['total_tokens']}, expected {start}, the sum of its shards"
        )
    if not out:
        raise FormatError(f"{path}: got {len(rows)} shards without an id, expected ids")
    return out


def index_bytes(chunk_size: int | None, rows: Sequence[dict[str, Any]]) -> bytes:
    """shards.json as the sharded-HDF5 lesson writes it, for rows in order; without a chunk_size, the bare list that its
    text describes."""
    content: object = rows
    if chunk_size is not None:
        total = sum(row["token_count"] for row in rows)
        content = {"version": VERSION, "chunk_size": chunk_size, "total_tokens": total, "shards": rows}
    return json.dumps(content, indent=2, sort_keys=True).encode()


def _check_keys(path: Path, what: str, row: object, needed: rules.Table, optional: rules.Table) -> None:
    """Each known key by its rule; writers of all kinds add keys of their own, which are left alone."""
    if not isinstance(row, dict) or not needed.keys() <= row.keys():
        got = sorted(map(str, row)) if isinstance(row, dict) else type(row).__name__
        raise FormatError(f"{path}: {what}: got {str(got)[:200]}, expected the keys {', '.join(sorted(needed))}")
    table = needed | {name: rule for name, rule in optional.items() if name in row}
    rules.check(path, what, {name: row[name] for name in table}, table)


class _Places:
    """Finds the files of an index in its folder."""

    def __init__(self, index: Path) -> None:
        self._index, self._folder = index, _json_index.Folder(index)
        self._taken: set[str] = set()

    def find(self, what: str, text: str) -> Path:
        """The longest end of the path that names a regular file in the folder; each file only once."""
        parts = [part for part in re.split(r"[/\\]", text) if part not in ("", ".")]
        below = max((at + 1 for at, part in enumerate(parts) if part == ".."), default=0)
        for at in range(below, len(parts)):
            name = "/".join(parts[at:])
            if self._folder.size_of(name) is None:
                continue
            if name in self._taken:
                raise FormatError(f"{self._index}: {what}: got {text[:200]!r} for the second time, expected it once")
            self._taken.add(name)
            return self._folder.path / name
        raise FormatError(
            f"{self._index}: {what}: got {text[:200]!r}, expected a file in the index's folder; put it there"
        )
