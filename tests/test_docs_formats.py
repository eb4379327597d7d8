"""docs/formats.md against the code: a reader written from the document must read what we write."""

import hashlib
import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from doc_tables import cells, value
from small_corpora import index_bytes, make_corpus, shard_bytes
from tokenriver import foreign, registry
from tokenriver.corpus import open_corpus
from tokenriver.formats import _bin, _docindex, llmc
from tokenriver.manifest import FileInfo, Manifest, ShardInfo, SourceInfo, TokenizerInfo

TEXT = (Path(__file__).resolve().parent.parent / "docs" / "formats.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("dtype", "item"), [("uint16", 2), ("uint32", 4)])
def test_a_shard_is_read_by_its_table(dtype: str, item: int) -> None:
    header = llmc.header(5, dtype)
    rows = cells(TEXT, "## Shard")
    assert [row[0] for row in rows] == ["0", "4", "8", "12", "1024"]
    numbers = [int.from_bytes(header[int(row[0]) : int(row[0]) + int(row[1])], "little") for row in rows[:3]]
    for number, row in zip(numbers[:2], rows, strict=False):
        assert f"{number} for {dtype} ids" in row[3]
    assert numbers[2] == 5
    assert not any(header[int(rows[3][0]) :])
    assert int(rows[3][0]) + int(rows[3][1]) == len(header) == _bin.LLMC_HEADER_BYTES
    assert f"{item}·N" in rows[4][1]
    assert rows[2][3].endswith(f"1 to {_bin.LLMC_MAX_TOKENS}")


def test_an_index_is_read_by_its_table() -> None:
    ends, records, sources = np.array([3, 4, 9]), np.array([7, 8, 2**40]), np.array([0, 5, 1], np.int32)
    data = b"".join(_docindex.pack_index(3, 5, lambda: iter([(ends, records, sources)])))
    rows = cells(TEXT, "## Document index")
    columns = []
    for offset, size, kind, _ in rows:
        start = value(offset, K=3)
        piece = data[start : start + value(size, K=3)]
        columns.append(piece.decode() if kind == "bytes" else np.frombuffer(piece, np.dtype(kind)).tolist())
    assert columns == ["TRDOCS01", [3], [5], ends.tolist(), records.tolist(), sources.tolist()]
    assert len(data) == value("24 + 20·K", K=3) == _docindex.HEADER_BYTES + 3 * _docindex.BYTES_PER_DOCUMENT
    assert "The file is 24 + 20·K bytes long" in TEXT


def test_the_manifest_has_the_keys_of_its_tables(tmp_path: Path) -> None:
    make_corpus(tmp_path, {"train": [[[1, 2]]]})
    data = (tmp_path / "manifest.json").read_bytes()
    content = json.loads(data)
    assert [row[0].strip("`") for row in cells(TEXT, "## `manifest.json`")] == list(content)
    for name, kind in (
        ("shards", ShardInfo),
        ("files", FileInfo),
        ("sources", SourceInfo),
        ("tokenizer", TokenizerInfo),
    ):
        keys = [row[0].strip("`") for row in cells(TEXT, f"\n`{name}`:")]
        assert keys == [field.name for field in fields(kind)]
        assert sorted(keys) == list(content[name])
    assert content["digest"] == hashlib.sha256(data.replace(content["digest"].encode(), b"0" * 64)).hexdigest()
    shards = {"train": list(map(list, zip(content["shards"]["num_tokens"], content["shards"]["sha256"], strict=True)))}
    text = json.dumps([content["tokenizer"]["fingerprint"], content["dtype"], shards], separators=(",", ":"))
    assert "the line `tokenriver corpus 1`" in TEXT
    found = hashlib.sha256(f"tokenriver corpus 1\n{text}".encode()).hexdigest()
    assert found == open_corpus(tmp_path).fingerprint


def test_carried_ids_are_counted_as_it_says(tmp_path: Path) -> None:
    """K = 0 and C = N in the first shard of three; C = 0 in the last."""
    for name, lengths, carried in (("a", [], 3), ("b", [2, 0], 1), ("c", [3], 0)):
        data = index_bytes(lengths, carried=carried)
        (tmp_path / f"{name}.bin").write_bytes(shard_bytes([1, 2, 3]))
        (tmp_path / f"{name}.docs").write_bytes(data)
        count, after = (_field(data, row) for row in cells(TEXT, "## Document index")[1:3])
        assert (count, after) == (len(lengths), carried)
        assert sum(lengths) == 3 - carried
    corpus = open_corpus(tmp_path)
    assert [corpus.doc_bounds(i) for i in range(3)] == [(0, 5), (5, 5), (5, 9)]


def _field(data: bytes, row: list[str]) -> int:
    return int.from_bytes(data[int(row[0]) : int(row[0]) + int(row[1])], "little")


def test_the_fingerprint_of_a_converted_corpus_is_computed_as_it_says() -> None:
    rivers = {"val": "b" * 64, "train": "sampled:" + "a" * 64}
    shards = tuple(ShardInfo(f"{split}.bin", split, 1, 1, 1026, "c" * 64, 44, "d" * 64) for split in rivers)
    manifest = Manifest("native", None, "none", "uint16", {}, (), shards, {}, (), rivers)
    text = json.dumps([rivers["train"], rivers["val"]], separators=(",", ":"))
    assert "the JSON list\nof them, in the order of the splits' names" in TEXT
    assert manifest.fingerprint == hashlib.sha256(f"tokenriver corpus 1\n{text}".encode()).hexdigest()
    assert manifest.river_fingerprint("val") == "b" * 64


def test_every_format_has_its_row() -> None:
    assert sorted(row[0].strip("`") for row in cells(TEXT, "## Files without a manifest")) == registry.names("formats")


def test_a_sampled_fingerprint_is_computed_as_it_says(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).integers(0, 50000, 5000).astype("<u2")
    (tmp_path / "a.bin").write_bytes(shard_bytes(ids[:2048].tolist()))
    head = b"tokenriver sample 1 llmc uint16 2048\n"
    expected = hashlib.sha256(head + ids[:2048].tobytes()).hexdigest()
    assert open_corpus(tmp_path / "a.bin").fingerprint == f"sampled:{expected}"
    assert f"{foreign.BLOCKS}\nblocks of {foreign.BLOCK_IDS} ids" in TEXT
