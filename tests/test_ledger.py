"""The ledger: the same numbers for any ranks, micro-batches, stops and resumes; others wherever a run saw other ids."""

import json
import pickle
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import tokenriver
from naive_order import MASK, mix
from rivers import ArrayRiver
from tokenriver.batch import Batch
from tokenriver.errors import FormatError, InputError
from tokenriver.ledger import RowSums, Seen, add, compare, read_ledger
from tokenriver.loader import Loader

SIZES = [(n * 7) % 23 + 2 for n in range(40)]
RIVER = ArrayRiver((np.arange(sum(SIZES)) * 31 % 50_000).tolist(), SIZES)
STEP = 0x9E3779B97F4A7C15


def loader(**options: object) -> Loader:
    given: dict[str, Any] = {"seq_len": 6, "global_batch": 5, "seed": 2, "prefetch": 0, **options}
    return Loader(RIVER, **given)


def naive(batch: Batch) -> tuple[int, int]:
    """(rows, sum) of a batch from the description alone, in Python integers."""
    rows, halves = 0, [0, 0]
    for line, number in enumerate(batch.row_numbers.tolist()):
        if number < 0:
            continue
        rows += 1
        for half in range(2):
            total = 0
            for side, ids in enumerate((batch.input_ids[line].tolist(), batch.targets[line].tolist())):
                for j, token in enumerate(ids):
                    total += mix((((2 * half + side << 32) + j + 1) * STEP) & MASK) * token
            place = mix(((2 * number + half + 1) * STEP) & MASK)
            halves[half] = (halves[half] + mix((total + place) & MASK)) & MASK
    return rows, halves[0] | halves[1] << 64


def plain(folder: Path, **options: object) -> dict[int, Seen]:
    """The ledger of one undisturbed run on one rank."""
    for _ in loader(ledger=folder, **options):
        pass
    return read_ledger(folder)


@pytest.mark.parametrize("packing", ["concat", "sliding", "document", "best_fit"])
@pytest.mark.parametrize("seq_len", [1, 6])
def test_sums_are_those_of_the_description(packing: str, seq_len: int) -> None:
    made = loader(packing=packing, seq_len=seq_len, rank=1, world_size=3, micro_batch=1, global_batch=4)
    sums, filler = RowSums(seq_len), 0
    for batch in made:
        rows, first, total = sums.of(batch)
        assert (rows, total) == naive(batch)
        assert first == (int(batch.row_numbers[0]) if rows else -1)
        assert sums.of(pickle.loads(pickle.dumps(batch))) == (rows, first, total)
        filler += not rows
    assert filler


def test_every_place_and_id_counts() -> None:
    batch = next(iter(loader(packing="document", global_batch=3)))
    sums = RowSums(6)
    seen = {sums.of(batch)[2]}
    for array in (batch.input_ids, batch.targets):
        for at in np.ndindex(array.shape):
            for change in (1, -1, 256):
                array[at] += change
                seen.add(sums.of(batch)[2])
                array[at] -= change
    assert len(seen) == 1 + 2 * 3 * 6 * 3
    swapped = batch.input_ids.copy()
    batch.input_ids[:] = swapped[::-1]
    assert sums.of(batch)[2] not in seen


def test_halves_are_added_apart() -> None:
    ones = (1 << 128) - 1
    assert add(ones, 1) == ones - MASK
    assert add(ones, ones) == ones ^ (1 << 64 | 1)


@pytest.mark.parametrize("packing", ["concat", "best_fit"])
@pytest.mark.parametrize(("world_size", "micro_batch"), [(1, None), (1, 2), (2, 1), (3, None), (7, 2)])
def test_any_ranks_and_micro_batches_give_the_same(
    packing: str, world_size: int, micro_batch: int | None, tmp_path: Path
) -> None:
    whole = plain(tmp_path / "whole", packing=packing, epochs=2)
    assert sum(seen.rows for seen in whole.values()) == 2 * loader(packing=packing).num_rows
    for rank in range(world_size):
        shape = {"rank": rank, "world_size": world_size, "micro_batch": micro_batch, "prefetch": rank % 2}
        for _ in loader(packing=packing, epochs=2, ledger=tmp_path / "parts", **shape):
            pass
    assert read_ledger(tmp_path / "parts") == whole


@settings(max_examples=20, deadline=None)
@given(
    history=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 3), st.lists(st.integers(0, 9), min_size=4, max_size=4)), max_size=5
    )
)
def test_stops_and_resumes_anywhere(
    history: list[tuple[int, int, list[int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each start serves a few micro-batches on each rank, not the same number, and dies; the next one goes on from the
    last step that a rank has a state of, or from an earlier one."""
    folder = tmp_path_factory.mktemp("ledger")
    state: dict[str, Any] | None = None
    for world_size, micro_batch, counts in [*history, (2, 2, [10**6] * 4)]:
        states = []
        for rank in range(world_size):
            part = loader(rank=rank, world_size=world_size, micro_batch=micro_batch, ledger=folder)
            if state is not None:
                part.load_state_dict(state)
            for _ in islice(part, counts[rank]):
                pass
            states.append(part.state_dict())
        state = min(states, key=lambda state: state["step"])
    assert read_ledger(folder) == plain(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("world_size", [1, 2])
def test_another_batch_size_after_going_back(world_size: int, tmp_path: Path) -> None:
    first = loader(ledger=tmp_path)
    states = [batch.state for batch in islice(first, 12)]
    for rank in range(world_size):
        again = loader(ledger=tmp_path, global_batch=10, rank=rank, world_size=world_size)
        again.load_state_dict(states[5])
        for _ in islice(again, 2):
            pass
    assert {step: (seen.row, seen.rows) for step, seen in read_ledger(tmp_path).items()} == {
        **{step: (5 * step, 5) for step in range(6)},
        6: (30, 10),
        7: (40, 10),
    }


def test_a_line_that_was_cut_off(tmp_path: Path) -> None:
    whole = plain(tmp_path / "whole")
    part = loader(ledger=tmp_path / "part")
    states = [batch.state for batch in islice(part, 4)]
    (path,) = (tmp_path / "part").iterdir()
    data = path.read_bytes()
    for size in range(data.rindex(b"\n", 0, -1) + 1, len(data)):
        path.write_bytes(data[:size])
        assert list(read_ledger(tmp_path / "part")) == [0, 1, 2]
    again = loader(ledger=tmp_path / "part")
    again.load_state_dict(states[2])
    for _ in again:
        pass
    assert read_ledger(tmp_path / "part") == whole


@pytest.mark.parametrize("other", [{"seed": 3}, {"order": "sequential"}, {"packing": "sliding"}, {"global_batch": 4}])
def test_runs_that_part_at_once(other: dict[str, object], tmp_path: Path) -> None:
    found = compare(plain(tmp_path / "a"), plain(tmp_path / "b", **other))
    assert found.parted == 0


def test_the_first_step_with_another_id(tmp_path: Path) -> None:
    whole = plain(tmp_path / "a")
    assert compare(whole, dict(whole)).parted is None
    for place in (0, 60, 201):
        changed = ArrayRiver(RIVER.ids.tolist(), SIZES)
        changed.ids[place] += 1
        for _ in Loader(changed, seq_len=6, global_batch=5, seed=2, ledger=tmp_path / str(place)):
            pass
        found = compare(whole, read_ledger(tmp_path / str(place)))
        document = RIVER.document_at(place)
        shown = [number for number in loader().when(document).tolist() if place in _places(number)]
        assert found.parted == min(shown) // 5
        assert found.seen is not None
        assert [seen.row for seen in found.seen] == [min(shown) // 5 * 5] * 2


def _places(number: int) -> set[int]:
    """River positions that a row shows."""
    return {RIVER.doc_bounds(o.document)[0] + at for o in loader().trace(number) for at in range(o.start, o.stop)}


def test_what_is_off_by_default_and_what_is_refused(tmp_path: Path) -> None:
    assert "ledger" not in json.dumps(loader(ledger=tmp_path).state_dict())
    with pytest.raises(InputError, match="ledger: got one for batches that workers divide"):
        loader(ledger=tmp_path).strided(0, 2)
    with pytest.raises(InputError, match="got no ledger"):
        read_ledger(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        b"5",
        b"{}",
        b"",
        b'{"turn": 1, "step": 0, "row": 0, "rows": 5, "sum": "12"}',
        b'{"turn": 0, "step": 0, "row": 0, "rows": 5, "sum": "%s"}' % (b"0" * 32),
        b'{"turn": 1, "step": -1, "row": 0, "rows": 5, "sum": "%s"}' % (b"0" * 32),
        b'{"turn": 1, "step": true, "row": 0, "rows": 5, "sum": "%s"}' % (b"0" * 32),
        b'{"turn": 1, "step": 0, "row": 0, "rows": 5, "sum": "%s"}' % (b"g" * 32),
        b'{"turn": 1, "step": 0, "row": 0, "rows": 5, "sum": ["%s"]}' % (b"0" * 32),
        b"\xff\xfe",
    ],
)
def test_what_is_no_ledger_is_refused(line: bytes, tmp_path: Path) -> None:
    (tmp_path / "rank-00000-of-00001.jsonl").write_bytes(line + b"\n")
    with pytest.raises(FormatError, match=r"rank-00000-of-00001\.jsonl: line 1: got "):
        read_ledger(tmp_path)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    plain(a)
    for rank in range(3):
        for _ in islice(loader(ledger=b, rank=rank, world_size=3), 4):
            pass
    plain(c, seed=9)
    ran = tokenriver(capsys, "ledger", a, b, "--json")
    assert (ran.code, ran.json()["steps"], ran.json()["parted"], ran.json()["only"][1]) == (0, 4, None, 0)
    assert "saw the same" in tokenriver(capsys, "ledger", a, b).out
    ran = tokenriver(capsys, "ledger", a, c, "--json")
    assert (ran.code, ran.json()["parted"], ran.json()["seen"][0]["rows"]) == (1, 0, 5)
    ran = tokenriver(capsys, "ledger", a, c)
    assert (ran.code, "the runs part at step 0" in ran.out, "rows 0 to 5" in ran.out) == (1, True, True)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "rank-00000-of-00002.jsonl").write_bytes((a / "rank-00000-of-00001.jsonl").read_bytes())
    ran = tokenriver(capsys, "ledger", a, tmp_path / "d")
    assert (ran.code, "no step in common" in ran.out) == (1, True)
    assert tokenriver(capsys, "ledger", a, tmp_path / "none").code == 1
