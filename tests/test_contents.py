"""What lies behind a path: folders of splits, globs, links, documents that go on in the next shard or are parted by an
id."""

import hashlib
import pickle
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import naive_mds
import tokenriver
from small_corpora import TOKENIZER, index_bytes, make_corpus, river_of, shard_bytes
from tokenriver.corpus import Corpus, open_corpus
from tokenriver.errors import FormatError, InputError
from tokenriver.manifest import Manifest, ShardInfo, SourceInfo, write_manifest
from tokenriver.verify import verify

DOCUMENTS = [[[1, 2, 50256], [3, 50256]], [[4, 50256], [5, 50256]]]


def carried(folder: Path, split: str = "train", below: str = "") -> list[ShardInfo]:
    """Three shards of ids 1 to 8: documents [1 2], [], [3 4 5 6 7], [], [8], the third one through all of them."""
    (folder / below).mkdir(parents=True, exist_ok=True)
    infos, first = [], 0
    for number, (ids, lengths, behind) in enumerate(
        (((1, 2, 3), (2, 0), 1), ((4, 5), (), 2), ((6, 7, 8), (2, 0, 1), 0))
    ):
        data, index = shard_bytes(ids), index_bytes(lengths, first, carried=behind)
        name = f"{below}tokens_{split}_{number:06d}"
        (folder / f"{name}.bin").write_bytes(data)
        (folder / f"{name}.docs").write_bytes(index)
        digests = [hashlib.sha256(part).hexdigest() for part in (data, index)]
        counts = len(ids), len(lengths)
        infos.append(ShardInfo(f"{name}.bin", split, *counts, len(data), digests[0], len(index), digests[1]))
        first += len(lengths)
    return infos


def _manifest(shards: list[ShardInfo]) -> Manifest:
    source = SourceInfo("a.jsonl", 10, None, "jsonl", "", 5)
    splits = {shard.split for shard in shards}
    kept = {"ids": dict.fromkeys(splits, 8), "documents": dict.fromkeys(splits, 5)}
    balance = {name: {"kept": counts} for name, counts in kept.items()}
    return Manifest("native", TOKENIZER, "none", "uint16", {}, (source,), tuple(shards), balance)


def _is_the_carried_one(corpus: Corpus) -> None:
    documents = [[1, 2], [], [3, 4, 5, 6, 7], [], [8]]
    assert (corpus.num_tokens, corpus.num_documents) == (8, 5)
    assert [corpus.document(i).tolist() for i in range(5)] == documents
    assert [corpus.doc_bounds(i) for i in range(5)] == [(0, 2), (2, 2), (2, 7), (7, 7), (7, 8)]
    assert [corpus.document_at(position) for position in range(8)] == [0, 0, 2, 2, 2, 2, 2, 4]


def test_a_document_through_three_shards(tmp_path: Path) -> None:
    infos = carried(tmp_path)
    _is_the_carried_one(open_corpus(tmp_path))
    write_manifest(tmp_path, _manifest(infos))
    corpus = open_corpus(tmp_path)
    _is_the_carried_one(corpus)
    assert [corpus.source(i) for i in range(5)] == [("a.jsonl", i) for i in range(5)]
    walked = [(0, 0, [1, 2]), (0, 1, []), (0, 2, [3, 4, 5, 6, 7]), (0, 3, []), (0, 4, [8])]
    assert [(source, record, ids.tolist()) for source, record, ids in corpus.walk()] == walked
    assert verify(tmp_path) == []


def test_a_document_that_never_ends_is_refused_and_found(tmp_path: Path) -> None:
    infos = carried(tmp_path)[:2]
    for name in ("tokens_train_000002.bin", "tokens_train_000002.docs"):
        (tmp_path / name).unlink()
    manifest = _manifest(infos)
    balance = {"ids": {"kept": {"train": 5}}, "documents": {"kept": {"train": 2}}}
    write_manifest(tmp_path, replace(manifest, balance=balance))
    corpus = open_corpus(tmp_path)
    assert corpus.document(0).tolist() == [1, 2]
    with pytest.raises(FormatError, match=r"tokens_train_000001\.bin: documents: .* goes on behind the last shard"):
        corpus.document_at(4)
    assert [(Path(finding.path).name, finding.what) for finding in verify(tmp_path)] == [
        ("tokens_train_000001.docs", "ids of a document that goes on")
    ]


def test_shards_below_a_folder_of_their_split(tmp_path: Path) -> None:
    infos = [*carried(tmp_path, "train", "train/"), *carried(tmp_path, "val", "val/")]
    for split in ("train", "val"):
        without = open_corpus(tmp_path, split=split)
        assert (without.splits, without.manifest) == (("train", "val"), None)
        _is_the_carried_one(without)
    write_manifest(tmp_path, _manifest(infos))
    for split in ("train", "val"):
        _is_the_carried_one(open_corpus(tmp_path, split=split))


@pytest.mark.parametrize("names", [("train", "valid"), ("train", "validation"), ("train", "val")])
def test_folders_of_splits_by_their_names(tmp_path: Path, names: tuple[str, str]) -> None:
    for number, name in enumerate(names):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.bin").write_bytes(shard_bytes([number]))
    (tmp_path / "notes").mkdir()
    corpus = open_corpus(tmp_path)
    assert (corpus.splits, corpus.read(0, 1).tolist()) == (("train", "val"), [0])
    assert open_corpus(tmp_path, split="val").read(0, 1).tolist() == [1]
    with pytest.raises(InputError, match="split: got 'test', expected one of train, val"):
        open_corpus(tmp_path, split="test")
    (tmp_path / names[1] / "a.bin").write_bytes(b"abcd")
    with pytest.raises(FormatError, match=r"got folders of .*, expected one format; open one of them"):
        open_corpus(tmp_path)


def test_a_glob_joins_what_it_matches_and_nothing_else(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"a{number}.bin").write_bytes(shard_bytes([number]))
    assert open_corpus(tmp_path / "a*.bin").read(0, 12).tolist() == [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
    assert open_corpus(tmp_path / "a[01].bin").read(0, 2).tolist() == [0, 1]
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "b[1].bin").write_bytes(shard_bytes([77]))
    assert open_corpus(tmp_path / "x" / "b[1].bin").read(0, 1).tolist() == [77], "a name with brackets that exists"
    with pytest.raises(InputError, match="got no such file, folder or glob with a match"):
        open_corpus(tmp_path / "z*.bin")


def test_a_link_below_a_corpus_is_refused_and_one_to_it_is_not(tmp_path: Path) -> None:
    infos = carried(tmp_path / "c", "train", "train/")
    write_manifest(tmp_path / "c", _manifest(infos))
    (tmp_path / "link").symlink_to(tmp_path / "c")
    _is_the_carried_one(open_corpus(tmp_path / "link"))
    make_corpus(tmp_path / "flat", {"train": DOCUMENTS})
    (tmp_path / "flat link").symlink_to(tmp_path / "flat")
    assert open_corpus(tmp_path / "flat link").read(0, 9).tolist() == river_of(DOCUMENTS).tolist()
    (tmp_path / "c" / "train").rename(tmp_path / "elsewhere")
    (tmp_path / "c" / "train").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FormatError, match="train: got a symbolic link, expected a folder"):
        open_corpus(tmp_path / "c").read(0, 1)


def test_documents_by_an_id_only_where_the_files_have_none(tmp_path: Path) -> None:
    for number, ids in enumerate(([5, 1, 1, 5], [5, 2, 5])):
        (tmp_path / f"{number}.bin").write_bytes(shard_bytes(ids))
    assert open_corpus(tmp_path).num_documents is None
    after = open_corpus(tmp_path, eos_id=5)
    assert [after.document(i).tolist() for i in range(4)] == [[5], [1, 1, 5], [5], [2, 5]]
    before = open_corpus(tmp_path, eos_id=5, framing="eos-before")
    assert [before.document(i).tolist() for i in range(4)] == [[5, 1, 1], [5], [5, 2], [5]]
    assert "id 5 ends a document" in after.assumptions
    assert "id 5 begins a document" in before.assumptions
    again = pickle.loads(pickle.dumps(before))
    assert [again.doc_bounds(i) for i in range(4)] == [(0, 3), (3, 4), (4, 6), (6, 7)]
    with pytest.raises(InputError, match="framing: got 'bos-eos'"):
        open_corpus(tmp_path, eos_id=5, framing="bos-eos")
    for number, lengths in enumerate(([4], [3])):
        (tmp_path / f"{number}.docs").write_bytes(index_bytes(lengths))
    told = open_corpus(tmp_path, eos_id=5)
    assert [told.doc_bounds(i) for i in range(2)] == [(0, 4), (4, 7)], "what the files say comes first"
    assert not any("document" in text for text in told.assumptions)


def test_a_companion_that_is_a_link_is_refused(tmp_path: Path, quick_disk: None) -> None:
    make_corpus(tmp_path / "a", {"train": [[[1, 2], [3]]]})
    tokenriver.convert(tmp_path / "a", tmp_path / "b", format="megatron")
    index = tmp_path / "b" / "tokens_train.idx"
    index.rename(tmp_path / "elsewhere.idx")
    index.symlink_to(tmp_path / "elsewhere.idx")
    corpus = tokenriver.open_corpus(tmp_path / "b")
    with pytest.raises(FormatError, match=r"tokens_train\.idx: got a symbolic link, expected a regular file"):
        corpus.read(0, 3)


def test_files_called_train_and_val_say_more_than_their_folder(tmp_path: Path, quick_disk: None) -> None:
    make_corpus(tmp_path / "a", {"train": [[[1, 2], [3]]], "val": [[[4]]]})
    tokenriver.convert(tmp_path / "a", tmp_path / "b", format="hdf5", name="x")
    (tmp_path / "c").mkdir()
    for split in ("train", "val"):
        path = next((tmp_path / "b" / split).glob("*.h5"))
        (tmp_path / "c" / f"{split}.h5").write_bytes(path.read_bytes())
    found = [tokenriver.open_corpus(tmp_path / "c", split=split).read(0, 1).tolist() for split in ("train", "val")]
    assert found == [[1], [4]]


def test_a_bare_file_loads_no_format_that_it_cannot_be(tmp_path: Path) -> None:
    """Opening must not cost the imports of a dozen formats."""
    (tmp_path / "train.bin").write_bytes(bytes(range(1, 101)))
    code = (
        "import sys; from tokenriver import open_corpus; open_corpus(sys.argv[1]);"
        "names = [name for name in sys.modules if name.startswith('tokenriver.formats.') and '._' not in name];"
        "print(sorted(name.rpartition('.')[2] for name in names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "train.bin"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['llmc', 'nanogpt']"


def test_shards_without_an_id_are_left_out_and_counted(tmp_path: Path) -> None:
    documents: list[list[list[int]]] = [[[1, 2], [3]], [[], []], [[4]]]
    shards = [[[struct.pack(f"<{len(ids)}H", *ids)] for ids in shard] for shard in documents]
    naive_mds.write_folder(tmp_path, naive_mds.columns(("tokens", "bytes", None)), shards)
    corpus = open_corpus(tmp_path, dtype="uint16")
    assert [corpus.document(i).tolist() for i in range(3)] == [[1, 2], [3], [4]]
    assert corpus.num_documents == 3
    assert "left out: 1 shards without an id, of 2 documents" in corpus.assumptions
