"""Rows of like length in batches as wide as they need: which bucket, step and place each row of an epoch has.

A row of n positions lies in the narrowest bucket that is at least n wide. A bucket of width w and N rows takes
ceil(N / R) steps an epoch, R the rows that a step may have (global_batch, or fewer if R * w would exceed the budget of
tokens), and shares its rows evenly among them: no step has more than one row fewer than another, so that the end of a
bucket is no batch of a few rows. The steps of all buckets are permuted together, the rows of each bucket by a key of
its own. An epoch is whole steps. The one table of the rows (8 bytes a row) is that of the buckets, made once; of the
steps there is one for each epoch (16 bytes a step), since where a step begins is the sum of the sizes before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tokenriver.errors import LimitError
from tokenriver.ranges import distinct
from tokenriver.recent import Recent
from tokenriver.sampler import Sampler
from tokenriver.types import Buckets, Int64, Packing

ALIGNED = 8
"""Chosen widths are multiples of it, where rows have at least ALIGNED_FROM positions."""
ALIGNED_FROM = 64
CANDIDATES = 9
"""At most 2^9 widths are looked at: with longer rows they are multiples of more."""
BLOCK = 1 << 20
"""Rows whose spans are asked for together."""
NEVER = 1 << 61
"""A cost above all others, and twice of it a number still."""
KEPT = 2
"""Epochs whose steps are remembered."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The rows of one width in an epoch."""

    width: int
    """Positions of a row of its batches."""
    rows: int
    steps: int
    """Steps of an epoch that serve them."""
    step_rows: int
    """Rows that each of these steps has room for; one of them may be filler."""
    padding: int
    """Positions of its rows that no id fills."""

    @property
    def filler(self) -> int:
        """Rows that its steps lack, over all ranks: steps * step_rows - rows."""
        return self.steps * self.step_rows - self.rows


@dataclass(frozen=True, slots=True)
class Narrow:
    """The rows of a packing that need no more than so many positions, padded to these."""

    whole: Packing
    seq_len: int
    windows: bool = False

    @property
    def chained(self) -> bool:
        return self.whole.chained

    @property
    def tag(self) -> str:
        return f"{self.whole.tag} in {self.seq_len}"

    @property
    def balance(self) -> Mapping[str, int]:
        return self.whole.balance

    @property
    def num_targets(self) -> int:
        return self.whole.num_targets

    def __len__(self) -> int:
        return len(self.whole)

    def spans(self, rows: Int64, epoch: int) -> tuple[Int64, Int64, Int64]:
        return self.whole.spans(rows, epoch)

    def starts(self, rows: Int64, epochs: Int64) -> Int64:
        return self.whole.starts(rows, epochs)


@dataclass(frozen=True, slots=True)
class _Steps:
    """The steps of one epoch in their order."""

    slots: Int64
    """(M,) number of each among the steps of all buckets, the narrowest bucket first."""
    begins: Int64
    """(M + 1,) rows of the epoch before each step, and before the next epoch."""


class BucketOrder:
    """The order of a run in buckets: row number g -> (row, epoch), for N rows and M steps an epoch."""

    __slots__ = ("_bases", "_few", "_firsts", "_inside", "_known", "_more", "_ranks", "_slots", "buckets", "table")

    def __init__(self, buckets: tuple[Bucket, ...], table: Int64, order: str, seed: int) -> None:
        """`table`: the rows of each bucket, the narrowest first. InputError for an unknown order."""
        self.buckets, self.table = buckets, table
        rows = np.array([bucket.rows for bucket in buckets], np.int64)
        steps = np.array([bucket.steps for bucket in buckets], np.int64)
        self._bases, self._firsts = np.cumsum(rows) - rows, np.cumsum(steps) - steps
        # of a bucket's steps the first `more` have one row more than the others
        self._few, self._more = np.divmod(rows, steps)
        self._slots = Sampler(int(steps.sum()), global_batch=1, seed=seed, order=order, source="steps of buckets")
        self._inside = tuple(
            Sampler(bucket.rows, global_batch=1, seed=seed, order=order, source=f"rows of bucket {bucket.width}")
            for bucket in buckets
        )
        self._known: Recent[_Steps] = Recent()
        self._ranks: Int64 | None = None

    @property
    def num_rows(self) -> int:
        return len(self.table)

    @property
    def num_steps(self) -> int:
        """M: steps of an epoch."""
        return self._slots.num_rows

    @property
    def order(self) -> str:
        return self._slots.order

    def step(self, step: int) -> tuple[int, int, int]:
        """(bucket, first row number, rows) of a step of the run."""
        epoch, place = divmod(step, self.num_steps)
        steps = self._steps(epoch)
        begin, end = steps.begins[place : place + 2].tolist()
        return int(self._which(steps.slots[place : place + 1])[0]), epoch * self.num_rows + begin, end - begin

    def row(self, step: int) -> int:
        """The row number with which a step begins."""
        epoch, place = divmod(step, self.num_steps)
        return epoch * self.num_rows + (int(self._steps(epoch).begins[place]) if place else 0)

    def steps_upto(self, row: int) -> int:
        """Steps that serve the first `row` rows."""
        epoch, place = divmod(row, self.num_rows)
        inside = int(np.searchsorted(self._steps(epoch).begins, place, "left")) if place else 0
        return epoch * self.num_steps + inside

    def buckets_of(self, epoch: int) -> Int64:
        """(M,) int64: the bucket of each step of an epoch."""
        return self._which(self._steps(epoch).slots)

    def locate(self, numbers: Int64) -> tuple[Int64, Int64]:
        """(rows, epochs) of row numbers, each (k,) int64."""
        epochs, places = np.divmod(numbers, self.num_rows)
        for epoch in distinct(epochs):
            here = np.flatnonzero(epochs == epoch)
            places[here] = self._rows(places[here], epoch)
        return places, epochs

    def numbers(self, rows: Int64, epochs: Int64) -> Int64:
        """The row numbers, (k,) int64, at which rows come in epochs: `locate` the other way round."""
        if self._ranks is None:
            ranks = np.empty_like(self.table)
            ranks[self.table] = np.arange(len(ranks), dtype=np.int64)
            self._ranks = ranks
        ranks, numbers = self._ranks[rows], np.empty_like(rows)
        for epoch in distinct(epochs):
            here = np.flatnonzero(epochs == epoch)
            numbers[here] = self._places(ranks[here], epoch) + epoch * self.num_rows
        return numbers

    def epochs(self, source: int, first: int, end: int) -> range:
        """The epochs that have row numbers in [first, end); there is one source, 0."""
        return range(first // self.num_rows, -(-end // self.num_rows))

    def _rows(self, places: Int64, epoch: int) -> Int64:
        """The rows at places of an epoch."""
        steps = self._steps(epoch)
        step = np.searchsorted(steps.begins, places, "right") - 1
        slots = steps.slots[step]
        which = self._which(slots)
        at = self._begins(which, slots - self._firsts[which]) + places - steps.begins[step]
        for bucket in distinct(which):
            here, order = np.flatnonzero(which == bucket), self._inside[bucket]
            at[here] = order.locate(at[here] + epoch * order.num_rows)[0]
        rows: Int64 = self.table[at + self._bases[which]]
        return rows

    def _places(self, ranks: Int64, epoch: int) -> Int64:
        """The places of an epoch at which the table's rows come."""
        steps = self._steps(epoch)
        which = np.searchsorted(self._bases, ranks, "right") - 1
        at = ranks - self._bases[which]
        for bucket in distinct(which):
            here, order = np.flatnonzero(which == bucket), self._inside[bucket]
            at[here] = order.numbers(at[here], np.full(len(here), epoch, np.int64)) - epoch * order.num_rows
        few, more = self._few[which], self._more[which]
        inside = np.maximum(at // (few + 1), (at - more) // few)
        slots = self._firsts[which] + inside
        step = self._slots.numbers(slots, np.full(len(slots), epoch, np.int64)) - epoch * self.num_steps
        places: Int64 = steps.begins[step] + at - self._begins(which, inside)
        return places

    def _steps(self, epoch: int) -> _Steps:
        known = self._known.take(epoch)
        if known is None:
            first = epoch * self.num_steps
            slots = self._slots.locate(np.arange(first, first + self.num_steps, dtype=np.int64))[0]
            which = self._which(slots)
            sizes = self._few[which] + (slots - self._firsts[which] < self._more[which])
            known = _Steps(slots, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]))
        self._known.keep(epoch, known, KEPT)
        return known

    def _which(self, slots: Int64) -> Int64:
        """The bucket of each slot."""
        return np.searchsorted(self._firsts, slots, "right") - 1

    def _begins(self, which: Int64, inside: Int64) -> Int64:
        """Rows of its bucket before the inside-th step of a bucket."""
        begins: Int64 = inside * self._few[which] + np.minimum(inside, self._more[which])
        return begins


def lay_buckets(packing: Packing, asked: Buckets, global_batch: int, order: str, seed: int) -> BucketOrder:
    """The buckets of a packing's rows, and their order. LimitError for a budget that the widest does not fit in."""
    sizes = _sizes(packing)
    widths = asked.widths
    if isinstance(widths, int):
        widths = choose_widths(*np.unique(sizes, return_counts=True), packing.seq_len, widths)
    which = np.searchsorted(np.array(widths, np.int64), sizes, "left")
    counts = np.bincount(which, minlength=len(widths))
    filled = np.bincount(which, sizes, minlength=len(widths)).astype(np.int64)
    # widths without a row are left out; a stable sort of small numbers is one of radix
    table = np.argsort(which.astype(np.uint16 if len(widths) < 1 << 16 else np.int64), kind="stable")
    widest = int(np.flatnonzero(counts)[-1])
    if asked.max_tokens is not None and asked.max_tokens < widths[widest]:
        raise LimitError(
            f"max_tokens_per_batch: got {asked.max_tokens}, expected at least {widths[widest]}, one row of the widest "
            "bucket; give more, or take a smaller seq_len"
        )
    buckets: list[Bucket] = []
    for width, rows, positions in zip(widths, counts.tolist(), filled.tolist(), strict=True):
        if rows:
            most = global_batch if asked.max_tokens is None else min(global_batch, asked.max_tokens // width)
            steps = -(-rows // most)
            buckets.append(Bucket(width, rows, steps, -(-rows // steps), rows * width - positions))
    return BucketOrder(tuple(buckets), table.astype(np.int64, copy=False), order, seed)


def _sizes(packing: Packing) -> Int64:
    """(N,) int64: positions that each row fills."""
    sizes = np.empty(len(packing), np.int64)
    for first in range(0, len(packing), BLOCK):
        rows = np.arange(first, min(len(packing), first + BLOCK), dtype=np.int64)
        which, starts, stops = packing.spans(rows, 0)
        sizes[rows] = np.bincount(which, stops - starts - (not packing.chained), minlength=len(rows))
    return sizes


def choose_widths(sizes: Int64, counts: Int64, seq_len: int, most: int) -> tuple[int, ...]:
    """At most `most` widths with the least padding, for counts[i] rows of sizes[i] positions, (m,) int64 both, rising:
    multiples of 8 (of 1 for seq_len below 64, of more from 4,097 on) and seq_len. Exact, of equals the narrowest."""
    unit = 1
    if seq_len >= ALIGNED_FROM:
        unit = max(ALIGNED, 1 << max(0, (seq_len - 1).bit_length() - CANDIDATES))
    widths, place = np.unique(np.minimum(-(-sizes // unit) * unit, seq_len), return_inverse=True)
    upto = np.zeros(len(widths) + 1, np.int64)
    np.add.at(upto, place + 1, counts)
    upto = np.cumsum(upto)
    if most >= len(widths):
        return tuple(widths.tolist())
    # costs[i, j]: positions of a bucket of the widths [i, j), the last of which is its own
    costs = np.concatenate([[0], widths]) * (upto - upto[:, None])
    costs[np.tri(len(upto), dtype=np.bool_)] = NEVER
    best, cuts = costs[0], []
    for _ in range(most - 1):
        total = best[:, None] + costs
        cuts.append(total.argmin(axis=0))
        best = np.minimum(total.min(axis=0), NEVER)
    end, chosen = len(widths), []
    for cut in reversed(cuts):
        chosen.append(int(widths[end - 1]))
        end = int(cut[end])
    return tuple(reversed([*chosen, int(widths[end - 1])]))
