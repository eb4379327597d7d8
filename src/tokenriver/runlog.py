"""Which step and rank served a row, and which row a step and rank served, through changes of batch and world size.

While both stay the same this is arithmetic. A run that was stopped and went on with others keeps a log: one JSON line
for each start, {"step": .., "row": .., "global_batch": .., "world_size": ..}, the row being how many rows of the run
were behind it. A line takes the place of all lines before it that begin at its step or later: the run went back there.
"""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Protocol

from tokenriver.course import LARGEST
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.journal import Journal, read_lines
from tokenriver.sampler import check_rank, share


@dataclass(frozen=True, slots=True)
class Start:
    """From this step on, which begins at this row, steps have so many rows over so many ranks."""

    step: int
    row: int
    global_batch: int
    world_size: int


class Places(Protocol):
    """From row numbers of a run to (step, rank, index) and back."""

    def rows(self, step: int, rank: int | None = None, world_size: int | None = None) -> range:
        """Row numbers of a step: one rank's (of the run's world size, or of another), or without a rank all."""

    def row_number(self, step: int, rank: int = 0, index: int = 0) -> int:
        """The row number that a rank served as its index-th row of a step; LimitError if it had fewer."""

    def place(self, row_number: int) -> tuple[int, int, int]:
        """(step, rank, index among the rank's rows of that step) of a row number; the other way round."""


class RunLog:
    """The starts of a run, in order."""

    def __init__(self, starts: list[Start]) -> None:
        """FormatError for starts that do not follow one another."""
        kept: list[Start] = []
        for start in starts:
            while kept and kept[-1].step >= start.step:
                kept.pop()
            if kept:
                end = kept[-1].row + (start.step - kept[-1].step) * kept[-1].global_batch
                # the last step of a run that came to its end may have had fewer rows
                if not end - kept[-1].global_batch < start.row <= end:
                    raise FormatError(f"run log: step {start.step}: row: got {start.row}, expected {end}")
            kept.append(start)
        if not kept:
            raise FormatError("run log: got no line, expected one for each start of the run")
        self.starts = tuple(kept)

    def rows(self, step: int, rank: int | None = None, world_size: int | None = None) -> range:
        """Row numbers of a step: one rank's (of the run's world size, or of another), or without a rank all."""
        at = max((i for i, start in enumerate(self.starts) if start.step <= step), default=-1)
        if at < 0:
            raise LimitError(f"step: got {step}, expected {self.starts[0].step} or more, where the log begins")
        start = self.starts[at]
        first, last = 0, start.global_batch
        if rank is not None:
            first, last = share(start.global_batch, *check_rank(rank, world_size or start.world_size))
        row = start.row + (step - start.step) * start.global_batch
        end = self.starts[at + 1].row if at + 1 < len(self.starts) else LARGEST
        return range(min(row + first, end), min(row + last, end))

    def row_number(self, step: int, rank: int = 0, index: int = 0) -> int:
        """The row number that a rank served as its index-th row of a step; LimitError if it had fewer."""
        return nth(self.rows(step, rank), (step, rank, index))

    def place(self, row_number: int) -> tuple[int, int, int]:
        """(step, rank, index among the rank's rows of that step) of a row number; the other way round."""
        start = next((start for start in reversed(self.starts) if start.row <= row_number), None)
        if start is None:
            raise LimitError(
                f"row_number: got {row_number}, expected {self.starts[0].row} or more, where the log begins"
            )
        steps, offset = divmod(row_number - start.row, start.global_batch)
        rank = ((offset + 1) * start.world_size - 1) // start.global_batch
        return start.step + steps, rank, offset - share(start.global_batch, rank, start.world_size)[0]


def refuse_repeat(repeat: int | None) -> None:
    """InputError for a run that serves the rows of one step, from this row number on, again and again."""
    if repeat is not None:
        raise InputError("run log: got a run with repeat_batch, whose rows have no place of their own; leave it out")


def nth(rows: range, place: tuple[int, int, int]) -> int:
    """The row number at (step, rank, index) among the rows of that step and rank; LimitError if they are fewer."""
    step, rank, index = place
    if not 0 <= index < len(rows):
        raise LimitError(f"index: got {index}, expected 0 to {len(rows) - 1}, the rows of rank {rank} in step {step}")
    return rows[index]


def read_log(path: Path) -> RunLog:
    """A run's log; InputError for a file that is not there, FormatError for one that is no log. A last line that was
    cut off is left out: its run never served a row."""
    starts = [_read_line(path, number, line) for number, line in enumerate(read_lines(path), 1)]
    try:
        return RunLog(starts)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


def _read_line(path: Path, number: int, line: bytes) -> Start:
    names = [field.name for field in fields(Start)]
    try:
        value = json.loads(line)
        numbers = [value[name] for name in names]
    except (ValueError, LookupError, TypeError, RecursionError):
        numbers = []
    least = (0, 0, 1, 1)
    for got, low in zip(numbers, least, strict=False):
        if not isinstance(got, int) or isinstance(got, bool) or not low <= got <= LARGEST:
            numbers = []
    if len(numbers) != len(names):
        shown = line[:80].decode("utf-8", "backslashreplace")
        raise FormatError(f"{path}: line {number}: got {shown!r}, expected an object with {', '.join(names)}")
    return Start(*numbers)


def append_to_log(path: Path, start: Start) -> None:
    """Write a line behind the others, on disk when this returns."""
    journal = Journal(path)
    try:
        journal.add(json.dumps(asdict(start)).encode(), sync=True)
    finally:
        journal.close()
