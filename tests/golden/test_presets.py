"""What `--like SYSTEM` builds is what the system's own script makes of the same texts, byte for byte where it can."""

import hashlib
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import tokenriver
from golden_data import golden

pytestmark = pytest.mark.usefixtures("quick_disk")


def _json(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(golden(name).read_text(encoding="utf-8"))
    return found


def test_the_pile_to_hdf5(tmp_path: Path) -> None:
    expected = np.load(golden("train_llm_from_scratch/pretrain_tokens.npy"))
    layout = _json("train_llm_from_scratch/pretrain_meta.json")["h5_at_default_constants"]
    report = tokenriver.build(
        golden("train_llm_from_scratch/pile_like.jsonl"), tmp_path / "out", like="pile-hdf5", max_bad=1.0
    )
    corpus = tokenriver.open_corpus(tmp_path / "out")
    assert corpus.read(0, corpus.num_tokens).tolist() == expected.tolist()
    assert report.num_documents == 32
    with h5py.File(corpus.shards[0].path, "r") as file:
        tokens = file["tokens"]
        assert list(file) == layout["keys"]
        assert [tokens.dtype.str, list(tokens.shape)] == [layout["dtype_le"], layout["shape"]]
        assert [list(tokens.maxshape), list(tokens.chunks)] == [layout["maxshape"], layout["chunks"]]
        assert [tokens.compression, int(tokens.fillvalue)] == [layout["compression"], layout["fillvalue"]]
        assert [dict(tokens.attrs), dict(file.attrs)] == [{}, {}]


def test_the_sharded_hdf5_lesson(tmp_path: Path) -> None:
    texts = [text for shard in _json("lesson43/source_documents.json")["shards"].values() for text in shard if text]
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    tokenriver.build(rows, tmp_path / "out", like="hdf5-shards")
    corpus = tokenriver.open_corpus(tmp_path / "out")
    expected = np.load(golden("lesson43/all_tokens.npy")).tolist()
    # the lesson adds a boundary for its one empty text; ours skips and counts empty texts
    empty = next(i for i in range(1, len(expected)) if expected[i - 1 : i + 1] == [0, 0])
    assert corpus.read(0, corpus.num_tokens).tolist() == expected[:empty] + expected[empty + 1 :]
    assert corpus.tokenizer is not None
    assert corpus.tokenizer.name == "byte-shifted"


def test_minimind_token_stream(tmp_path: Path) -> None:
    with pytest.raises(tokenriver.InputError, match=r"tokenizer: got none with like 'minimind', expected the path"):
        tokenriver.build(golden("minimind/pretrain.jsonl"), tmp_path / "out", like="minimind")
    tokenizer = golden("inputs/minimind_tokenizer.json")
    tokenriver.build(golden("minimind/pretrain.jsonl"), tmp_path / "out", like="minimind", tokenizer=tokenizer)
    out = next((tmp_path / "out").rglob("tokens.bin")).parent
    ours = _documents(out / "tokens.bin", np.load(out / "doc_lengths.npy"))
    folder = golden("minimind/tokenstream")
    theirs = _documents(folder / "tokens.bin", np.load(folder / "doc_lengths.npy"))
    rows = golden("minimind/pretrain.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(row)["text"] for row in rows]
    assert len(texts) == len(theirs)
    # an empty text is BOS EOS there; ours skips and counts empty texts
    kept = [(text, ids) for text, ids in zip(texts, theirs, strict=True) if text]
    assert len(ours) == len(kept)
    # a control token that a text spells is parsed there; ours stays text
    plain = [(found, wanted) for found, (text, wanted) in zip(ours, kept, strict=True) if "<|" not in text]
    assert len(plain) >= 7
    assert all(found == wanted for found, wanted in plain)


def _documents(path: Path, lengths: np.ndarray[Any, Any]) -> list[list[int]]:
    ids, ends = np.fromfile(path, np.uint16).tolist(), np.cumsum(lengths).tolist()
    return [ids[end - length : end] for end, length in zip(ends, lengths.tolist(), strict=True)]


def test_nanogpt_shakespeare(tmp_path: Path) -> None:
    """Its script cuts the text at nine tenths of its characters and encodes the two halves, without an end of text."""
    expected = _json("tinyshakespeare_outputs.json")["nanogpt"]
    text = golden("inputs/tinyshakespeare.txt").read_text(encoding="utf-8")
    cut = int(len(text) * 0.9)
    for split, half in (("train", text[:cut]), ("val", text[cut:])):
        (tmp_path / f"{split}.txt").write_text(half, encoding="utf-8")
        tokenriver.build(tmp_path / f"{split}.txt", tmp_path / split, like="nanogpt", framing="none")
        data = (tmp_path / split / "train.bin").read_bytes()
        wanted = expected[f"shakespeare/{split}.bin"]
        assert [len(data), hashlib.sha256(data).hexdigest()] == [wanted["bytes"], wanted["sha256"]]


def test_llmc_by_conversion(tmp_path: Path) -> None:
    """The corpus that llm.c's script makes, through another format and back, is the same two files."""
    source = golden("inputs/tinyshakespeare.txt")
    options: dict[str, Any] = {"like": "llmc", "separator": "blank-line", "val_tokens": 32768}
    tokenriver.build(source, tmp_path / "a", **options)
    tokenriver.convert(tmp_path / "a", tmp_path / "b", format="megatron")
    tokenriver.convert(tmp_path / "b", tmp_path / "c", format="llmc", name="tiny")
    expected = _json("tinyshakespeare_outputs.json")["llmc"]
    for split in ("train", "val"):
        data = (tmp_path / "c" / f"tiny_{split}_000000.bin").read_bytes()
        wanted = expected[f"tiny_shakespeare_{split}.bin"]
        assert [len(data), hashlib.sha256(data).hexdigest()] == [wanted["bytes"], wanted["sha256"]]
