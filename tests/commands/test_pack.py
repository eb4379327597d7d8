"""`tokenriver pack`: a plan beside the corpus that the loader uses and nothing else minds."""

from pathlib import Path

import numpy as np
import pytest

import tokenriver as tr
from command_line import tokenriver
from small_builds import small_build, some_texts, write_rows
from tokenriver.packing import best_fit

WORDS = ("--seq-len", 64, "--packing", "best_fit")


def test_a_plan_is_made_once_and_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = write_rows(tmp_path / "a.jsonl", some_texts(60))
    small_build(rows, tmp_path / "corpus", val_fraction=0.2)
    loader = tr.Loader(tr.open_corpus(tmp_path / "corpus"), seq_len=64, global_batch=4, packing="best_fit")
    value = tokenriver(capsys, "pack", tmp_path / "corpus", *WORDS, "--json").json()
    assert value["rows"] == loader.num_rows
    assert value["balance"] == dict(loader.balance)
    assert value["padding"] == value["rows"] * 64 - value["targets"]
    plan = Path(value["plan"])
    assert plan.parent == tmp_path / "corpus" / "plans"
    assert plan.stat().st_size == value["bytes"]
    monkeypatch.setattr(best_fit, "_plan", None)
    mapped = tr.Loader(tr.open_corpus(tmp_path / "corpus"), seq_len=64, global_batch=4, packing="best_fit")
    for found, expected in zip(mapped, loader, strict=True):
        assert np.array_equal(found.input_ids, expected.input_ids)
        assert found.state == expected.state
    again = tokenriver(capsys, "pack", tmp_path / "corpus", *WORDS)
    assert (again.code, again.err) == (0, "")
    assert str(plan) in again.out
    assert f"{value['rows']:,}" in again.out


def test_verify_convert_and_append_do_not_mind_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = write_rows(tmp_path / "a.jsonl", some_texts(40))
    corpus = tmp_path / "corpus"
    small_build(rows, corpus)
    assert tokenriver(capsys, "pack", corpus, *WORDS).code == 0
    assert tr.verify(corpus) == []
    assert tokenriver(capsys, "info", corpus).code == 0
    tr.convert(corpus, tmp_path / "olmo", format="olmo")
    tr.convert(corpus, tmp_path / "olmo", format="olmo")
    assert tokenriver(capsys, "pack", tmp_path / "olmo", *WORDS).code == 0
    assert tr.verify(tmp_path / "olmo") == []
    assert tr.open_corpus(tmp_path / "olmo").num_tokens == tr.open_corpus(corpus).num_tokens
    before = tr.open_corpus(corpus)
    small_build(write_rows(tmp_path / "b.jsonl", some_texts(40, 40)), corpus, append=True)
    assert tr.verify(corpus) == []
    grown = tr.open_corpus(corpus)
    assert grown.num_tokens > before.num_tokens
    # the old plan is another corpus's: the new one has its own
    loader = tr.Loader(grown, seq_len=64, global_batch=4, packing="best_fit")
    assert loader.balance["river"] == grown.num_tokens
    assert tokenriver(capsys, "pack", corpus, *WORDS).code == 0
    assert len(list((corpus / "plans").iterdir())) == 2


def test_rows_that_begin_with_documents(small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["pack", small_corpus, "--seq-len", 64, "--packing", "bos_aligned", "--plan-dir", tmp_path]
    value = tokenriver(capsys, *arguments, "--buffer-documents", 20, "--json").json()
    own = {"buffer_documents": 20, "plan_dir": tmp_path}
    loader = tr.Loader(
        tr.open_corpus(small_corpus), seq_len=64, global_batch=2, packing="bos_aligned", packing_options=own
    )
    assert (value["rows"], value["padding"], value["balance"]) == (loader.num_rows, 0, dict(loader.balance))
    assert len(list(tmp_path.iterdir())) == 1
    ran = tokenriver(capsys, *arguments, "--block-documents", 5)
    assert (ran.code, "got 'block_documents' for packing 'bos_aligned'" in ran.err) == (1, True)


def test_options_and_refusals(small_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["pack", small_corpus, *WORDS, "--overflow", "drop", "--block-documents", "50"]
    value = tokenriver(capsys, *arguments, "--plan-dir", tmp_path / "plans", "--json").json()
    assert value["packing"] == "best_fit T=64 drop block=50"
    assert Path(value["plan"]).parent == tmp_path / "plans"
    own = {"block_documents": 50, "plan_dir": tmp_path / "plans"}
    loader = tr.Loader(
        tr.open_corpus(small_corpus),
        seq_len=64,
        global_batch=2,
        packing="best_fit",
        overflow="drop",
        packing_options=own,
    )
    assert loader.num_rows == value["rows"]
    assert tokenriver(capsys, "pack", small_corpus, "--seq-len", 64, "--packing", "concat").code == 2
    assert tokenriver(capsys, "pack", small_corpus, "--seq-len", 64).code == 2
    np.arange(50, dtype=np.uint16).tofile(tmp_path / "train.bin")
    ran = tokenriver(capsys, "pack", tmp_path / "train.bin", *WORDS)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "give --plan-dir" in ran.err
    ran = tokenriver(capsys, "pack", tmp_path / "train.bin", *WORDS, "--plan-dir", tmp_path)
    assert ran.code == 1
    assert "without document bounds" in ran.err
