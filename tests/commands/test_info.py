"""`tokenriver info`: what a corpus is, and what a trainer would refuse."""

from pathlib import Path

import numpy as np
import pytest

import tokenriver as tr
from command_line import tokenriver
from tokenriver.commands._trainers import Facts, Shard, llmc, nanogpt


def test_json_has_the_facts(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = tokenriver(capsys, "info", small_corpus, "--json").json()
    train, val = (tr.open_corpus(small_corpus, split=split) for split in ("train", "val"))
    assert value["format"] == "native"
    assert value["tokenizer"] == "byte"
    assert value["splits"]["train"]["ids"] == train.num_tokens
    assert value["splits"]["val"]["documents"] == val.num_documents
    assert value["splits"]["train"]["fingerprint"] == train.fingerprint != val.fingerprint
    assert train.manifest is not None
    assert value["fingerprint"] == train.manifest.fingerprint


def test_table_has_the_balance(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "info", small_corpus)
    assert ran.code == 0
    for word in ("tokenizer      byte", "uint16", "eos-after", "rows read", "train", "val"):
        assert word in ran.out


def test_foreign_files_are_sampled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.bin"
    np.arange(1000, dtype=np.uint16).tofile(path)
    ran = tokenriver(capsys, "info", path)
    assert ran.code == 0
    assert "nanogpt" in ran.out
    assert "sampled:" in ran.out


def test_llmc_wants_one_step_in_every_shard(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shard = tr.open_corpus(small_corpus, split="val").shards[0]
    fits, over = shard.num_tokens - 1, shard.num_tokens
    assert tokenriver(capsys, "info", small_corpus, "--for", "llmc", "--batch-size", 1, "--seq-len", fits).code == 0
    ran = tokenriver(capsys, "info", small_corpus, "--for", "llmc", "--batch-size", 1, "--seq-len", over)
    assert ran.code == 1
    assert f"{shard.path}: ids: got {shard.num_tokens:,}" in ran.out
    assert f"1 x 1 x {over} + 1 = {over + 1:,}" in ran.out


def test_an_unknown_trainer_is_wrong_usage(small_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tokenriver(capsys, "info", small_corpus, "--for", "megatron9")
    assert ran.code == 2
    assert "llmc or nanogpt" in ran.err


def _facts(
    *shards: Shard, format: str = "native", dtype: str = "uint16", batch: tuple[int, int, int] | None = None
) -> Facts:
    seq_len, global_batch, world_size = batch or (None, None, 1)
    return Facts(format, np.dtype(dtype), shards, seq_len, global_batch, world_size)


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        (_facts(Shard(Path("a"), "train", 2**31)), "fewer than 2^31"),
        (_facts(Shard(Path("a"), "train", 2**30)), "2,147,484,672 bytes"),
        (_facts(Shard(Path("a"), "train", 100), dtype="uint32"), "uint16"),
        (_facts(Shard(Path("a"), "train", 100), format="nanogpt"), "llm.c shards"),
        (_facts(Shard(Path("a"), "train", 100), batch=(8, 3, 2)), "multiple of --world-size 2"),
        (_facts(Shard(Path("a"), "train", 64), batch=(8, 8, 2)), "2 x 4 x 8 + 1 = 65"),
    ],
)
def test_llmc_refuses(facts: Facts, what: str) -> None:
    refused, _ = llmc(facts)
    assert len(refused) == 1
    assert what in refused[0]


def test_llmc_reads() -> None:
    shards = Shard(Path("a"), "train", 65), Shard(Path("b"), "val", 65)
    assert llmc(_facts(*shards, batch=(8, 8, 2))) == ([], [])
    assert "no val split" in llmc(_facts(shards[0], batch=(8, 8, 2)))[1][0]


def test_nanogpt() -> None:
    shards = Shard(Path("train.bin"), "train", 9), Shard(Path("val.bin"), "val", 8)
    refused, _ = nanogpt(_facts(*shards, format="nanogpt", batch=(8, 1, 1)))
    assert refused == ["val.bin: ids: got 8, expected more than --seq-len 8"]
    assert any("header" in text for text in nanogpt(_facts(*shards))[0])
    assert any("got 0 files" in text for text in nanogpt(_facts(shards[0], format="nanogpt"))[0])
