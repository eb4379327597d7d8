"""The batches of nanochat's best-fit loader, to the id: one rank and two, a buffer of one, three epochs, resumed."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden_data import golden
from rivers import ArrayRiver
from tokenriver.build import build
from tokenriver.corpus import open_corpus
from tokenriver.loader import Loader
from tokenriver.types import Int64, River

BOS = 256
# bytes of the documents of three Parquet files, the last one for validation
LENGTHS = [
    [
        18,
        47,
        23,
        36,
        28,
        42,
        21,
        6,
        18,
        38,
        37,
        58,
        15,
        25,
        56,
        7,
        42,
        57,
        55,
        40,
        53,
        12,
        45,
        40,
        30,
        59,
        50,
        13,
        58,
        51,
        23,
        42,
        47,
        14,
        16,
        11,
        28,
        57,
        24,
        21,
    ],
    [
        26,
        33,
        38,
        8,
        59,
        7,
        43,
        3,
        43,
        17,
        53,
        21,
        37,
        51,
        20,
        20,
        9,
        45,
        16,
        20,
        36,
        55,
        14,
        20,
        16,
        32,
        41,
        12,
        48,
        1,
        18,
        14,
        56,
    ],
    [5, 30, 20, 22, 16, 11, 43, 25, 10, 9, 16, 41, 48, 35, 10, 26, 10, 28, 32, 42, 27, 34, 14, 26, 30],
]
ROW_GROUPS = [[10] * 4, [8, 8, 8, 8, 1], [25]]
# settings, and the sha256 of the river positions of all its rows as int64
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "train_b2_t32_buf8_w1": (
        {"batch": 2, "seq_len": 32, "buffer": 8, "fetch": 4},
        "64251a228ebd68ffc7b52b60dfe4cf3a5e021157b21990f220aa953e9fdc6775",
    ),
    "train_b2_t32_buf1_w1": (
        {"batch": 2, "seq_len": 32, "buffer": 1, "fetch": 4},
        "4aa227f4b284696717f9287e37578b410c55e6e752558341c0631a13a8397e8b",
    ),
    "train_b3_t24_buf6_w2_r0": (
        {"batch": 3, "seq_len": 24, "buffer": 6, "readers": 2},
        "916ca69f474319758ce4ec2328e6f52dc5436c90f1ab5d44b55972a3207d4430",
    ),
    "train_b3_t24_buf6_w2_r1": (
        {"batch": 3, "seq_len": 24, "buffer": 6, "readers": 2, "rank": 1},
        "9a92a263331fce9f1b024f5807d8f4e00387af31cf5e6b7dca113bfb5fd9e91b",
    ),
    "val_b2_t16_buf4_w1": (
        {"batch": 2, "seq_len": 16, "buffer": 4, "files": [2]},
        "b9e29df05f91804030f16744c8281061860f8fd112399e26cc4fff5f3930a9fb",
    ),
    # it went on with the first row group of the second file, its buffer lost
    "train_b2_t32_buf8_w1_resumed": (
        {"batch": 2, "seq_len": 32, "buffer": 8, "fetch": 4, "files": [1, 0]},
        "cade4987dfaaa5a26b19b2cbed185b0a3171c21e31d91108a7f18a81896e83f1",
    ),
}
BATCHES = {"train_b2_t32_buf8_w1": 25, "val_b2_t16_buf4_w1": 12}
BATCHES |= {"train_b3_t24_buf6_w2_r0": 20, "train_b3_t24_buf6_w2_r1": 20}


def _files(case: dict[str, Any]) -> list[int]:
    files: list[int] = case.get("files", [0, 1])
    return files


def _rows(name: str, river: River) -> tuple[Int64, Int64]:
    """(batches, B, T) inputs and targets of a case."""
    case = CASES[name][0]
    readers = case.get("readers", 1)
    own = {"buffer_documents": case["buffer"], "fetch_documents": case.get("fetch", 128), "passes": 5}
    own |= {"row_groups": [ROW_GROUPS[file] for file in _files(case)]}
    own |= {"readers": readers, "reader_rows": case["batch"]}
    loader = Loader(
        river,
        seq_len=case["seq_len"],
        global_batch=readers * case["batch"],
        packing="bos_aligned",
        packing_options=own,
        order="sequential",
        rank=case.get("rank", 0),
        world_size=readers,
        prefetch=0,
    )
    batches = [batch for _, batch in zip(range(BATCHES.get(name, 10)), loader, strict=False)]
    return np.stack([batch.input_ids for batch in batches]), np.stack([batch.targets for batch in batches])


@pytest.mark.parametrize("name", CASES)
def test_the_reference_rows_by_position(name: str) -> None:
    lengths = [length + 1 for file in _files(CASES[name][0]) for length in LENGTHS[file]]
    inputs, targets = _rows(name, ArrayRiver(sum(lengths), lengths))
    assert set(inputs[:, :, 0].ravel().tolist()) <= set((np.cumsum(lengths) - lengths).tolist())
    rows = np.concatenate([inputs, targets[:, :, -1:]], axis=2)
    assert hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest() == CASES[name][1]


@pytest.mark.parametrize("name", CASES)
def test_inputs_and_targets_are_nanochats(name: str) -> None:
    documents = json.loads(golden("nanochat/documents.json").read_text())["documents"]
    assert [[len(text) for text in file] for file in documents] == LENGTHS
    framed = [[BOS, *text.encode()] for file in _files(CASES[name][0]) for text in documents[file]]
    river = ArrayRiver([i for ids in framed for i in ids], [len(ids) for ids in framed])
    inputs, targets = _rows(name, river)
    reference = np.load(golden(f"nanochat/{name}.npz"))
    assert np.array_equal(inputs, reference["x"])
    assert np.array_equal(targets, reference["y"])


def test_from_its_parquet_files(tmp_path: Path) -> None:
    inputs = [golden(f"nanochat/part_{number}.parquet") for number in range(2)]
    build(inputs, tmp_path / "corpus", tokenizer="byte", framing="eos-before")
    name = "train_b3_t24_buf6_w2_r1"
    found = _rows(name, open_corpus(tmp_path / "corpus"))
    reference = np.load(golden(f"nanochat/{name}.npz"))
    assert np.array_equal(found[0], reference["x"])
    assert np.array_equal(found[1], reference["y"])
