"""The packed fine-tuning files of the HDF5 project, from its own three kinds of records: every cell of both data
sets, and the examples that it kept."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import tokenriver as tr
from golden_data import golden

INPUTS = ("in_alpaca_like.jsonl", "in_dolly_like.jsonl", "in_gsm8k_train.jsonl")


@pytest.fixture
def meta() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((golden("train_llm_from_scratch") / "sft_meta.json").read_bytes())
    return value


def _inputs() -> list[Path]:
    return [golden("train_llm_from_scratch") / name for name in INPUTS]


def test_packed_rows(tmp_path: Path, meta: dict[str, Any]) -> None:
    report = tr.sft(
        _inputs(), tmp_path / "out", like="sft-hdf5", seq_len=meta["context_length"], val_fraction=meta["dev_frac"]
    )
    for split, name in (("train", "sft_packed.h5"), ("val", "sft_dev_packed.h5")):
        with h5py.File(golden("train_llm_from_scratch") / name) as theirs, h5py.File(tmp_path / "out" / name) as ours:
            assert set(ours) == set(theirs)
            for key in theirs:
                assert ours[key].dtype == theirs[key].dtype
                assert (ours[key].chunks, dict(ours[key].attrs)) == (None, {})
                assert np.array_equal(ours[key][:], theirs[key][:])
            assert report.splits[split]["trained"] == int(theirs["loss_mask"][:].sum())
            assert report.splits[split]["rows"] == len(theirs["tokens"])
    assert report.balance["documents"]["dropped"] == {"too-long": 2}
    assert sum(counts["examples"] for counts in report.splits.values()) == meta["kept_examples"]


def test_whole_examples(tmp_path: Path, meta: dict[str, Any], quick_disk: None) -> None:
    tr.sft(_inputs(), tmp_path / "out", max_length=meta["context_length"])
    corpus = tr.open_corpus(tmp_path / "out")
    assert np.diff(corpus.doc_ends(), prepend=0).tolist() == meta["kept_lengths_in_collection_order"]
    assert tr.verify(tmp_path / "out") == []
    assert corpus.source(0) == (INPUTS[0], 0)
    assert corpus.source(corpus.document_at(corpus.num_tokens - 1)) == (INPUTS[2], 59)
