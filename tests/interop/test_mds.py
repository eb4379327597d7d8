"""MDS: mosaicml-streaming reads what we write, and we read what it writes."""

from pathlib import Path
from typing import Any

import pytest

from peer_programs import DOCUMENTS, EVEN, ask, converted, documents_of, flat
from small_corpora import Documents, make_corpus
from tokenriver.convert import convert
from tokenriver.corpus import open_corpus
from tokenriver.errors import FormatError, RiverError

pytestmark = pytest.mark.interop

LAYOUTS: list[tuple[str, str, Documents]] = [
    ("", "uint16", DOCUMENTS),
    ("", "int64", DOCUMENTS),
    ("fixed", "uint32", EVEN),
    ("bytes", "uint16", [[], *DOCUMENTS, []]),
    ("zstd", "int32", DOCUMENTS),
]


def test_streaming_reads_what_is_written(tmp_path: Path) -> None:
    sets = [(converted(tmp_path / "our", "mds", [docs], layout, dtype), dtype) for layout, dtype, docs in LAYOUTS]
    several = converted(tmp_path / "our", "mds", [EVEN[:40], EVEN[40:80], EVEN[80:]])
    assert len(list(several.glob("*.mds"))) == 3
    requests = [
        {"folder": folder, "column": "tokens", "dtype": dtype} for folder, dtype in [*sets, (several, "uint16")]
    ]
    expected = [*(documents for _, _, documents in LAYOUTS), EVEN]
    for (layout, dtype, _), got, documents in zip(
        [*LAYOUTS, ("", "several", EVEN)], ask("mds", "read", requests, tmp_path), expected, strict=True
    ):
        assert got == documents, f"layout {layout!r} of {dtype}"


def test_streaming_reads_samples_of_one_size(tmp_path: Path) -> None:
    make_corpus(tmp_path / "native", {"train": [DOCUMENTS]})
    requests = []
    for layout in ("", "fixed", "zstd"):
        out = tmp_path / f"mds-{layout}"
        convert(tmp_path / "native", out, format="mds", layout=layout, sample_tokens=16, shard_tokens=64)
        requests.append({"folder": out / "train", "column": "tokens", "dtype": "uint16"})
    ids = flat(DOCUMENTS)
    samples = [ids[at : at + 16] for at in range(0, len(ids), 16)]
    assert ask("mds", "read", requests, tmp_path) == [samples] * 3


def _request(folder: Path, encoding: str, dtype: str, options: dict[str, Any]) -> dict[str, Any]:
    request = {"folder": folder, "column": "input_ids", "encoding": encoding, "dtype": dtype}
    return {**request, "documents": EVEN, "options": options}


WRITTEN: list[tuple[str, str, dict[str, Any]]] = [
    ("ndarray", "uint16", {}),
    ("ndarray:uint32", "uint32", {"size_limit": 1000}),
    ("ndarray:int64:16", "int64", {"size_limit": 2000, "hashes": ["sha1", "xxh64"]}),
    ("ndarray:uint16", "uint16", {"compression": "zstd", "hashes": ["md5"]}),
    ("ndarray", "int32", {"compression": "zstd:7", "size_limit": 1000}),
    ("bytes", "uint16", {}),
]


def test_what_streaming_writes_is_read(tmp_path: Path) -> None:
    requests = [_request(tmp_path / str(i), *how[:3]) for i, how in enumerate(WRITTEN)]
    ask("mds", "write", requests, tmp_path)
    for number, (encoding, dtype, options) in enumerate(WRITTEN):
        corpus = open_corpus(tmp_path / str(number), dtype=dtype if encoding == "bytes" else None)
        assert (corpus.format, corpus.dtype.name) == ("mds", dtype)
        assert documents_of(corpus) == EVEN
        assert (len(corpus.shards) > 1) == ("size_limit" in options)
    with pytest.raises(FormatError, match="dtype"):
        open_corpus(tmp_path / str(len(WRITTEN) - 1))


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("pkl", "uint16", {}, "pkl"),
    ("ndarray:uint16", "uint16", {"compression": "gz"}, "gz"),
    ("ndarray:uint16", "uint16", {"compression": "br"}, "br"),
    ("ndarray:float32", "float32", {}, "float32"),
]


def test_what_is_not_read_is_refused(tmp_path: Path) -> None:
    requests = [_request(tmp_path / str(i), *how[:3]) for i, how in enumerate(REFUSED)]
    ask("mds", "write", requests, tmp_path)
    for number, how in enumerate(REFUSED):
        with pytest.raises(RiverError, match=how[-1]):
            open_corpus(tmp_path / str(number))
