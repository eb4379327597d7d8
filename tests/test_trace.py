"""Trace over real corpora: many shards, sources and records, files that keep none."""

import pickle
from pathlib import Path

import numpy as np
import pytest

import tokenriver as tr
from rivers import ArrayRiver
from small_corpora import Documents, make_corpus

SHARDS: list[Documents] = [
    [[n] * (n % 5 + 1) for n in range(start, start + count)] for start, count in ((1, 9), (10, 1), (11, 30), (41, 5))
]
SIZES = [len(document) for shard in SHARDS for document in shard]


@pytest.fixture
def corpus(tmp_path: Path) -> tr.Corpus:
    make_corpus(tmp_path / "corpus", {"train": SHARDS})
    return tr.open_corpus(tmp_path / "corpus")


@pytest.mark.parametrize("packing", ["concat", "sliding", "document", "best_fit"])
def test_shards_make_no_difference(packing: str, corpus: tr.Corpus) -> None:
    river = ArrayRiver([i for shard in SHARDS for document in shard for i in document], SIZES)
    over, plain = (
        tr.Loader(each, seq_len=7, global_batch=2, seed=3, epochs=2, packing=packing) for each in (corpus, river)
    )
    for number in range(2 * plain.num_rows):
        origins = over.trace(number)
        wanted = [(o.document, o.start, o.stop, o.row_start, o.row_stop, o.length) for o in plain.trace(number)]
        assert [(o.document, o.start, o.stop, o.row_start, o.row_stop, o.length) for o in origins] == wanted
        assert [(o.path, o.record, o.source) for o in origins] == [("a.jsonl", o.document, None) for o in origins]
    for document in range(len(SIZES)):
        assert over.when(document).tolist() == plain.when(document).tolist()


def test_a_mixture_knows_each_source(corpus: tr.Corpus, tmp_path: Path) -> None:
    make_corpus(tmp_path / "other", {"train": [[[7] * 9, [8] * 4], [[9] * 20]]})
    other = tr.open_corpus(tmp_path / "other", source_root=tmp_path / "data")
    mixture = tr.Mixture({"web": (corpus, 1), "code": (other, 1)}, unit="rows")
    loader = tr.Loader(mixture, seq_len=5, global_batch=4, steps=30)
    origins = [origin for number in range(40) for origin in loader.trace(number)]
    for origin in origins:
        if origin.source == "code":
            assert (origin.document, origin.path) == (origin.number, str(tmp_path / "data" / "a.jsonl"))
        else:
            assert (origin.source, origin.document, origin.path) == ("web", origin.number + 3, "a.jsonl")
        assert origin.record == origin.number
    assert {origin.source for origin in origins} == {"web", "code"}


def test_documents_without_a_source(tmp_path: Path) -> None:
    (tmp_path / "ids.bin").write_bytes(np.array([5, 6, 0, 7, 0, 8, 9, 9, 0], "<u2").tobytes())
    corpus = tr.open_corpus(tmp_path / "ids.bin", format="nanogpt", eos_id=0)
    (origin,) = tr.Loader(corpus, seq_len=2, global_batch=1, order="sequential").trace(0)
    assert (origin.document, origin.path, origin.record, origin.stop, origin.cut_end) == (0, None, None, 3, False)


def test_a_loader_that_has_looked_up_still_pickles(corpus: tr.Corpus) -> None:
    loader = tr.Loader(corpus, seq_len=7, global_batch=2, packing="best_fit", ledger="nowhere")
    rows = loader.when(5).tolist()
    assert pickle.loads(pickle.dumps(loader)).when(5).tolist() == rows
