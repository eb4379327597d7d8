"""nanoGPT's files: ids and nothing else."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from made_contents import made_content, made_target, write_shards
from small_corpora import ids_of, shard_bytes
from tokenriver.corpus import open_corpus
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import _meta, nanogpt


def test_sixteen_bits_unless_told(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(bytes([1, 0, 2, 0, 255, 255, 0, 1]))
    assert ids_of(nanogpt.open_reader(path)) == [1, 2, 65535, 256]
    wide = nanogpt.open_reader(path, dtype="uint32")
    assert (ids_of(wide), wide.dtype, wide.num_tokens) == ([131073, 16842751], np.dtype("u4"), 2)
    assert ids_of(pickle.loads(pickle.dumps(wide))) == ids_of(wide)
    assert ids_of(nanogpt.open_reader(path, dtype="int16")) == [1, 2, -1, 256], "as stored: the river refuses it"
    assert wide.doc_ends is None


def test_a_torn_or_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    for data, dtype, multiple in ((b"", None, 2), (b"abc", None, 2), (b"abcdef", "uint32", 4)):
        path.write_bytes(data)
        with pytest.raises(
            FormatError, match=f"size: got {len(data)} bytes, expected a positive multiple of {multiple}"
        ):
            nanogpt.open_reader(path, dtype=dtype)
    for dtype in ("float32", "uint128", "object"):
        with pytest.raises(InputError, match=f"dtype: got '{dtype}'"):
            nanogpt.open_reader(path, dtype=dtype)


def test_what_is_written_is_the_ids(tmp_path: Path) -> None:
    content = made_content([1, 70000, 2], dtype="uint32", block=2)
    (written,) = write_shards(nanogpt, tmp_path, [content], "uint32")
    assert (written.path, written.num_bytes) == (tmp_path / "train.bin", 12)
    assert written.path.read_bytes() == np.array([1, 70000, 2], "<u4").tobytes()
    target = made_target("uint32", split="val", shards=2)
    assert nanogpt.file_name(target, 0) == "val.bin"
    with pytest.raises(LimitError, match="shards: got 2 of val, expected 1; leave shard_tokens out"):
        nanogpt.check(target, [content, content])


def test_only_a_bin_file_of_no_other_kind_is_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"abcd")
    (tmp_path / "a.txt").write_bytes(b"abcd")
    (tmp_path / "b.bin").write_bytes(shard_bytes([1]))
    (tmp_path / "c.bin").mkdir()
    claims = {name: nanogpt.sniff(tmp_path / name) for name in ("a.bin", "a.txt", "b.bin", "c.bin", "none.bin")}
    assert claims == {"a.bin": True, "a.txt": False, "b.bin": False, "c.bin": False, "none.bin": False}


def test_the_vocabulary_of_meta_pkl_is_what_ids_must_be_of(tmp_path: Path) -> None:
    np.array([0, 1, 2, 1], np.uint16).tofile(tmp_path / "train.bin")
    _meta.write_meta(tmp_path / "meta.pkl", "abc")
    corpus = open_corpus(tmp_path)
    assert (corpus.format, corpus.vocab_size) == ("nanogpt", 3)
    assert not any("gpt2" in text for text in corpus.assumptions)
    np.array([0, 1, 3, 1], np.uint16).tofile(tmp_path / "train.bin")
    with pytest.raises(FormatError, match="id: got 3 in a sample, expected at most 2 by the vocabulary beside it"):
        open_corpus(tmp_path)
    (tmp_path / "meta.pkl").write_bytes(pickle.dumps(print))
    with pytest.raises(FormatError, match=r"meta\.pkl"):
        open_corpus(tmp_path)
