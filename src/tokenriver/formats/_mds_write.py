"""How the bytes of an MDS shard are made from columns: table of offsets, columns as JSON, samples with their heads.

A head is a uint32 size, and before the values of an array one byte (1 << 2 | k) and their count in 2^k bytes, the
fewest that hold it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenriver.formats import _mds_index
from tokenriver.formats._columns import lengths_of
from tokenriver.formats._runs import Bytes, insert
from tokenriver.storage import Content
from tokenriver.types import Int64

SIZE_LIMIT = 1 << 26
"""MDS's own limit of a shard, written into those that keep to it."""
LARGEST = 2**32 - 1
_BLOCK = 1 << 19
_HEAD = 9


@dataclass(frozen=True, slots=True)
class Kind:
    """How samples are encoded: by the name of the layout and the bytes of an id."""

    layout: str
    dtype: str
    item: int

    def head_sizes(self, lengths: Int64) -> Int64:
        """Bytes before the ids of documents of these lengths."""
        if self.layout in ("fixed", "bytes"):
            return np.full(len(lengths), 4 if self.layout == "bytes" else 0, np.int64)
        return np.where(lengths < 1 << 8, 6, np.where(lengths < 1 << 16, 7, 9))

    def heads(self, lengths: Int64) -> tuple[Bytes, Int64]:
        """The heads of some documents one after another, and their sizes."""
        sizes = self.head_sizes(lengths)
        rows: NDArray[np.uint8] = np.zeros((len(lengths), _HEAD), np.uint8)
        rows[:, :4] = _bytes_of(sizes - 4 + lengths * self.item)
        rows[:, 4] = 4 + (sizes > 6) + (sizes > 7)
        rows[:, 5:] = _bytes_of(lengths)
        return rows[np.arange(_HEAD) < sizes[:, None]], sizes

    def columns(self, content: Content, num_bytes: int) -> dict[str, Any]:
        """The columns' table of a shard whose samples take num_bytes."""
        names = {"bytes": "bytes", "fixed": f"ndarray:{self.dtype}:{content.num_tokens // content.num_documents}"}
        size = content.num_tokens // content.num_documents * self.item if self.layout == "fixed" else None
        packed = "zstd:3" if self.layout == "zstd" else None
        encoding = names.get(self.layout, f"ndarray:{self.dtype}")
        row = _mds_index.columns_text(encoding, size, compression=packed, size_limit=SIZE_LIMIT)
        if 8 + 4 * content.num_documents + len(_json(row)) + num_bytes > SIZE_LIMIT:
            row["size_limit"] = LARGEST
        return row


def _bytes_of(values: Int64) -> Bytes:
    return values.astype("<u4").view(np.uint8).reshape(-1, 4)


def _json(row: dict[str, Any]) -> bytes:
    return json.dumps(row, sort_keys=True).encode()


def samples_bytes(content: Content, kind: Kind) -> int:
    """Bytes of all samples of a shard."""
    heads = sum(int(kind.head_sizes(lengths).sum()) for lengths in lengths_of(content.ends()))
    return heads + content.num_tokens * kind.item


def shard_bytes(content: Content, kind: Kind, num_bytes: int) -> int:
    """Size of a shard whose samples take num_bytes."""
    return 8 + 4 * content.num_documents + len(_json(kind.columns(content, num_bytes))) + num_bytes


def pieces(content: Content, kind: Kind, num_bytes: int) -> Iterator[bytes | NDArray[np.generic]]:
    """The bytes of a shard in order."""
    text = _json(kind.columns(content, num_bytes))
    at = 8 + 4 * content.num_documents + len(text)
    yield np.array([content.num_documents, at], "<u4")
    for lengths in lengths_of(content.ends()):
        ends = at + np.cumsum(kind.head_sizes(lengths) + lengths * kind.item)
        at = int(ends[-1])
        yield ends.astype("<u4")
    yield text
    if kind.layout == "fixed":
        yield from content.ids()
    else:
        yield from _samples(content, kind)


def _samples(content: Content, kind: Kind) -> Iterator[NDArray[np.generic]]:
    """The ids with the head of each document before its first one."""
    coming = _Coming(content)
    at = 0
    for ids in content.ids():
        for begin in range(0, len(ids), _BLOCK):
            block = ids[begin : begin + _BLOCK]
            starts, lengths = coming.before(at + len(block))
            heads, sizes = kind.heads(lengths)
            data = np.ascontiguousarray(block).view(np.uint8)
            yield insert(data, (starts - at) * kind.item, heads, sizes)
            at += len(block)
    _, lengths = coming.before(at + 1)  # empty ones at the very end
    yield kind.heads(lengths)[0]


class _Coming:
    """The documents of a shard, taken by where they start."""

    def __init__(self, content: Content) -> None:
        self._blocks = lengths_of(content.ends())
        self._at = 0
        self._starts, self._lengths = np.empty(0, np.int64), np.empty(0, np.int64)

    def before(self, limit: int) -> tuple[Int64, Int64]:
        """(starts, lengths) of the next documents that start before `limit`."""
        taken: list[tuple[Int64, Int64]] = []
        while True:
            cut = int(np.searchsorted(self._starts, limit, "left"))
            taken.append((self._starts[:cut], self._lengths[:cut]))
            self._starts, self._lengths = self._starts[cut:], self._lengths[cut:]
            block = next(self._blocks, None) if len(self._starts) == 0 else None
            if block is None:
                break
            ends = self._at + np.cumsum(block)
            self._starts, self._lengths = ends - block, block
            self._at = int(ends[-1])
        return np.concatenate([starts for starts, _ in taken]), np.concatenate([lengths for _, lengths in taken])
