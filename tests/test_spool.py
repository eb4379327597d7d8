"""Examples become a corpus with loss masks: whole, in order, the same bytes however they come, all of it or nothing."""

import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenriver as tr
from command_line import tokenriver
from small_builds import files_of
from tokenriver.errors import FormatError, InputError, LimitError, MismatchError
from tokenriver.manifest import Manifest, SourceInfo, read_manifest, tokenizer_info
from tokenriver.spool import ExampleWriter, have_trained, write_examples
from tokenriver.tokenizer import load_tokenizer
from tokenriver.types import IGNORE, TokenBatch

EXAMPLES = [[7, 8, 9], [4, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [5, 6, 7]]
"""The last id of each is trained, and every even one but the first."""
PLAN = {"kind": "test", "seed": 1}
SOURCE = SourceInfo("a.jsonl", 10, None, "jsonl", "", 9)


def trained(ids: Sequence[int]) -> list[bool]:
    return [at > 0 and (at == len(ids) - 1 or i % 2 == 0) for at, i in enumerate(ids)]


def batch_of(examples: Sequence[Sequence[int]]) -> TokenBatch:
    mask = np.array([bit for ids in examples for bit in trained(ids)], np.bool_)
    lengths = np.array([len(ids) for ids in examples], np.int64)
    return TokenBatch(np.array([i for ids in examples for i in ids], np.uint32), lengths, mask)


def write(out: Path, step: int = 2, plan: dict[str, Any] | None = None, shard_tokens: int | None = None) -> Manifest:
    with write_examples(out, PLAN if plan is None else plan, dtype="uint16") as writer:
        if isinstance(writer, Manifest):
            return writer
        for split, first in (("train", 0), ("val", 2)):
            for at in range(0, 4, step):
                some = [*EXAMPLES, *EXAMPLES][first + at : first + at + step]
                records = np.arange(first + at, first + at + step, dtype=np.int64)
                writer.add(split, batch_of(some), records, np.zeros(step, np.int32))
        info = tokenizer_info(load_tokenizer("byte"))
        return writer.commit(
            tokenizer=info, sources=[SOURCE], balance={"documents": {"dropped": 3}}, shard_tokens=shard_tokens
        )


def test_what_was_added_is_what_is_read(tmp_path: Path, quick_disk: None) -> None:
    manifest = write(tmp_path / "c", shard_tokens=5)
    assert len(manifest.split("train")) > 1
    assert tr.verify(tmp_path / "c") == []
    corpus = tr.open_corpus(tmp_path / "c", source_root="root")
    assert corpus.has_loss_mask
    assert corpus.loss_mask is not None
    assert [corpus.document(at).tolist() for at in range(4)] == EXAMPLES
    bits = [bit for ids in EXAMPLES for bit in trained(ids)]
    assert corpus.loss_mask.at(np.arange(corpus.num_tokens)).tolist() == bits
    assert [corpus.source(at)[1] for at in range(4)] == [0, 1, 2, 3]
    assert manifest.balance["documents"] == {"dropped": 3, "kept": {"train": 4, "val": 4}}
    assert manifest.balance["ids"]["trained"]["train"] == sum(bits)
    assert pickle.loads(pickle.dumps(corpus)).has_loss_mask
    assert sorted(p.name for p in (tmp_path / "c").iterdir())[:2] == ["manifest.json", "tokens_train_000000.bin"]


def test_the_loader_serves_the_mask(tmp_path: Path, quick_disk: None) -> None:
    write(tmp_path / "c", shard_tokens=5)
    corpus = tr.open_corpus(tmp_path / "c")
    loader = tr.Loader(corpus, seq_len=9, global_batch=2, packing="best_fit", overflow="drop", prefetch=0)
    seen = [int(i) for batch in loader for i in batch.targets.ravel() if i != IGNORE]
    assert sorted(seen) == sorted(i for ids in EXAMPLES for i, bit in zip(ids, trained(ids), strict=True) if bit)
    first = loader.batch(0)
    with_ledger = tr.Loader(corpus, seq_len=9, global_batch=1, ledger=tmp_path / "ledger", prefetch=0)
    assert sum(batch.num_targets for batch in with_ledger) == sum(
        int(batch.loss_mask.sum()) for batch in tr.Loader(corpus, seq_len=9, global_batch=1)
    )
    again = pickle.loads(pickle.dumps(first))
    assert again.targets.tolist() == first.targets.tolist()
    assert again.num_targets == first.num_targets


def test_batches_of_any_size_give_the_same_bytes(tmp_path: Path, quick_disk: None) -> None:
    write(tmp_path / "a", step=1)
    write(tmp_path / "b", step=4)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


def test_the_mask_belongs_to_the_fingerprint(tmp_path: Path, quick_disk: None) -> None:
    write(tmp_path / "a")
    with write_examples(tmp_path / "b", PLAN, dtype="uint16") as writer:
        assert isinstance(writer, ExampleWriter)
        ids = batch_of(EXAMPLES)
        writer.add(
            "train", TokenBatch(ids.ids, ids.lengths), np.arange(4), np.zeros(4, np.int32)
        )  # every id is trained
        writer.commit(tokenizer=tokenizer_info(load_tokenizer("byte")), sources=[SOURCE], balance={})
    a, b = tr.open_corpus(tmp_path / "a"), tr.open_corpus(tmp_path / "b")
    assert a.read(0, a.num_tokens).tolist() == b.read(0, b.num_tokens).tolist()
    assert a.fingerprint != b.fingerprint
    state = tr.Loader(a, seq_len=4, global_batch=1).state_dict()
    with pytest.raises(MismatchError, match="corpus"):
        tr.Loader(b, seq_len=4, global_batch=1).load_state_dict(state)


def test_a_run_that_ends_early_leaves_no_corpus_and_the_next_makes_it(tmp_path: Path, quick_disk: None) -> None:
    def killed() -> None:
        with write_examples(tmp_path / "c", PLAN, dtype="uint16") as writer:
            assert isinstance(writer, ExampleWriter)
            writer.add("train", batch_of(EXAMPLES), np.arange(4), np.zeros(4, np.int32))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()
    with pytest.raises(FormatError, match="not committed"):
        tr.open_corpus(tmp_path / "c")
    with pytest.raises(MismatchError, match="unfinished corpus of examples with other options"):
        write(tmp_path / "c", plan={"kind": "other"})
    write(tmp_path / "c")
    write(tmp_path / "d")
    assert files_of(tmp_path / "c") == files_of(tmp_path / "d")
    assert write(tmp_path / "c") == read_manifest(tmp_path / "d")
    with pytest.raises(MismatchError, match="holds another corpus"):
        write(tmp_path / "c", plan={"kind": "other"})


@given(st.lists(st.lists(st.booleans(), max_size=4), max_size=6))
def test_examples_with_a_trained_id(masks: list[list[bool]]) -> None:
    lengths = np.array(list(map(len, masks)), np.int64)
    together = np.array([bit for mask in masks for bit in mask], np.bool_)
    assert have_trained(lengths, together).tolist() == [any(mask[1:]) for mask in masks]


def test_what_cannot_be_an_example(tmp_path: Path, quick_disk: None) -> None:
    idle = TokenBatch(np.arange(5, dtype=np.uint32), np.array([3, 2]), np.array([0, 0, 1, 1, 0], np.bool_))
    wide = TokenBatch(np.array([1, 70_000], np.uint32), np.array([2]))
    with write_examples(tmp_path / "c", PLAN, dtype="uint16") as writer:
        assert isinstance(writer, ExampleWriter)
        with pytest.raises(LimitError, match="example 1 of a batch: got no trained id"):
            writer.add("train", idle, np.arange(2), np.zeros(2, np.int32))
        with pytest.raises(LimitError, match="id: got 70000, expected at most 65535"):
            writer.add("train", wide, np.arange(1), np.zeros(1, np.int32))
    with write_examples(tmp_path / "c", PLAN, dtype="uint16") as writer:
        assert isinstance(writer, ExampleWriter)
        with pytest.raises(InputError, match="got no example for train"):
            writer.commit(tokenizer=None, sources=[], balance={})


def test_converting_keeps_masks_or_refuses(tmp_path: Path, quick_disk: None) -> None:
    write(tmp_path / "a")
    tr.convert([tmp_path / "a", tmp_path / "a"], tmp_path / "b", format="native", shard_tokens=7)
    assert tr.verify(tmp_path / "b") == []
    one, two = tr.open_corpus(tmp_path / "a"), tr.open_corpus(tmp_path / "b")
    assert one.loss_mask is not None
    assert two.loss_mask is not None
    bits = one.loss_mask.at(np.arange(one.num_tokens)).tolist()
    assert two.loss_mask.at(np.arange(two.num_tokens)).tolist() == bits * 2
    tr.convert(tmp_path / "a", tmp_path / "c", format="native", shard_tokens=7)
    assert tr.open_corpus(tmp_path / "c").fingerprint == one.fingerprint
    for format in ("llmc", "megatron", "hdf5"):
        with pytest.raises(LimitError, match="loss masks: got a corpus of examples with them, expected none"):
            tr.convert(tmp_path / "a", tmp_path / "d", format=format)
    assert not (tmp_path / "d").exists()
    (tmp_path / "loose").mkdir()
    for path in (tmp_path / "a").glob("tokens_train*"):
        shutil.copy(path, tmp_path / "loose")
    assert "passed over: the loss mask beside it" in tr.open_corpus(tmp_path / "loose").assumptions


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda data: data[:-1], "size"),
        (lambda data: data + b"\0", "size"),
        (lambda data: bytes([data[0] ^ 16]) + data[1:], "sha256"),
        (lambda data: None, "file"),
    ],
)
def test_verify_finds_a_changed_mask(
    tmp_path: Path, quick_disk: None, change: Callable[[bytes], bytes | None], what: str
) -> None:
    write(tmp_path / "c")
    path = tmp_path / "c" / "tokens_train_000000.mask"
    data = change(path.read_bytes())
    path.unlink() if data is None else path.write_bytes(data)
    assert [(f.path, f.what) for f in tr.verify(tmp_path / "c")] == [(str(path), what)]
    if what != "sha256":
        with pytest.raises((FormatError, InputError), match=r"tokens_train_000000\.mask"):
            tr.Loader(tr.open_corpus(tmp_path / "c"), seq_len=4, global_batch=1, prefetch=0).batch(0)


def test_a_mask_that_no_manifest_names(tmp_path: Path, quick_disk: None) -> None:
    write(tmp_path / "c")
    (tmp_path / "c" / "more.mask").write_bytes(b"\0")
    assert [f.what for f in tr.verify(tmp_path / "c")] == ["file"]


def test_a_person_sees_what_is_trained(tmp_path: Path, quick_disk: None, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "c")
    shape = ("--seq-len", 9, "--batch-size", 2, "--packing", "best_fit", "--overflow", "drop")
    rows = tokenriver(capsys, "batches", tmp_path / "c", *shape, "--json").json()["steps"][0]["rows"]
    pieces = [piece for row in rows for piece in row["pieces"]]
    assert {"document": 2, "trained": True, "text": "\x02"} in pieces
    whole = {at: "".join(p["text"] for p in pieces if p["document"] == at) for at in range(4)}
    assert whole == {at: "".join(map(chr, ids)) for at, ids in enumerate(EXAMPLES)}
    assert [p["trained"] for p in pieces if p["document"] == 0] == [False, True]
    shown = tokenriver(capsys, "batches", tmp_path / "c", *shape).out
    assert "TRAINED" in shown
    assert "context" in shown
