"""Statistics of corpora on disk: shards, blocks, what is not known, vocabulary, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tokenriver as tr
from rivers import ArrayRiver
from small_builds import small_build, some_texts, write_rows
from small_corpora import make_corpus
from tokenriver import lengths
from tokenriver.errors import InputError


def test_shards_and_chunks_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents that are longer than the table of lengths, in several shards, looked at a few at a time."""
    sizes = [3, 1, 40, 7, 7, 90, 2, 1, 33, 5]
    documents = [[1] * size for size in sizes]
    make_corpus(tmp_path / "c", {"train": [documents[:4], documents[4:5], documents[5:]]})
    whole = tr.stats(ArrayRiver(sum(sizes), sizes), seq_lens=[4, 16])
    monkeypatch.setattr(lengths, "CHUNK", 3)
    monkeypatch.setattr(lengths, "TABLE", 8)
    found = tr.stats(tmp_path / "c", seq_lens=[4, 16])
    assert (found.lengths, found.rows, found.longer) == (whole.lengths, whole.rows, whole.longer)


def test_bytes_a_token_come_from_the_build(tmp_path: Path) -> None:
    texts = some_texts(40)
    small_build(write_rows(tmp_path / "a.jsonl", texts), tmp_path / "c", val_fraction=0.3)
    for split in ("train", "val"):
        found = tr.stats(tmp_path / "c", split=split, ids=True)
        assert found.bytes_per_token == 1  # the tokenizer is bytes, and framing does not count
        assert found.vocabulary is not None
        assert found.vocabulary.bytes_per_token == 1
        assert not any("bytes" in note for note in found.notes)


def test_bytes_of_real_tokens(tmp_path: Path) -> None:
    texts = some_texts(60)
    tr.build(write_rows(tmp_path / "a.jsonl", texts), tmp_path / "c", tokenizer="gpt2", workers=1)
    found = tr.stats(tmp_path / "c", ids=True)
    corpus = tr.open_corpus(tmp_path / "c")
    text = sum(len(text.encode()) for text in texts)
    assert found.bytes_per_token == text / (corpus.num_tokens - len(texts))
    assert found.vocabulary is not None
    assert found.vocabulary.bytes_per_token == found.bytes_per_token
    counts: dict[int, int] = {}
    for number in corpus.read(0, corpus.num_tokens).tolist():
        counts[number] = counts.get(number, 0) + 1
    assert found.vocabulary.used == len(counts)
    assert found.vocabulary.once == sum(times == 1 for times in counts.values())
    assert found.vocabulary.largest == max(counts)
    assert found.vocabulary.special == counts[50256] == len(texts)
    assert all(counts[number] == times for number, times in found.vocabulary.most.items())
    assert list(found.vocabulary.most.values()) == sorted(counts.values(), reverse=True)[: len(found.vocabulary.most)]


def test_without_bounds_the_rest_is_still_known(tmp_path: Path) -> None:
    np.array([1, 2, 3, 70_000, 5] * 20, np.uint32).tofile(tmp_path / "train.bin")
    corpus = tr.open_corpus(tmp_path / "train.bin", dtype="uint32")
    found = tr.stats(corpus, seq_lens=[9], ids=True)
    assert (found.num_tokens, found.num_documents, found.lengths, found.longer) == (100, None, None, {})
    ((rows, split),) = [(row.rows, row.documents_split) for row in found.rows]
    assert (rows, split) == (11, None)
    assert any("without bounds" in note for note in found.notes)
    assert any("how much text" in note for note in found.notes)
    assert found.vocabulary is not None
    assert (found.vocabulary.used, found.vocabulary.largest, found.vocabulary.outside) == (5, 70_000, 0)
    assert found.vocabulary.bytes_per_token is None


def test_ids_outside_the_vocabulary_are_counted(tmp_path: Path) -> None:
    make_corpus(tmp_path / "c", {"train": [[[1, 60_000, 60_001], [60_000, 2]]]})
    found = tr.stats(tmp_path / "c", ids=True)
    assert found.vocabulary is not None
    assert (found.vocabulary.outside, found.vocabulary.used, found.vocabulary.largest) == (3, 2, 60_001)


def test_row_lengths_that_make_sense_are_chosen() -> None:
    def chosen(size: int) -> list[int]:
        return [row.seq_len for row in tr.stats(ArrayRiver(size), packings=["concat"]).rows]

    assert chosen(5000) == [256, 512, 1024, 2048, 4096]
    assert chosen(600) == [256, 512]
    assert chosen(257) == [256]
    assert chosen(256) == [255]
    assert chosen(2) == [1]


def test_every_document_may_be_empty_or_short() -> None:
    found = tr.stats(ArrayRiver(3, [0, 1, 0, 1, 1]), seq_lens=[1])
    assert [row.rows for row in found.rows] == [2, 0, 0, 0, 0, 0, 0]
    assert found.lengths is not None
    assert [(row.low, row.documents) for row in found.lengths.histogram] == [(0, 2), (1, 3)]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"seq_lens": [0]}, "seq_len: got 0"),
        ({"seq_lens": [-4]}, "seq_len: got -4"),
        ({"seq_lens": []}, "seq_lens: got none"),
        ({"buckets": 0}, "buckets: got 0"),
        ({"packings": ["worst_fit"]}, "packings: got 'worst_fit'"),
        ({"ids": True}, "ids: got them asked of a ArrayRiver"),
    ],
)
def test_refusals(options: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        tr.stats(ArrayRiver(50), **options)


def test_less_than_two_ids_are_refused() -> None:
    with pytest.raises(InputError, match="got 1 ids"):
        tr.stats(ArrayRiver(1, [1]))
