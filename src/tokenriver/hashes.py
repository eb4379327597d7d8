"""Documents as 128-bit hashes of their ids, control ids around them left out, many documents at a time.

A hash is two sums, modulo 2^64, of mixed words of (place in the document, id): it does not matter where a stretch of
the river ends, so documents of any length go through memory in pieces. It finds equal documents; that it finds no
others is not relied on, as an enemy could make some: who reports two documents as equal compares their ids.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from tokenriver.corpus import Corpus
from tokenriver.splitmix import STEP, finish
from tokenriver.types import Bools, Ids, Int64, UInt64

BATCH = 1 << 16
"""Documents hashed at a time."""
CHUNK = 1 << 16
"""Ids mixed at a time: the temporaries stay in the cache."""

_S32 = np.uint64(32)


@dataclass(frozen=True, slots=True)
class Hashes:
    """Some consecutive documents of a corpus, as (k,) columns."""

    first: int
    """Number of the first."""
    high: UInt64
    low: UInt64
    starts: Int64
    """River position of each one's first id behind the framing."""
    sizes: Int64
    """Ids inside the framing."""

    @property
    def num_tokens(self) -> int:
        """Ids inside the framing, of all of them."""
        return int(self.sizes.sum())

    @property
    def empty(self) -> int:
        """Documents of nothing but framing."""
        return int((self.sizes == 0).sum())


def hash_documents(corpus: Corpus, framing: Collection[int]) -> Iterator[Hashes]:
    """Every document of a corpus with bounds, in order. An id of `framing` at either end of one is no part of it."""
    start = number = 0
    for begin, ends, _ in corpus.documents.between(0, corpus.num_documents or 0):
        for at in range(0, len(ends), BATCH):
            edges = np.concatenate([[start], ends[at : at + BATCH] + begin])
            yield _hash(corpus, number, edges, framing)
            start, number = int(edges[-1]), number + len(edges) - 1


def _hash(corpus: Corpus, first: int, edges: Int64, framing: Collection[int]) -> Hashes:
    count = len(edges) - 1
    found = Hashes(first, np.zeros(count, np.uint64), np.zeros(count, np.uint64), edges[:-1].copy(), np.diff(edges))
    at = int(edges[0])
    for block in corpus.blocks(at, int(edges[-1])):
        for offset in range(0, len(block), CHUNK):
            ids = block[offset : offset + CHUNK]
            _add(found, edges, ids, at, framing)
            at += len(ids)
    return found


def _add(found: Hashes, edges: Int64, ids: Ids, at: int, framing: Collection[int]) -> None:
    """Add ids that lie at river position `at` to the documents with these edges, which are their ends."""
    stop = at + len(ids)
    first, last = int(np.searchsorted(edges[1:], at, "right")), int(np.searchsorted(edges[:-1], stop, "left"))
    here = slice(first, last)
    starts, ends = edges[:-1][here], edges[1:][here]
    begins, stops = np.maximum(starts, at) - at, np.minimum(ends, stop) - at
    counts = stops - begins
    framed = np.isin(ids, list(framing))
    # a document's first id lies here, or its last, which is not the first that is left out already
    lead = _at(framed, begins, (starts >= at) & (counts > 0))
    found.starts[here] += lead
    tail = _at(framed, stops - 1, (ends <= stop) & (ends > found.starts[here]))
    found.sizes[here] -= lead + tail
    words = np.arange(at, stop, dtype=np.int64)
    words -= np.repeat(found.starts[here], counts)
    for sums, parts in zip((found.high, found.low), _mixed(words.view(np.uint64), ids), strict=True):
        upto = np.zeros(len(ids) + 1, np.uint64)
        np.cumsum(parts, out=upto[1:])
        sums[here] += upto[stops - tail] - upto[begins + lead]


def _at(framed: Bools, places: Int64, asked: Bools) -> Int64:
    """(k,) 1 where the id at a place is asked for and is a framing one."""
    out = np.zeros(len(places), np.int64)
    out[asked] = framed[places[asked]]
    return out


def _mixed(places: UInt64, ids: Ids) -> Iterator[UInt64]:
    """Two words for each (place, id), one behind the other: the finaliser of splitmix64, and one more round."""
    words = places << _S32
    words ^= ids.astype(np.uint64)
    words += STEP
    finish(words, np.empty_like(words))
    yield words
    words *= STEP
    words ^= words >> _S32
    yield words
