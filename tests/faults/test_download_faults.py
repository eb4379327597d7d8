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
