"""`tokenriver bench`: figures are there and belong together; how large they are is the machine's affair."""

from pathlib import Path

import pytest

from command_line import tokenriver


def test_every_length_is_measured(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seq-len", 16, "--seq-len", 32, "--batch-size", 4, "--seconds", 0.05]
    value = tokenriver(capsys, "bench", small_corpus, *words, "--json").json()
    assert [row["seq_len"] for row in value["rates"]] == [16, 32]
    assert all(
        row[key] > 0 for row in value["rates"] for key in ("loader", "loader_prefetch", "loader_ledger", "gather")
    )
    ran = tokenriver(capsys, "bench", small_corpus, *words)
    assert ran.code == 0
    assert "bare gather" in ran.out
    assert "with ledger" in ran.out


def test_a_length_that_does_not_fit(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "bench", small_corpus, "--seq-len", 10**7, "--seconds", 0.05)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
