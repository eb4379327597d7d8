"""From parts to shards: the bytes of an llm.c file, the document index, and a disk that gives back something else."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import xxhash

from faulty_disks import LyingDisk
from hand_made_parts import PLAN, hand_made
from small_builds import shard_documents, shard_ids
from tokenriver import files
from tokenriver.assembly import Parts, Segment, rows_before
from tokenriver.errors import MismatchError, RiverError
from tokenriver.parts import part_path, read_receipt
from tokenriver.shards import ShardJob, ShardMaker

UNITS = [[3, 4, 5], [6], [], [2, 2, 2, 2]]


pytestmark = pytest.mark.usefixtures("quick_disk")


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return hand_made(tmp_path / "parts", UNITS)


def maker(parts: Parts, first_source: int = 0) -> ShardMaker:
    return ShardMaker(parts, "uint16", list(rows_before(parts.receipts)), first_source)


def whole(units: Sequence[int]) -> list[Segment]:
    return [Segment(unit, 0, len(UNITS[unit]), 0, sum(UNITS[unit])) for unit in units]


def test_whole_parts_and_runs_of_documents(tmp_path: Path, parts: Parts) -> None:
    info = maker(parts, first_source=4).make(
        ShardJob(tmp_path / "tokens_train_000000.bin", "train", [*whole([0, 1]), Segment(3, 1, 3, 2, 6)])
    )
    path = tmp_path / "tokens_train_000000.bin"
    assert shard_ids(path) == [*range(12), *range(12, 18), 20, 21, 22, 23]
    assert shard_documents(path) == [
        ([0, 1, 2], 0, 4),
        ([3, 4, 5, 6], 2, 4),
        ([7, 8, 9, 10, 11], 4, 4),
        ([12, 13, 14, 15, 16, 17], 6, 4),
        ([20, 21], 10, 4),
        ([22, 23], 12, 4),
    ]
    data, index = path.read_bytes(), path.with_suffix(".docs").read_bytes()
    assert (info.file, info.split, info.num_tokens, info.num_documents) == (path.name, "train", 22, 6)
    assert (info.num_bytes, info.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert (info.index_bytes, info.index_sha256) == (len(index), hashlib.sha256(index).hexdigest())
    assert sorted(name.name for name in tmp_path.iterdir()) == [
        "parts",
        "tokens_train_000000.bin",
        "tokens_train_000000.docs",
    ]


def test_documents_that_are_cut_at_the_id(tmp_path: Path, parts: Parts) -> None:
    first = ShardJob(tmp_path / "a.bin", "train", [Segment(0, 0, 2, 0, 5)])
    second = ShardJob(tmp_path / "b.bin", "train", [Segment(0, 1, 3, 5, 12), *whole([1])])
    making = maker(parts)
    making.make(first)
    making.make(second)
    assert shard_documents(first.path) == [([0, 1, 2], 0, 0), ([3, 4], 2, 0)]
    assert shard_documents(second.path) == [([5, 6], 2, 0), ([7, 8, 9, 10, 11], 4, 0), (list(range(12, 18)), 6, 0)]


def test_a_part_that_was_changed_is_found_and_done_again(tmp_path: Path, parts: Parts) -> None:
    for at in range(sum(UNITS[3]) * 2):
        path = part_path(parts.folder, (3, 0))
        data = bytearray(path.read_bytes())
        data[at] ^= 16
        path.write_bytes(data)
        for segments in (whole([0, 3]), [*whole([0]), Segment(3, 0, 1, 0, 2)]):
            with pytest.raises(MismatchError, match=r"a\.bin: unit 3-0: .* run the same command again"):
                maker(parts).make(ShardJob(tmp_path / "a.bin", "train", segments))
        assert not list(tmp_path.glob("*a.*"))
        assert read_receipt(parts.folder, (3, 0), PLAN, 2) is None
        data[at] ^= 16
        path.write_bytes(data)


@pytest.mark.parametrize("segments", [whole([0, 3]), [Segment(0, 0, 2, 0, 7), Segment(3, 1, 2, 2, 4)]])
def test_a_disk_that_writes_something_else_is_found(
    tmp_path: Path, parts: Parts, monkeypatch: pytest.MonkeyPatch, segments: list[Segment]
) -> None:
    """What every call to the disk writes is changed in turn, one bit of it: the shard never gets its name."""
    disk = LyingDisk()
    monkeypatch.setattr(files, "system", disk)
    job = ShardJob(tmp_path / "a.bin", "train", segments)
    maker(parts).make(job)
    assert disk.calls >= 6
    for at in range(disk.calls):
        monkeypatch.setattr(files, "system", LyingDisk(at))
        (tmp_path / "a.bin").unlink(missing_ok=True)
        with pytest.raises(MismatchError, match="what the disk gives back differs"):
            maker(parts).make(job)


def test_a_part_is_read_once_however_many_runs_it_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = hand_made(tmp_path / "parts", [[2] * 400])
    reads = 0
    seen = ShardMaker._open

    def counting(self: ShardMaker, unit: int) -> object:
        nonlocal reads
        reads += 1
        return seen(self, unit)

    monkeypatch.setattr(ShardMaker, "_open", counting)
    runs = [Segment(0, i, i + 1, 2 * i, 2 * i + 2) for i in range(0, 400, 2)]
    maker(parts).make(ShardJob(tmp_path / "a.bin", "train", runs))
    assert reads == 2
    assert shard_ids(tmp_path / "a.bin") == [i for run in runs for i in range(run.start, run.stop)]


def test_a_failure_leaves_no_file(tmp_path: Path, parts: Parts) -> None:
    part_path(parts.folder, (1, 0)).unlink()
    with pytest.raises(RiverError, match=r"u000001-000000\.part: cannot read"):
        maker(parts).make(ShardJob(tmp_path / "a.bin", "train", whole([0, 1])))
    assert not list(tmp_path.glob("*a.*"))


def test_uint32(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    parts = hand_made(tmp_path / "parts", [[3]])
    receipt = parts.receipts[0]
    ids = np.array([1, 70000, 2**32 - 1], "<u4").tobytes()
    docs = part_path(parts.folder, receipt.key).read_bytes()[6:]
    part_path(parts.folder, receipt.key).write_bytes(ids + docs)
    changed = type(receipt)(
        **{**{n: getattr(receipt, n) for n in receipt.__slots__}, "ids_xxh3": xxhash.xxh3_128_hexdigest(ids)}
    )
    wide = Parts(parts.folder, [changed], 4)
    info = ShardMaker(wide, "uint32", list(rows_before(wide.receipts)), 0).make(
        ShardJob(tmp_path / "a.bin", "val", [Segment(0, 0, 1, 0, 3)])
    )
    assert shard_ids(tmp_path / "a.bin") == [1, 70000, 2**32 - 1]
    assert (info.split, info.num_bytes) == ("val", 1024 + 12)
