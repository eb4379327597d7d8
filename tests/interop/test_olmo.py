"""OLMo's token arrays: OLMo-core reads what we write, and we read what dolma's writer writes."""

from itertools import accumulate, product
from pathlib import Path

import numpy as np
import pytest

from peer_programs import DOCUMENTS, ask, converted, documents_of, flat
from small_corpora import Documents
from tokenriver.corpus import open_corpus

pytestmark = pytest.mark.interop

EOS = 60000
CLOSED: Documents = [[*document, EOS] for document in DOCUMENTS]


def test_olmo_core_reads_what_is_written(tmp_path: Path) -> None:
    cases = list(product(("uint16", "uint32"), (False, True)))
    requests = [
        {
            "files": sorted(converted(tmp_path / "our", "olmo", [CLOSED], dtype=dtype).glob("*.npy")),
            "dtype": dtype,
            "length": 16,
            "eos": EOS,
            "by_eos": by_eos,
        }
        for dtype, by_eos in cases
    ]
    ids, ends = flat(CLOSED), list(accumulate(map(len, CLOSED)))
    for found in ask("olmo", "read", requests, tmp_path):
        assert found["windows"] == [ids[at : at + 16] for at in range(0, len(ids) - 15, 16)]
        assert found["documents"] == [[[start, stop] for start, stop in zip([0, *ends], ends, strict=False)]]


def test_what_dolma_writes_is_read(tmp_path: Path) -> None:
    for dtype in ("uint16", "uint32"):
        third = len(CLOSED) // 3
        parts = [CLOSED[:third], CLOSED[third : 2 * third], CLOSED[2 * third :]]
        requests = [
            {
                "path": tmp_path / dtype / f"part-0-{number:05d}.npy",
                "documents": documents,
                "dtype": dtype,
                "max_tokens": 10_000,
            }
            for number, documents in enumerate(parts)
        ]
        assert ask("olmo", "write", requests, tmp_path) == [len(documents) for documents in parts]
        corpus = open_corpus(tmp_path / dtype)
        assert (corpus.format, corpus.dtype.name, len(corpus.shards)) == ("olmo", dtype, 3)
        assert documents_of(corpus) == CLOSED


def test_an_array_that_dolma_never_filled_is_no_array_of_numpy(tmp_path: Path) -> None:
    path = tmp_path / "part-0-00000.npy"
    request = {"path": path, "documents": CLOSED[:3], "dtype": "uint16", "max_tokens": 1000}
    ask("olmo", "write", [request], tmp_path)
    with pytest.raises(ValueError, match=r"pickled|magic"):
        np.load(path)
    assert documents_of(open_corpus(path)) == CLOSED[:3]
