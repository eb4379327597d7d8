"""Room on a disk."""

import os
from pathlib import Path

import pytest

from tokenriver import room
from tokenriver.errors import LimitError


def test_free_space_is_that_of_the_nearest_folder(tmp_path: Path) -> None:
    here = room.free_bytes(tmp_path / "not" / "there" / "yet")
    status = os.statvfs(tmp_path)
    assert 0 <= here <= status.f_blocks * status.f_frsize


def test_room_is_asked_for_again_when_what_was_promised_is_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [1000, 500, 40]
    monkeypatch.setattr(room, "free_bytes", lambda folder: answers.pop(0))
    here = room.Room()
    for size in (600, 400):
        here.take(tmp_path / "a", size)
    assert len(answers) == 2
    here.take(tmp_path / "b", 500)
    with pytest.raises(LimitError, match="got 40 bytes, expected 41"):
        here.take(tmp_path / "c", 41)
