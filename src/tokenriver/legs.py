"""A run as parts that lie end to end, each a Course with sizes of its own; micro-batches are counted through all."""

from bisect import bisect_right
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from tokenriver.batch import Batch, Ring, serve
from tokenriver.course import Course
from tokenriver.runlog import Start, refuse_repeat


@dataclass(frozen=True, slots=True)
class Legs:
    """One rank's run from where it stands."""

    courses: tuple[Course, ...]
    """At least one; each begins at the row and step at which the one before ends."""
    firsts: tuple[int, ...]
    """The micro-batch at which each begins, counted from the first course's."""
    stop: int | None
    """Micro-batches of all; None for an endless run."""

    @property
    def end_step(self) -> int | None:
        """The step at which the run ends; None for an endless one."""
        return None if self.stop is None else self.step(self.stop)

    @property
    def rows(self) -> tuple[int, int | None]:
        """[first, end) row numbers of the run, from its begin; None without an end."""
        course, last = self.courses[-1], self.end_step
        if course.repeat is not None:
            stop = course.repeat + course.global_batch
            return course.repeat, stop if course.end_row is None else min(stop, course.end_row)
        return 0, None if last is None else course.step_row(last)

    def find(self, micro: int) -> tuple[Course, int]:
        """(course, micro-batch of it) of a micro-batch; the end of the run belongs to the last course."""
        leg = bisect_right(self.firsts, micro) - 1
        return self.courses[leg], micro - self.firsts[leg]

    def step(self, micro: int) -> int:
        """The step of a micro-batch."""
        course, inside = self.find(micro)
        return course.step + inside // course.micros

    def course_at(self, step: int) -> Course:
        """The course of a step, which is no earlier than the first."""
        return self.courses[self._leg(step)]

    def _leg(self, step: int) -> int:
        return bisect_right(self.courses, step, key=lambda course: course.step) - 1

    def begin(self, step: int) -> int:
        """The micro-batch with which a step begins."""
        leg = self._leg(step)
        course = self.courses[leg]
        return self.firsts[leg] + (step - course.step) * course.micros

    def starts(self, micro: int) -> list[Start]:
        """Where sizes are new from the step of a micro-batch on, the step itself first. InputError for a run that
        serves the rows of one step again and again."""
        state, first = self.state(micro), self.find(micro)[0]
        refuse_repeat(first.repeat)
        here = Start(state["step"], state["row"], first.global_batch, first.world_size)
        later = [leg for leg in self.courses if leg.step > here.step]
        return [here, *(Start(leg.step, leg.row, leg.global_batch, leg.world_size) for leg in later)]

    def state(self, done: int) -> dict[str, Any]:
        """The state when `done` micro-batches are behind."""
        course, inside = self.find(done)
        return course.state(inside)

    def serve(self, first: int, stride: int, spare: int) -> Generator[Batch, None, None]:
        """Micro-batches first, first + stride, ... to the end; at most `spare` buffers of one shape are kept."""
        shape, ring = (0, 0), Ring((0, 0), 0)
        for course, begin, end in zip(self.courses, self.firsts, (*self.firsts[1:], self.stop), strict=True):
            if end is not None and first >= end:
                continue
            wanted = (course.micro_batch, course.packing.seq_len + 1)
            if wanted != shape:
                shape, ring = wanted, Ring(wanted, spare)
            yield from serve(course, first - begin, stride, None if end is None else end - begin, ring)
            if end is not None:
                first += -(-(end - first) // stride) * stride
