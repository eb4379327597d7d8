"""`tokenriver stats`: tables and JSON with the numbers of the function."""

from pathlib import Path

import pytest

import tokenriver as tr
from command_line import tokenriver


def test_json_has_the_numbers_of_the_function(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = tokenriver(capsys, "stats", small_corpus, "--seq-len", "8,16", "--seq-len", "1k", "--json").json()
    found = tr.stats(small_corpus, seq_lens=[8, 16, 1000])
    assert value["num_documents"] == found.num_documents
    assert [row["rows"] for row in value["rows"]] == [row.rows for row in found.rows]
    assert [row["lost"] for row in value["rows"]] == [row.lost for row in found.rows]
    assert list(value["longer"]) == ["8", "16", "1000"]
    assert value["bytes_per_token"] == 1
    assert value["vocabulary"] is None


def test_tables(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "stats", small_corpus, "--seq-len", "16", "--split", "val")
    assert (ran.code, ran.err) == (0, "")
    found = tr.stats(small_corpus, seq_lens=[16], split="val")
    lines = [line.split() for line in ran.out.splitlines()]
    for row in found.rows:
        start = [row.packing, row.overflow or "-", f"{row.rows:,}", f"{row.padding_share:.2%}", f"{row.lost:,}"]
        assert start in [line[:5] for line in lines]
    assert found.lengths is not None
    assert ["50%", "up", "to", str(found.lengths.quantiles[0.5])] in lines
    assert "vocabulary" not in ran.out


def test_rows_in_buckets_beside_the_others(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "stats", small_corpus, "--seq-len", "64", "--packing", "document", "--buckets", "3")
    assert (ran.code, ran.err) == (0, "")
    found = tr.stats(small_corpus, seq_lens=[64], packings=["document"], buckets=3)
    assert [bool(row.widths) for row in found.rows] == [False, True] * 3
    lines = [line.split() for line in ran.out.splitlines()]
    for row in found.rows[1::2]:
        start = ["document", "in", str(len(row.widths)), row.overflow, f"{row.rows:,}", f"{row.padding_share:.2%}"]
        assert start in [line[:6] for line in lines]


def test_vocabulary_is_shown_when_asked(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "stats", small_corpus, "--ids", "--packing", "sliding", "--seq-len", "5")
    assert ran.code == 0
    assert "decoded bytes a token  1" in ran.out
    assert "sliding" in ran.out
    assert "\x1b[31m" not in ran.out, "what a corpus says is not obeyed"


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (["--seq-len", "0"], 1, "seq_len: got 0"),
        (["--seq-len", "many"], 2, "1000000, 1M or 16MiB"),
        (["--packing", "worst"], 1, "packings: got 'worst'"),
        (["--split", "test"], 1, "split: got 'test'"),
    ],
)
def test_refusals(
    words: list[str], code: int, what: str, small_corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = tokenriver(capsys, "stats", small_corpus, *words)
    assert ran.code == code
    assert what in ran.err
    assert ran.out == ""
