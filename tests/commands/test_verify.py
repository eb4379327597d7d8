"""`tokenriver verify`: silence for a sound corpus, exit code 1 and the name of the file for a damaged one."""

import shutil
from pathlib import Path

import pytest

import toy_tokenizers
from command_line import tokenriver
from small_builds import write_rows


def test_a_sound_corpus(small_corpus: Path, small_input: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "verify", small_corpus, "--against-inputs", "--inputs-root", small_input.parent)
    assert (ran.code, ran.out, ran.err) == (0, f"{small_corpus}: no findings\n", "")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_flipped_byte(as_json: bool, small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = shutil.copytree(small_corpus, tmp_path / "copy")
    shard = copy / "tokens_train_000000.bin"
    data = bytearray(shard.read_bytes())
    data[1500] ^= 1
    shard.write_bytes(data)
    ran = tokenriver(capsys, "verify", copy, *(["--json"] if as_json else []))
    assert ran.code == 1
    if as_json:
        assert any(shard.name in finding["path"] for finding in ran.json()["findings"])
    else:
        assert shard.name in ran.out
        assert "expected" in ran.out


def test_the_file_of_the_tokenizer_may_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ["the river runs", "the rain falls"])
    file = toy_tokenizers.write(tmp_path, toy_tokenizers.byte_level(), "own.json")
    assert (
        tokenriver(capsys, "build", rows, "-o", tmp_path / "corpus", "--tokenizer", file, "--framing", "none").code == 0
    )
    words = ("verify", tmp_path / "corpus", "--against-inputs", "--inputs-root", tmp_path)
    refused = tokenriver(capsys, *words)
    assert refused.code == 1
    assert "got the name 'own.json' alone; give its file as tokenizer" in refused.err
    assert tokenriver(capsys, *words, "--tokenizer", file).code == 0
    shown = tokenriver(capsys, "batches", tmp_path / "corpus", "--seq-len", 8, "--batch-size", 1, "--tokenizer", file)
    assert "the riv" in shown.out


def test_no_corpus_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "verify", tmp_path / "nothing")
    assert ran.code == 1
    assert str(tmp_path / "nothing") in ran.err + ran.out
