"""`tokenriver leak`: silence and 0 for corpora apart, exit code 1 and where each finding lies otherwise."""

import json
from pathlib import Path

import numpy as np
import pytest

import tokenriver as tr
from command_line import tokenriver


def write_rows(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def evals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows 1 and 3 are those of the small corpus."""
    folder = tmp_path_factory.mktemp("evals")
    texts = ["new", "document 5\nhas \x1b[31mxxxxx two lines", "another", "document 8\nhas \x1b[31mx two lines", ""]
    tr.build(write_rows(folder / "evals.jsonl", texts), folder / "corpus", tokenizer="byte")
    return folder / "corpus"


def test_documents_of_one_corpus_in_another(
    evals: Path, small_corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, val = (tr.open_corpus(small_corpus, split=split) for split in ("train", "val"))
    records = [[corpus.source(i)[1] for i in range(corpus.num_documents or 0)] for corpus in (train, val)]
    found = 0
    for split, known in zip(("train", "val"), records, strict=True):
        ran = tokenriver(capsys, "leak", evals, small_corpus, "--other-split", split, "--json")
        values = ran.json()
        assert ran.code == (1 if values["found"] else 0)
        assert (values["documents"], values["other_documents"]) == (4, len(known))
        for example in values["examples"]:
            twin = example["other"]
            assert (example["source"], twin["source"]) == ("evals.jsonl", "small.jsonl")
            assert twin["record"] == {1: 5, 3: 8}[example["record"]] == known[twin["document"]]
            assert example["text"] == twin["text"]
        found += values["found"]
    assert found == 2


def test_the_table(evals: Path, small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "leak", small_corpus, small_corpus.parent / "corpus", "--split", "val")
    assert ran.code == 0
    assert f"{small_corpus} val in {small_corpus} train: 0 of " in ran.out
    ran = tokenriver(capsys, "leak", evals, evals, "--split", "train", "--other-split", "train")
    assert ran.code == 2
    assert "got split 'train' twice" in ran.err
    copy = tr.convert(evals, evals.parent / "copy", format="megatron")
    assert copy.format == "megatron"
    ran = tokenriver(capsys, "leak", evals, evals.parent / "copy", "--examples", "3")
    assert ran.code == 1
    assert "train: 4 of 4 documents (100.000%)" in ran.out
    assert "and 1 more" in ran.out
    assert "document 5\\nhas \\x1b[31mxx" in ran.out
    assert "\x1b[31m" not in ran.out


def test_validation_against_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", [f"text {n % 7}" for n in range(30)])
    tr.build(rows, tmp_path / "corpus", tokenizer="byte", val_tokens=20)
    ran = tokenriver(capsys, "leak", tmp_path / "corpus", "--json")
    assert ran.code == 1
    values = ran.json()
    assert (values["split"], values["other_split"]) == ("val", "train")
    assert values["found"] == values["documents"] == 3
    tr.build(rows, tmp_path / "hashed", tokenizer="byte", val_fraction=0.3)
    ran = tokenriver(capsys, "leak", tmp_path / "hashed")
    assert ran.code == 0
    assert "0 of" in ran.out
    assert "document  source" not in ran.out


def test_sources_that_nobody_knows(tmp_path: Path, evals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tr.convert(evals, tmp_path / "copy", format="megatron")
    for name in ("manifest.json", "tokens_train_000000.docs"):
        (tmp_path / "copy" / name).unlink(missing_ok=True)
    ran = tokenriver(capsys, "leak", evals, tmp_path / "copy", "--json")
    assert (ran.code, ran.json()["found"]) == (1, 4)
    assert ran.json()["examples"][0]["other"]["source"] is None
    assert tokenriver(capsys, "leak", tmp_path / "copy", evals).code == 1


def test_failures_are_one_line(tmp_path: Path, evals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.arange(50, dtype=np.uint16).tofile(tmp_path / "train.bin")
    for command, message in (
        (["leak", evals, tmp_path / "train.bin"], "without document bounds, expected them"),
        (["leak", evals], "split"),
        (["leak", evals, tmp_path / "nothing"], "nothing"),
    ):
        ran = tokenriver(capsys, *command)
        assert (ran.code, ran.err.count("\n")) == (1, 1), ran.err
        assert message in ran.err
