"""litdata's token chunks: its TokensLoader reads what we write, and we read what its writer writes."""

from itertools import product
from pathlib import Path

import pytest

from peer_programs import DOCUMENTS, EVEN, ask, converted, documents_of, flat
from tokenriver.corpus import open_corpus

pytestmark = pytest.mark.interop

LAYOUTS = [("", "uint16"), ("", "uint32"), ("tensor", "int32"), ("tensor", "int64")]
KINDS = [("numpy", "uint16"), ("numpy", "int64"), ("tensor", "uint16"), ("tensor", "int16"), ("tensor", "int32")]


def test_litdata_reads_what_is_written(tmp_path: Path) -> None:
    folders = [converted(tmp_path / "our", "litdata", [[[], *DOCUMENTS, []]], *how) for how in LAYOUTS]
    several = converted(tmp_path / "our", "litdata", [EVEN[:50], EVEN[50:]])
    assert len(list(several.glob("*.bin"))) == 2
    requests = [{"folder": folder, "block": 9} for folder in folders] + [{"folder": several, "block": 16}]
    answers = ask("litdata", "read", requests, tmp_path)
    ids = flat(DOCUMENTS)
    blocks = [ids[at : at + 9] for at in range(0, len(ids) - 8, 9)]
    assert answers[:-1] == [blocks] * len(LAYOUTS)
    assert answers[-1] == EVEN


def test_what_litdata_writes_is_read(tmp_path: Path) -> None:
    cases = list(product(KINDS, (100, 100_000)))
    requests = [
        {"folder": tmp_path / str(i), "kind": kind, "dtype": dtype, "chunk_size": size, "documents": DOCUMENTS}
        for i, ((kind, dtype), size) in enumerate(cases)
    ]
    ask("litdata", "write", requests, tmp_path)
    for number, ((_, dtype), size) in enumerate(cases):
        corpus = open_corpus(tmp_path / str(number))
        assert (corpus.format, corpus.dtype.name) == ("litdata", dtype)
        assert documents_of(corpus) == DOCUMENTS
        assert (len(corpus.shards) > 1) == (size == 100)
