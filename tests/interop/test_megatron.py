"""Megatron's indexed data sets: megatron-core reads what we write, and we read what its builder writes."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from format_sets import Variant
from peer_programs import DOCUMENTS, EVEN, ask, converted, documents_of, flat
from small_corpora import Documents
from tokenriver import registry
from tokenriver.corpus import open_corpus

pytestmark = pytest.mark.interop

DTYPES = registry.load("formats", "megatron").DTYPES
SEQUENCES = [[[1, 2], [3]], [[4, 5, 6]], [[7], [8], [9, 10]], [[11] * 300]]


def _set(file: Path, *, mmap: bool = True) -> dict[str, Any]:
    return {"prefix": file.with_suffix(""), "multimodal": False, "mmap": mmap}


def test_megatron_reads_what_is_written(tmp_path: Path) -> None:
    documents = [[i % 128 for i in document] for document in [*DOCUMENTS, [], [1]]]
    requests = []
    for dtype in DTYPES:
        (tmp_path / dtype).mkdir()
        [file] = Variant("megatron", "").write(tmp_path / dtype, [documents], dtype)
        requests.append(_set(file))
    several = sorted(converted(tmp_path / "our", "megatron", [EVEN[:50], EVEN[50:]]).glob("*.bin"))
    requests += [_set(file, mmap=False) for file in several]
    answers = ask("megatron", "read", requests, tmp_path)
    for dtype, found in zip(DTYPES, answers[:-2], strict=True):
        # a document without ids has no sequence
        assert found["sequences"] == [document for document in documents if document]
        bounds = zip(found["documents"], found["documents"][1:], strict=False)
        assert [flat(found["sequences"][start:stop]) for start, stop in bounds] == documents
        assert found["dtype"] == dtype
    assert answers[-2]["sequences"] + answers[-1]["sequences"] == EVEN


def test_what_megatron_writes_is_read(tmp_path: Path) -> None:
    cases = list(product(("uint16", "int32", "int64", "uint8"), (None, [0, 1, 0, 2, 0, 1, 0])))
    documents: list[list[Documents]] = [
        [[[i % 256 for i in s] for s in sequences] for sequences in SEQUENCES] for _ in cases
    ]
    requests = [
        {"prefix": tmp_path / str(i), "dtype": dtype, "modes": modes, "documents": documents[i]}
        for i, (dtype, modes) in enumerate(cases)
    ]
    ask("megatron", "write", requests, tmp_path)
    for number, (dtype, _) in enumerate(cases):
        for suffix in ("", ".bin", ".idx"):
            corpus = open_corpus(tmp_path / f"{number}{suffix}", format=None if suffix else "megatron")
            assert (corpus.format, corpus.dtype.name) == ("megatron", dtype)
            assert documents_of(corpus) == [flat(sequences) for sequences in documents[number]]


def test_ours_are_byte_for_byte_what_megatron_writes(tmp_path: Path) -> None:
    [file] = converted(tmp_path / "our", "megatron", [DOCUMENTS]).glob("*.bin")
    documents = [[document] for document in DOCUMENTS]
    request = {"prefix": tmp_path / "set", "dtype": "uint16", "modes": None, "documents": documents}
    ask("megatron", "write", [request], tmp_path)
    for suffix in (".bin", ".idx"):
        assert file.with_suffix(suffix).read_bytes() == (tmp_path / f"set{suffix}").read_bytes()
