"""`tokenriver batches`: the rows that Loader gives, decoded, documents told apart without colour."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import tokenriver as tr
from command_line import tokenriver
from tokenriver.commands import _rows

SHAPE = ("--seq-len", 64, "--batch-size", 4, "--seed", 5)


def _loader(corpus: tr.Corpus) -> tr.Loader:
    return tr.Loader(corpus, seq_len=64, global_batch=4, seed=5, epochs=None, prefetch=0)


def test_json_is_what_the_loader_gives(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = tokenriver(capsys, "batches", small_corpus, *SHAPE, "--start", 2, "--steps", 2, "--json").json()
    corpus = tr.open_corpus(small_corpus)
    loader = _loader(corpus)
    assert [step["step"] for step in value["steps"]] == [2, 3]
    for step in value["steps"]:
        batch = loader.batch(step["step"])
        assert step["num_targets"] == batch.num_targets
        assert step["state"] == dict(batch.state)
        for line, row in enumerate(step["rows"]):
            assert row["sample_id"] == batch.sample_ids[line]
            assert "".join(run["text"] for run in row["runs"]) == corpus.decode(batch.input_ids[line].astype(np.uint32))
            edges = [run["start"] for run in row["runs"]] + [row["runs"][-1]["stop"]]
            assert edges == [0, *[run["stop"] for run in row["runs"]]]
            for run in row["runs"]:
                assert set(batch.document_ids[line, run["start"] : run["stop"]].tolist()) == {run["document"]}


def test_each_rank_sees_its_own_rows(
    small_corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tokenriver(capsys, "batches", small_corpus, *SHAPE, "--json").json()["steps"][0]["rows"]
    rows = []
    with monkeypatch.context() as patch:
        patch.setenv("WORLD_SIZE", "2")
        for rank in range(2):
            patch.setenv("RANK", str(rank))
            rows += tokenriver(capsys, "batches", small_corpus, *SHAPE, "--json").json()["steps"][0]["rows"]
    assert rows == whole
    assert tokenriver(capsys, "batches", small_corpus, *SHAPE, "--rank", 2, "--world-size", 2).code == 1


def test_the_order_of_another_loader(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--order", "llmc", "--rank", 1, "--world-size", 2, "--start", 3, "--json")
    step = tokenriver(capsys, "batches", small_corpus, *SHAPE, *given).json()["steps"][0]
    corpus = tr.open_corpus(small_corpus)
    loader = tr.Loader(corpus, seq_len=64, global_batch=4, order="llmc", rank=1, world_size=2, prefetch=0)
    assert step["state"] == dict(loader.batch(3).state)
    assert [row["sample_id"] for row in step["rows"]] == loader.batch(3).sample_ids.tolist()


def test_text_is_readable_without_colour_and_harmless(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "batches", small_corpus, *SHAPE, "--characters", 0)
    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert "\\x1b[31m" in ran.out
    row = tokenriver(capsys, "batches", small_corpus, *SHAPE, "--json").json()["steps"][0]["rows"][0]
    for run in row["runs"]:
        assert f"document {run['document']}" in ran.out


def test_other_rows_and_what_is_ignored_by_choice(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tr.open_corpus(small_corpus)
    for packing in ("minimind", "bos_aligned"):
        words = (*SHAPE, "--packing", packing, "--mask-first", "--mask-eos", "--json")
        value = tokenriver(capsys, "batches", small_corpus, *words).json()
        options: dict[str, Any] = {"packing": packing, "mask_first": True, "mask_eos": True, "prefetch": 0}
        batch = tr.Loader(corpus, seq_len=64, global_batch=4, seed=5, **options).batch(0)
        assert value["steps"][0]["num_targets"] == batch.num_targets == int(batch.loss_mask.sum())
        assert (batch.targets != corpus.eos_id).all()
        for line, row in enumerate(value["steps"][0]["rows"]):
            text = corpus.decode(batch.input_ids[line][batch.document_ids[line] >= 0].astype(np.uint32))
            assert "".join(run["text"] for run in row["runs"]) == text


def test_rows_of_like_length(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--seq-len", 64, "--packing", "document", "--seed", 5, "--max-tokens-per-batch", "1k", "--steps", 3)
    for buckets, asked in ((3, 3), ("16,40", [16, 40])):
        value = tokenriver(capsys, "batches", small_corpus, *words, "--buckets", buckets, "--json").json()
        options: dict[str, Any] = {"buckets": asked, "max_tokens_per_batch": 1_000}
        corpus = tr.open_corpus(small_corpus)
        loader = tr.Loader(corpus, seq_len=64, packing="document", packing_options=options, seed=5, prefetch=0)
        assert value["buckets"] == [asdict(bucket) for bucket in loader.buckets]
        for step, batch in zip(value["steps"], loader, strict=False):
            assert [row["sample_id"] for row in step["rows"]] == batch.sample_ids.tolist()
            assert {row["runs"][-1]["stop"] for row in step["rows"] if row["runs"]} == {batch.input_ids.shape[1]}
    ran = tokenriver(capsys, "batches", small_corpus, *words, "--buckets", "16,40")
    for bucket in loader.buckets:
        assert f"bucket of {bucket.step_rows:,} x {bucket.width}: {bucket.rows:,} rows in" in ran.out
    assert tokenriver(capsys, "batches", small_corpus, *words, "--buckets", "16,900").code == 1
    assert tokenriver(capsys, "batches", small_corpus, *words, "--buckets", "some").code == 2
    ran = tokenriver(capsys, "batches", small_corpus, *SHAPE, "--buckets", 3)
    assert (ran.code, "for packing 'concat'" in ran.err) == (1, True)


def test_long_runs_are_shortened_with_what_is_left_out() -> None:
    assert _rows.shorten("ab\ncd", 0) == "ab⏎cd"
    text = _rows.shorten("h" * 50 + "m" * 100 + "t" * 30, 60)
    assert text == f"{'h' * 40} … 120 more characters … {'t' * 20}"


def test_wrong_arguments(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tokenriver(capsys, "batches", small_corpus).code == 2
    assert tokenriver(capsys, "batches", small_corpus, "--seq-len", 64).code == 2
    ran = tokenriver(capsys, "batches", small_corpus, "--seq-len", 64, "--batch-size", 10**9)
    assert ran.code == 1
    ran = tokenriver(capsys, "batches", small_corpus, *SHAPE, "--order", "sideways")
    assert ran.code == 1
    assert "sideways" in ran.err


def test_the_rows_of_a_packed_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Documents are not known, what is trained is."""
    ids = np.frombuffer(b"ask:tell,ask:tell,ask:tell,ask:tell,", np.uint8).reshape(4, 9)
    with h5py.File(tmp_path / "sft_packed.h5", "w") as file:
        file["tokens"], file["loss_mask"] = ids.astype("<i4"), np.tile(np.arange(9) > 3, (4, 1)).astype(np.int8)
    words = ("batches", tmp_path / "sft_packed.h5", "--seq-len", 9, "--batch-size", 2, "--order", "hdf5-sft-sequential")
    ran = tokenriver(capsys, *words, "--tokenizer", "byte")
    assert ran.out.count("document ?        context  |ask:|") == ran.out.count("TRAINED  |tell,|") == 2
    (step,) = tokenriver(capsys, *words, "--tokenizer", "byte", "--json").json()["steps"]
    assert [row["num_targets"] for row in step["rows"]] == [5, 5]
    assert {"".join(run["text"] for run in row["runs"]) for row in step["rows"]} == {"ask:tell,"}
    ran = tokenriver(capsys, *words[:3], 8, *words[4:])
    assert (ran.code, "expected 9, the ids of the file's rows" in ran.err) == (1, True)
