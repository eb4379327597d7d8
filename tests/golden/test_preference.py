"""Pairs as the HDF5 project writes them, to the byte, and its batches, to the id; minimind's pairs, to the id."""

import json
import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import tokenriver as tr
from golden_data import golden
from tokenriver.types import Bools, Int64

FOLDER = "train_llm_from_scratch"


@pytest.mark.parametrize(("name", "shuffle"), [("preferences.jsonl", 0), ("preferences_test.jsonl", None)])
def test_pairs_of_both_data_sets(name: str, shuffle: int | None, tmp_path: Path) -> None:
    inputs = [golden(f"{FOLDER}/in_hh.jsonl"), golden(f"{FOLDER}/in_ultrafeedback_like.jsonl")]
    out = tmp_path / name
    report = tr.preference(inputs, out, dataset="both", like="pile-hdf5", shuffle=shuffle)
    assert out.read_bytes() == golden(f"{FOLDER}/{name}").read_bytes()
    meta = json.loads(golden(f"{FOLDER}/preference_meta.json").read_bytes())[name]
    assert (report.kept, report.sha256) == (meta["rows"], meta["sha256"])
    assert report.facts == {"datasets": {"hh": 32, "ultrafeedback": 1}}
    assert report.dropped == {"empty-answer": 2, "identical-answers": 2, "no-marker": 1}


def _its_order(pairs: int, rank: int, world_size: int, batch: int, shuffle: bool) -> list[Int64]:
    """The pairs of each batch in the original's order: a rank's own, shuffled by its own generator, epoch by epoch."""
    own, dice, batches = np.arange(pairs)[rank::world_size], np.random.default_rng(7 + rank), []
    for _ in range(3):
        places = np.arange(len(own))
        if shuffle:
            dice.shuffle(places)
        batches += [own[places[at : at + batch]] for at in range(0, len(own) - batch + 1, batch)]
    return batches


@pytest.mark.parametrize(
    ("name", "sizes", "shuffle"),
    [("pref_b4_len128_r0_w1_shuf", (4, 128, 0, 1), True), ("pref_b3_len64_r1_w2_seq", (3, 64, 1, 2), False)],
)
def test_its_batches(
    name: str, sizes: tuple[int, int, int, int], shuffle: bool, tmp_path: Path, quick_disk: None
) -> None:
    batch, length, rank, world_size = sizes
    tr.preference(golden(f"{FOLDER}/preferences.jsonl"), tmp_path / "c")
    corpus = tr.open_corpus(tmp_path / "c")
    order = _its_order(33, rank, world_size, batch, shuffle)
    expected = np.load(golden(f"{FOLDER}/{name}.npz"))
    for number, pairs in zip(range(3), order, strict=False):
        # the same pairs by our own sampler in file order, one batch a pair, joined
        loader = tr.PairLoader(corpus, max_length=length, global_batch=1, cut="right", order="sequential")
        single = [loader.batch(int(pair)) for pair in pairs]
        width = max(one.ids.shape[2] for one in single)
        for side in ("chosen", "rejected"):
            ids = [_filled(getattr(one, f"{side}_ids")[0], width, 50256) for one in single]
            mask = [_filled(getattr(one, f"{side}_mask")[0], width, 0) for one in single]
            lengths = [int(getattr(one, f"{side}_lengths")[0]) for one in single]
            assert np.array_equal(ids, expected[f"{number}_{side}_ids"])
            assert np.array_equal(mask, expected[f"{number}_{side}_mask"])
            assert lengths == expected[f"{number}_{side}_len"].tolist()


def _filled(row: Int64 | Bools, width: int, value: int) -> list[int]:
    return [*row.tolist(), *[value] * (width - len(row))]


def test_a_batch_of_ours_is_filled_up_as_its_own_are(tmp_path: Path, quick_disk: None) -> None:
    tr.preference(golden(f"{FOLDER}/preferences.jsonl"), tmp_path / "c")
    loader = tr.PairLoader(
        tr.open_corpus(tmp_path / "c"), max_length=64, global_batch=3, cut="right", order="sequential"
    )
    expected = np.load(golden(f"{FOLDER}/pref_b3_len64_r1_w2_seq.npz"))
    found = {}
    for batch in islice(loader, 6):
        for place, pair in enumerate(batch.sample_ids.tolist()):
            found[pair] = batch.chosen_ids[place].tolist()
    # that rank had the pairs 1, 3, 5; all its rows are as long as may be in both
    assert [found[pair] for pair in (1, 3, 5)] == expected["0_chosen_ids"].tolist()


@pytest.mark.parametrize("length", [40, 64])
def test_minimind(length: int, tmp_path: Path, quick_disk: None) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(golden("inputs") / f"minimind_{name}", tmp_path / name)
    tr.preference(golden("minimind/dpo.jsonl"), tmp_path / "c", tokenizer=tmp_path, template="minimind", train="all")
    corpus = tr.open_corpus(tmp_path / "c", tokenizer=tmp_path)
    loader = tr.PairLoader(
        corpus, max_length=length, global_batch=2, cut="right", pad="max_length", pad_id=0, order="sequential"
    )
    (batch,) = loader
    rows = np.load(golden(f"minimind/dpo_T{length}_seed3.npz"))
    sides = [(0, "chosen"), (1, "rejected")]
    for side, name in sides:
        x, y, mask = (rows[f"{what}_{name}"] for what in ("x", "y", "mask"))
        assert np.array_equal(batch.input_ids.reshape(2, 2, -1)[side], x)
        assert np.array_equal(batch.ids[side, :, 1:], y)
        assert np.array_equal(batch.mask[side, :, 1:], mask)
