"""The seam to the disk: files that appear whole or not at all, errors that name the path and the cure."""

import errno
import hashlib
import os
import threading
from pathlib import Path

import numpy as np
import pytest
import xxhash

from faulty_disks import DIE, FULL, SHORT, Died, FaultyDisk
from small_builds import QuickDisk
from tokenriver import digests, files
from tokenriver.errors import InputError, LimitError


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def _write_and_fail(path: Path) -> None:
    with files.AtomicFile(path) as file:
        file.write(b"new")
        raise KeyError


def test_a_file_appears_whole(tmp_path: Path) -> None:
    with files.AtomicFile(tmp_path / "a") as file:
        file.write(b"one ")
        file.write(np.arange(3, dtype="<u2").data)
        file.write(memoryview(b""))
        assert names(tmp_path) == [".a.tmp"]
    assert (tmp_path / "a").read_bytes() == b"one \0\0\1\0\2\0"
    assert names(tmp_path) == ["a"]
    assert file.num_bytes == 10
    assert file.sha256 == hashlib.sha256(b"one \0\0\1\0\2\0").hexdigest()


def test_an_exception_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(KeyError):
        _write_and_fail(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_left_over_of_a_killed_process_is_written_over(tmp_path: Path) -> None:
    (tmp_path / ".a.tmp").write_bytes(b"much longer than what comes")
    files.write_atomic(tmp_path / "a", b"short")
    assert (tmp_path / "a").read_bytes() == b"short"
    assert names(tmp_path) == ["a"]


def test_short_writes_and_copies_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(QuickDisk):
        def write(self, fd: int, data: memoryview) -> int:
            return super().write(fd, data[:7])

        def copy(self, source_fd: int, target_fd: int, count: int, offset: int) -> int:
            return super().copy(source_fd, target_fd, min(count, 5), offset)

    source = tmp_path / "source"
    source.write_bytes(bytes(range(200)))
    monkeypatch.setattr(files, "system", Slow())
    with files.AtomicFile(tmp_path / "a") as file, source.open("rb") as other:
        file.write(b"head")
        file.copy_from(other.fileno(), 3, 130)
        file.write(bytes(100))
    assert (tmp_path / "a").read_bytes() == b"head" + bytes(range(3, 130)) + bytes(100)
    assert file.num_bytes == 4 + 127 + 100


def test_the_disk_begins_with_large_files_while_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    class Asked(QuickDisk):
        def hurry(self, fd: int, start: int, count: int) -> None:
            asked.append((start, count))

    monkeypatch.setattr(files, "system", Asked())
    monkeypatch.setattr(files, "HURRY_BYTES", 10)
    (tmp_path / "source").write_bytes(bytes(100))
    with files.AtomicFile(tmp_path / "a") as file, (tmp_path / "source").open("rb") as other:
        for _ in range(3):
            file.write(bytes(4))
        file.copy_from(other.fileno(), 0, 25)
        file.cut(20)
        file.write(bytes(9))
        file.write(bytes(2))
    assert asked == [(0, 12), (12, 25), (20, 11)]
    with files.AtomicFile(tmp_path / "b", lasting=False) as file:
        file.write(bytes(50))
    assert len(asked) == 3


@pytest.mark.parametrize("error", [AttributeError, OSError])
def test_a_system_that_knows_no_such_wish_does_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    monkeypatch.setattr(files, "HURRY_BYTES", 1)
    files.write_atomic(tmp_path / "a", b"some")
    assert (tmp_path / "a").read_bytes() == b"some"


def test_what_need_not_last_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    monkeypatch.setattr(files, "system", disk)
    files.write_atomic(tmp_path / "a", b"some", lasting=False)
    assert disk.calls == ["create", "write", "close", "replace"]
    assert (tmp_path / "a").read_bytes() == b"some"


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_copies_where_the_kernel_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, "no")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    (tmp_path / "source").write_bytes(b"0123456789")
    with files.AtomicFile(tmp_path / "a") as file, (tmp_path / "source").open("rb") as other:
        file.copy_from(other.fileno(), 2, 9)
    assert (tmp_path / "a").read_bytes() == b"2345678"


def test_a_copy_that_ends_early_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"0123456789")
    with (
        pytest.raises(InputError, match=r"a: cannot write: the system took 0 bytes"),
        files.AtomicFile(tmp_path / "a") as file,
        (tmp_path / "source").open("rb") as other,
    ):
        file.copy_from(other.fileno(), 2, 11)
    assert names(tmp_path) == ["source"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_is_a_limit_with_its_cure(number: int) -> None:
    with pytest.raises(LimitError) as error, files.naming(Path("/there/a"), "write"):
        raise OSError(number, os.strerror(number))
    assert str(error.value).startswith(f"/there/a: cannot write: {os.strerror(number)}; free space")
    assert "run the same command again" in str(error.value)


def test_other_failures_name_path_and_cause() -> None:
    with pytest.raises(InputError) as error, files.naming(Path("/there/a"), "open"):
        raise PermissionError(errno.EACCES, "Permission denied")
    assert str(error.value) == "/there/a: cannot open: Permission denied; check the path and its permissions"


@pytest.mark.parametrize("at", range(7))
def test_a_death_at_any_call_leaves_the_old_file_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    (tmp_path / "a").write_bytes(b"old")
    disk = FaultyDisk(at, DIE)
    monkeypatch.setattr(files, "system", disk)
    with pytest.raises(Died):
        files.write_atomic(tmp_path / "a", b"new")
    renamed = "replace" in disk.calls[:-1] and at > disk.calls.index("replace")
    assert (tmp_path / "a").read_bytes() == (b"new" if renamed else b"old")


def test_the_protocol_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    monkeypatch.setattr(files, "system", disk)
    files.write_atomic(tmp_path / "a", b"new")
    assert disk.calls == ["create", "write", "fsync", "close", "replace", "open", "fsync", "close"]
    for fault in (FULL, SHORT):
        disk = FaultyDisk(1, fault)
        monkeypatch.setattr(files, "system", disk)
        if fault == FULL:
            with pytest.raises(LimitError):
                files.write_atomic(tmp_path / "a", b"newer")
            assert names(tmp_path) == ["a"]
        else:
            files.write_atomic(tmp_path / "a", b"newer")
            assert disk.calls.count("write") == 2
    assert (tmp_path / "a").read_bytes() == b"newer"


def test_folders_are_made_with_their_parents_and_each_name_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FaultyDisk()
    monkeypatch.setattr(files, "system", disk)
    files.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    step = ["open", "fsync", "close"]
    assert disk.calls == [*step, "mkdir", *step, "mkdir", *step]
    files.make_folder(tmp_path / "a" / "b")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="cannot create the folder"):
        files.make_folder(tmp_path / "file")
    with pytest.raises(InputError, match="file"):
        files.make_folder(tmp_path / "file" / "below")


def test_removing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.remove(tmp_path / "missing")
    files.remove_folder(tmp_path / "missing")
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("plan", "a", "lock", ".b"):
        (folder / name).write_bytes(b"")
    order: list[str] = []

    class Noting(QuickDisk):
        def unlink(self, path: Path) -> None:
            order.append(path.name)
            super().unlink(path)

    monkeypatch.setattr(files, "system", Noting())
    files.remove_folder(folder, last=("plan", "lock", "absent"))
    assert order == [".b", "a", "plan", "lock"]
    assert not folder.exists()


def test_a_folder_in_which_somebody_begins_anew_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()

    class Busy(QuickDisk):
        def rmdir(self, path: Path) -> None:
            (path / "new").write_bytes(b"")
            super().rmdir(path)

    monkeypatch.setattr(files, "system", Busy())
    files.remove_folder(folder)
    assert names(folder) == ["new"]


def test_listings_are_sorted_by_bytes(tmp_path: Path) -> None:
    for name in ("b", "é", "B", "a", "Z"):
        (tmp_path / name).write_bytes(b"")
    assert files.list_folder(tmp_path) == ["B", "Z", "a", "b", "é"]
    with pytest.raises(InputError, match="cannot list"):
        files.list_folder(tmp_path / "missing")


def test_digest_of_a_file(tmp_path: Path) -> None:
    data = bytes(range(256)) * 9000
    (tmp_path / "a").write_bytes(data)
    assert digests.sha256_file(tmp_path / "a") == hashlib.sha256(data).hexdigest()
    assert digests.xxh3_file(tmp_path / "a", len(data)) == xxhash.xxh3_128_hexdigest(data)
    assert digests.xxh3_file(tmp_path / "a", 1 << 20) == xxhash.xxh3_128_hexdigest(data[: 1 << 20])
    assert digests.xxh3([data[:5], memoryview(data)[5:]]) == xxhash.xxh3_128_hexdigest(data)
    for missing in (digests.sha256_file, lambda path: digests.xxh3_file(path, 1)):
        with pytest.raises(InputError, match="cannot read: No such file"):
            missing(tmp_path / "missing")


def test_descriptors_are_not_inherited_and_not_leaked(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0
    for number in range(20):
        files.write_atomic(tmp_path / f"{number}", b"x")
        with pytest.raises(KeyError):
            _write_and_fail(tmp_path / "y")
    assert (len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0) == before
    fd = files.system.open(tmp_path / "0", os.O_RDONLY)
    assert not os.get_inheritable(fd)
    files.system.close(fd)


def test_many_threads_write_their_own_files(tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=files.write_atomic, args=(tmp_path / str(i), bytes([i]) * 1000)) for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(tmp_path / str(i)).read_bytes() for i in range(8)] == [bytes([i]) * 1000 for i in range(8)]
