"""A run in buckets: each step is a course of one step, as wide as its bucket; micro-batches are counted through all."""

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tokenriver.batch import Batch, Ring, serve
from tokenriver.buckets import Bucket, BucketOrder, Narrow
from tokenriver.course import Course
from tokenriver.errors import InputError, LimitError
from tokenriver.legs import Legs
from tokenriver.recent import Recent
from tokenriver.runlog import Start, nth, refuse_repeat
from tokenriver.sampler import check_rank, share
from tokenriver.types import Int64, Packing

KEPT = 2
"""Epochs whose micro-batches are remembered."""


@dataclass(frozen=True, slots=True)
class BucketSchedule:
    """A run in buckets from step 0 on: which row each step begins with. All of it is the order's; see Schedule."""

    packing: Packing
    order: BucketOrder
    micro_batch: int | None
    """Rows of seq_len positions; a narrower bucket has as many more as fill no more positions. None: a rank's share."""
    varies: bool = False
    one_order: bool = True

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        return self.order.buckets

    @property
    def tag(self) -> str:
        """That of the packing, with the width and rows of the steps of each bucket."""
        shapes = ", ".join(f"{bucket.step_rows}x{bucket.width}" for bucket in self.buckets)
        return f"{self.packing.tag} buckets {shapes}"

    def row(self, step: int) -> int:
        """The row number with which a step begins."""
        return self.order.row(step)

    def steps_upto(self, row: int) -> int:
        """Steps that serve the first `row` rows."""
        return self.order.steps_upto(row)

    def epoch_row(self, epoch: int) -> int:
        """The row number with which an epoch begins."""
        return epoch * self.order.num_rows

    def epochs_upto(self, row: int) -> int:
        """How many epochs are begun in the first `row` rows."""
        return -(-row // self.order.num_rows)

    def places(self, course: Course, stand: tuple[int, int]) -> "BucketPlaces":
        """Where rows are served: the same from any state on. InputError for a run that repeats a step."""
        refuse_repeat(course.repeat)
        return BucketPlaces(self.order, course.world_size)

    def legs(self, course: Course, stand: tuple[int, int], end: tuple[int | None, int | None]) -> "Legs | BucketLegs":
        """The run of `course`'s rank from `stand` to `end`, both (row, step); None for no such end. InputError for a
        row that is not the first of its step."""
        (row, step), (end_row, end_step) = stand, end
        if course.repeat is not None:
            return self._again(course, course.repeat, stand, end_step)
        if row != self.row(step):
            raise InputError(
                f"state: row: got {row} at step {step}, expected {self.row(step)}, as this loader's buckets have it; "
                "load it with the options that it was saved with"
            )
        courses = [self._course(course, bucket) for bucket in self.buckets]
        stops = [] if end_row is None else [self.steps_upto(end_row)]
        stops += [] if end_step is None else [end_step]
        return BucketLegs(self.order, tuple(courses), step, min(stops) if stops else None)

    def _course(self, course: Course, bucket: Bucket) -> Course:
        """That of a step of a bucket, wherever in the run."""
        rows = -(-bucket.step_rows // course.world_size)
        if self.micro_batch is not None:
            rows = min(rows, self.micro_batch * self.packing.seq_len // bucket.width)
        narrow = Narrow(self.packing, bucket.width)
        return replace(course, packing=narrow, global_batch=bucket.step_rows, micro_batch=rows)

    def _again(self, course: Course, first: int, stand: tuple[int, int], end_step: int | None) -> Legs:
        """The step that begins with row number `first`, at every step from `stand` on."""
        bucket, _, rows = self.order.step(self.steps_upto(first))
        row, step = stand
        again = replace(self._course(course, self.buckets[bucket]), row=row, step=step, end_row=first + rows)
        return Legs((again,), (0,), None if end_step is None else (end_step - step) * again.micros)


@dataclass(frozen=True, slots=True)
class BucketPlaces:
    """Which step and rank serves a row of a run in buckets: arithmetic for any step; see runlog.Places."""

    order: BucketOrder
    world_size: int

    def rows(self, step: int, rank: int | None = None, world_size: int | None = None) -> range:
        """Row numbers of a step: one rank's (of the run's world size, or of another), or without a rank all."""
        bucket, row, rows = self.order.step(_from_0("step", step))
        room = self.order.buckets[bucket].step_rows
        first, last = (0, room) if rank is None else share(room, *check_rank(rank, world_size or self.world_size))
        return range(row + min(first, rows), row + min(last, rows))

    def row_number(self, step: int, rank: int = 0, index: int = 0) -> int:
        """The row number that a rank served as its index-th row of a step; LimitError if it had fewer."""
        return nth(self.rows(step, rank), (step, rank, index))

    def place(self, row_number: int) -> tuple[int, int, int]:
        """(step, rank, index among the rank's rows of that step) of a row number; the other way round."""
        step = self.order.steps_upto(_from_0("row_number", row_number) + 1) - 1
        bucket, row, _ = self.order.step(step)
        room, offset = self.order.buckets[bucket].step_rows, row_number - row
        rank = ((offset + 1) * self.world_size - 1) // room
        return step, rank, offset - share(room, rank, self.world_size)[0]


def _from_0(name: str, value: int) -> int:
    if value < 0:
        raise LimitError(f"{name}: got {value}, expected 0 or more, where the run begins")
    return value


class BucketLegs:
    """One rank's run from where it stands; see Legs."""

    __slots__ = ("_begin", "_courses", "_epoch_micros", "_known", "_order", "end_step")

    def __init__(self, order: BucketOrder, courses: tuple[Course, ...], first: int, end_step: int | None) -> None:
        """`courses`: that of a step of each bucket, wherever in the run; `first`: the step of micro-batch 0."""
        self._order, self._courses = order, courses
        self.end_step = end_step
        """The step at which the run ends; None for an endless one."""
        self._known: Recent[Int64] = Recent()
        counts = zip(order.buckets, courses, strict=True)
        self._epoch_micros = sum(bucket.steps * course.micros for bucket, course in counts)
        self._begin = self._micros_upto(first)

    @property
    def rows(self) -> tuple[int, int | None]:
        """[first, end) row numbers of the run, from its begin; None without an end."""
        return 0, None if self.end_step is None else self._order.row(self.end_step)

    def find(self, micro: int) -> tuple[Course, int]:
        """(course, micro-batch of it) of a micro-batch."""
        step, inside = self._place(micro)
        return self.course_at(step), inside

    def step(self, micro: int) -> int:
        """The step of a micro-batch."""
        return self._place(micro)[0]

    def course_at(self, step: int) -> Course:
        """The course of a step, which is all that it has."""
        bucket, row, rows = self._order.step(step)
        return replace(self._courses[bucket], row=row, step=step, end_row=row + rows)

    def begin(self, step: int) -> int:
        """The micro-batch with which a step begins."""
        return self._micros_upto(step) - self._begin

    def starts(self, micro: int) -> list[Start]:
        """InputError: every step has a size of its own."""
        raise InputError(
            "run log: got a run in buckets, whose steps have sizes of their own, expected sizes that hold for many "
            "steps; loader.places has the rows of each step and rank without one"
        )

    def state(self, done: int) -> dict[str, Any]:
        """The state when `done` micro-batches are behind."""
        course, inside = self.find(done)
        return course.state(inside)

    def serve(self, first: int, stride: int, spare: int) -> Generator[Batch, None, None]:
        """Micro-batches first, first + stride, ... to the end; at most `spare` buffers of each width are kept."""
        rings: dict[int, Ring] = {}
        while True:
            step, inside = self._place(first)
            if self.end_step is not None and step >= self.end_step:
                return
            course = self.course_at(step)
            width = course.packing.seq_len
            if width not in rings:
                rings[width] = Ring((course.micro_batch, width + 1), spare)
            yield from serve(course, inside, stride, course.micros, rings[width])
            first += -(-(course.micros - inside) // stride) * stride

    def _place(self, micro: int) -> tuple[int, int]:
        """(step, micro-batch of it)."""
        epoch, rest = divmod(micro + self._begin, self._epoch_micros)
        begins = self._micros(epoch)
        place = int(np.searchsorted(begins, rest, "right")) - 1
        return epoch * self._order.num_steps + place, rest - int(begins[place])

    def _micros_upto(self, step: int) -> int:
        """Micro-batches of the run before a step."""
        epoch, place = divmod(step, self._order.num_steps)
        return epoch * self._epoch_micros + (int(self._micros(epoch)[place]) if place else 0)

    def _micros(self, epoch: int) -> Int64:
        """(M + 1,) micro-batches of an epoch before each of its steps, and before the next epoch."""
        known = self._known.take(epoch)
        if known is None:
            counts = np.array([course.micros for course in self._courses], np.int64)[self._order.buckets_of(epoch)]
            known = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        self._known.keep(epoch, known, KEPT)
        return known
