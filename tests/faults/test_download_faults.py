"""Downloads on failing disks: a file has its name whole or not at all, and the next call ends with the same bytes."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from faulty_disks import DIE, EIO, FULL, SHORT, Died, FaultyDisk, RecordingDisk, lost_power
from scripted_store import Scripted
from small_builds import QuickDisk
from tokenriver import files, partfile, registry
from tokenriver.downloading import fetch
from tokenriver.errors import RiverError
from tokenriver.partfile import PartFile, commit
from tokenriver.wire import Access, Download

BODY = bytes(range(256)) * 4
OLD = BODY[::-1]
CUT = 650


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partfile, "KEEP_BYTES", 300)


def _get(path: Path, store: Scripted, disk: files.System) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "load", lambda kind, name: store)
        patch.setattr(files, "system", disk)
        fetch([Download("http://nowhere/x", path)], access=Access(), sleep=lambda seconds: None)


def _begin(folder: Path) -> Path:
    """A folder with the part of an older version, cut off at CUT bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    path = folder / "x"
    with pytest.raises(RiverError, match="650 bytes are kept"):
        _get(path, Scripted(OLD, [CUT, *[0] * 9], "old"), QuickDisk())
    return path


def _check(path: Path) -> None:
    assert not path.exists() or path.read_bytes() == BODY
    _get(path, Scripted(BODY, [], "new"), QuickDisk())
    assert path.read_bytes() == BODY
    assert {name.name for name in path.parent.iterdir()} <= {"x", ".x.part.journal"}


@pytest.mark.parametrize("fault", [DIE, EIO, FULL, SHORT])
def test_every_call(memory: Path, fault: str) -> None:
    for at in range(200):
        path = _begin(memory / "place")
        disk = FaultyDisk(at, fault)
        try:
            _get(path, Scripted(BODY, [CUT], "new"), disk)
        except (RiverError, Died):
            assert disk.struck
        _check(path)
        if not disk.struck:
            break
    assert 20 < at < 199


@pytest.mark.parametrize("fault", [DIE, EIO, FULL])
def test_every_call_for_several_files(memory: Path, fault: str) -> None:
    """Which call fails is not the same in each run, what holds is."""
    names = ["a", "b", "c"]
    for at in range(120):
        folder = memory / "place"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        disk = FaultyDisk(at, fault)
        try:
            _get_all(folder, names, disk)
        except (RiverError, Died):
            assert disk.struck
        assert {(folder / name).read_bytes() for name in names if (folder / name).exists()} <= {BODY}
        _get_all(folder, names, QuickDisk())
        assert {(folder / name).read_bytes() for name in names} == {BODY}
        assert {path.name for path in folder.iterdir()} <= {*names, *(f".{name}.part.journal" for name in names)}
        if not disk.struck:
            break
    assert 20 < at < 119


def _get_all(folder: Path, names: list[str], disk: files.System) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "load", lambda kind, name: Scripted(BODY, [], "new"))
        patch.setattr(files, "system", disk)
        wanted = [Download(f"http://nowhere/{name}", folder / name) for name in names]
        fetch(wanted, access=Access(), sleep=lambda seconds: None, threads=2)


def test_nothing_vouches_for_bytes_that_the_disk_lost(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an fsync that failed, the next one says that all is well."""

    class Losing(QuickDisk):
        def __init__(self, good: int) -> None:
            self.good = good

        def fsync(self, fd: int) -> None:
            self.good -= 1
            if self.good == -1:
                raise OSError(5, "Input/output error")

    for good, kept in ((0, 0), (2, 300)):
        monkeypatch.setattr(files, "system", Losing(good))
        path = memory / str(good)
        part = PartFile(path)
        part.begin(len(BODY), "new")
        with pytest.raises(RiverError) as caught:
            _write_all(part)
        part.set_aside(caught.value)
        again = PartFile(path)
        again.close()
        assert again.num_bytes == kept


def _write_all(part: PartFile) -> None:
    for at in range(0, len(BODY), 150):
        part.write(BODY[at : at + 150])


def test_what_files_cost(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that came whole at once has no journal, and many together wait for their names once."""
    monkeypatch.setattr(partfile, "KEEP_BYTES", len(BODY) + 1)
    for count in (1, 5):
        disk = FaultyDisk()
        monkeypatch.setattr(files, "system", disk)
        parts = _whole(memory, [f"{count}-{n}" for n in range(count)])
        commit(parts)
        assert sorted(disk.calls) == sorted(["create", "write", "fsync", "replace", "close"] * count + NAMES)
        assert all(part.path.read_bytes() == BODY for part in parts)


NAMES = ["open", "fsync", "close"]


def _whole(folder: Path, names: list[str]) -> list[PartFile]:
    parts = [PartFile(folder / name) for name in names]
    for part in parts:
        part.begin(len(BODY), "new")
        part.write(BODY)
        part.hurry()
    return parts


def test_every_loss_of_power_while_several_get_their_names(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = memory / "live"
    live.mkdir()
    disk = RecordingDisk(live)
    monkeypatch.setattr(files, "system", disk)
    commit(_whole(live, ["a", "b", "c"]))
    seen = set()
    for number, state in lost_power(RecordingDisk(memory / "nothing").initial(), disk.log):
        found = dict(state.files)
        there = {name for name in found if not name.startswith(".")}
        assert all(found[name] == BODY for name in there)
        assert len(there) == 3 or number < len(disk.log)
        seen.add(len(there))
    assert {0, 1, 3} <= seen


def _states(folder: Path) -> Iterator[tuple[bool, Path]]:
    """(is all of it done?, a place) of every state that a loss of power may leave."""
    path = _begin(folder / "live")
    disk = RecordingDisk(path.parent)
    initial = disk.initial()
    _get(path, Scripted(BODY, [CUT], "new"), disk)
    for number, state in lost_power(initial, disk.log):
        shutil.rmtree(folder / "state", ignore_errors=True)
        state.write_to(folder / "state")
        yield number == len(disk.log), folder / "state" / "x"


def test_every_loss_of_power(memory: Path) -> None:
    count = 0
    for done, path in _states(memory):
        assert path.exists() or not done
        _check(path)
        count += 1
    assert count >= 40
