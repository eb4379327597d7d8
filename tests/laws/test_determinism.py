"""Law 5: the same inputs and options give the same bytes, manifest included, whoever does the work and wherever."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import zstandard

import tokenriver
from small_builds import QuickDisk, files_of, small_build, some_texts, write_rows
from tokenriver import files
from tokenriver.errors import InputError
from tokenriver.streams import read_blocks, read_range

OPTIONS: dict[str, object] = {
    "separator": "|",
    "val_fraction": 0.2,
    "shard_tokens": 5000,
    "max_bad": 1.0,
}


pytestmark = pytest.mark.usefixtures("quick_disk")


def some_folder(folder: Path) -> Path:
    """Small files, a large one, a large archive and a stream of plain text, in folders, with bad rows."""
    (folder / "b" / "c").mkdir(parents=True)
    for number in range(5):
        path = write_rows(folder / "b" / f"{number}.jsonl", some_texts(4, start=50 * number))
        path.write_bytes(path.read_bytes() + b"bad\n" * (number % 2))
    write_rows(folder / "large.jsonl", some_texts(60, start=300))
    rows = write_rows(folder / "b" / "c" / "rows", some_texts(120, start=400))
    (folder / "b" / "c" / "huge.jsonl.zst").write_bytes(zstandard.compress(rows.read_bytes()))
    rows.unlink()
    (folder / "text.txt").write_bytes("|".join(some_texts(40, start=600)).encode())
    return folder


def test_any_number_of_workers(tmp_path: Path) -> None:
    """With a split, which is decided at the end, and without, where shards are begun while units are being done."""
    inputs = some_folder(tmp_path / "in")
    for val_fraction in (0.2, 0.0):
        options = {**OPTIONS, "val_fraction": val_fraction}
        here = tmp_path / f"here{val_fraction}"
        small_build(inputs, here, **options)
        expected = files_of(here)
        assert len(expected) >= 9
        for workers in (1, 2, 7) if val_fraction else (3,):
            out = tmp_path / f"out{val_fraction}-{workers}"
            report = small_build(inputs, out, workers=workers, **options)
            assert report.units > 7
            assert files_of(out) == expected


def test_any_number_of_workers_with_a_bound(tmp_path: Path) -> None:
    """Units that other workers had begun beyond max_tokens leave no trace, not even when their input is damaged."""
    inputs = some_folder(tmp_path / "in")
    options = {**OPTIONS, "val_fraction": 0.0, "max_tokens": 9000, "on_bad": "skip"}
    archive = inputs / "b" / "c" / "just-behind.jsonl.zst"
    archive.write_bytes(zstandard.compress(bytes(range(256)) * 90)[:-9])
    small_build(inputs, tmp_path / "here", source="jsonl", include=["*.jsonl", "*.zst"], **options)
    expected = files_of(tmp_path / "here")
    for workers in (2, 7):
        out = tmp_path / f"out{workers}"
        small_build(inputs, out, source="jsonl", include=["*.jsonl", "*.zst"], workers=workers, **options)
        assert files_of(out) == expected
    with pytest.raises(InputError, match="truncated"):
        small_build(inputs, tmp_path / "all", source="jsonl", include=["*.jsonl", "*.zst"])


def test_any_number_of_workers_without_duplicates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without a bound, which counts what stays, and whatever of the sort fits into memory."""
    inputs = some_folder(tmp_path / "in")
    (inputs / "c.jsonl").write_bytes((inputs / "large.jsonl").read_bytes() * 2)
    write_rows(inputs / "z.jsonl", [*some_texts(30, start=410), *some_texts(9, start=900)])
    for max_tokens in (None, 18_000):
        options = {**OPTIONS, "filter": "exact-dedup", "max_tokens": max_tokens}
        small_build(inputs, tmp_path / f"here{max_tokens}", **options)
        expected = files_of(tmp_path / f"here{max_tokens}")
        for number, (workers, run) in enumerate(((2, 50), (None, 9))):
            out = tmp_path / f"out{max_tokens}-{number}"
            monkeypatch.setattr("tokenriver.duplicates.RUN_DOCUMENTS", run)
            report = small_build(inputs, out, workers=workers, **options)
            assert files_of(out) == expected
            assert report.balance["documents"]["filtered"]["duplicate"] >= 30
    assert tokenriver.verify(tmp_path / "hereNone", against_inputs=True, inputs_root=inputs) == []


def test_hash_seeds_and_locales(tmp_path: Path) -> None:
    inputs = some_folder(tmp_path / "in")
    small_build(inputs, tmp_path / "here", **OPTIONS)
    expected = files_of(tmp_path / "here")
    words = ["--tokenizer", "byte", "--unit-bytes", "1024", "--separator", "|", "--val-fraction", "0.2"]
    words += ["--shard-tokens", "5000", "--max-bad", "1.0", "--json"]
    for seed, locale in (("0", "C"), ("1", "C.UTF-8"), ("4294967295", "POSIX")):
        out = tmp_path / f"out{seed}"
        environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale, "TZ": "Asia/Tokyo"}
        command = [sys.executable, "-m", "tokenriver", "build", str(inputs), "-o", str(out), *words]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        assert files_of(out) == expected


def test_shuffled_listings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = some_folder(tmp_path / "in")
    small_build(inputs, tmp_path / "here", **OPTIONS)
    expected = files_of(tmp_path / "here")
    for seed in range(5):
        _shuffle_listings(monkeypatch, random.Random(seed))
        small_build(inputs, tmp_path / f"out{seed}", **OPTIONS)
        small_build(str(inputs / "**" / "*"), tmp_path / f"glob{seed}", **OPTIONS)
        monkeypatch.undo()
        monkeypatch.setattr(files, "system", QuickDisk())
        assert files_of(tmp_path / f"out{seed}") == expected
        assert files_of(tmp_path / f"glob{seed}") == files_of(tmp_path / "glob0")


def _shuffle_listings(monkeypatch: pytest.MonkeyPatch, dice: random.Random) -> None:
    listdir, scandir = os.listdir, os.scandir

    def shuffled(path: str = ".") -> list[str]:
        names = listdir(path)
        dice.shuffle(names)
        return names

    class Scan:
        def __init__(self, path: str = ".") -> None:
            with scandir(path) as found:
                self.entries = list(found)
            dice.shuffle(self.entries)

        def __enter__(self) -> "list[os.DirEntry[str]]":
            return self.entries

        def __exit__(self, *_: object) -> None:
            self.entries.clear()

    monkeypatch.setattr(os, "listdir", shuffled)
    monkeypatch.setattr(os, "scandir", Scan)


def test_another_folder_and_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = some_folder(tmp_path / "in")
    small_build(inputs, tmp_path / "here", **OPTIONS)
    expected = files_of(tmp_path / "here")
    shutil.copytree(inputs, tmp_path / "deep" / "below" / "other name")
    with monkeypatch.context() as inside:
        inside.chdir(tmp_path / "deep")
        small_build("below/other name", Path("../there"), **OPTIONS)
        small_build(["./below/../below/other name"], Path("again"), **OPTIONS)
    assert files_of(tmp_path / "there") == expected
    assert files_of(tmp_path / "deep" / "again") == expected
    assert all(str(tmp_path).encode() not in data for data in expected.values())


@pytest.mark.parametrize("unit_bytes", [1024, 3000, 1 << 20])
def test_read_blocks_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit_bytes: int) -> None:
    """Law 2: ids depend on neither units nor read blocks nor the text of one native call."""
    inputs = some_folder(tmp_path / "in")
    options = {**OPTIONS, "unit_bytes": unit_bytes, "shard_tokens": 10**8}
    small_build(inputs, tmp_path / "here", **options)
    ids = _ids(tmp_path / "here")
    assert ids == _ids_of_default(inputs, tmp_path / "one")
    monkeypatch.setattr("tokenriver.engines._unit.ENCODE_BYTES", 100)
    for module in (
        "units.read_blocks",
        "engines._unit.read_blocks",
        "sources.jsonl.read_range",
        "sources.text.read_range",
    ):
        read = read_range if module.endswith("range") else read_blocks
        monkeypatch.setattr(f"tokenriver.{module}", partial(read, block_bytes=77))
    small_build(inputs, tmp_path / "small", **options)
    assert files_of(tmp_path / "small") == files_of(tmp_path / "here")


def _ids(out: Path) -> dict[str, bytes]:
    return {name: data for name, data in files_of(out).items() if name.endswith((".bin", ".docs"))}


def _ids_of_default(inputs: Path, out: Path) -> dict[str, bytes]:
    small_build(inputs, out, **{**OPTIONS, "unit_bytes": 1 << 24, "shard_tokens": 10**8})
    return _ids(out)


def test_encoders_and_checks_leave_no_trace(tmp_path: Path) -> None:
    inputs = some_folder(tmp_path / "in")
    given: list[Callable[[Path], object]] = [
        lambda out: small_build(inputs, out, **{**OPTIONS, "tokenizer": "gpt2"}),
        lambda out: small_build(inputs, out, **{**OPTIONS, "tokenizer": "gpt2", "encoder": "reference"}),
        lambda out: small_build(inputs, out, **{**OPTIONS, "tokenizer": "gpt2", "encoder_check": False, "workers": 2}),
    ]
    for number, build in enumerate(given):
        build(tmp_path / str(number))
    assert files_of(tmp_path / "0") == files_of(tmp_path / "1") == files_of(tmp_path / "2")
    assert tokenriver.verify(tmp_path / "0", against_inputs=True, inputs_root=inputs) == []
