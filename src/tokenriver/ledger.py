"""What a run saw, as sums that anybody can compare: one 128-bit number for the rows that a rank served in a step.

Each rank adds a line a step to a file of its own. The sums of the ranks add up to the same numbers for every world size
and micro-batch, since each row counts by itself, with its row number; so two runs saw the same ids in the same order if
and only if (but for accidents of 2^-64 and less) the numbers of their steps are equal.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson

from tokenriver import files
from tokenriver.batch import Batch
from tokenriver.course import LARGEST
from tokenriver.errors import FormatError, InputError
from tokenriver.journal import Journal, read_lines
from tokenriver.splitmix import STEP, mixed
from tokenriver.types import Int64, UInt64

BITS = 64
_HALVES = np.array([[1], [2]], np.uint64)
_NAME = re.compile(r"rank-(\d{5,})-of-(\d{5,})\.jsonl")


class RowSums:
    """Sums over rows of seq_len positions, or fewer.

    Half h (0, 1) of a row is mix(s + mix((2 g + h + 1) * STEP)), g its row number, s the sum over positions j of
    w(h, 0, j) * input j + w(h, 1, j) * target j, w(h, side, j) = mix(((2 h + side) * 2^32 + j + 1) * STEP); all modulo
    2^64, so that a target without loss counts as 2^64 - 100."""

    def __init__(self, seq_len: int) -> None:
        at = np.arange(1, seq_len + 1, dtype=np.uint64)
        sides = [np.uint64(side << 32) for side in range(4)]
        weights = [mixed((side + at) * STEP) for side in sides]
        self._inputs, self._targets = weights[0::2], weights[1::2]
        # rows whose inputs and targets are views of the same ids need one pass instead of two
        self._windows = [np.append(i, np.uint64(0)) for i in self._inputs]
        for whole, targets in zip(self._windows, self._targets, strict=True):
            whole[1:] += targets

    def of(self, batch: Batch) -> tuple[int, int, int]:
        """(rows, first row number or -1, sum of both halves as one number) of a micro-batch."""
        numbers = batch.row_numbers
        numbers = numbers[numbers >= 0]
        inputs, targets = batch.input_ids[: len(numbers)], batch.targets[: len(numbers)]
        whole = _one_buffer(inputs, targets)
        sums = np.empty((2, len(numbers)), np.uint64)
        for half in range(2):
            if whole is not None:
                sums[half] = _dot(whole, self._windows[half])
            else:
                width = inputs.shape[1]
                sums[half] = _dot(inputs, self._inputs[half][:width]) + _dot(targets, self._targets[half][:width])
        places = numbers.astype(np.uint64) * np.uint64(2) + _HALVES
        low, high = mixed(sums + mixed(places * STEP)).sum(axis=1, dtype=np.uint64).tolist()
        return len(numbers), int(numbers[0]) if len(numbers) else -1, low | high << BITS


def add(first: int, second: int) -> int:
    """Two sums together: each half modulo 2^64."""
    low = (1 << BITS) - 1
    return (first + second) & low | ((first >> BITS) + (second >> BITS) & low) << BITS


def _dot(ids: Int64, weights: UInt64) -> UInt64:
    sums: UInt64 = np.einsum("ij,j->i", ids.view(np.uint64), weights)
    return sums


def _one_buffer(inputs: Int64, targets: Int64) -> Int64 | None:
    """(B, T + 1) ids, if both are views of them."""
    base = inputs.base
    if base is None or base is not targets.base or base.shape[1:] != (inputs.shape[1] + 1,):
        return None
    found: Int64 = base[: len(inputs)]
    return found


class Ledger:
    """One rank's part of a run's ledger, in a folder that all ranks may share. Opened at the first batch; pickles as
    what it was made of."""

    def __init__(self, folder: Path, seq_len: int, rank: int, world_size: int) -> None:
        self._folder, self._seq_len, self._rank, self._world_size = folder, seq_len, rank, world_size
        self._sums = RowSums(seq_len)
        self._journal: Journal | None = None
        self._turn = 0
        self._so_far = (0, -1, 0)

    def __reduce__(self) -> tuple[type["Ledger"], tuple[Path, int, int, int]]:
        return Ledger, (self._folder, self._seq_len, self._rank, self._world_size)

    def take(self, batch: Batch, micros: int) -> None:
        """Count a micro-batch; after the last of a step its line is in the file."""
        rows, first, total = (0, -1, 0) if batch.micro == 0 else self._so_far
        more, begin, part = self._sums.of(batch)
        self._so_far = rows + more, first if first >= 0 else begin, add(total, part)
        if batch.micro == micros - 1:
            rows, first, total = self._so_far
            if self._journal is None:
                self._open()
            line = {"turn": self._turn, "step": batch.step, "row": first, "rows": rows, "sum": f"{total:032x}"}
            assert self._journal is not None, "just opened"
            self._journal.add(orjson.dumps(line))

    def _open(self) -> None:
        files.make_folder(self._folder)
        name = f"rank-{self._rank:05}-of-{self._world_size:05}.jsonl"
        self._journal = Journal(self._folder / name)
        # the files of other world sizes are at rest: all ranks of this one see the same
        others = [_last_turn(path) for path, _, ranks in _files(self._folder) if ranks != self._world_size]
        self._turn = max(_last_turn(self._folder / name), 1 + max(others, default=0))


@dataclass(frozen=True, slots=True)
class Seen:
    """What all ranks saw in a step: rows from row number `row` on, and their sum."""

    row: int
    rows: int
    sum: int


@dataclass(frozen=True, slots=True)
class _Line:
    turn: int
    step: int
    seen: Seen


def read_ledger(folder: Path) -> dict[int, Seen]:
    """The steps of a run of which all ranks have told, in order. A rank's line takes the place of all its lines of the
    same step or later ones: there the run went back. Lines of another world size do the same, by their turn."""
    kept: list[tuple[int, int, list[_Line]]] = []
    begins: dict[int, int] = {}
    for path, rank, world_size in _files(folder):
        lines: list[_Line] = []
        for number, text in enumerate(read_lines(path), 1):
            line = _parse(path, number, text)
            while lines and lines[-1].step >= line.step:
                lines.pop()
            lines.append(line)
            begins[line.turn] = min(line.step, begins.get(line.turn, line.step))
        kept.append((rank, world_size, lines))
    if not kept:
        raise InputError(f"{folder}: got no ledger, expected files rank-*-of-*.jsonl; give the folder of ledger=")
    steps: dict[int, dict[int, Seen]] = {}
    ranks: dict[int, int] = {}
    for rank, world_size, lines in kept:
        for line in lines:
            if all(begin > line.step for turn, begin in begins.items() if turn > line.turn):
                steps.setdefault(line.step, {})[rank] = line.seen
                ranks[line.step] = world_size
    return {step: _together(steps[step].values()) for step in sorted(steps) if len(steps[step]) == ranks[step]}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two ledgers side by side."""

    steps: int
    """Steps that both tell of."""
    only: tuple[int, int]
    """Steps that one of them alone tells of."""
    parted: int | None
    """The first step of both at which they differ; None if none does."""
    seen: tuple[Seen, Seen] | None
    """What each saw there."""


def compare(first: Mapping[int, Seen], second: Mapping[int, Seen]) -> Comparison:
    """Where two runs part, over the steps that both tell of."""
    both = sorted(first.keys() & second.keys())
    parted = next((step for step in both if first[step] != second[step]), None)
    seen = None if parted is None else (first[parted], second[parted])
    return Comparison(len(both), (len(first) - len(both), len(second) - len(both)), parted, seen)


def _together(parts: Iterable[Seen]) -> Seen:
    """What the ranks of a step saw together; one that had no row says -1."""
    row, rows, total = -1, 0, 0
    for part in parts:
        row = part.row if row < 0 else min(row, part.row) if part.row >= 0 else row
        rows, total = rows + part.rows, add(total, part.sum)
    return Seen(row, rows, total)


def _files(folder: Path) -> Iterator[tuple[Path, int, int]]:
    """(path, rank, world size) of the files of a ledger."""
    for name in files.list_folder(folder):
        found = _NAME.fullmatch(name)
        if found is not None:
            yield folder / name, int(found[1]), int(found[2])


def _last_turn(path: Path) -> int:
    lines = read_lines(path) if path.exists() else []
    return _parse(path, len(lines), lines[-1]).turn if lines else 0


def _parse(path: Path, number: int, text: bytes) -> _Line:
    try:
        value = orjson.loads(text)
        numbers = [value[name] for name in ("turn", "step", "row", "rows")]
        total = int(value["sum"], 16) if len(value["sum"]) == BITS // 2 else -1
    except (ValueError, LookupError, TypeError):
        numbers, total = [], -1
    whole = all(type(got) is int and low <= got <= LARGEST for got, low in zip(numbers, (1, 0, -1, 0), strict=False))
    if not numbers or not whole or total < 0:
        shown = text[:80].decode("utf-8", "backslashreplace")
        raise FormatError(f"{path}: line {number}: got {shown!r}, expected turn, step, row, rows and sum of a ledger")
    turn, step, row, rows = numbers
    return _Line(turn, step, Seen(row, rows, total))
