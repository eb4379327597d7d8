"""A lock keeps others out: of this process, of another, and of one that has died it keeps nobody."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from small_builds import QuickDisk
from tokenriver import files
from tokenriver.errors import InputError
from tokenriver.locks import hold_lock


def test_a_lock_keeps_others_out_until_it_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold_lock(path) as first, hold_lock(path) as second:
        assert (first, second) == (True, False)
    with hold_lock(path) as third:
        assert third


def test_a_lock_that_was_removed_while_waiting_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(QuickDisk):
        def open(self, path: Path, flags: int) -> int:
            fd = super().open(path, flags)
            path.unlink()
            path.write_bytes(b"")
            return fd

    monkeypatch.setattr(files, "system", Slow())
    with hold_lock(tmp_path / "lock") as held:
        assert not held


HOLDER = """
import sys
from pathlib import Path
from tokenriver.locks import hold_lock
with hold_lock(Path(sys.argv[1])) as held:
    print(held, flush=True)
    sys.stdin.read()
"""


def test_a_lock_dies_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"True\n"
        with hold_lock(path) as held:
            assert not held
        other.kill()
        other.wait()
        with hold_lock(path) as held:
            assert held


def test_a_lock_is_let_go_when_its_block_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyError), hold_lock(tmp_path / "lock"):
        raise KeyError
    with hold_lock(tmp_path / "lock") as held:
        assert held


def test_a_lock_that_cannot_be_made_names_its_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lock: cannot lock: No such file"), hold_lock(tmp_path / "missing" / "lock"):
        pass


def test_a_lock_leaks_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0
    for _ in range(20):
        with hold_lock(tmp_path / "lock") as first, hold_lock(tmp_path / "lock") as second:
            assert (first, second) == (True, False)
    assert (len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0) == before
