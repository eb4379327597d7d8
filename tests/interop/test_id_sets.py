"""Ids in data sets: what `datasets` and `safetensors` write is read, what we write is opened by them."""

from pathlib import Path
from types import ModuleType

import datasets
import numpy as np
import pytest
import safetensors.numpy

from made_contents import made_content, made_target, write_shards
from tokenriver.errors import FormatError
from tokenriver.formats import arrow, parquet
from tokenriver.formats import safetensors as own

pytestmark = pytest.mark.interop

ROWS = [list(range(at, at + at % 7)) for at in range(2500)]
FLAT = [i for row in ROWS for i in row]
ENDS = np.cumsum(list(map(len, ROWS))).tolist()


def read(module: ModuleType, path: Path) -> tuple[list[int], list[int]]:
    """(ids, ends) of all shards of a path."""
    ids: list[int] = []
    ends: list[int] = []
    for shard in module.find(path):
        reader = module.open_reader(shard.path)
        ends += (reader.doc_ends + len(ids)).tolist()
        ids += reader.read(0, reader.num_tokens).tolist()
    return ids, ends


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets.disable_progress_bars()


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("kind", ["int64", "int32", "uint16"])
def test_saved_sets_are_read(shards: int, kind: str, tmp_path: Path) -> None:
    features = datasets.Features(
        {
            "input_ids": datasets.Sequence(datasets.Value(kind)),
            "attention_mask": datasets.Sequence(datasets.Value("int8")),
        }
    )
    columns = {"input_ids": ROWS, "attention_mask": [[1] * len(row) for row in ROWS]}
    datasets.Dataset.from_dict(columns, features=features).save_to_disk(tmp_path / "set", num_shards=shards)
    assert arrow.sniff(tmp_path / "set")
    assert read(arrow, tmp_path / "set") == (FLAT, ENDS)


def test_splits_are_opened_one_at_a_time(tmp_path: Path) -> None:
    train = datasets.Dataset.from_dict({"input_ids": [[1, 2]]})
    test = datasets.Dataset.from_dict({"input_ids": [[3]]})
    datasets.DatasetDict({"train": train, "test": test}).save_to_disk(tmp_path / "set")
    assert not arrow.sniff(tmp_path / "set")
    with pytest.raises(FormatError, match=r"got no .arrow file"):
        arrow.find(tmp_path / "set")
    assert read(arrow, tmp_path / "set" / "train") == ([1, 2], [2])
    assert read(arrow, tmp_path / "set" / "test") == ([3], [1])


@pytest.mark.parametrize("size", [None, 500])
def test_sets_in_parquet_are_read(size: int | None, tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"text": ["x"] * 2500, "input_ids": ROWS}).to_parquet(
        str(tmp_path / "a.parquet"), **({} if size is None else {"batch_size": size})
    )
    assert parquet.sniff(tmp_path / "a.parquet")
    assert read(parquet, tmp_path / "a.parquet") == (FLAT, ENDS)


@pytest.mark.parametrize("dtype", arrow.DTYPES)
@pytest.mark.parametrize(("name", "module"), [("arrow", arrow), ("parquet", parquet)])
def test_written_sets_are_loaded(dtype: str, name: str, module: ModuleType, tmp_path: Path) -> None:
    half = ENDS[1249]
    contents = [
        made_content(FLAT[:half], ENDS[:1250], dtype),
        made_content(FLAT[half:], [end - half for end in ENDS[1250:]], dtype),
    ]
    files = [str(shard.path) for shard in write_shards(module, tmp_path, contents, dtype)]
    cache = str(tmp_path / "cache")
    loaded = [datasets.load_dataset(name, data_files=files, split="train", cache_dir=cache)]
    if module is arrow:
        loaded.append(datasets.load_from_disk(str(tmp_path)))
    for dataset in loaded:
        assert dataset["input_ids"][:] == ROWS
        assert dataset.features["input_ids"].feature.dtype == dtype
        assert dataset[3] == {"input_ids": ROWS[3], "source": "b/c.jsonl", "record": 30}


@pytest.mark.parametrize("dtype", own.DTYPES)
def test_safetensors_are_the_packages_own_bytes(dtype: str, tmp_path: Path) -> None:
    own.write(tmp_path / "a.safetensors", made_content(FLAT, ENDS, dtype), made_target(dtype))
    loaded = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    assert loaded["input_ids"].tolist() == FLAT
    assert loaded["doc_ends"].tolist() == ENDS
    assert safetensors.numpy.save(loaded) == (tmp_path / "a.safetensors").read_bytes()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"])
def test_saved_tensors_are_read(dtype: str, tmp_path: Path) -> None:
    tensors = {
        "tokens": np.arange(100, dtype=dtype),
        "mask": np.ones(100, bool),
        "weights": np.ones((3, 5), np.float16),
    }
    safetensors.numpy.save_file(tensors, tmp_path / "a.safetensors", metadata={"made": "here"})
    reader = own.open_reader(tmp_path / "a.safetensors")
    assert reader.read(0, 100).tolist() == list(range(100))
    assert reader.dtype == np.dtype(dtype)
