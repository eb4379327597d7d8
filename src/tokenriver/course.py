"""Where in a run each micro-batch of a rank lies, as arithmetic: the elastic rule, the state, and rows looked up ahead.

Step s starts at row g_s, the running sum of batch sizes; rank r of W takes the rows [g_s + floor(r*G/W),
g_s + floor((r+1)*G/W)), cut into ceil(ceil(G/W)/B) micro-batches of B cells, as many on every rank. A Course is
constant for a run on one rank, or for a part of it where sizes change; a Stretch holds what is worth computing for
thousands of rows at once: which row each cell shows and where it starts in the river. Cells that no row fills (uneven
ranks, the end of a finite run) are filler, always the last cells of a micro-batch.
"""

import hashlib
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tokenriver.errors import InputError, MismatchError
from tokenriver.masks import Masks
from tokenriver.sampler import share
from tokenriver.types import PADDING, Int64, Packing, River

STATE_VERSION = 1
PARTS = ("corpus", "order", "packing", "mixture", "seed")
"""What a state names, in the order of Course.plan."""
LARGEST = 1 << 62
STRETCH_ROWS = 1 << 12
"""Rows whose places are computed in one go."""


class Order(Protocol):
    """Which row comes when: a sampler, or that of a mixture."""

    @property
    def num_rows(self) -> int: ...
    @property
    def order(self) -> str: ...
    def locate(self, numbers: Int64) -> tuple[Int64, Int64]:
        """(rows, epochs) of row numbers, each (k,) int64."""


@dataclass(frozen=True, slots=True)
class Course:
    """One rank's part of a run: pure arithmetic from micro-batch number j, counted from (row, step), to row numbers."""

    river: River
    packing: Packing
    sampler: Order
    rank: int
    world_size: int
    global_batch: int
    micro_batch: int
    plan: tuple[int, ...]
    """What a state must agree with: corpus, then order, packing, mixture, seed."""
    row: int = 0
    """Rows of the run that lie before micro-batch 0."""
    step: int = 0
    """The step of micro-batch 0."""
    end_row: int | None = None
    """First row number that is no longer served; None without an end."""
    repeat: int | None = None
    """First row number of the one step that is served again and again."""
    masks: Masks | None = None
    """Targets that are ignored by choice."""

    @property
    def micros(self) -> int:
        """Micro-batches a step, equal on all ranks: ceil(ceil(G / W) / B)."""
        largest_share = -(-self.global_batch // self.world_size)
        return -(-largest_share // self.micro_batch)

    def step_row(self, step: int) -> int:
        """Rows that are behind the run at the start of a step."""
        if self.repeat is not None:
            return self.row
        row = self.row + (step - self.step) * self.global_batch
        return row if self.end_row is None else min(row, self.end_row)

    def state(self, done: int) -> dict[str, Any]:
        """The state when `done` micro-batches are behind: the start of the step that is not finished."""
        step = self.step + done // self.micros
        return {
            "v": STATE_VERSION,
            "row": self.step_row(step),
            "step": step,
            "corpus": self.plan[0],
            "plan": list(self.plan[1:]),
        }

    def cells(self, micros: Int64) -> tuple[Int64, Int64]:
        """(first row number, rows) of micro-batches, each (k,) int64; the other cells are filler."""
        steps, places = np.divmod(micros, self.micros)
        batch = self.global_batch
        first, last = share(batch, self.rank, self.world_size)
        begins = np.full(len(micros), self.repeat, np.int64) if self.repeat is not None else self.row + steps * batch
        numbers = begins + (first + places * self.micro_batch)
        stops = begins + last
        if self.end_row is not None:
            np.minimum(stops, self.end_row, out=stops)
        stops -= numbers
        return numbers, np.minimum(np.maximum(stops, 0, out=stops), self.micro_batch, out=stops)

    def stretch(self, first: int, stride: int, count: int) -> "Stretch":
        """Micro-batches first, first + stride, ... (count of them), looked up together."""
        micros = np.arange(count, dtype=np.int64) * stride + first
        numbers, filled = self.cells(micros)
        grid = numbers[:, None] + np.arange(self.micro_batch, dtype=np.int64)
        if self.end_row is not None:
            # filler cells: what lies behind the end may be in another order, or costly to look up
            np.minimum(grid, self.end_row - 1, out=grid)
        rows, epochs = self.sampler.locate(grid.ravel())
        runs = None
        if self.packing.windows:
            starts = self.packing.starts(rows, epochs).reshape(grid.shape)
        else:
            runs = _runs(self.packing, rows)
            starts = np.empty((count, 0), np.int64)
        rows = rows.reshape(grid.shape)
        if filled.min() < self.micro_batch:
            rows[np.arange(self.micro_batch) >= filled[:, None]] = -1
        return Stretch(self, first, stride, numbers, filled.tolist(), rows, starts, runs)

    def ahead(self, stride: int) -> int:
        """Micro-batches of one stretch: thousands of rows, but hardly more than an epoch of a small corpus."""
        rows = self.sampler.num_rows or len(self.packing)
        epoch = max(1, rows // self.global_batch) * self.micros
        return max(1, min(STRETCH_ROWS // self.micro_batch, epoch // stride))


@dataclass(frozen=True, slots=True)
class Runs:
    """What fills some cells, run by run: those of cell c are ends[c - 1] to ends[c]. A cell has T positions, or, where
    rows are chained, T + 1 ids."""

    ends: Int64
    starts: Int64
    """River position of each run's first input id; -1 for padding, the last run of a cell."""
    sizes: Int64
    """Positions, one less than the ids of the span, or chained ids; the padding of a full cell is a run of 0."""
    chained: bool = False

    def cells(self, first: int, last: int) -> "Runs":
        """The runs of the cells [first, last)."""
        here = self.part(first, last)
        return Runs(self.ends[first:last] - here.start, self.starts[here], self.sizes[here], self.chained)

    def part(self, first: int, last: int) -> slice:
        """Which runs are those of the cells [first, last)."""
        return slice(before(self.ends, first), before(self.ends, last))


def before(counts: Int64, cell: int) -> int:
    """What the running counts of the cells say of those before one."""
    return counts.item(cell - 1) if cell else 0


def _runs(packing: Packing, rows: Int64) -> Runs:
    """The spans of rows as runs, each row filled up by a run of padding."""
    chained, look_up = packing.chained, getattr(packing, "runs", None)
    if look_up is not None and (found := look_up(rows)) is not None:
        ends, starts, sizes = found
        return Runs(ends, starts, sizes, chained)
    which, starts, stops = packing.spans(rows, 0)
    spans = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.bincount(which, minlength=len(rows)), out=spans[1:])
    # a run goes behind those before it, and behind the padding of each row before its own
    places = np.arange(len(which), dtype=np.int64)
    places += which
    filled = stops - starts - (not chained)
    upto = np.zeros(len(which) + 1, np.int64)
    np.cumsum(filled, out=upto[1:])
    out_starts, sizes = np.full(len(which) + len(rows), PADDING, np.int64), np.empty(len(which) + len(rows), np.int64)
    out_starts[places], sizes[places] = starts, filled
    ends = spans[1:] + np.arange(1, len(rows) + 1)
    sizes[ends - 1] = packing.seq_len + chained - np.diff(upto[spans])
    return Runs(ends, out_starts, sizes, chained)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some micro-batches of a course, looked up together."""

    course: Course
    first: int
    stride: int
    numbers: Int64
    """(k,) row number of each micro-batch's first cell."""
    filled: list[int]
    """Cells of each micro-batch that hold a row; the others are filler."""
    rows: Int64
    """(k, B) sample of each cell, -1 for filler."""
    starts: Int64
    """(k, B) river position of each cell's first id, meaningless for filler; (k, 0) where rows are not windows."""
    runs: Runs | None
    """What fills each cell, where rows are not windows."""

    def only(self, index: int) -> "Stretch":
        """This stretch cut down to one micro-batch: what travels to another process with it."""
        here = slice(index, index + 1)
        first = self.first + index * self.stride
        runs = None if self.runs is None else self.runs_of(index, self.course.micro_batch)
        columns = self.numbers[here], self.filled[here], self.rows[here], self.starts[here]
        return Stretch(self.course, first, 1, *columns, runs)

    def runs_of(self, index: int, cells: int) -> Runs:
        """The runs of the first `cells` cells of a micro-batch."""
        assert self.runs is not None, "asked only where rows are not windows"
        first = index * self.course.micro_batch
        return self.runs.cells(first, first + cells)


def tag(name: str, size: int) -> int:
    """A whole number of `size` bytes for a name; 0 for none."""
    return (
        int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:size], "little") if name else 0
    )


def read_state(state: Mapping[str, Any]) -> tuple[int, int, tuple[int, ...]]:
    """(row, step, plan) of a state that may come from any file."""
    try:
        version, row, step, corpus, plan = (state[key] for key in ("v", "row", "step", "corpus", "plan"))
        numbers = (version, row, step, corpus, *plan)
    except (KeyError, TypeError, IndexError) as error:
        raise InputError(f"state: got {state!r}, expected what Batch.state gave; restore it as it was saved") from error
    whole = all(isinstance(number, int) and not isinstance(number, bool) for number in numbers)
    if not whole or len(plan) != len(PARTS) - 1 or not (0 <= row <= LARGEST and 0 <= step <= LARGEST):
        raise InputError(
            f"state: got {state!r}, expected whole numbers as Batch.state gave; restore it as it was saved"
        )
    if version != STATE_VERSION:
        raise MismatchError(f"state: v: got {version}, expected {STATE_VERSION}; use the tokenriver that saved it")
    return row, step, (corpus, *plan)


def compare_plans(
    got: Sequence[int], expected: Sequence[int], names: Sequence[str], allow: Collection[str], depth: int = 2
) -> None:
    """MismatchError for the first part in which a state's plan is not the loader's, whose parts have these names; of
    the parts in `allow` a warning, which points at the user's line, `depth` calls up."""
    for part, tagged, own, name in zip(PARTS, got, expected, names, strict=True):
        if tagged == own:
            continue
        what = f"state: {part}: got tag {tagged}, expected {own} of {name!r}"
        if part not in allow:
            raise MismatchError(f"{what}; load it with the {part} that it was saved with, or allow=[{part!r}]")
        warnings.warn(f"{what}; going on with this loader's {part}, as allowed", stacklevel=depth + 1)
