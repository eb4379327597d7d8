"""Conversion keeps ids, documents, their origins and the river's fingerprint, to any format and back."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tokenriver
from small_builds import corpus_files
from small_corpora import make_corpus
from tokenriver import registry
from tokenriver.corpus import Corpus
from tokenriver.errors import InputError, LimitError
from tokenriver.loader import Loader

WRITTEN = [name for name in registry.names("formats") if registry.load("formats", name).DTYPES]
BOUNDED = [name for name in WRITTEN if "doc_ends" in registry.load("formats", name).STORES and name != "native"]

FIXTURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]  # each example clears the folder

Documents = list[list[int]]
Shards = list[Documents]

documents = st.lists(st.lists(st.integers(0, 50256), min_size=1, max_size=9).map(list), min_size=1, max_size=5)
shards = st.lists(documents, min_size=1, max_size=3)


def _documents(corpus: Corpus) -> Documents:
    assert corpus.num_documents is not None
    return [corpus.document(i).tolist() for i in range(corpus.num_documents)]


def _origins(corpus: Corpus) -> list[tuple[str, int]]:
    assert corpus.num_documents is not None
    return [corpus.source(i) for i in range(corpus.num_documents)]


def _flat(members: Sequence[Documents]) -> Documents:
    return [document for shard in members for document in shard]


def _same(found: Corpus, expected: Corpus) -> None:
    assert found.read(0, found.num_tokens).tolist() == expected.read(0, expected.num_tokens).tolist()
    assert _documents(found) == _documents(expected)
    assert _origins(found) == _origins(expected)
    assert found.fingerprint == expected.fingerprint


def _forget(folder: Path) -> None:
    """What another program would have left: no manifest, no document index of ours."""
    for path in [folder / "manifest.json", *folder.rglob("*.docs")]:
        path.unlink()


@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=8, suppress_health_check=FIXTURES)
@given(train=shards, val=documents)
@example(train=[[[7]]], val=[[0]])
@example(train=[[[1] * 200, [2]], [[3], [4, 5]], [[6]]], val=[[8, 9], [10]])
def test_there_and_back(memory: Path, quick_disk: None, name: str, train: Shards, val: Documents) -> None:
    place = memory / "case"
    shutil.rmtree(place, ignore_errors=True)
    make_corpus(place / "a", {"train": train, "val": [val]})
    report = tokenriver.convert(place / "a", place / "b", format=name)
    assert report.balance["ids"]["read"] == sum(report.balance["ids"]["kept"].values())
    for split in ("train", "val"):
        found, expected = (tokenriver.open_corpus(place / side, split=split) for side in "ba")
        _same(found, expected)
        assert found.format == name
    assert tokenriver.verify(place / "b") == []
    tokenriver.convert(place / "b", place / "c", format="native", dtype="uint16")
    tokenriver.convert(place / "a", place / "d", format="native", dtype="uint16")
    back, straight = corpus_files(place / "c"), corpus_files(place / "d")
    assert back == straight, "through another format and straight make the same files"


@pytest.mark.parametrize("name", BOUNDED)
@settings(max_examples=6, suppress_health_check=FIXTURES)
@given(train=shards)
def test_bounds_of_the_format_itself(memory: Path, quick_disk: None, name: str, train: Shards) -> None:
    """Without anything of ours beside them, the files themselves say where documents end."""
    place = memory / "case"
    shutil.rmtree(place, ignore_errors=True)
    make_corpus(place / "a", {"train": train})
    tokenriver.convert(place / "a", place / "b", format=name)
    _forget(place / "b")
    corpus = tokenriver.open_corpus(place / "b")
    assert corpus.format == name
    assert _documents(corpus) == _flat(train)


@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=6, suppress_health_check=FIXTURES)
@given(train=shards, size=st.integers(1, 12))
@example(train=[[[1] * 30, [2] * 3]], size=4)
def test_exact_shards_cut_no_document_for_good(
    memory: Path, quick_disk: None, name: str, train: Shards, size: int
) -> None:
    place = memory / "case"
    shutil.rmtree(place, ignore_errors=True)
    make_corpus(place / "a", {"train": train})
    total = sum(map(len, _flat(train)))
    if registry.load("formats", name).SHARD_TOKENS is None and _is_one_file(name) and total > size:
        with pytest.raises(tokenriver.LimitError, match="shard"):
            tokenriver.convert(place / "a", place / "b", format=name, shard_tokens=size)
        assert not (place / "b").exists()
        return
    report = tokenriver.convert(place / "a", place / "b", format=name, shard_tokens=size)
    corpus = tokenriver.open_corpus(place / "b")
    sizes = [shard.num_tokens for shard in corpus.shards]
    assert sizes == [size] * (total // size) + ([total % size] if total % size else [])
    _same(corpus, tokenriver.open_corpus(place / "a"))
    ends = np.cumsum([len(document) for document in _flat(train)])
    crossing = sum(1 for at in range(size, total, size) if at not in ends)
    assert report.balance["documents"]["cut_by_shards"] == crossing
    assert tokenriver.verify(place / "b") == []
    tokenriver.convert(place / "b", place / "c", format="native", dtype="uint16")
    tokenriver.convert(place / "a", place / "d", format="native", dtype="uint16")
    assert corpus_files(place / "c") == corpus_files(place / "d")


def _is_one_file(name: str) -> bool:
    return name in ("nanogpt", "minimind")


@settings(max_examples=25, suppress_health_check=FIXTURES)
@given(parts=st.lists(shards, min_size=2, max_size=3), size=st.none() | st.integers(1, 20))
def test_joined_in_the_order_given(memory: Path, quick_disk: None, parts: list[Shards], size: int | None) -> None:
    place = memory / "case"
    shutil.rmtree(place, ignore_errors=True)
    for number, part in enumerate(parts):
        make_corpus(place / str(number), {"train": part})
    sources = [place / str(number) for number in range(len(parts))]
    tokenriver.convert(sources, place / "out", format="native", shard_tokens=size)
    corpus = tokenriver.open_corpus(place / "out")
    assert _documents(corpus) == [document for part in parts for document in _flat(part)]
    records = [record for part in parts for record in range(len(_flat(part)))]
    assert [record for _, record in _origins(corpus)] == records
    assert corpus.manifest is not None
    assert len(corpus.manifest.sources) == len(parts)
    for number, part in enumerate(parts):
        before = sum(len(_flat(earlier)) for earlier in parts[:number])
        shard, local = corpus.documents.locate(before)
        origins = corpus.documents.columns(shard)[1]
        assert origins is not None
        assert int(origins[1][local]) == number, f"the first document of part {number} of {len(part)} shards"


@pytest.mark.parametrize("name", WRITTEN)
def test_a_state_is_valid_after_a_conversion(memory: Path, quick_disk: None, name: str) -> None:
    rng = np.random.default_rng(5)
    texts = [[rng.integers(0, 50257, int(n)).tolist() for n in rng.integers(1, 90, 40)] for _ in range(3)]
    make_corpus(memory / "a", {"train": texts})
    tokenriver.convert(memory / "a", memory / "b", format=name)
    options: dict[str, Any] = {"seq_len": 16, "global_batch": 4, "seed": 3, "epochs": 2, "prefetch": 0}
    before = Loader(tokenriver.open_corpus(memory / "a"), **options)
    batches = list(before)
    after = Loader(tokenriver.open_corpus(memory / "b"), **options)
    after.load_state_dict(batches[4].state)
    rest = list(after)
    assert len(rest) == len(batches) - 5
    for found, expected in zip(rest, batches[5:], strict=True):
        assert found.input_ids.tolist() == expected.input_ids.tolist()
        assert found.targets.tolist() == expected.targets.tolist()
        assert found.state == expected.state


SAMPLED = [("mds", layout) for layout in ("", "fixed", "bytes", "zstd")] + [("arrow", ""), ("parquet", "")]


@pytest.mark.parametrize(("name", "layout"), SAMPLED)
@settings(max_examples=6, suppress_health_check=FIXTURES)
@given(train=shards, val=documents, size=st.integers(1, 12), samples=st.one_of(st.none(), st.integers(1, 3)))
@example(train=[[[7]]], val=[[0]], size=1, samples=None)
@example(train=[[[1, 2, 3], [4, 5, 6]], [[7, 8]]], val=[[8, 9], [10]], size=4, samples=1)
def test_samples_of_one_size(
    memory: Path,
    quick_disk: None,
    name: str,
    layout: str,
    train: Shards,
    val: Documents,
    size: int,
    samples: int | None,
) -> None:
    place = memory / "case"
    shutil.rmtree(place, ignore_errors=True)
    make_corpus(place / "a", {"train": train, "val": [val]})
    cut = None if samples is None else size * samples
    report = tokenriver.convert(
        place / "a", place / "b", format=name, layout=layout, sample_tokens=size, shard_tokens=cut
    )
    assert tokenriver.verify(place / "b") == []
    river = {
        split: [one for document in documents for one in document]
        for split, documents in (("train", _flat(train)), ("val", val))
    }
    for note, (split, ids) in zip(report.notes[-2:], river.items(), strict=True):
        assert note.startswith(f"{split}: {len(ids) // size:,} samples of {size:,} ids")
        assert ("and one of the last" in note) == (len(ids) % size > 0)
        _same(tokenriver.open_corpus(place / "b", split=split), tokenriver.open_corpus(place / "a", split=split))
    _forget(place / "b")
    for split, ids in river.items():
        dtype = "uint16" if layout == "bytes" else None
        where = place / "b" / split if (place / "b" / split).is_dir() else place / "b" / f"*{split}*.parquet"
        other = tokenriver.open_corpus(where, format=name, dtype=dtype)
        assert _documents(other) == [ids[at : at + size] for at in range(0, len(ids), size)]


def test_samples_are_refused_where_there_are_none_and_where_shards_would_cut_them(tmp_path: Path) -> None:
    make_corpus(tmp_path / "a", {"train": [[[1, 2, 3], [4, 5]]]})
    refused: list[tuple[dict[str, Any], str]] = [
        ({"format": "llmc", "sample_tokens": 2}, "got 2 for format 'llmc', which has no samples"),
        ({"format": "mds", "sample_tokens": 0}, "sample_tokens: got 0, expected at least 1"),
        ({"format": "mds", "sample_tokens": 2, "shard_tokens": 5}, "expected whole samples of 2; take 4"),
        ({"format": "mds", "sample_tokens": 4, "shard_tokens": 3}, "expected whole samples of 4; take 4"),
        (
            {"format": "mds", "layout": "fixed"},
            "got 2 to 3 ids, expected one length for all; give sample_tokens",
        ),
    ]
    for options, message in refused:
        with pytest.raises((InputError, LimitError), match=message):
            tokenriver.convert(tmp_path / "a", tmp_path / "b", **options)
        assert not (tmp_path / "b").exists()
