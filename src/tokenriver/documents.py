"""The documents of a river: where each one ends, and which record of which source it was.

A document belongs to the shard in which it ends; ids behind the last end of a shard belong to a document that ends in
a later one. Bounds come from the shards' own columns or, only if asked for, from an id that parts documents.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.river import River
from tokenriver.types import Ids, Int32, Int64

# documents whose columns are taken at a time; ids that are searched for the parting id at a time
WALK, STRETCH = 4096, 1 << 22


@dataclass(frozen=True, slots=True)
class Parting:
    """An id that parts documents, by the user's word: at the start of each (llm.c) or at its end."""

    id: int
    framing: str

    def __post_init__(self) -> None:
        if self.framing not in ("eos-before", "eos-after"):
            raise InputError(f"framing: got {self.framing!r}, expected 'eos-after' or 'eos-before' beside eos_id")
        if self.id < 0:
            raise InputError(f"eos_id: got {self.id}, expected at least 0")


class DocumentBounds:
    """The documents of the shards of a river; `counts` (one entry a shard) or None where there are no bounds."""

    def __init__(
        self, river: River, paths: Sequence[Path], counts: Sequence[int] | None, parting: Parting | None = None
    ) -> None:
        self._river, self._paths, self.parting = river, paths, parting
        self._found: dict[int, Int64] = {}
        if counts is None and parting is not None:
            self._found = {shard: _search(river, shard, parting) for shard in range(len(paths))}
            counts = [len(ends) for ends in self._found.values()]
        self._upto: Int64 | None = None if counts is None else np.cumsum(counts, dtype=np.int64)
        self._counts = counts

    @property
    def count(self) -> int | None:
        return None if self._upto is None else int(self._upto[-1])

    def columns(self, shard: int) -> tuple[Int64, tuple[Int64, Int32] | None]:
        """(ends, origins) of the documents that end in a shard, ends counted from the shard's first id; FormatError
        where they are not what opening saw."""
        assert self._counts is not None, "asked only where there are bounds"
        if shard in self._found:
            return self._found[shard], None
        reader = self._river.shelf[shard]
        ends, expected = reader.doc_ends, self._counts[shard]
        if ends is None or len(ends) != expected:
            got = "none" if ends is None else len(ends)
            raise FormatError(f"{self._paths[shard]}: documents: got {got}, expected {expected}")
        if shard == len(self._paths) - 1 and (not len(ends) or int(ends[-1]) != reader.num_tokens):
            raise FormatError(
                f"{self._paths[shard]}: documents: got a last one that goes on behind the last shard, expected its end"
            )
        return ends, reader.origins

    def bounds(self, index: int) -> tuple[int, int]:
        """River positions [start, stop) of a document; LimitError for one that is not there."""
        shard, local = self.locate(index)
        ends, begin = self.columns(shard)[0], int(self._river.begins[shard])
        return begin + int(ends[local - 1]) if local else self._open_at(shard), begin + int(ends[local])

    def _open_at(self, shard: int) -> int:
        """Where the document begins that ends first in a shard: behind the last end before it."""
        before = self._before(shard)
        if before == 0:
            return 0
        last = self.locate(before - 1)[0]
        return int(self._river.begins[last]) + int(self.columns(last)[0][-1])

    def at(self, position: int) -> int:
        """The document that holds a position, in O(log num_documents)."""
        shard, offset = self._river.locate(position)
        return self._before(shard) + int(np.searchsorted(self.columns(shard)[0], offset, "right"))

    def at_all(self, positions: Int64) -> Int64:
        """The document that holds each position, (k,) int64 both."""
        found = np.empty_like(positions)
        for shard, here in _by_shard(positions, self._river.ends):
            offsets = positions[here] - int(self._river.begins[shard])
            found[here] = self.columns(shard)[0].searchsorted(offsets, "right") + self._before(shard)
        return found

    def ends_of(self, documents: Int64) -> Int64:
        """River position behind each document, (k,) int64 both."""
        assert self._upto is not None, "asked only where there are bounds"
        found = np.empty_like(documents)
        for shard, here in _by_shard(documents, self._upto):
            ends = self.columns(shard)[0]
            found[here] = ends[documents[here] - self._before(shard)] + int(self._river.begins[shard])
        return found

    def ended(self, position: int) -> int:
        """How many documents end at or before a position of [0, num_tokens]."""
        river = self._river
        shard = int(np.searchsorted(river.ends, position, "left"))
        count = self._before(shard)
        while shard < len(self._paths) and int(river.begins[shard]) <= position:
            count += int(np.searchsorted(self.columns(shard)[0], position - int(river.begins[shard]), "right"))
            shard += 1
        return count

    def locate(self, index: int) -> tuple[int, int]:
        """(shard, number in it) of a document."""
        if self._upto is None or not 0 <= index < int(self._upto[-1]):
            raise LimitError(f"document: got {index}, expected 0 to {(self.count or 0) - 1}")
        shard = int(np.searchsorted(self._upto, index, "right"))
        return shard, index - self._before(shard)

    def _before(self, shard: int) -> int:
        assert self._upto is not None, "asked only where there are bounds"
        return int(self._upto[shard - 1]) if shard else 0

    def between(self, first: int, last: int) -> Iterator[tuple[int, Int64, tuple[Int64, Int32] | None]]:
        """(river position of the shard, ends, origins) of the documents [first, last), the columns of one shard after
        another, in views."""
        while first < last:
            shard, local = self.locate(first)
            ends, origins = self.columns(shard)
            stop = min(len(ends), local + last - first)
            some = None if origins is None else (origins[0][local:stop], origins[1][local:stop])
            yield int(self._river.begins[shard]), ends[local:stop], some
            first += stop - local

    def ends(self) -> Int64:
        """(num_documents,) int64: where each document ends, as river positions."""
        blocks = [ends + begin for begin, ends, _ in self.between(0, self.count or 0)]
        return np.concatenate([np.empty(0, np.int64), *blocks])

    def walk(self) -> Iterator[tuple[int, int, Ids]]:
        """(source, record, ids) of every document in river order; ids are mapped views where they can be."""
        for shard, path in enumerate(self._paths):
            columns, origins = self.columns(shard)
            if origins is None:
                raise FormatError(f"{path}: got documents without their sources, expected a corpus built from text")
            start = self._open_at(shard) - int(self._river.begins[shard])
            reader = self._river.shelf[shard]
            for at in range(0, len(columns), WALK):
                ends, records, sources = (column[at : at + WALK].tolist() for column in (columns, *origins))
                reader.read_ahead(max(0, start), ends[-1])
                for end, record, source in zip(ends, records, sources, strict=True):
                    if start < 0:
                        base = int(self._river.begins[shard])
                        yield source, record, self._river.read(base + start, base + end)
                    else:
                        yield source, record, reader.read(start, end)
                    start = end


def _by_shard(numbers: Int64, ends: Int64) -> Iterator[tuple[int, Int64]]:
    """(shard, indices of its numbers), for each shard that has any of these positions or documents. The indices are in
    the order of the numbers: neighbours lie in one part of a column, and many are looked up in half the time."""
    order = numbers.argsort()
    shards = ends.searchsorted(numbers[order], "right")
    cuts = np.flatnonzero(shards[1:] != shards[:-1]) + 1
    for first, last in pairwise([0, *cuts.tolist(), len(order)] if len(order) else []):
        yield shards.item(first), order[first:last]


def _search(river: River, shard: int, parting: Parting) -> Int64:
    """Ends of the documents of a shard by the parting id; the last shard also has the river's end."""
    begin, end = int(river.begins[shard]), int(river.ends[shard])
    found = [np.empty(0, np.int64)]
    for at in range(begin, end, STRETCH):
        found.append(np.flatnonzero(river.read(at, min(end, at + STRETCH)) == parting.id) + (at - begin))
    ends = np.concatenate(found)
    if parting.framing == "eos-after":
        ends = ends + 1
    elif shard == 0 and len(ends) and ends[0] == 0:
        ends = ends[1:]  # the first document begins there; none ends
    if shard == len(river.ends) - 1 and (not len(ends) or ends[-1] != end - begin):
        ends = np.append(ends, end - begin)
    return ends
