"""`tokenriver demo`: the whole way on a little text, its proofs, and that they can fail."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import zstandard

import tokenriver as tr
from command_line import tokenriver
from tokenriver.commands import _demo_crash, _demo_ranks, _demo_text


def test_the_whole_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    ran = tokenriver(capsys, "demo", "--out", out, "--megabytes", 2, "--json")
    assert ran.code == 0, ran.err
    found = ran.json()
    assert found["failed"] == []
    assert found["verify"]["findings"] == 0
    assert found["crash"]["receipts"] >= _demo_crash.RECEIPTS
    assert found["crash"]["resumed"] >= _demo_crash.RECEIPTS
    assert found["crash"]["different"] == []
    assert found["build"]["num_documents"] == sum(found["text"]["files"].values())
    assert {path.name for path in out.iterdir()} == {".tokenriver-demo", "text.jsonl.zst", "corpus", "again"}
    for word in ("rows served", "SIGKILL", "state after it", "ceiling"):
        assert word in ran.err


def test_it_clears_its_own_folder_and_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").write_text("mine")
    ran = tokenriver(capsys, "demo", "--out", tmp_path)
    assert ran.code == 1
    assert "--out" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_the_text_is_real_bounded_and_the_same_twice(tmp_path: Path) -> None:
    first, second = (_demo_text.write_text(tmp_path / name, 300_000) for name in ("a", "b"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert dataclasses.replace(first, path=second.path) == second
    rows = zstandard.ZstdDecompressor().decompressobj().decompress((tmp_path / "a").read_bytes()).splitlines()
    texts = [json.loads(row)["text"] for row in rows]
    assert sum(len(text.encode()) for text in texts) == first.text_bytes
    assert 300_000 <= first.text_bytes < 300_000 + _demo_text.MOST
    assert len(texts) == sum(first.files.values()) == len(set(texts))


def test_differences_are_seen(tmp_path: Path) -> None:
    for name, files in (("a", {"x": b"1", "y": b"2", "z": b"3"}), ("b", {"x": b"1", "y": b"9", "w": b"3"})):
        (tmp_path / name).mkdir()
        for file, data in files.items():
            (tmp_path / name / file).write_bytes(data)
    assert _demo_crash._differences(tmp_path / "a", tmp_path / "b") == ["w", "y", "z"]
    assert _demo_crash._differences(tmp_path / "a", tmp_path / "a") == []


def test_a_row_too_many_or_too_few_is_seen(tmp_path: Path) -> None:
    np.arange(20_000, dtype=np.uint16).tofile(tmp_path / "train.bin")
    corpus = tr.open_corpus(tmp_path / "train.bin")
    epoch = _demo_ranks.serve(corpus, (1,))
    assert epoch.exactly_once()
    assert epoch.same_as(_demo_ranks.serve(corpus, (2, 1)))
    assert not dataclasses.replace(epoch, repeats=1).exactly_once()
    assert not dataclasses.replace(epoch, uneven=1).exactly_once()
    assert not dataclasses.replace(epoch, samples=np.where(epoch.samples == 0, -1, epoch.samples)).exactly_once()
    assert not epoch.same_as(dataclasses.replace(epoch, sums=epoch.sums + 1))
    assert not epoch.same_as(dataclasses.replace(epoch, samples=epoch.samples[::-1]))
