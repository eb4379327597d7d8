"""Journals: whole lines or nothing, whatever the disk does."""

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenriver import files, journal
from tokenriver.errors import InputError, LimitError
from tokenriver.journal import Journal, read_lines


@given(
    lines=st.lists(st.binary(max_size=9).filter(lambda line: b"\n" not in line), min_size=1, max_size=5),
    cut=st.integers(0, 60),
    tail=st.integers(1, 5),
)
def test_any_cut_leaves_whole_lines(
    lines: list[bytes], cut: int, tail: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("journal") / "j"
    first = Journal(path)
    for line in lines:
        first.add(line)
    first.close()
    assert read_lines(path) == lines
    path.write_bytes(path.read_bytes()[:cut])
    left = read_lines(path)
    assert left == lines[: len(left)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "TAIL", tail)
        second = Journal(path)
    second.add(b"more", sync=True)
    second.close()
    assert read_lines(path) == [*left, b"more"]


class Full(files.System):
    """A disk that takes three bytes of the second line."""

    def __init__(self) -> None:
        self.writes = 0

    def write(self, fd: int, data: memoryview) -> int:
        self.writes += 1
        if self.writes == 2:
            return super().write(fd, data[:3])
        if self.writes == 3:
            raise OSError(errno.ENOSPC, "full")
        return super().write(fd, data)


def test_half_a_line_is_an_error_and_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "system", Full())
    made = Journal(tmp_path / "j")
    made.add(b"first")
    with pytest.raises(InputError, match="j: cannot write: the system took only a part of a line"):
        made.add(b"second")
    with pytest.raises(LimitError, match="j: cannot write: full"):
        made.add(b"third")
    made.add(b"fourth")
    assert read_lines(tmp_path / "j") == [b"first", b"fourth"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        Journal(tmp_path / "none" / "j")
    with pytest.raises(InputError, match="cannot read"):
        read_lines(tmp_path / "none" / "j")
