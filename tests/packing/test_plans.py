"""Plans on disk: the rows that planning gives, found by what determines them, never used damaged, whole or absent."""

import hashlib
import os
import threading
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_packing
from faulty_disks import DIE, EIO, FULL, SHORT, Died, FaultyDisk
from rivers import ArrayRiver
from tokenriver import files
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.locks import hold_lock
from tokenriver.packing import _plans, best_fit, bos_aligned
from tokenriver.packing._table import Table
from tokenriver.packing.best_fit import pack
from tokenriver.types import Packing

LENGTHS = [5, 9, 0, 3, 17, 1, 4, 4, 12, 2]
Spans = list[list[tuple[int, int]]]


def river(lengths: list[int] = LENGTHS) -> ArrayRiver:
    return ArrayRiver(sum(lengths), lengths)


def rows_of(packing: Packing) -> Spans:
    rows: Spans = [[] for _ in range(len(packing))]
    columns = packing.spans(np.arange(len(packing)), 0)
    for row, start, stop in zip(*(column.tolist() for column in columns), strict=True):
        rows[row].append((start, stop))
    return rows


@pytest.fixture
def no_planning(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    def refuse(*_: object) -> None:
        raise AssertionError("planned")

    monkeypatch.setattr(best_fit, "_plan", refuse)
    return monkeypatch


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 15), min_size=1, max_size=25),
    seq_len=st.integers(1, 9),
    overflow=st.sampled_from(["split", "truncate", "drop"]),
    block=st.one_of(st.none(), st.integers(1, 9)),
)
def test_a_plan_has_the_rows_of_each_block(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], seq_len: int, overflow: str, block: int | None
) -> None:
    wanted: Spans = []
    for at in range(0, len(sizes), block or len(sizes)):
        base, part = sum(sizes[:at]), sizes[at : at + (block or len(sizes))]
        rows = naive_packing.rows_of("best_fit", part, seq_len, overflow)
        wanted += [[(base + start, base + stop) for start, stop in row] for row in rows]
    folder = tmp_path_factory.mktemp("plans")
    if not wanted:
        with pytest.raises(LimitError):
            pack(river(sizes), seq_len=seq_len, overflow=overflow, block_documents=block, plan_dir=folder)
        return
    for plan_dir in (None, folder, folder):
        made = pack(river(sizes), seq_len=seq_len, overflow=overflow, block_documents=block, plan_dir=plan_dir)
        assert rows_of(made) == wanted
        assert (made.plan is None) == (plan_dir is None)
        assert made.num_targets == sum(stop - start - 1 for row in wanted for start, stop in row)
        assert made.balance["river"] == sum(count for name, count in made.balance.items() if name != "river")
    assert [path.name for path in folder.iterdir()] == [made.plan.name if made.plan else ""]


def test_the_second_time_it_is_mapped(tmp_path: Path, no_planning: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="planned"):
        pack(river(), seq_len=6, plan_dir=tmp_path)
    no_planning.undo()
    first = pack(river(), seq_len=6, plan_dir=tmp_path / "new" / "plans")
    no_planning.setattr(best_fit, "_plan", None)
    again = pack(river(), seq_len=6, plan_dir=tmp_path / "new" / "plans")
    assert rows_of(again) == rows_of(first)
    assert again.plan == first.plan
    column = np.load(str(again.plan))
    assert (column.dtype, column.ndim) == (np.dtype("<i8"), 1)
    assert column[5:9].tolist() == [6, sum(LENGTHS), len(again), len(again.table.starts)]
    assert not column.flags.writeable or not again.table.starts.flags.writeable


def test_whatever_determines_the_rows_has_a_plan_of_its_own(tmp_path: Path) -> None:
    made = [
        pack(river(), seq_len=6, plan_dir=tmp_path),
        pack(river(), seq_len=7, plan_dir=tmp_path),
        pack(river(), seq_len=6, overflow="drop", plan_dir=tmp_path),
        pack(river(), seq_len=6, block_documents=4, plan_dir=tmp_path),
        pack(river([*LENGTHS[:-2], 2, 12]), seq_len=6, plan_dir=tmp_path),
    ]
    assert len({packing.plan for packing in made}) == len(made)
    # ids do not determine it, ends do
    ids = np.arange(sum(LENGTHS))[::-1].tolist()
    assert pack(ArrayRiver(ids, LENGTHS), seq_len=6, plan_dir=tmp_path).plan == made[0].plan


def test_damage_anywhere_is_told_and_the_plan_made_again(tmp_path: Path) -> None:
    good = pack(river(), seq_len=6, plan_dir=tmp_path)
    assert good.plan is not None
    data, wanted = good.plan.read_bytes(), rows_of(good)
    damaged = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(0, len(data), 11)]
    damaged += [b"", data[:100], data[:-8], data + b"\0" * 8, bytes(len(data))]
    for content in damaged:
        good.plan.write_bytes(content)
        with pytest.warns(UserWarning, match=r"\.npy: .*got .*; the rows are planned anew"):
            again = pack(river(), seq_len=6, plan_dir=tmp_path)
        assert rows_of(again) == wanted
        assert good.plan.read_bytes() == data


def _forged(change: str) -> bytes:
    """A plan of LENGTHS for rows of 6 that is sound but for what it says."""
    wanted = _plans.Wanted("best_fit T=6 split", 6, river().doc_ends(), pack(river(), seq_len=6).num_targets)
    table = pack(river(), seq_len=6).table
    pairs, row_ends = np.stack([table.starts, table.sizes], axis=1), table.row_ends.copy()
    if change == "outside":
        pairs[-1, 0] = sum(LENGTHS) - 1
    elif change == "negative":
        pairs[0, 0] = -1
    elif change == "huge":
        pairs[0] = 2**62, 2**62
    elif change == "one id":
        pairs[0, 1] = 1
    elif change == "too full":
        row_ends[0] += 1
        row_ends = np.unique(row_ends)
    elif change == "falling":
        row_ends[1] = row_ends[0]
    elif change == "behind the spans":
        row_ends[-1] += 1
    elif change == "fewer":
        row_ends, pairs = row_ends[:-1], pairs[: row_ends[-2]]
    body = pairs.astype("<i8").tobytes() + row_ends.astype("<i8").tobytes()
    digest = hashlib.sha256(body).digest()
    return _plans._head(wanted, wanted.digest(), (len(row_ends), len(pairs)), digest) + body


CHANGES = ["outside", "negative", "huge", "one id", "too full", "falling", "behind the spans", "fewer"]


@pytest.mark.parametrize("change", CHANGES)
def test_a_forged_plan_with_the_right_sums_is_not_used(tmp_path: Path, change: str) -> None:
    good = pack(river(), seq_len=6, plan_dir=tmp_path)
    assert good.plan is not None
    data = good.plan.read_bytes()
    assert _forged("") == data
    good.plan.write_bytes(_forged(change))
    with pytest.warns(UserWarning, match="spans|targets"):
        again = pack(river(), seq_len=6, plan_dir=tmp_path)
    assert rows_of(again) == rows_of(pack(river(), seq_len=6))
    assert good.plan.read_bytes() == data


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_regular_file_is_not_followed(tmp_path: Path, kind: str) -> None:
    good = pack(river(), seq_len=6, plan_dir=tmp_path / "plans")
    assert good.plan is not None
    good.plan.rename(tmp_path / "elsewhere")
    if kind == "link":
        good.plan.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        good.plan.mkdir()
    else:
        os.mkfifo(good.plan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "folder":
            with pytest.raises(InputError, match="cannot write"):
                pack(river(), seq_len=6, plan_dir=tmp_path / "plans")
            return
        again = pack(river(), seq_len=6, plan_dir=tmp_path / "plans")
    assert rows_of(again) == rows_of(good)
    assert again.plan == good.plan
    assert not good.plan.is_symlink()


# ----------------------------------------------------------------------------------------- where it is kept


class KeptRiver(ArrayRiver):
    """A river with a folder for plans, as a corpus has."""

    plan_folder: Path


def kept(folder: Path) -> KeptRiver:
    made = KeptRiver(sum(LENGTHS), LENGTHS)
    made.plan_folder = folder
    return made


def test_small_corpora_are_left_alone_and_large_ones_keep_their_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = kept(tmp_path / "plans")
    assert pack(there, seq_len=6).plan is None
    assert os.listdir(tmp_path) == []
    monkeypatch.setattr(_plans, "STORED_FROM", len(LENGTHS))
    assert pack(there, seq_len=6).plan is not None
    monkeypatch.undo()
    # a plan that is there is used, however few the documents are, and none is added
    assert pack(there, seq_len=6).plan is not None
    assert pack(there, seq_len=7).plan is None
    assert len(os.listdir(tmp_path / "plans")) == 1


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_plans, "STORED_FROM", 1)
    monkeypatch.setattr(files, "system", FaultyDisk(0, FULL))
    with pytest.warns(UserWarning, match="No space left.*; the plan is kept in memory"):
        assert pack(kept(tmp_path / "plans"), seq_len=6).plan is None
    with pytest.raises(LimitError, match="No space left"):
        pack(kept(tmp_path / "plans"), seq_len=6, plan_dir=tmp_path / "other")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pack(kept(tmp_path / "plans"), seq_len=6).plan is None


@pytest.mark.parametrize("fault", [DIE, EIO, FULL, SHORT])
def test_a_plan_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    good = pack(river(), seq_len=6, block_documents=3, plan_dir=tmp_path / "good")
    assert good.plan is not None
    for at in range(200):
        folder = tmp_path / f"{fault}{at}"
        disk = FaultyDisk(at, fault)
        monkeypatch.setattr(files, "system", disk)
        with suppress(Died, InputError, LimitError):
            pack(river(), seq_len=6, block_documents=3, plan_dir=folder)
        monkeypatch.undo()
        left = folder / good.plan.name
        assert not left.exists() or left.read_bytes() == good.plan.read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = pack(river(), seq_len=6, block_documents=3, plan_dir=folder)
        assert rows_of(again) == rows_of(good)
        assert set(os.listdir(folder)) <= {good.plan.name, _plans.LOCK_NAME}
        if not disk.struck:
            break
    assert at > 5


def test_of_several_that_plan_at_once_all_have_the_rows(tmp_path: Path) -> None:
    good = pack(river(), seq_len=6, plan_dir=tmp_path / "good")
    assert good.plan is not None
    with hold_lock(tmp_path / "good" / _plans.LOCK_NAME):
        good.plan.unlink()
        alone = pack(river(), seq_len=6, plan_dir=tmp_path / "good")
    assert alone.plan is None
    assert rows_of(alone) == rows_of(good)
    found: list[Spans] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        found.append(rows_of(pack(river(), seq_len=6, plan_dir=tmp_path / "many")))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [rows_of(good)] * 4
    assert rows_of(pack(river(), seq_len=6, plan_dir=tmp_path / "many")) == rows_of(good)


def test_a_plan_of_full_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = LENGTHS * 4
    plain = bos_aligned.pack(river(lengths), seq_len=6, buffer_documents=3)
    first = bos_aligned.pack(river(lengths), seq_len=6, buffer_documents=3, plan_dir=tmp_path)
    assert bos_aligned.pack(river(lengths), seq_len=6, buffer_documents=4, plan_dir=tmp_path).plan != first.plan
    monkeypatch.setattr(bos_aligned, "fill", None)
    again = bos_aligned.pack(river(lengths), seq_len=6, buffer_documents=3, plan_dir=tmp_path)
    assert again.plan == first.plan is not None
    assert plain.plan is None
    assert rows_of(plain) == rows_of(first) == rows_of(again)
    assert plain.balance == again.balance
    assert plain.balance["cut"] > 0
    monkeypatch.undo()
    # a row that is not full is damage here
    wanted = _plans.Wanted("x", 6, river(lengths).doc_ends(), None)
    table = Table(plain.table.row_ends, plain.table.starts, plain.table.sizes.copy())
    _plans._check(tmp_path, table, wanted)
    table.sizes[int(np.argmax(table.sizes))] -= 1
    with pytest.raises(FormatError, match="got one outside the river or its row"):
        _plans._check(tmp_path, table, wanted)


@pytest.mark.parametrize("block", [0, -1, 2.5])
def test_blocks_have_documents(block: int) -> None:
    with pytest.raises(InputError, match="block_documents: got"):
        pack(river(), seq_len=6, block_documents=block)
