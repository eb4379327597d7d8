"""Converting: what is refused and when, what a folder may hold, what is said about what is not known."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tokenriver
from small_builds import files_of
from small_corpora import make_corpus
from tokenriver import FormatError, LimitError, MismatchError, convert, registry, verify
from tokenriver.errors import InputError, RiverError
from tokenriver.formats import megatron

SHARDS = [[[1, 2, 3], [4]], [[5, 6]]]
ids = np.arange(100, dtype=np.uint16)


@pytest.fixture
def source(tmp_path: Path, quick_disk: None) -> Path:
    make_corpus(tmp_path / "a", {"train": SHARDS, "val": [[[7, 8]]]})
    return tmp_path / "a"


REFUSED: list[tuple[dict[str, Any], type[RiverError], str]] = [
    ({"format": "parchment"}, InputError, "formats: got 'parchment', expected one of arrow"),
    ({"format": "llmc", "dtype": "int32"}, LimitError, "dtype: got int32, expected one of uint16, uint32 in llmc"),
    ({"format": "llmc", "shard_tokens": 0}, InputError, "shard_tokens: got 0, expected at least 1"),
    (
        {"format": "llmc", "shard_tokens": 2**31},
        LimitError,
        "shard_tokens: got 2147483648, expected at most 2147483647",
    ),
    ({"format": "nanogpt", "shard_tokens": 2}, LimitError, "shards: got 3 of train, expected 1"),
    ({"format": "native", "name": "../x"}, RiverError, r"options\.name: got '\.\./x', expected a file name"),
    ({"format": "native", "name": "x/y"}, RiverError, r"options\.name: got 'x/y', expected a file name"),
]


@pytest.mark.parametrize(("options", "kind", "says"), REFUSED, ids=lambda value: str(value)[:40])
def test_refusals_come_before_anything_is_written(
    source: Path, tmp_path: Path, options: dict[str, Any], kind: type[RiverError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        convert(source, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_an_id_that_the_target_cannot_hold(tmp_path: Path, quick_disk: None) -> None:
    (tmp_path / "train.bin").write_bytes(struct.pack("<3I", 1, 70_000, 2))
    with pytest.raises(
        LimitError, match="id: got 70000, expected at most 65535, what uint16 holds; choose a wider dtype"
    ):
        convert(tmp_path / "train.bin", tmp_path / "out", format="llmc", source_dtype="uint32", dtype="uint16")
    assert not (tmp_path / "out").exists()
    report = convert(tmp_path / "train.bin", tmp_path / "out", format="llmc", source_dtype="uint32")
    assert (report.dtype, report.splits) == ("uint32", {"train": {"ids": 3, "documents": None, "shards": 1}})
    corpus = tokenriver.open_corpus(tmp_path / "out")
    assert corpus.read(0, 3).tolist() == [1, 70_000, 2]
    assert corpus.num_documents is None
    assert corpus.fingerprint.startswith("sampled:")
    assert "no document bounds: the file has none" in report.notes


def test_wide_ids_become_narrow_where_they_fit(tmp_path: Path, quick_disk: None) -> None:
    (tmp_path / "train.bin").write_bytes(struct.pack("<3I", 1, 65_535, 2))
    report = convert(tmp_path / "train.bin", tmp_path / "out", format="llmc", source_dtype="uint32", dtype="uint16")
    assert report.dtype == "uint16"
    assert tokenriver.open_corpus(tmp_path / "out").read(0, 3).tolist() == [1, 65_535, 2]


def test_without_bounds_a_file_is_a_document_and_says_so(tmp_path: Path, quick_disk: None) -> None:
    ids.tofile(tmp_path / "train.bin")
    with pytest.raises(LimitError, match="documents: got no bounds, expected them; give eos_id"):
        convert(tmp_path / "train.bin", tmp_path / "out", format="megatron", need_documents=True)
    report = convert(tmp_path / "train.bin", tmp_path / "out", format="megatron")
    assert any("no document bounds" in note for note in report.notes)
    corpus = tokenriver.open_corpus(tmp_path / "out" / "tokens_train.idx")
    assert [corpus.document(0).tolist(), corpus.num_documents] == [ids.tolist(), 1]


@pytest.mark.parametrize("framing", ["eos-after", "eos-before"])
def test_documents_by_a_parting_id(tmp_path: Path, quick_disk: None, framing: str) -> None:
    parted = [9, 1, 2, 9, 9, 3, 4, 9, 5]
    np.array(parted, np.uint16).tofile(tmp_path / "train.bin")
    convert(tmp_path / "train.bin", tmp_path / "out", format="native", eos_id=9, framing=framing, need_documents=True)
    corpus = tokenriver.open_corpus(tmp_path / "out")
    assert corpus.num_documents is not None
    expected = {
        "eos-after": [[9], [1, 2, 9], [9], [3, 4, 9], [5]],
        "eos-before": [[9, 1, 2], [9], [9, 3, 4], [9, 5]],
    }
    assert [corpus.document(i).tolist() for i in range(corpus.num_documents)] == expected[framing]
    with pytest.raises(tokenriver.FormatError, match="source of document 0: got none"):
        corpus.source(0)
    assert tokenriver.verify(tmp_path / "out") == []


def test_a_rerun_of_the_same_is_complete_and_of_another_is_refused(source: Path, tmp_path: Path) -> None:
    first = convert(source, tmp_path / "out", format="megatron")
    before = files_of(tmp_path / "out")
    again = convert(source, tmp_path / "out", format="megatron")
    assert (first.complete_before, again.complete_before) == (False, True)
    assert (again.splits, again.balance) == (first.splits, first.balance)
    assert files_of(tmp_path / "out") == before
    for options in (
        {"format": "native"},
        {"format": "megatron", "shard_tokens": 2},
        {"format": "megatron", "name": "x"},
    ):
        with pytest.raises(MismatchError, match="out: holds another corpus; choose another folder"):
            convert(source, tmp_path / "out", **options)
    assert files_of(tmp_path / "out") == before


def test_what_lies_in_the_folder_already_stays(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "tokens_train.bin").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"got a folder with tokens_train\.bin in it, expected an empty or a new one"):
        convert(source, tmp_path / "out", format="megatron")
    assert (tmp_path / "out" / "tokens_train.bin").read_bytes() == b"mine"
    for out in (source, tmp_path):
        with pytest.raises(InputError, match=r"holds the source .*; choose another folder to write"):
            convert(source, out, format="megatron")


def test_an_unfinished_one_is_no_corpus_and_only_the_same_goes_on(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(megatron, "finish", _stop)
        with pytest.raises(KeyboardInterrupt):
            convert(source, tmp_path / "out", format="megatron")
    with pytest.raises(tokenriver.FormatError, match="not committed: this is an unfinished build"):
        tokenriver.open_corpus(tmp_path / "out")
    with pytest.raises(MismatchError, match="holds an unfinished conversion with other options"):
        convert(source, tmp_path / "out", format="megatron", name="other")
    convert(source, tmp_path / "out", format="megatron")
    convert(source, tmp_path / "straight", format="megatron")
    assert files_of(tmp_path / "out") == files_of(tmp_path / "straight")


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_corpora_of_different_tokenizers_are_not_joined(source: Path, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("text")
    tokenriver.build(tmp_path / "t.txt", tmp_path / "b", tokenizer="byte")
    with pytest.raises(MismatchError, match="tokenizer: got gpt2 and byte in the sources, expected one"):
        convert([source, tmp_path / "b"], tmp_path / "out", format="native")


@pytest.fixture
def joined(source: Path, tmp_path: Path) -> Path:
    """Two documents that came from nowhere, then three with their sources."""
    (tmp_path / "bare").mkdir()
    np.arange(5, dtype=np.uint16).tofile(tmp_path / "bare" / "tokens.bin")
    np.save(tmp_path / "bare" / "doc_lengths.npy", np.array([2, 3]))
    convert([tmp_path / "bare", source], tmp_path / "joined", format="native")
    return tmp_path / "joined"


WRITTEN = [name for name in registry.names("formats") if registry.load("formats", name).DTYPES]


@pytest.mark.parametrize("name", WRITTEN)
def test_documents_from_nowhere_keep_no_source_beside_others_that_do(joined: Path, tmp_path: Path, name: str) -> None:
    assert not list(verify(joined))
    convert(joined, tmp_path / "out", format=name)
    assert not list(verify(tmp_path / "out"))
    found = tokenriver.open_corpus(tmp_path / "out", split="train")
    expected = tokenriver.open_corpus(joined, split="train")
    assert [found.document(at).tolist() for at in range(5)] == [[0, 1], [2, 3, 4], [1, 2, 3], [4], [5, 6]]
    assert [found.source(at) for at in (2, 3, 4)] == [expected.source(at) for at in (2, 3, 4)]
    with pytest.raises(FormatError, match="source of document 1: got none, expected a corpus that keeps them"):
        found.source(1)


def test_a_source_that_the_manifest_has_not_is_refused(source: Path, tmp_path: Path) -> None:
    (first, *_) = sorted(source.glob("*train*.docs"))
    first.write_bytes(first.read_bytes()[:-4] + struct.pack("<i", 7))
    with pytest.raises(FormatError, match="source of document 1: got 7, expected one of the 1 of the manifest"):
        convert(source, tmp_path / "out", format="olmo")


def test_progress_ends_at_all_ids(source: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    convert(source, tmp_path / "out", format="llmc", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (8, 8)
    assert sorted(seen) == seen


def test_no_source_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sources: got none"):
        convert([], tmp_path / "out", format="native")
