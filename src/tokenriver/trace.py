"""Which documents a row shows, and which rows show a document: order and packing, read both ways.

A row shows the ids that are an input or a target in it. From a row number it is arithmetic to the row's spans and a
search among the documents; from a document a search to the rows that overlap it, and the order's way back to their
numbers in each epoch. Rows that are windows are found by arithmetic, others in a table of their spans (24 bytes a span)
that is made when a document is first looked up. Everything takes many rows or documents at once, as columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenriver.buckets import BucketOrder
from tokenriver.corpus import Corpus
from tokenriver.course import LARGEST, Order
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.joining import JoinedPacking
from tokenriver.mixing import MixedSampler, Mixture
from tokenriver.ranges import distinct, expand
from tokenriver.sampler import BACKWARDS, Sampler
from tokenriver.types import Int64, Packing, River

BLOCK = 1 << 20
"""Rows whose spans are asked for together."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A document as one row shows it."""

    document: int
    """Its number, as in `Batch.document_ids` and for `Loader.when`; in a mixture counted through all sources."""
    source: str | None
    """Name of its source in a mixture; None without one."""
    number: int
    """Its number in its own corpus; the same as `document` without a mixture."""
    path: str | None
    """The input that it came from (below source_root, if the corpus was opened with one); None where not known."""
    record: int | None
    """0-based number of its raw row in that input."""
    start: int
    """[start, stop): the document's ids, framing included, that the row shows as inputs or targets."""
    stop: int
    length: int
    """Ids of the document."""
    row_start: int
    """[row_start, row_stop): positions of the row at which its ids are inputs; none where the row's last target is all
    that is seen of it."""
    row_stop: int

    @property
    def cut_start(self) -> bool:
        """Does the row begin inside the document?"""
        return self.start > 0

    @property
    def cut_end(self) -> bool:
        """Does the document go on behind what the row shows?"""
        return self.stop < self.length


@dataclass(frozen=True, slots=True)
class Shown:
    """Documents in rows as columns, (m,) int64 each, in the order of the rows and inside them; see Origin."""

    lines: Int64
    """Index of the row among those asked for."""
    documents: Int64
    starts: Int64
    stops: Int64
    lengths: Int64
    row_starts: Int64
    row_stops: Int64


@dataclass(frozen=True, slots=True)
class _Spans:
    """All spans of a packing whose rows are no windows, sorted by where they start."""

    starts: Int64
    stops: Int64
    rows: Int64


class Trail:
    """The way from row numbers of a run to documents and back."""

    def __init__(self, corpus: River | Mixture, river: River, packing: Packing, sampler: Order) -> None:
        self._river, self._packing, self._sampler = river, packing, sampler
        self._names = corpus.names if isinstance(corpus, Mixture) else ()
        self._corpora: tuple[River, ...] = corpus.rivers if isinstance(corpus, Mixture) else (corpus,)
        joined = packing if isinstance(packing, JoinedPacking) else None
        self._packings = (packing,) if joined is None else joined.packings
        self._bases = np.zeros(1, np.int64) if joined is None else joined.bases
        self._begins = np.zeros(1, np.int64) if joined is None else joined.begins
        self._spans: dict[int, _Spans] = {}

    # ------------------------------------------------------------------------------------ row -> documents

    def shown(self, numbers: Int64) -> Shown:
        """The documents that rows show, for row numbers (k,) int64."""
        self._documents()
        rows, epochs = self._sampler.locate(numbers)
        if self._packing.windows:
            lines, starts = np.arange(len(rows), dtype=np.int64), self._packing.starts(rows, epochs)
            stops = starts + self._packing.seq_len + 1
        elif len(rows):
            lines, starts, stops = self._packing.spans(rows, 0)
        else:
            lines, starts, stops = rows, rows, rows
        first = self._river.documents_at(starts)
        last_seen = first.copy()
        # a packed span lies in one document, and looking up where that ends costs less than a second search
        beyond = np.flatnonzero(self._river.ends_of(first) < stops)
        last_seen[beyond] = self._river.documents_at(stops[beyond] - 1)
        which, documents = expand(first, last_seen - first + 1)
        begins, ends = self._bounds(documents)
        froms, tos = np.maximum(starts[which], begins), np.minimum(stops[which], ends)
        # where the ids of each span are inputs: all but a span's last one, or in chained rows the row's last cell
        last = int(not self._packing.chained)
        inside = np.cumsum(stops - starts - last) - (stops - starts - last)
        offsets = inside - inside[np.searchsorted(lines, lines)] - starts
        row_stops = np.minimum(tos, stops[which] - last)
        inputs = froms + offsets[which], np.maximum(row_stops, froms) + offsets[which]
        inputs = np.minimum(inputs[0], self._packing.seq_len), np.minimum(inputs[1], self._packing.seq_len)
        columns = lines[which], documents, froms - begins, tos - begins, ends - begins, *inputs
        # documents without an id lie in no row
        seen = froms < tos
        return Shown(*columns) if seen.all() else Shown(*(column[seen] for column in columns))

    def origins(self, number: int, run: tuple[int, int | None]) -> list[Origin]:
        """The documents of one row of a run of row numbers [first, end), in order; LimitError outside it."""
        first, end = run
        if not first <= number < (LARGEST if end is None else end):
            last = "more" if end is None else f"to {end - 1}"
            raise LimitError(f"row_number: got {number}, expected {first} {last}, a row of this run; give epochs")
        shown = self.shown(np.array([number], np.int64))
        names = ("documents", "starts", "stops", "lengths", "row_starts", "row_stops")
        columns = [getattr(shown, name).tolist() for name in names]
        return [self._origin(*values) for values in zip(*columns, strict=True)]

    def _origin(self, document: int, *places: int) -> Origin:
        source, number = self.local(document)
        corpus = self._corpora[source]
        path, record = (corpus.origin(number) if isinstance(corpus, Corpus) else None) or (None, None)
        return Origin(document, self._names[source] if self._names else None, number, path, record, *places)

    # ------------------------------------------------------------------------------------ document -> rows

    def rows(self, documents: Int64, first: int, end: int) -> tuple[Int64, Int64]:
        """(which, row numbers) of all rows in [first, end) that show some documents, sorted; `which` indexes into
        `documents`."""
        sampler = self._sampler
        if not isinstance(sampler, Sampler | MixedSampler | BucketOrder):
            raise InputError(
                f"order: got {sampler.order!r}, expected {' or '.join(BACKWARDS)} to look a document up in"
            )
        begins, ends = self._bounds(documents)
        sources = np.searchsorted(self._begins, begins, "right") - 1
        sources[begins == ends] = -1
        found = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        for source in distinct(sources) if len(self._packings) > 1 else [0]:
            here = np.flatnonzero(sources == source)
            if source < 0 or not len(here):
                continue
            begin, windows = self._begins[source], self._packings[source].windows
            rows = None if windows else self._in_spans(source, begins[here] - begin, ends[here] - begin)
            for epoch in sampler.epochs(source, first, end):
                if rows is None or windows:
                    rows = _in_windows(self._packings[source], begins[here] - begin, ends[here] - begin, epoch)
                which, numbers = rows
                numbers = sampler.numbers(numbers + self._bases[source], np.full(len(numbers), epoch, np.int64))
                inside = (numbers >= first) & (numbers < end)
                found.append((here[which[inside]], numbers[inside]))
        which, numbers = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.lexsort((numbers, which))
        which, numbers = which[order], numbers[order]
        # a row may show a document in several spans
        new = np.ones(len(which), np.bool_)
        new[1:] = (which[1:] != which[:-1]) | (numbers[1:] != numbers[:-1])
        return which[new], numbers[new]

    def when(self, document: int, source: str | None, run: tuple[int, int | None], stop: int | None) -> Int64:
        """Row numbers of one run below `stop` that show a document, of the whole mixture or of one source."""
        first, end = run
        count = self._documents()
        if source is not None:
            if source not in self._names:
                known = ", ".join(self._names) or "none: this is no mixture"
                raise InputError(f"source: got {source!r}, expected one of {known}")
            place = self._names.index(source)
            count = self._corpora[place].num_documents or 0
        if not 0 <= document < count:
            raise LimitError(f"document: got {document}, expected 0 to {count - 1}")
        if end is None and stop is None:
            raise InputError("stop: got none for a run without an end, expected the row number up to which to look")
        ends = [given for given in (end, stop) if given is not None]
        if source is not None:
            document += sum(corpus.num_documents or 0 for corpus in self._corpora[:place])
        return self.rows(np.array([document], np.int64), first, min(ends))[1]

    def local(self, document: int) -> tuple[int, int]:
        """(source, number in its own corpus) of a document."""
        source = 0
        while document >= (count := self._corpora[source].num_documents or 0):
            document, source = document - count, source + 1
        return source, document

    # ------------------------------------------------------------------------------------------- helpers

    def _documents(self) -> int:
        """How many documents there are; FormatError where that is not known."""
        if self._river.num_documents is None:
            raise FormatError("trace: got a corpus without document bounds, expected them; give eos_id when opening it")
        return self._river.num_documents

    def _bounds(self, documents: Int64) -> tuple[Int64, Int64]:
        """(starts, stops) of documents in the river."""
        if len(documents) == 1:  # columns of one cost many times what it takes itself
            start, stop = self._river.doc_bounds(documents.item())
            return np.array([start]), np.array([stop])
        ends = self._river.ends_of(np.concatenate([np.maximum(documents - 1, 0), documents]))
        starts = ends[: len(documents)]
        starts[documents == 0] = 0
        return starts, ends[len(documents) :]

    def _in_spans(self, source: int, starts: Int64, stops: Int64) -> tuple[Int64, Int64]:
        """(which, rows) of the rows with a span that overlaps some ranges of a source's river."""
        known = self._spans.get(source)
        if known is None:
            self._spans[source] = known = _all_spans(self._packings[source])
        # a span has at most seq_len + 1 ids
        low = np.searchsorted(known.starts, starts - self._packing.seq_len, "left")
        which, at = expand(low, np.searchsorted(known.starts, stops, "left") - low)
        overlaps = known.stops[at] > starts[which]
        return which[overlaps], known.rows[at[overlaps]]


def _in_windows(packing: Packing, starts: Int64, stops: Int64, epoch: int) -> tuple[Int64, Int64]:
    """(which, rows) of the windows that overlap some ranges of the river."""
    last = len(packing) - 1
    at = packing.starts(np.array([0, min(1, last)], np.int64), np.full(2, epoch, np.int64))
    begin, step = at[0], max(1, int(at[1] - at[0]))
    low = np.maximum(0, (starts - begin - packing.seq_len - 1) // step + 1)
    high = np.minimum(last, (stops - 1 - begin) // step)
    return expand(low, np.maximum(0, high - low + 1))


def _all_spans(packing: Packing) -> _Spans:
    blocks: list[Sequence[Int64]] = []
    for first in range(0, len(packing), BLOCK):
        rows = np.arange(first, min(len(packing), first + BLOCK), dtype=np.int64)
        which, starts, stops = packing.spans(rows, 0)
        blocks.append((starts, stops, rows[which]))
    columns = [np.concatenate(column) for column in zip(*blocks, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return _Spans(*(column[order] for column in columns))
