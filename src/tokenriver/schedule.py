"""Batch sizes and lengths that change in the course of a run, with every row counted.

    Loader(corpus, seq_len=512, global_batch=256, schedule=[(1000, {"global_batch": 512}), (5000, {"seq_len": 2048})])

A pace holds from its step to that of the next. Batch sizes say only how many of the rows that come next a step takes;
lengths say which rows come next, and belong to the order: they are in the packing's tag, batch sizes are not.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tokenriver.bucketrun import BucketSchedule
from tokenriver.buckets import Bucket, BucketOrder
from tokenriver.course import Course
from tokenriver.errors import InputError, LimitError
from tokenriver.layout import whole
from tokenriver.legs import Legs
from tokenriver.runlog import Places, RunLog
from tokenriver.sampler import ORDERS
from tokenriver.segments import Laid, Lengths, Segment, lay_lengths

Changes = Sequence[tuple[int, Mapping[str, int]]]
"""(step, new sizes) in the order of the steps: global_batch, seq_len, micro_batch."""
NAMES = ("global_batch", "seq_len", "micro_batch")
SEARCHED = 10_000
"""Steps on either side that are looked at for one at which a length may change."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The sizes of the steps from `step` on."""

    step: int
    global_batch: int
    seq_len: int
    micro_batch: int | None
    """None: a rank's whole share."""


def read_changes(first: Pace, changes: Changes) -> tuple[Pace, ...]:
    """The paces of a run; InputError for what is no schedule. What changes nothing makes no pace."""
    if not isinstance(changes, Sequence):
        raise InputError(f"schedule: got {changes!r}, expected a list of (step, {{name: size}})")
    paces = [first]
    for change in changes:
        if not (isinstance(change, Sequence) and len(change) == 2 and isinstance(change[1], Mapping)):
            raise InputError(f"schedule: got {change!r}, expected (step, {{name: size}})")
        step, sizes = change
        whole("schedule: step", step, 1)
        if step <= paces[-1].step:
            raise InputError(f"schedule: step: got {step} behind {paces[-1].step}, expected steps that rise")
        for name, size in sizes.items():
            if name not in NAMES:
                raise InputError(f"schedule: step {step}: got {name!r}, expected one of {', '.join(NAMES)}")
            whole(f"schedule: step {step}: {name}", size, 1)
        pace = replace(paces[-1], step=int(step), **{name: int(size) for name, size in sizes.items()})
        if replace(pace, step=paces[-1].step) != paces[-1]:
            paces.append(pace)
    return tuple(paces)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A run from step 0 on: which row each step begins with."""

    paces: tuple[Pace, ...]
    rows: tuple[int, ...]
    """The row number at which each pace begins."""
    segments: tuple[Segment, ...]

    @property
    def tag(self) -> str:
        """That of the packing, with all lengths and the rows at which they begin."""
        first, *others = self.segments
        return "; ".join([first.packing.tag, *(f"from row {other.first} {other.packing.tag}" for other in others)])

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """None; those of a run in buckets are a schedule of their own."""
        return ()

    @property
    def one_order(self) -> bool:
        """Have all rows one packing and one order?"""
        return len(self.segments) == 1

    @property
    def varies(self) -> bool:
        """Does any size change?"""
        return len(self.paces) > 1

    def row(self, step: int) -> int:
        """The row number with which a step begins."""
        at = bisect_right(self.paces, step, key=lambda pace: pace.step) - 1
        return self.rows[at] + (step - self.paces[at].step) * self.paces[at].global_batch

    def steps_upto(self, row: int) -> int:
        """Steps that serve the first `row` rows."""
        at = max(0, bisect_left(self.rows, row) - 1)
        return self.paces[at].step + -(-(row - self.rows[at]) // self.paces[at].global_batch)

    def segment(self, row: int) -> Segment:
        """The segment that a row number lies in."""
        return self.segments[bisect_right(self.segments, row, key=lambda segment: segment.first) - 1]

    def epoch_row(self, epoch: int) -> int:
        """The row number with which an epoch begins."""
        units = epoch * self.segments[0].epoch_units
        return self.segments[bisect_right(self.segments, units, key=lambda part: part.before) - 1].epoch_row(epoch)

    def epochs_upto(self, row: int) -> int:
        """How many epochs are begun in the first `row` rows."""
        return self.segment(row).epochs_upto(row)

    def places(self, course: Course, stand: tuple[int, int]) -> Places:
        """Where rows are served by a run that stands at (row, step): where all steps before it had the sizes of this
        schedule, from its begin on."""
        row, step = stand
        return RunLog(self.legs(course, stand if row != self.row(step) else (0, 0), (None, None)).starts(0))

    def legs(self, course: Course, stand: tuple[int, int], end: tuple[int | None, int | None]) -> Legs:
        """The run of `course`'s rank from `stand` to `end`, both (row, step); None for no such end. InputError where
        lengths could no longer change between two steps."""
        (row, step), (end_row, end_step) = stand, end
        self._check(row, step)
        courses: list[Course] = []
        firsts: list[int] = []
        micros, at = 0, bisect_right(self.paces, step, key=lambda pace: pace.step) - 1
        while True:
            pace, segment = self.paces[at], self.segment(row)
            size = pace.global_batch
            courses.append(
                replace(
                    course,
                    packing=segment.packing,
                    sampler=segment.order,
                    global_batch=size,
                    micro_batch=pace.micro_batch or -(-size // course.world_size),
                    row=row,
                    step=step,
                    end_row=end_row,
                )
            )
            firsts.append(micros)
            stops = [] if end_row is None else [step + -(-(end_row - row) // size)]
            stops += [] if end_step is None else [end_step]
            following = self.paces[at + 1].step if at + 1 < len(self.paces) else None
            if following is None or (stops and following >= min(stops)):
                stop = micros + (min(stops) - step) * courses[-1].micros if stops else None
                return Legs(tuple(courses), tuple(firsts), stop)
            micros += (following - step) * courses[-1].micros
            row, step, at = row + (following - step) * size, following, at + 1

    def _check(self, row: int, step: int) -> None:
        if row < self.segments[-1].first and row != self.row(step):
            raise InputError(
                f"state: row: got {row} at step {step}, expected {self.row(step)}, as this loader's schedule has it; a "
                "later change of seq_len would fall into a step: put the batch sizes so far into the schedule"
            )


def lay_run(
    first: Pace, changes: Changes, lay: Callable[[int, int], Laid], order: str, cutting: tuple[bool, int]
) -> tuple[Schedule | BucketSchedule, Laid]:
    """The schedule of a run, and its river, packing and order at the largest seq_len; lay(seq_len, rows a step) gives
    those at one. `cutting`: may windows be cut into shorter ones, and the seed of their parts' order."""
    paces = read_changes(first, changes)
    if len(paces) > 1 and order not in ORDERS:
        raise InputError(f"schedule: got one with order {order!r}, expected {' or '.join(ORDERS)}; leave it out")
    sizes = {pace.seq_len for pace in paces}
    # with several lengths rows are counted otherwise than in the order that is laid out
    rows_a_step = first.global_batch if len(sizes) == 1 else 1
    lengths = lay_lengths(sizes, lambda size: lay(size, rows_a_step), *cutting)
    laid = lengths.laid[lengths.longest]
    if not isinstance(laid[2], BucketOrder):
        return make_schedule(paces, lengths), laid
    if len(paces) > 1:
        raise InputError("schedule: got one beside buckets, which fix the sizes of each step; leave one of them out")
    return BucketSchedule(laid[1], laid[2], first.micro_batch), laid


def make_schedule(paces: tuple[Pace, ...], lengths: Lengths) -> Schedule:
    """The paces with their rows and segments. InputError for a length that changes within a unit, LimitError for a
    batch of more rows than an epoch has."""
    rows, marks = [0], [(paces[0].seq_len, 0, 0)]
    for before, pace in pairwise(paces):
        rows.append(rows[-1] + (pace.step - before.step) * before.global_batch)
        if pace.seq_len != before.seq_len:
            seq_len, first, units = marks[-1]
            unit_rows = lengths.units(seq_len)[0]
            count, over = divmod(rows[-1] - first, unit_rows)
            if over:
                raise InputError(
                    _misplaced(pace.step, Schedule(paces[: len(rows) - 1], tuple(rows[:-1]), ()), first, unit_rows)
                )
            marks.append((pace.seq_len, rows[-1], units + count))
    ends = [*(units for _, _, units in marks[1:]), None]
    segments = tuple(lengths.segment(*mark, end) for mark, end in zip(marks, ends, strict=True))
    made = Schedule(paces, tuple(rows), segments)
    # of a run without changes, its order has checked that
    for pace, row in zip(paces, rows, strict=True):
        segment = made.segment(row)
        if len(paces) > 1 and segment.order.num_rows and pace.global_batch > segment.num_rows:
            raise LimitError(
                f"global_batch: got {pace.global_batch} from step {pace.step} on, expected 1 to {segment.num_rows}, "
                "the rows of one epoch (N); take fewer rows a step, a smaller seq_len or more text"
            )
    return made


def _misplaced(step: int, run: Schedule, first: int, unit_rows: int) -> str:
    """What is wrong with the step at which a length changes, and the nearest that are right."""
    over, last = (run.row(step) - first) % unit_rows, run.row(step) - run.row(step - 1)
    near = range(1, min(unit_rows, SEARCHED) + 1)
    legal = [
        next((at for at in (step + sign * away for away in near) if _ends(run, at, first, unit_rows)), None)
        for sign in (-1, 1)
    ]
    shown = " or ".join(str(at) for at in legal if at is not None)
    change = f"change it at step {shown}, or " if shown else ""
    size = last - over if last > over else last - over + unit_rows
    return (
        f"schedule: step {step}: seq_len: got a change {run.row(step) - first} rows after the last, expected a "
        f"multiple of {unit_rows}, the rows of a whole block or epoch; {change}give step {step - 1} a global_batch of "
        f"{size}"
    )


def _ends(run: Schedule, step: int, first: int, unit_rows: int) -> bool:
    """Does a unit end with the step before this one?"""
    rows = run.row(step) - first if step > 0 else 0
    return rows > 0 and rows % unit_rows == 0
