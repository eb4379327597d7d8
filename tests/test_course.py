import numpy as np
import pytest

from rivers import ArrayRiver
from tokenriver import course as course_module
from tokenriver.course import Course, tag
from tokenriver.packing.concat import pack
from tokenriver.sampler import Sampler
from tokenriver.types import Int64


def make(rank: int, world_size: int, micro_batch: int, end_row: int | None = None, repeat: int | None = None) -> Course:
    river = ArrayRiver(101)
    sampler = Sampler(50, global_batch=7, order="sequential")
    packing = pack(river, seq_len=2)
    return Course(river, packing, sampler, rank, world_size, 7, micro_batch, (1, 2, 3, 0, 4), 10, 4, end_row, repeat)


def test_cells_by_hand() -> None:
    # seven rows over three ranks: 2, 2, 3; two micro-batches of two cells on each
    parts = [make(rank, 3, 2).cells(np.arange(4)) for rank in range(3)]
    assert [numbers.tolist() for numbers, _ in parts] == [[10, 12, 17, 19], [12, 14, 19, 21], [14, 16, 21, 23]]
    assert [filled.tolist() for _, filled in parts] == [[2, 0, 2, 0], [2, 0, 2, 0], [2, 1, 2, 1]]
    assert [make(rank, 3, 2).micros for rank in range(3)] == [2, 2, 2]


def test_more_ranks_than_rows() -> None:
    filled = [make(rank, 9, 1).cells(np.arange(1))[1].tolist() for rank in range(9)]
    assert sum(count for (count,) in filled) == 7
    assert max(filled) == [1]


def test_the_end_of_a_run_cuts_the_last_step() -> None:
    assert make(0, 1, 4, end_row=22).cells(np.arange(4))[1].tolist() == [4, 3, 4, 1]
    assert make(2, 3, 4, end_row=22).cells(np.arange(2))[1].tolist() == [3, 1]
    assert make(0, 3, 4, end_row=22).state(2) == {"v": 1, "row": 22, "step": 6, "corpus": 1, "plan": [2, 3, 0, 4]}


def test_a_repeated_step_stands_still() -> None:
    numbers, filled = make(1, 2, 4, repeat=21).cells(np.arange(3))
    assert (numbers.tolist(), filled.tolist()) == ([24, 24, 24], [4, 4, 4])
    assert make(1, 2, 4, repeat=21).state(2) == {"v": 1, "row": 10, "step": 6, "corpus": 1, "plan": [2, 3, 0, 4]}


def test_a_stretch_is_the_cells_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    stretch = make(2, 3, 2).stretch(1, 2, 3)
    assert stretch.numbers.tolist() == [16, 23, 30]
    assert stretch.filled == [1, 1, 1]
    assert stretch.rows.tolist() == [[16, -1], [23, -1], [30, -1]]
    assert stretch.starts[:, 0].tolist() == [32, 46, 60]
    one = stretch.only(2)
    assert (one.first, one.numbers.tolist(), one.rows.tolist()) == (5, [30], [[30, -1]])
    # thousands of rows ahead, but hardly more than an epoch
    assert make(0, 1, 7).ahead(1) == 7
    assert make(0, 1, 1).ahead(3) == 16
    monkeypatch.setattr(course_module, "STRETCH_ROWS", 14)
    assert make(0, 1, 7).ahead(1) == 2


def test_nothing_behind_the_end_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be in another order, or costly."""
    asked: list[int] = []
    locate = Sampler.locate

    def spy(self: Sampler, numbers: Int64) -> tuple[Int64, Int64]:
        asked.extend(numbers.tolist())
        return locate(self, numbers)

    monkeypatch.setattr(Sampler, "locate", spy)
    assert make(0, 1, 4, end_row=22).stretch(2, 1, 2).rows.tolist() == [[17, 18, 19, 20], [21, -1, -1, -1]]
    assert asked == [17, 18, 19, 20, 21, 21, 21, 21]


def test_tags() -> None:
    assert tag("", 4) == 0
    assert 0 < tag("shuffled", 4) < 1 << 32
    assert tag("a", 8) != tag("b", 8)
