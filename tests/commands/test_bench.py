"""`tokenriver bench`: figures are there and belong together; how large they are is the machine's affair."""

from pathlib import Path

import numpy as np
import pytest

from command_line import tokenriver
from tokenriver.compiled import COMPILED


def test_every_length_is_measured(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seq-len", 16, "--seq-len", 32, "--batch-size", 4, "--seconds", 0.05]
    value = tokenriver(capsys, "bench", small_corpus, *words, "--json").json()
    assert [row["seq_len"] for row in value["rates"]] == [16, 32]
    rates = ("loader", "loader_prefetch", "loader_ledger", "packed", "gather")
    assert all(row[key] > 0 for row in value["rates"] for key in rates)
    assert value["compiled"] is (COMPILED is not None)
    ran = tokenriver(capsys, "bench", small_corpus, *words)
    assert ran.code == 0
    assert "bare gather" in ran.out
    assert "with ledger" in ran.out
    assert "packed rows by " in ran.out


def test_ids_without_documents_have_no_packed_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "train.bin")
    words = ["--seq-len", 16, "--batch-size", 4, "--seconds", 0.05]
    assert tokenriver(capsys, "bench", tmp_path, *words, "--json").json()["rates"][0]["packed"] is None
    assert tokenriver(capsys, "bench", tmp_path, *words).code == 0


def test_a_length_that_does_not_fit(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "bench", small_corpus, "--seq-len", 10**7, "--seconds", 0.05)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
