"""The finished parts of a build as a flow: its documents for the index beside a native shard, all of it for corpora in
another format than our own."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np

from tokenriver import digests, files
from tokenriver.assembly import Parts, Segment
from tokenriver.parts import differs, receipt_path
from tokenriver.storage import BLOCK_IDS, Columns
from tokenriver.types import Ids, Int64


class PartFlow:
    """The ids and documents of some segments, end to end; `rows_before` has, for each unit, the raw rows of each
    piece's source that lie before it; `first_source` is the number of the build's first input."""

    def __init__(
        self,
        parts: Parts,
        dtype: str,
        segments: Sequence[Segment],
        rows_before: Sequence[Int64],
        first_source: int = 0,
    ) -> None:
        self._parts, self._dtype, self._rows_before = parts, np.dtype(dtype).newbyteorder("<"), rows_before
        self._segments, self._first_source = segments, first_source
        sizes = [segment.stop - segment.start for segment in segments]
        counts = [segment.last - segment.first for segment in segments]
        self._positions = [0, *accumulate(sizes)]
        self._documents = [0, *accumulate(counts)]
        self.num_tokens, self.num_documents = self._positions[-1], self._documents[-1]

    def check(self) -> None:
        """MismatchError for a part that is not what its receipt says; its unit will be done anew. To be called before
        ids are read, so that what is written is what was encoded."""
        for unit in sorted({segment.unit for segment in self._segments}):
            receipt = self._parts.receipts[unit]
            path = receipt.path(self._parts.folder)
            size = receipt.num_ids * self._dtype.itemsize
            if digests.xxh3_file(path, size) != receipt.ids_xxh3:
                files.remove(receipt_path(self._parts.folder, receipt.key))
                raise differs(path)

    def blocks(self, start: int, stop: int) -> Iterator[Ids]:
        number = self._at(self._positions, start)
        while start < stop:
            segment = self._segments[number]
            end = min(stop, self._positions[number + 1])
            shift = segment.start - self._positions[number]
            path = self._parts.receipts[segment.unit].path(self._parts.folder)
            for at in range(start, end, BLOCK_IDS):
                yield self._read(path, at + shift, min(end, at + BLOCK_IDS) + shift)
            start, number = end, number + 1

    def _read(self, path: Path, start: int, stop: int) -> Ids:
        item = self._dtype.itemsize
        with files.naming(path, "read"), path.open("rb", buffering=0) as file:
            return np.fromfile(file, self._dtype, stop - start, offset=start * item)

    def _at(self, starts: list[int], value: int) -> int:
        """The segment that holds a position or a document: none is empty."""
        return int(np.searchsorted(starts, value, "right")) - 1

    def _ends(self, number: int) -> Int64:
        """Ends of a segment's documents, as positions of the flow; one that is cut ends with its segment."""
        segment = self._segments[number]
        ends = self._parts.documents(segment.unit).ends[segment.first : segment.last]
        return np.minimum(ends, segment.stop) - (segment.start - self._positions[number])

    def ended(self, position: int) -> int:
        if position == self.num_tokens:
            return self.num_documents
        number = self._at(self._positions, position)
        return self._documents[number] + int(np.searchsorted(self._ends(number), position, "right"))

    def end_around(self, position: int) -> int:
        ends = self._ends(self._at(self._positions, position))
        return int(ends[np.searchsorted(ends, position, "right")])

    def documents(self, first: int, last: int) -> Iterator[Columns]:
        number = self._at(self._documents, first)
        while first < last:
            segment, base = self._segments[number], self._documents[number]
            stop = min(last, self._documents[number + 1])
            inside = slice(segment.first + first - base, segment.first + stop - base)
            documents = self._parts.documents(segment.unit)
            pieces = documents.pieces[inside]
            sources = np.array([piece.source for piece in self._parts.receipts[segment.unit].pieces], np.int32)
            records = documents.records[inside] + self._rows_before[segment.unit][pieces]
            yield self._ends(number)[first - base : stop - base], records, (sources + self._first_source)[pieces]
            first, number = stop, number + 1
