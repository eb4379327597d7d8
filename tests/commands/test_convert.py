"""`tokenriver convert`: the balance, notes, a refusal with its cure, JSON."""

from pathlib import Path

import numpy as np
import pytest

import tokenriver as tr
from command_line import tokenriver


def test_the_balance_is_printed(small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "convert", small_corpus, "-o", tmp_path / "out", "--format", "megatron")
    assert (ran.code, ran.err) == (0, "")
    ids = tr.open_corpus(small_corpus).num_tokens
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["ids", "lost", "0"] in lines
    assert any(line[0] == "train" and f"{ids:,}" in line for line in lines if line)
    again = tokenriver(capsys, "convert", small_corpus, "-o", tmp_path / "out", "--format", "megatron")
    assert "was complete already" in again.out


def test_json_has_the_same_numbers(small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["convert", small_corpus, "-o", tmp_path / "out", "--format", "llmc", "--shard-tokens", "100", "--json"]
    values = tokenriver(capsys, *arguments).json()
    corpus = tr.open_corpus(small_corpus)
    assert values["splits"]["train"]["ids"] == corpus.num_tokens == values["balance"]["ids"]["kept"]["train"]
    assert values["splits"]["train"]["shards"] == -(-corpus.num_tokens // 100)
    assert values["format"] == "llmc"


def test_a_refusal_is_one_line_with_its_cure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.array([1, 70000], np.uint32).tofile(tmp_path / "train.bin")
    command = ["convert", tmp_path / "train.bin", "-o", tmp_path / "out", "--format", "llmc"]
    ran = tokenriver(capsys, *command, "--source-dtype", "uint32", "--dtype", "uint16")
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "id: got 70000, expected at most 65535, what uint16 holds; choose a wider dtype" in ran.err


def test_what_is_not_known_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.arange(50, dtype=np.uint16).tofile(tmp_path / "train.bin")
    ran = tokenriver(capsys, "convert", tmp_path / "train.bin", "-o", tmp_path / "out", "--format", "minimind")
    assert ran.code == 0
    assert "note: no document bounds: the file has none" in ran.out
    assert "note: ids are uint16: the file does not say" in ran.out
    parted = ["convert", tmp_path / "train.bin", "-o", tmp_path / "b", "--format", "minimind", "--eos-id", "9"]
    assert tokenriver(capsys, *parted, "--json").json()["splits"]["train"]["documents"] == 2


def test_no_format_is_wrong_usage(small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tokenriver(capsys, "convert", small_corpus, "-o", tmp_path / "out").code == 2
