"""Stretches of a run with one seq_len: where each begins, where its rows lie, and in which order they come.

Windows of several lengths are cut from the same blocks: those of the longest, L, in the order of an epoch. A segment of
seq_len T takes the blocks that come next, and its rows are the L/T windows of each, permuted by a second key inside
what one epoch has of the segment. So an epoch serves every block once, whatever the lengths. Other packings lay their
rows for one length alone, so that a segment of them is some whole epochs.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from tokenriver.course import Order
from tokenriver.errors import InputError
from tokenriver.joining import JoinedPacking
from tokenriver.ranges import distinct
from tokenriver.sampler import Sampler
from tokenriver.types import Int64, Packing, River

Laid = tuple[River, Packing, Order]
"""What is read, where its rows lie, and in which order they come."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the run with one seq_len, made of whole units: blocks of the longest windows, or epochs."""

    first: int
    """Its first row number."""
    packing: Packing
    order: Order
    before: int
    """Units of the run before it."""
    unit_rows: int
    """Rows of a unit."""
    epoch_units: int
    """Units of an epoch."""

    @property
    def num_rows(self) -> int:
        """Rows of an epoch, were all of it of this length."""
        return self.unit_rows * self.epoch_units

    def epoch_row(self, epoch: int) -> int:
        """The row number at which an epoch begins that begins or ends in this segment."""
        return self.first + (epoch * self.epoch_units - self.before) * self.unit_rows

    def epochs_upto(self, row: int) -> int:
        """How many epochs are begun in the first `row` rows of the run."""
        units = self.before + -(-(row - self.first) // self.unit_rows)
        return -(-units // self.epoch_units)


@dataclass(frozen=True, slots=True)
class Cut:
    """Windows of a packing, each cut into `parts` of equal length: row i is part i mod parts of window i div parts."""

    whole: Packing
    parts: int
    windows: bool = True
    chained: bool = False

    @property
    def seq_len(self) -> int:
        return self.whole.seq_len // self.parts

    @property
    def tag(self) -> str:
        return f"{self.whole.tag} cut in {self.parts}"

    @property
    def balance(self) -> Mapping[str, int]:
        return self.whole.balance

    @property
    def num_targets(self) -> int:
        return self.whole.num_targets

    def __len__(self) -> int:
        return len(self.whole) * self.parts

    def spans(self, rows: Int64, epoch: int) -> tuple[Int64, Int64, Int64]:
        """One span a row: (0..k-1, start, start + seq_len + 1), each (k,) int64."""
        starts = self.starts(rows, np.full(len(rows), epoch, np.int64))
        return np.arange(len(rows), dtype=np.int64), starts, starts + self.seq_len + 1

    def starts(self, rows: Int64, epochs: Int64) -> Int64:
        """River position of each row's first id, (k,) int64."""
        windows, parts = np.divmod(rows, self.parts)
        starts = self.whole.starts(windows, epochs)
        starts += parts * self.seq_len
        return starts


def cut(packing: Packing, parts: int) -> Packing:
    """The windows of a packing, or of each source of a mixture, cut into parts."""
    if parts == 1:
        return packing
    if isinstance(packing, JoinedPacking):
        pieces = tuple(cut(source, parts) for source in packing.packings)
        return JoinedPacking(pieces, packing.bases * parts, packing.begins)
    return Cut(packing, parts)


class BlockOrder:
    """The order of a segment of cut windows: row number -> part of a block."""

    __slots__ = ("_begin", "_blocks", "_end", "_first", "_known", "_parts", "_seed", "num_rows")

    def __init__(
        self, blocks: Order, parts: int, epoch_rows: int, seed: int, place: tuple[int, int, int | None]
    ) -> None:
        """`place`: the segment's first row number, its first block of the run, and the block behind its last."""
        self._blocks, self._parts, self._seed, self.num_rows = blocks, parts, seed, epoch_rows
        self._first, self._begin, self._end = place
        self._known: tuple[int, Sampler] | None = None

    @property
    def order(self) -> str:
        return self._blocks.order

    def locate(self, numbers: Int64) -> tuple[Int64, Int64]:
        """(rows, epochs) of row numbers, each (k,) int64; what lies behind the segment is taken for its last row."""
        places = numbers + (self._begin * self._parts - self._first)
        if self._end is not None:
            np.minimum(places, self._end * self._parts - 1, out=places)
        turns = places // self.num_rows
        for turn in distinct(turns):
            here = np.flatnonzero(turns == turn)
            places[here] = self._permuted(places[here], turn)
        blocks, parts = np.divmod(places, self._parts)
        rows, epochs = self._blocks.locate(blocks)
        return rows * self._parts + parts, epochs

    def _permuted(self, places: Int64, turn: int) -> Int64:
        """Places of one epoch, permuted inside what the epoch has of this segment."""
        if self._parts == 1 or self.order == "sequential":
            return places
        first = max(self._begin * self._parts, turn * self.num_rows)
        known = self._known
        if known is None or known[0] != first:
            # one assignment of an immutable pair, as in Sampler: two threads may be here at the same time
            last = (turn + 1) * self.num_rows
            size = (last if self._end is None else min(last, self._end * self._parts)) - first
            key = f"parts of {self._parts} from block {first // self._parts}"
            self._known = known = (first, Sampler(size, global_batch=1, seed=self._seed, source=key))
        return known[1].locate(places - first)[0] + first


@dataclass(frozen=True, slots=True)
class EpochOrder:
    """The order of a segment of whole epochs: that of the sampler, moved by some rows."""

    sampler: Order
    moved: int

    @property
    def num_rows(self) -> int:
        return self.sampler.num_rows

    @property
    def order(self) -> str:
        return self.sampler.order

    def locate(self, numbers: Int64) -> tuple[Int64, Int64]:
        """(rows, epochs) of row numbers, each (k,) int64."""
        return self.sampler.locate(numbers + self.moved)


@dataclass(frozen=True, slots=True)
class Lengths:
    """What the lengths of a run come to: `laid` by length, of the longest alone where the others are cut from it."""

    laid: Mapping[int, Laid]
    longest: int
    by_blocks: bool
    seed: int

    def units(self, seq_len: int) -> tuple[int, int]:
        """(rows of a unit, units of an epoch) of a segment of this length."""
        _, packing, order = self.laid[self.longest if self.by_blocks else seq_len]
        # a mixture that repeats its sources has no epochs: all their rows once are as good
        epoch_rows = order.num_rows or len(packing)
        return (self.longest // seq_len, epoch_rows) if self.by_blocks else (epoch_rows, 1)

    def segment(self, seq_len: int, first: int, before: int, end: int | None) -> Segment:
        """The segment of this length from row number `first`, the units [before, end) of the run."""
        unit_rows, epoch_units = self.units(seq_len)
        _, packing, order = self.laid[self.longest if self.by_blocks else seq_len]
        if len(self.laid) > 1:
            order = EpochOrder(order, before * unit_rows - first)
        elif (first, end) != (0, None):
            place = (first, before, end)
            order = BlockOrder(order, unit_rows, unit_rows * epoch_units, self.seed, place)
        return Segment(first, cut(packing, unit_rows if self.by_blocks else 1), order, before, unit_rows, epoch_units)


def lay_lengths(lengths: Collection[int], lay: Callable[[int], Laid], by_blocks: bool, seed: int) -> Lengths:
    """Lay out a run of these lengths; `by_blocks`: windows of all of them can be cut from those of the longest.
    InputError for lengths or an order that do not allow it."""
    longest = max(lengths)
    if len(lengths) == 1 or by_blocks:
        laid = {longest: lay(longest)}
    else:
        laid = {length: lay(length) for length in sorted(lengths)}
    made = Lengths(laid, longest, by_blocks or len(lengths) == 1, seed)
    if len(lengths) > 1:
        order = laid[longest][2]
        if order.order not in ("shuffled", "sequential"):
            raise InputError(
                f"schedule: seq_len: got changes with order {order.order!r}, expected 'shuffled' or 'sequential'; take "
                "one of these"
            )
        if not by_blocks and not order.num_rows:
            raise InputError(
                "schedule: seq_len: got changes in a mixture that repeats its sources, which has no epochs, expected "
                "packing 'concat'; take it, or another rule for exhausted sources"
            )
        for length in lengths:
            if by_blocks and longest % length:
                raise InputError(
                    f"schedule: seq_len: got {length}, expected a divisor of {longest}, the longest; with packing "
                    "'concat' all lengths are cut from the longest"
                )
    return made
