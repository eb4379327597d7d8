"""A batch, and the buffers that batches are made in.

Everything about a micro-batch but its ids is arithmetic on its number, so a Batch is four references, and sample ids,
positions, documents and state are worked out when somebody asks. Its arrays are views of one (B, T + 1) buffer.

Filler rows (cells that no row fills) have input id 0, which every vocabulary has, targets IGNORE, sample, row number
and document -1; there inputs and targets need a buffer each.
"""

from collections.abc import Generator
from sys import getrefcount
from typing import Any

import numpy as np

from tokenriver.course import Course, Runs, Stretch
from tokenriver.filling import Filling, cut, part_windows
from tokenriver.joining import JoinedPacking
from tokenriver.river import narrow
from tokenriver.sequences import documents_of_runs, edges_of_documents, edges_of_runs, of_windows, positions
from tokenriver.types import IGNORE, Bools, Int32, Int64


class Ring:
    """Reused (B, T + 1) int64 buffers: one is handed out again only when nothing refers to it, no batch, no array and
    no tensor that is a view of it. (A fresh large buffer costs 4 to 10 times the gather in page faults.)"""

    __slots__ = ("_alone", "_buffers", "_limit", "_oldest", "_shape")

    def __init__(self, shape: tuple[int, int], limit: int) -> None:
        """At most `limit` buffers are kept; when all are in use the oldest is left to those who hold it."""
        self._shape = shape
        self._limit = limit
        self._oldest = 0
        self._buffers: list[Int64] = [np.empty(shape, np.int64)]
        # what the interpreter counts for a buffer that only the list holds, asked in the very way of `take`
        self._alone = next(getrefcount(buffer) for buffer in self._buffers)

    def take(self) -> Int64:
        """A buffer that nobody else holds; its contents are whatever was there. The lowest free one, so that a loop
        that lets go of each batch stays in the cache."""
        alone = self._alone
        for buffer in self._buffers:
            if getrefcount(buffer) == alone:
                return buffer
        buffer = np.empty(self._shape, np.int64)
        if len(self._buffers) < self._limit:
            self._buffers.append(buffer)
        else:
            self._buffers[self._oldest] = buffer
            self._oldest = (self._oldest + 1) % self._limit
        return buffer


class Batch:
    """One micro-batch: B rows of T positions as numpy arrays, with their origin and the run's state after it."""

    __slots__ = ("_buffer", "_index", "_known", "_runs", "_stretch", "_targets")

    def __init__(self, stretch: Stretch, index: int, buffer: Int64, targets: Int64) -> None:
        self._stretch = stretch
        self._index = index
        self._buffer = buffer
        self._targets = targets
        self._runs: tuple[Int64, Int64] | None = None
        self._known: Int64 | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        same = self._targets is self._buffer
        return _rebuild, (self._stretch.only(self._index), self._buffer, None if same else self._targets)

    def __repr__(self) -> str:
        rows, columns = self._buffer.shape
        return f"<Batch step {self.step}: {rows} x {columns - 1}, {self._filled} rows of the corpus>"

    @property
    def input_ids(self) -> Int64:
        """(B, T) int64, a view; 0 in filler rows."""
        return self._buffer[:, :-1]

    @property
    def targets(self) -> Int64:
        """(B, T) int64, a view: targets[i, t] follows input_ids[i, t]; IGNORE (-100) where nothing is trained."""
        return self._targets[:, 1:]

    @property
    def loss_mask(self) -> Bools:
        """(B, T) bool: targets != IGNORE."""
        if self._stretch.course.masks is not None:
            # one stretch of memory is compared twice as fast as its rows
            trained: Bools = self._targets != IGNORE
            return np.ascontiguousarray(trained[:, 1:])
        mask = np.ones(self.input_ids.shape, np.bool_)
        mask[self._filled :] = False
        for line, padding in enumerate(self._padding()):
            if padding:
                mask[line, -padding:] = False
        return mask

    @property
    def num_targets(self) -> int:
        """Positions with loss. Ranks differ where world_size does not divide the batch: sum losses and targets over
        ranks, then divide."""
        if self._stretch.course.masks is not None:
            return int(np.count_nonzero(self.loss_mask))
        return self._filled * self._stretch.course.packing.seq_len - sum(self._padding())

    def _padding(self) -> list[int]:
        """Positions of each row that no id fills, where rows are not windows."""
        if self._stretch.runs is None:
            return []
        runs = self._packed()
        padding: list[int] = runs.sizes[runs.ends - 1].tolist()
        return padding

    @property
    def step(self) -> int:
        """The step that this micro-batch belongs to, from 0."""
        course = self._stretch.course
        return course.step + self._micro // course.micros

    @property
    def micro(self) -> int:
        """Which micro-batch of its step it is, from 0."""
        return self._micro % self._stretch.course.micros

    @property
    def state(self) -> dict[str, Any]:
        """The run's state after this micro-batch, for `Loader.load_state_dict`: until the last micro-batch of a step
        it is the step's start."""
        return self._stretch.course.state(self._micro + 1)

    @property
    def row_numbers(self) -> Int64:
        """(B,) int64: each row's place g in the run; -1 for filler."""
        numbers: Int64 = self._stretch.numbers[self._index] + np.arange(len(self._buffer), dtype=np.int64)
        numbers[self._filled :] = -1
        return numbers

    @property
    def sample_ids(self) -> Int64:
        """(B,) int64: which sample of its source's packing each row shows, 0 .. N-1; -1 for filler. In
        the order of another loader: the river position of its first id."""
        rows: Int64 = self._stretch.rows[self._index].copy()
        bases = self._bases()
        return rows if bases is None else np.where(rows < 0, -1, rows - bases[self.source_ids])

    @property
    def source_ids(self) -> Int64:
        """(B,) int64: which source of a mixture each row comes from, 0 without one; -1 for filler."""
        rows, bases = self._stretch.rows[self._index], self._bases()
        if bases is None:
            sources: Int64 = np.minimum(rows, 0)
            return sources
        return np.where(rows < 0, -1, np.searchsorted(bases, rows, "right") - 1)

    @property
    def source_counts(self) -> Int64:
        """(sources,) int64: rows of each source of a mixture, (1,) without one; filler rows do not count."""
        bases = self._bases()
        if bases is None:
            return np.array([self._filled], np.int64)
        return np.bincount(self.source_ids[: self._filled], minlength=len(bases) - 1)

    def _bases(self) -> Int64 | None:
        """First row of each source of a mixture; None without one."""
        packing = self._stretch.course.packing
        return packing.bases if isinstance(packing, JoinedPacking) else None

    @property
    def document_ids(self) -> Int64:
        """(B, T) int64: the document that each input id lies in; -1 in filler rows and where the format has no
        document bounds."""
        rows, width = self.input_ids.shape
        if self._stretch.runs is None:
            return self._sequences()[0]
        return documents_of_runs(self._stretch.course.river, self._packed(), rows, width)

    @property
    def position_ids(self) -> Int64:
        """(B, T) int64: positions from 0 in each sequence, one document's run inside a row."""
        return positions(self._edges()).reshape(self.input_ids.shape)

    @property
    def cu_seqlens(self) -> Int32:
        """(n + 1,) int32: where the n sequences start in the flattened rows, and B * T; a filler row is one."""
        return self._edges().astype(np.int32)

    @property
    def max_seqlen(self) -> int:
        """Length of the longest sequence."""
        return int(np.diff(self._edges()).max())

    @property
    def _filled(self) -> int:
        return self._stretch.filled[self._index]

    @property
    def _micro(self) -> int:
        return self._stretch.first + self._index * self._stretch.stride

    def _edges(self) -> Int64:
        """Edges of the sequences in the flattened rows, worked out once."""
        runs = self._stretch.runs
        if runs is None:
            return self._sequences()[1]
        if self._known is None:
            if runs.chained:
                self._known = edges_of_documents(self.document_ids)
            else:
                (rows, length), filled = self._buffer.shape, self._filled
                first = self._index * self._stretch.course.micro_batch
                sizes = runs.sizes[runs.part(first, first + filled)]
                self._known = edges_of_runs(sizes, filled, rows, length - 1)
        return self._known

    def _packed(self) -> Runs:
        return self._stretch.runs_of(self._index, self._filled)

    def _sequences(self) -> tuple[Int64, Int64]:
        """(document of each position, edges of the sequences in the flattened rows) of windows, worked out once."""
        if self._runs is None:
            rows, width = self.input_ids.shape
            starts = self._stretch.starts[self._index, : self._filled].tolist()
            self._runs = of_windows(self._stretch.course.river, starts, rows, width)
        return self._runs


def serve(course: Course, first: int, stride: int, stop: int | None, ring: Ring) -> Generator[Batch, None, None]:
    """Micro-batches first, first + stride, ... below stop, in buffers of the ring."""
    make = _serve_windows if course.packing.windows else _serve_packed
    return make(course, first, stride, stop, ring)


def _stretches(course: Course, first: int, stride: int, stop: int | None) -> Generator[Stretch, None, None]:
    """Micro-batches first, first + stride, ... below stop, thousands of rows at a time."""
    ahead = course.ahead(stride)
    while stop is None or first < stop:
        count = ahead if stop is None else min(ahead, -(-(stop - first) // stride))
        yield course.stretch(first, stride, count)
        first += count * stride


def _serve_windows(
    course: Course, first: int, stride: int, stop: int | None, ring: Ring
) -> Generator[Batch, None, None]:
    """Rows that are windows: inputs and targets are views of one buffer. The hot path."""
    length, gather, take, masks = course.packing.seq_len + 1, course.river.gather, ring.take, course.masks
    cells = course.micro_batch
    whole = cells if masks is None else -1  # masked targets need a buffer of their own
    for stretch in _stretches(course, first, stride, stop):
        starts = stretch.starts
        cuts = cut(course.river, starts.ravel(), length) if len(starts) > 1 else None
        trained = None if masks is None else masks.of_windows(starts, length)
        for index, filled in enumerate(stretch.filled):
            buffer = take()
            if filled:
                rows = buffer if filled == cells else buffer[:filled]
                if cuts is None:
                    gather(starts[index, :filled], length, rows)
                else:
                    narrow(cuts(index * cells, index * cells + filled)[:-1].reshape(rows.shape), rows)
                del rows
            if filled == whole:
                yield Batch(stretch, index, buffer, buffer)
            else:
                targets = take()
                part_windows(filled, buffer, targets)
                if masks is not None and filled:
                    own = None if trained is None else trained(index, filled)
                    masks.on_windows(starts[index, :filled], targets[:filled], own)
                yield Batch(stretch, index, buffer, targets)
                del targets
            # the next batch may be made in this buffer if its taker has let go of it
            del buffer


def _serve_packed(
    course: Course, first: int, stride: int, stop: int | None, ring: Ring
) -> Generator[Batch, None, None]:
    """Rows of several spans: inputs and targets are filled apart, since they differ at the end of a span or row."""
    for stretch in _stretches(course, first, stride, stop):
        assert stretch.runs is not None, "rows are not windows"
        filling = Filling(course, stretch.runs)
        for index, filled in enumerate(stretch.filled):
            buffer, targets = ring.take(), ring.take()
            cell = index * course.micro_batch
            filling.fill(cell, cell + filled, buffer, targets)
            yield Batch(stretch, index, buffer, targets)
            del buffer, targets


def single(course: Course, micro: int) -> Batch:
    """One micro-batch of a course, in buffers of its own."""
    ring = Ring((course.micro_batch, course.packing.seq_len + 1), 2)
    return next(serve(course, micro, 1, micro + 1, ring))


def _rebuild(stretch: Stretch, buffer: Int64, targets: Int64 | None) -> Batch:
    return Batch(stretch, 0, buffer, buffer if targets is None else targets)
