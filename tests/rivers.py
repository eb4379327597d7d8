"""A river that is an array, for tests of what reads one."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tokenriver import extents
from tokenriver.mapped import Mapped, Raw
from tokenriver.river import River
from tokenriver.shelf import Shelf
from tokenriver.types import Ids, Int64


class ArrayRiver:
    """Ids 0, 1, 2, ... unless others are given; documents by their lengths, if any are given."""

    tokenizer_fingerprint: str | None = None

    def __init__(self, ids: int | Sequence[int], lengths: Sequence[int] | None = None) -> None:
        self.ids = np.arange(ids, dtype=np.int64) if isinstance(ids, int) else np.array(ids, np.int64)
        self.num_tokens = len(self.ids)
        self.edges = [0, *np.cumsum(lengths).tolist()] if lengths is not None else None
        self.num_documents = len(lengths) if lengths is not None else None
        self.fingerprint = hashlib.sha256(self.ids.tobytes()).hexdigest()
        self.gathered = 0

    def gather(self, starts: Int64, n: int, out: Int64) -> None:
        self.gathered += len(starts)
        assert out.shape == (len(starts), n)
        for line, start in enumerate(starts.tolist()):
            out[line] = self.ids[start : start + n]

    def take(self, starts: Int64, sizes: Int64, out: Int64) -> None:
        runs = zip(starts.tolist(), sizes.tolist(), strict=True)
        out[:] = np.concatenate([self.ids[s : s + n] if s >= 0 else np.zeros(n, np.int64) for s, n in runs]).reshape(
            out.shape
        )

    def doc_ends(self) -> Int64:
        assert self.edges is not None
        return np.array(self.edges[1:], np.int64)

    def document_at(self, position: int) -> int:
        assert self.edges is not None
        return int(np.searchsorted(self.edges, position, "right")) - 1

    def documents_at(self, positions: Int64) -> Int64:
        return np.array([self.document_at(position) for position in positions.tolist()], np.int64)

    def ends_of(self, documents: Int64) -> Int64:
        return self.doc_ends()[documents]

    def doc_bounds(self, i: int) -> tuple[int, int]:
        assert self.edges is not None
        return self.edges[i], self.edges[i + 1]


class MappedShard:
    """A shard in memory whose ids begin so many bytes into a view."""

    ids = doc_ends = origins = None

    def __init__(self, ids: Int64, dtype: str, shift: int) -> None:
        self.dtype, self.num_tokens = np.dtype(dtype), len(ids)
        self._ids = ids.astype(dtype)
        view = memoryview(b"\xee" * shift + self._ids.tobytes())
        self.extents = extents.make(view, np.array([shift]), np.array([len(ids)]), self.dtype.itemsize)

    def read(self, start: int, stop: int) -> Ids:
        return self._ids[start:stop]

    def windows(self, starts: Int64, n: Int64 | int) -> list[memoryview]:
        return self.extents.windows(starts, n)

    def read_ahead(self, start: int, stop: int) -> None: ...

    def close(self) -> None: ...


class MappedRiver(ArrayRiver):
    """The same, its ids of a dtype in shards that end at some places."""

    def __init__(self, ids: Sequence[int], lengths: Sequence[int], cuts: Sequence[int], dtype: str, shift: int) -> None:
        super().__init__(ids, lengths)
        edges = sorted({0, *(at for at in cuts if at < len(ids)), len(ids)})
        shards = [MappedShard(self.ids[first:last], dtype, shift) for first, last in pairwise(edges)]
        self._river = River(np.diff(edges), np.dtype(dtype), Shelf(shards.__getitem__))

    def gather(self, starts: Int64, n: int, out: Int64) -> None:
        self._river.gather(starts, n, out)

    def take(self, starts: Int64, sizes: Int64, out: Int64) -> None:
        self._river.take(starts, sizes, out)

    def cut(self, starts: Int64, sizes: Int64 | int) -> Raw | None:
        return self._river.cut(starts, sizes)

    def mapped(self) -> Mapped | None:
        return self._river.mapped()


@dataclass
class OneShard:
    num_tokens: int


class ShardedRiver(ArrayRiver):
    """Shards of so many ids; the id at position p of shard s is 10,000 s + p."""

    def __init__(self, *sizes: int) -> None:
        super().__init__([10_000 * shard + place for shard, size in enumerate(sizes) for place in range(size)])
        self.shards = tuple(OneShard(size) for size in sizes)


class HugeRiver:
    """So many ids that nothing may depend on their number; id i is i mod 50,000."""

    num_documents = None
    fingerprint = "ab" * 32

    def __init__(self, num_tokens: int) -> None:
        self.num_tokens = num_tokens

    def gather(self, starts: Int64, n: int, out: Int64) -> None:
        assert starts.min() >= 0
        assert starts.max() <= self.num_tokens - n
        np.copyto(out, (starts[:, None] + np.arange(n)) % 50_000)

    def take(self, starts: Int64, sizes: Int64, out: Int64) -> None:
        runs = zip(starts.tolist(), sizes.tolist(), strict=True)
        ids = [np.arange(s, s + n) % 50_000 if s >= 0 else np.zeros(n, np.int64) for s, n in runs]
        out[:] = np.concatenate(ids).reshape(out.shape)

    def doc_ends(self) -> Int64:
        raise AssertionError(self.num_tokens)

    def document_at(self, position: int) -> int:
        raise AssertionError(position)

    def documents_at(self, positions: Int64) -> Int64:
        raise AssertionError(positions)

    def ends_of(self, documents: Int64) -> Int64:
        raise AssertionError(documents)

    def doc_bounds(self, i: int) -> tuple[int, int]:
        raise AssertionError(i)
