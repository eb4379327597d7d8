"""Shards begun while units are still being done: a head start, with which and without which the bytes are the same."""

import threading
from pathlib import Path

import pytest

from fault_harness import begin_shards_early
from small_builds import files_of, small_build, some_texts, write_rows
from tokenriver import early
from tokenriver.errors import InputError, RiverError
from tokenriver.shards import Begun, ShardJob, ShardMaker

pytestmark = pytest.mark.usefixtures("quick_disk")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.jsonl", some_texts(120))


@pytest.fixture
def taken_over(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many ids each shard already had when it was made."""
    found: list[int] = []
    make = ShardMaker.make

    def noting(self: ShardMaker, job: ShardJob, begun: Begun | None = None) -> object:
        found.append(begun.num_ids if begun is not None else 0)
        return make(self, job, begun)

    monkeypatch.setattr(ShardMaker, "make", noting)
    return found


@pytest.mark.parametrize("shard_tokens", [1, 90, 1000, 3000, 10**8])
def test_the_bytes_are_those_of_a_build_without(
    tmp_path: Path, rows: Path, taken_over: list[int], monkeypatch: pytest.MonkeyPatch, shard_tokens: int
) -> None:
    small_build(rows, tmp_path / "without", shard_tokens=shard_tokens)
    assert not any(taken_over)
    taken_over.clear()
    begin_shards_early(monkeypatch)
    small_build(rows, tmp_path / "with", shard_tokens=shard_tokens)
    assert sum(ids > 0 for ids in taken_over) >= len(taken_over) - 2
    assert taken_over[0] > 0
    assert files_of(tmp_path / "with") == files_of(tmp_path / "without")


def test_workers_have_it_and_splits_do_not(tmp_path: Path, rows: Path, taken_over: list[int]) -> None:
    small_build(rows, tmp_path / "plain", workers=2, shard_tokens=2000)
    assert taken_over[0] > 0
    for options in ({"val_fraction": 0.1}, {"val_tokens": 5}, {"max_tokens": 9000}, {"format": "llmc"}):
        taken_over.clear()
        small_build(rows, tmp_path / str(options), workers=1, shard_tokens=2000, **options)
        assert not any(taken_over)


def test_appended_shards_are_begun_under_their_own_numbers(
    tmp_path: Path, rows: Path, taken_over: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    more = write_rows(tmp_path / "more.jsonl", some_texts(80, start=500))
    for out in ("without", "with"):
        small_build(rows, tmp_path / out, shard_tokens=2000)
        old = files_of(tmp_path / out)
        if out == "with":
            taken_over.clear()
            begin_shards_early(monkeypatch)
        small_build(more, tmp_path / out, shard_tokens=2000, append=True)
        new = files_of(tmp_path / out)
        assert all(new[name] == data for name, data in old.items() if name != "manifest.json")
    assert taken_over[0] > 0
    assert files_of(tmp_path / "with") == files_of(tmp_path / "without")


def test_a_failed_build_leaves_none_of_them(tmp_path: Path, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows.write_bytes(rows.read_bytes() + b"bad\n")
    begin_shards_early(monkeypatch)
    with pytest.raises(InputError, match="bad row"):
        small_build(rows, tmp_path / "out", shard_tokens=1000, on_bad="fail")
    assert [name for name in files_of(tmp_path / "out") if not name.startswith(".build")] == []


def test_trouble_in_the_thread_is_left_to_assembly(tmp_path: Path, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread gives up; assembly writes every shard itself."""
    small_build(rows, tmp_path / "without", shard_tokens=1000)

    def trouble(self: early.EarlyShards, *_: object) -> None:
        raise RiverError("trouble")

    monkeypatch.setattr(early.EarlyShards, "_copy", trouble)
    small_build(rows, tmp_path / "with", shard_tokens=1000, workers=1)
    assert files_of(tmp_path / "with") == files_of(tmp_path / "without")
    assert not any(thread.name == "tokenriver-early" for thread in threading.enumerate())
