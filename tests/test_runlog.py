"""Steps, ranks and places -> row numbers and back, and the log of a run that changed its shape."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivers import ArrayRiver
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.loader import Loader
from tokenriver.runlog import RunLog, Start, append_to_log, read_log

FIRST = '{"step": 0, "row": 0, "global_batch": 4, "world_size": 1}\n'
RIVER = ArrayRiver(4 * 97 + 1, [4] * 97 + [1])


def make(batch: int, rank: int = 0, world_size: int = 1, **options: int) -> Loader:
    given: dict[str, Any] = {"seq_len": 4, "prefetch": 0, **options}
    return Loader(RIVER, global_batch=batch, rank=rank, world_size=world_size, **given)


@given(
    shapes=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 9), st.integers(1, 4)), min_size=1, max_size=4),
)
def test_every_row_has_one_place(shapes: list[tuple[int, int, int]]) -> None:
    starts, step, row = [], 0, 0
    wanted: dict[int, tuple[int, int, int]] = {}
    for batch, world_size, steps in shapes:
        starts.append(Start(step, row, batch, world_size))
        for _ in range(steps):
            number = row
            for rank in range(world_size):
                for index in range((rank + 1) * batch // world_size - rank * batch // world_size):
                    wanted[number] = (step, rank, index)
                    number += 1
            step, row = step + 1, row + batch
    log = RunLog(starts)
    for number, place in wanted.items():
        assert log.place(number) == place
        assert log.row_number(*place) == number
    for s in range(step):
        assert list(log.rows(s)) == [number for number, place in wanted.items() if place[0] == s]


def test_a_run_that_went_on_with_other_shapes(tmp_path: Path) -> None:
    path, state = tmp_path / "run.jsonl", None
    shown: dict[tuple[int, int, int], int] = {}
    for batch, ranks, steps in ((6, 2, 4), (5, 3, 3), (10, 1, 20)):
        states = []
        for rank in range(ranks):
            part = make(batch, rank, ranks)
            if state is not None:
                part.load_state_dict(state)
            if rank == 0:
                part.log_start(path)
            for made in islice(part, steps):
                numbers = made.row_numbers.tolist()
                shown.update({(made.step, rank, index): number for index, number in enumerate(numbers) if number >= 0})
            states.append(made.state)
        state = states[0]
    log = read_log(path)
    assert len(log.starts) == 3
    assert sorted(shown.values()) == list(range(97))
    assert {place: log.row_number(*place) for place in shown} == shown
    assert {log.place(number): number for number in shown.values()} == shown


def test_a_loader_knows_its_places() -> None:
    part = make(5, 1, 3)
    numbers = part.batch(4).row_numbers.tolist()
    assert [part.places.row_number(4, 1, index) for index in range(len(numbers))] == numbers
    part.load_state_dict(make(7).batch(2).state)
    assert part.places.place(21) == (3, 0, 0)
    with pytest.raises(LimitError, match="row_number: got 20, expected 21 or more, where the log begins"):
        part.places.place(20)
    with pytest.raises(LimitError, match="step: got 2, expected 3 or more"):
        part.places.rows(2)


def test_a_run_that_went_back(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for start in (Start(0, 0, 4, 2), Start(10, 40, 8, 2), Start(7, 28, 4, 1)):
        append_to_log(path, start)
    assert read_log(path).starts == (Start(0, 0, 4, 2), Start(7, 28, 4, 1))
    append_to_log(path, Start(9, 35, 4, 1))  # an epoch's last step had 3 rows
    assert list(read_log(path).rows(8)) == [32, 33, 34]
    with pytest.raises(LimitError, match="index: got 3, expected 0 to 2, the rows of rank 0 in step 8"):
        read_log(path).row_number(8, 0, 3)


def test_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    append_to_log(path, Start(0, 0, 4, 2))
    append_to_log(path, Start(3, 12, 4, 1))
    whole = path.read_bytes()
    for size in range(whole.index(b"\n") + 1, len(whole)):
        path.write_bytes(whole[:size])
        assert read_log(path).starts == (Start(0, 0, 4, 2),)
        append_to_log(path, Start(3, 12, 4, 1))
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5\n",
        "{}\n",
        '{"step": 0, "row": 0, "global_batch": 0, "world_size": 1}\n',
        '{"step": 0, "row": -1, "global_batch": 1, "world_size": 1}\n',
        '{"step": 0, "row": true, "global_batch": 1, "world_size": 1}\n',
        '{"step": 0, "row": 0, "global_batch": 1, "world_size": 1e3}\n',
        "[" * 10_000 + "\n",
        FIRST + '{"step": 3, "row": 13, "global_batch": 4, "world_size": 1}\n',
        FIRST + '{"step": 3, "row": 8, "global_batch": 4, "world_size": 1}\n',
    ],
)
def test_what_is_no_log_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"run\.jsonl: "):
        read_log(path)


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_log(tmp_path / "run.jsonl")
