"""What every format must do, on each module of formats/ that there is or will be."""

import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_corpora import index_bytes
from tokenriver import registry
from tokenriver.errors import FormatError, InputError, RiverError

NAMES = registry.names("formats")
WRITERS = [name for name in NAMES if hasattr(registry.load("formats", name), "open_writer")]
Make = Callable[[ModuleType, Path, list[int], str], Path]


def _make(module: ModuleType, folder: Path, ids: list[int], dtype: str) -> Path:
    """A file of this format: by its writer, or by llm.c's with an index beside it for the native one."""
    path = folder / f"x_train_000000{module.SUFFIX}"
    writer = module if hasattr(module, "open_writer") else registry.load("formats", "llmc")
    with writer.open_writer(path, dtype=dtype, num_tokens=len(ids)) as out:
        out.write(np.array(ids, np.int64), None)
    if "doc_ends" in module.STORES:
        path.with_suffix(".docs").write_bytes(index_bytes([len(ids)]))
    return path


def _open(module: ModuleType, path: Path, dtype: str) -> object:
    return module.open_reader(path, dtype=None if "dtype" in module.STORES else dtype)


@pytest.fixture(params=NAMES)
def module(request: pytest.FixtureRequest) -> ModuleType:
    return registry.load("formats", request.param)


def test_the_names_are_the_files() -> None:
    assert {"llmc", "nanogpt", "native"} <= set(NAMES)
    assert {"llmc", "nanogpt"} <= set(WRITERS)


def test_it_says_what_it_is(module: ModuleType) -> None:
    assert module.SUFFIX.startswith(".")
    assert {"doc_ends", "dtype", "count"} >= module.STORES
    assert module.__doc__


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(ids=st.lists(st.integers(0, 65535), min_size=1, max_size=300), dtype=st.sampled_from(["uint16", "uint32"]))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, name: str, ids: list[int], dtype: str
) -> None:
    module = registry.load("formats", name)
    path = _make(module, tmp_path_factory.mktemp("f"), ids, dtype)
    reader = module.open_reader(path, dtype=None if "dtype" in module.STORES else dtype)
    assert reader.ids.tolist() == ids
    assert (reader.num_tokens, reader.dtype) == (len(ids), np.dtype(dtype))
    assert (reader.doc_ends is not None) == ("doc_ends" in module.STORES)
    assert module.sniff(path)


def test_the_same_ids_give_the_same_bytes(module: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = (_make(module, tmp_path / name, [1, 2, 3], "uint16").read_bytes() for name in "ab")
    assert first == second


def test_a_reader_pickles_small_and_works_in_threads(module: ModuleType, tmp_path: Path) -> None:
    ids = list(range(60_000))
    reader = module.open_reader(_make(module, tmp_path, ids, "uint16"))
    data = pickle.dumps(reader)
    assert len(data) < 1000
    found: list[bool] = []

    def look() -> None:
        found.append(pickle.loads(data).ids.tolist() == ids and reader.ids.tolist() == ids)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


def test_what_was_taken_outlives_the_reader(module: ModuleType, tmp_path: Path) -> None:
    path = _make(module, tmp_path, list(range(5000)), "uint16")
    reader = module.open_reader(path)
    ids = reader.ids[4000:4003]
    reader.close()
    path.unlink()
    assert ids.tolist() == [4000, 4001, 4002]


def test_ids_are_read_only(module: ModuleType, tmp_path: Path) -> None:
    ids = module.open_reader(_make(module, tmp_path, [1, 2, 3], "uint16")).ids
    with pytest.raises(ValueError, match="read-only"):
        ids[0] = 9


def test_every_cut_that_can_be_known_is_refused(module: ModuleType, tmp_path: Path) -> None:
    path = _make(module, tmp_path, list(range(40)), "uint16")
    data = path.read_bytes()
    for length in [*range(20), *range(20, len(data) - 100, 97), *range(max(20, len(data) - 100), len(data))]:
        path.write_bytes(data[:length])
        if "count" in module.STORES or length == 0 or length % 2:
            with pytest.raises(FormatError):
                module.open_reader(path)
        else:
            assert module.open_reader(path).num_tokens == length // 2


def test_what_is_no_file_is_refused_at_once(module: ModuleType, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.bin")
    (tmp_path / "folder.bin").mkdir()
    for name, words in (("pipe.bin", "a pipe"), ("folder.bin", "a folder")):
        with pytest.raises(FormatError, match=f"got {words}, expected a regular file"):
            module.open_reader(tmp_path / name)
        assert not module.sniff(tmp_path / name)
    with pytest.raises(FormatError, match="got a device"):
        module.open_reader(Path("/dev/zero"))
    with pytest.raises(InputError, match=r"none\.bin: cannot open"):
        module.open_reader(tmp_path / "none.bin")


@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_leaves_nothing_behind_when_it_fails(tmp_path: Path, name: str) -> None:
    module = registry.load("formats", name)
    path = tmp_path / f"a{module.SUFFIX}"
    path.write_bytes(b"what was there before")
    for ids, count in (([1, 70000], 2), ([1], 2), ([1, 2, 3], 2), ([-1, 0], 2)):
        with pytest.raises(RiverError), module.open_writer(path, dtype="uint16", num_tokens=count) as writer:
            writer.write(np.array(ids), None)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {path.name: b"what was there before"}
