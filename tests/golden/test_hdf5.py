"""HDF5 files that the original scripts made: read exactly, and written again byte for byte.

The texts of the sharded-HDF5 lesson are short, so its shards are here as facts too (boundary id 0 after each document,
a byte's id is the byte + 1).
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from golden_data import golden
from made_contents import made_content
from tokenriver.formats import _hdf5_index, _hdf5_write, hdf5

CAFE = "naïve café ☕"
LESSON = {
    "shard-0000": (
        ["the quick brown fox", "", CAFE * 3, "a" * 70],
        "b3ea1323e827ef513f037f28f5e2c56c8e25d6d23651d9c73e1fd81848c6c42b",
        "61a54ce0655de767424cf0fddd66e6160104b8a732ba6fa79d68f85b39016af6",
    ),
    "shard-0001": (
        ["b", "second shard second document, a little longer than the first one was"],
        "717bc942d461427b6dfdc97ff0470d3d0810837daa43658f39013af712e3f6f5",
        "7ae6bdc50a1f1e86108dfd47047a6e3e1bd3336cce0a4ff8992cd2a98f5e40a1",
    ),
    "shard-0002": (
        ["z" * 31],
        "3df748fe80da37207bfa3516c043958a32d1fd9c7d2ad7de3a5f2661b1c749db",
        "5b18f74b6d2dbbb5fdf125ad272356665d86b23655585d085ebb16f6cffa0713",
    ),
}
INDEX_SHA256 = "9e167ef04d380255bc9edefca5a955f14a16d251ff965f0594cb539b32277430"
PILE_SHA256 = "e8bf9738a65d1b3620c58ccc6f9d6b74f02d97beb8129f88a0202368f0baea6d"


def _lesson_ids(name: str) -> tuple[list[int], list[int]]:
    ids: list[int] = []
    ends = []
    for text in LESSON[name][0]:
        ids += [byte + 1 for byte in text.encode()] + [0]
        ends.append(len(ids))
    return ids, ends


@pytest.mark.parametrize("name", LESSON)
def test_the_lessons_bytes_are_ours(tmp_path: Path, name: str) -> None:
    style = replace(hdf5.STYLES["lesson"], chunk=32)
    written = _hdf5_write.write_ids(tmp_path / "a.h5", made_content(*_lesson_ids(name)), "uint16", style)
    assert written.sha256 == LESSON[name][1]
    assert hdf5.sha256_of_ids(written.path) == hdf5.stored_sha256(written.path) == LESSON[name][2]


def test_the_lessons_index_is_ours() -> None:
    rows: list[dict[str, object]] = []
    start = 0
    for name, (texts, _, digest) in LESSON.items():
        count = len(_lesson_ids(name)[0])
        place = {"path": f"shards/{name}.h5", "shard_id": name, "global_start": start}
        rows.append({**place, "token_count": count, "document_count": len(texts), "sha256": digest})
        start += count
    assert hashlib.sha256(_hdf5_index.index_bytes(32, rows)).hexdigest() == INDEX_SHA256


def test_the_lessons_shards_are_read() -> None:
    folder = golden("lesson43/shards")
    assert hdf5.sniff(folder)
    found = hdf5.find(folder)
    assert [shard.num_tokens for shard in found] == [141, 71, 32]
    ids = np.load(golden("lesson43/all_tokens.npy"), allow_pickle=False)
    river = np.concatenate([hdf5.open_reader(shard.path).read(0, shard.num_tokens or 0) for shard in found])
    assert river.tolist() == ids.tolist() == [value for name in LESSON for value in _lesson_ids(name)[0]]
    assert list(hdf5.audit(folder)) == []
    for case in json.loads(golden("lesson43/cases.json").read_text())["slices"][:3]:
        assert river[case["start"] : case["stop"]].tolist() == case["tokens"]
    for shard in found:
        assert hashlib.sha256(shard.path.read_bytes()).hexdigest() == LESSON[shard.path.stem][1]


def test_the_pre_training_file_is_read_and_written_again(tmp_path: Path) -> None:
    path = golden("train_llm_from_scratch/pretrain_small_chunks.h5")
    ids = np.load(golden("train_llm_from_scratch/pretrain_tokens.npy"), allow_pickle=False)
    assert hdf5.open_reader(path).read(0, len(ids)).tolist() == ids.tolist()
    style = replace(hdf5.STYLES["pile"], chunk=1024)
    written = _hdf5_write.write_ids(tmp_path / "a.h5", made_content(ids, None, "int32"), "int32", style)
    assert written.sha256 == PILE_SHA256
    assert written.path.read_bytes() == path.read_bytes()


def test_the_pre_training_file_has_the_originals_size(tmp_path: Path) -> None:
    """5 k ids in one chunk of 8,000,000: 32,003,496 bytes, as the original's own run gave."""
    style = hdf5.STYLES["pile"]
    written = _hdf5_write.write_ids(tmp_path / "a.h5", made_content(np.arange(4978), None, "int32"), "int32", style)
    assert written.num_bytes == 32_003_496


@pytest.mark.parametrize(("name", "rows"), [("sft_packed", 32), ("sft_dev_packed", 3)])
def test_packed_files_are_read_with_their_mask(name: str, rows: int) -> None:
    path = golden(f"train_llm_from_scratch/{name}.h5")
    ids, mask = hdf5.open_reader(path), hdf5.open_loss_mask(path)
    assert mask is not None
    assert (ids.num_tokens, mask.num_tokens) == (rows * 256, rows * 256)
    assert (ids.dtype, mask.dtype) == (np.dtype("<i4"), np.dtype("i1"))
    assert set(mask.read(0, mask.num_tokens).tolist()) == {0, 1}


def test_a_packed_file_is_what_its_own_iterator_served() -> None:
    """Without a shuffle the original's iterator gives all rows in order."""
    path = golden("train_llm_from_scratch/sft_packed.h5")
    case = json.loads(golden("train_llm_from_scratch/sft_meta.json").read_text())["iterators"]["sft_iter_b4_r0_w1_seq"]
    for name, reader in (("tokens", hdf5.open_reader(path)), ("mask", hdf5.open_loss_mask(path))):
        assert reader is not None
        served = reader.read(0, reader.num_tokens).astype("<i8").tobytes()
        assert hashlib.sha256(served).hexdigest() == case[f"sha256_{name}_int64le"]
