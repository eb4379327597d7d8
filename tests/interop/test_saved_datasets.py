"""Folders that `datasets.save_to_disk` itself wrote: one dataset in several files, and splits side by side."""

from pathlib import Path

import datasets
import pytest

from source_cases import Collected
from tokenriver.errors import InputError
from tokenriver.inputs import find_inputs
from tokenriver.sources import arrow
from tokenriver.types import Piece, SourceOptions

pytestmark = pytest.mark.interop

TEXTS = [f"text {i} \u00e9\U0001f600" if i % 5 else None for i in range(2500)]


def read(folder: Path) -> Collected:
    out = Collected()
    for file in find_inputs([folder]):
        assert file.kind == "arrow"
        for start, stop in arrow.plan(file.path, file.size, SourceOptions(), 1 << 14) or []:
            out.add_piece(arrow.read(Piece(0, file.path, start, stop), SourceOptions()))
    return out


@pytest.mark.parametrize("shards", [1, 3])
def test_every_text_comes_in_its_own_order(shards: int, tmp_path: Path) -> None:
    dataset = datasets.Dataset.from_dict({"id": list(range(2500)), "text": TEXTS})
    dataset.save_to_disk(tmp_path / "set", num_shards=shards)
    got = read(tmp_path / "set")
    assert got.docs == [(i, text.encode()) for i, text in enumerate(TEXTS) if text]
    assert [(record, reason) for record, _, reason in got.bad] == [(i, "null") for i in range(0, 2500, 5)]


def test_a_selection_is_saved_as_selected(tmp_path: Path) -> None:
    dataset = datasets.Dataset.from_dict({"text": [f"text {i}" for i in range(100)]})
    dataset.select([7, 3, 98]).save_to_disk(tmp_path / "set")
    assert read(tmp_path / "set").texts == [b"text 7", b"text 3", b"text 98"]


def test_splits_are_taken_one_at_a_time(tmp_path: Path) -> None:
    train = datasets.Dataset.from_dict({"text": ["train"]})
    test = datasets.Dataset.from_dict({"text": ["test"]})
    datasets.DatasetDict({"train": train, "test": test}).save_to_disk(tmp_path / "set")
    with pytest.raises(InputError, match="got the splits test, train of one dataset, expected one"):
        find_inputs([tmp_path / "set"])
    assert read(tmp_path / "set" / "train").texts == [b"train"]
    assert [file.name for file in find_inputs([tmp_path / "set"], include=["train/data-*"])] == [
        "data-00000-of-00001.arrow"
    ]
