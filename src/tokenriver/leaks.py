"""Documents of one corpus that are in another, or in another split: what a validation set must not have in common
with what a model was trained on.

Documents are the same if their ids are, control ids at their ends apart, so framing, format and shards may differ. A
hash of each document of the smaller side is held while the other passes by, and those with an equal one are compared id
by id: a report is never wrong. All work is in columns, none is done document by document.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tokenriver.agreement import one_tokenizer, tokenizer_of
from tokenriver.corpus import Corpus
from tokenriver.errors import FormatError
from tokenriver.hashes import Hashes, hash_documents
from tokenriver.types import Bools, Int64, UInt64

PIECE = 1 << 16
"""Ids of a document compared in one piece."""
TOGETHER = 1 << 20
"""About so many ids are compared in one go."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Leaks:
    """Documents of a corpus that are in another one too. Ids are counted without control ids at a document's ends."""

    documents: Int64
    """(k,) their numbers, rising."""
    others: Int64
    """(k,) the number of the first document of the other corpus that equals each."""
    leaked_tokens: int
    """Ids of those documents."""
    num_documents: int
    """Documents that were compared."""
    num_tokens: int
    """Ids of all of them."""
    num_others: int
    """Documents of the other corpus that they were compared with."""
    empty: int
    """Documents of either that are nothing but control ids and were left out."""

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def share(self) -> float:
        """The part of the compared documents that was found."""
        return len(self.documents) / self.num_documents if self.num_documents else 0.0

    @property
    def distinct(self) -> int:
        """Different documents among those found."""
        return len(np.unique(self.others))


def leaks(corpus: Corpus, other: Corpus, *, progress: Progress | None = None) -> Leaks:
    """Which documents of `corpus` are in `other`, to the id. progress(done, total) is called with ids read.
    MismatchError for corpora with different tokenizers, FormatError for one without document bounds."""
    for one in (corpus, other):
        if one.num_documents is None:
            raise FormatError(
                f"{one.path}: got a {one.format} corpus without document bounds, expected them; give eos_id, or "
                "convert from one that has them"
            )
    one_tokenizer([corpus, other])
    framing = _framing(corpus) | _framing(other)
    small, large = sorted((corpus, other), key=lambda one: one.num_tokens)
    read = _Counter(2 * small.num_tokens + large.num_tokens, progress)
    held = [hashes.high for hashes in read(hash_documents(small, framing))]
    known = np.sort(np.concatenate([np.empty(0, np.uint64), *held]))
    of_large = _select(read(hash_documents(large, framing)), known)
    known = np.unique(of_large.high)
    of_small = _select(read(hash_documents(small, framing)), known)
    mine, theirs = (of_small, of_large) if small is corpus else (of_large, of_small)
    found, others = _match(corpus, mine, other, theirs)
    return Leaks(
        documents=mine.numbers[found],
        others=theirs.numbers[others],
        leaked_tokens=int(mine.sizes[found].sum()),
        num_documents=mine.documents,
        num_tokens=mine.num_tokens,
        num_others=theirs.documents,
        empty=mine.empty + theirs.empty,
    )


def _framing(corpus: Corpus) -> set[int]:
    """The control ids that may stand around a document."""
    made_by, parting = tokenizer_of(corpus) or corpus.tokenizer, corpus.documents.parting
    ids = [] if made_by is None else [made_by.bos_id, made_by.eos_id]
    ids += [] if parting is None else [parting.id]
    return {number for number in ids if number is not None}


class _Counter:
    """Passes hashes on and counts their ids for a progress bar."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def __call__(self, documents: Iterator[Hashes]) -> Iterator[Hashes]:
        for hashes in documents:
            yield hashes
            self._done += hashes.num_tokens
            if self._progress is not None:
                self._progress(self._done, self._total)


@dataclass(frozen=True, slots=True)
class _Some:
    """Some documents of a corpus as (k,) columns, their numbers rising; and what all of it holds."""

    numbers: Int64
    high: UInt64
    low: UInt64
    starts: Int64
    sizes: Int64
    documents: int
    num_tokens: int
    empty: int

    def keys(self) -> tuple[UInt64, UInt64, Int64]:
        return self.high, self.low, self.sizes


def _select(documents: Iterator[Hashes], known: UInt64) -> _Some:
    """The documents whose first word is among the known, which are sorted."""
    integers, words = np.empty(0, np.int64), np.empty(0, np.uint64)
    kept = [(integers, words, words, integers, integers)]
    counts = num_tokens = empty = 0
    for some in documents:
        counts, num_tokens, empty = counts + len(some.sizes), num_tokens + some.num_tokens, empty + some.empty
        places = np.searchsorted(known, some.high)
        places[places == len(known)] = 0
        here = np.flatnonzero((some.sizes > 0) & (known[places] == some.high)) if len(known) else places[:0]
        kept.append((here + some.first, some.high[here], some.low[here], some.starts[here], some.sizes[here]))
    numbers, highs, lows, starts, sizes = zip(*kept, strict=True)
    return _Some(
        np.concatenate(numbers),
        np.concatenate(highs),
        np.concatenate(lows),
        np.concatenate(starts),
        np.concatenate(sizes),
        counts - empty,
        num_tokens,
        empty,
    )


def _match(corpus: Corpus, mine: _Some, other: Corpus, theirs: _Some) -> tuple[Int64, Int64]:
    """(indices into mine, indices into theirs) of documents with the same ids: the first of theirs for each."""
    groups = _groups(*(np.concatenate(pair) for pair in zip(mine.keys(), theirs.keys(), strict=True)))
    asked, offered = groups[: len(mine.numbers)], groups[len(mine.numbers) :]
    order = np.argsort(offered, kind="stable")
    at, stop = (np.searchsorted(offered[order], asked, side) for side in ("left", "right"))
    others = np.full(len(asked), -1, np.int64)
    left = np.flatnonzero(at < stop)
    while len(left):
        tried = order[at[left]]
        starts = mine.starts[left], theirs.starts[tried]
        equal = _equal((corpus, other), starts, mine.sizes[left])
        others[left[equal]] = tried[equal]
        # equal hashes of different documents: the next of the same hash is tried
        at[left] += 1
        left = left[~equal & (at[left] < stop[left])]
    found = np.flatnonzero(others >= 0)
    return found, others[found]


def _groups(high: UInt64, low: UInt64, sizes: Int64) -> Int64:
    """(k,) a number for each, the same where all three are."""
    order = np.lexsort((sizes, low, high))
    new = np.zeros(len(order), np.bool_)
    for column in (high, low, sizes):
        new[1:] |= np.diff(column[order]) != 0
    groups = np.empty(len(order), np.int64)
    groups[order] = np.cumsum(new)
    return groups


def _equal(corpora: tuple[Corpus, Corpus], starts: tuple[Int64, Int64], sizes: Int64) -> Bools:
    """(k,) are the ids from the first start those from the second?"""
    counts = -(-sizes // PIECE)
    which = np.repeat(np.arange(len(sizes)), counts)
    offsets = (np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)) * PIECE
    lengths = np.minimum(sizes[which] - offsets, PIECE)
    turns = np.cumsum(lengths) // TOGETHER
    same = np.ones(len(sizes), np.bool_)
    for first, last in pairwise([0, *(np.flatnonzero(np.diff(turns)) + 1).tolist(), len(which)]):
        here = slice(first, last)
        ids = np.empty((2, int(lengths[here].sum())), np.int64)
        for corpus, begins, out in zip(corpora, starts, ids, strict=True):
            corpus.take(begins[which[here]] + offsets[here], lengths[here], out)
        begins = np.cumsum(lengths[here]) - lengths[here]
        same[which[here][~np.logical_and.reduceat(ids[0] == ids[1], begins)]] = False
    return same
