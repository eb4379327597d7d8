"""What every format must do, on each module of formats/ and each of its layouts, that there is or will be."""

import hashlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from format_sets import USUAL, VARIANTS, Variant, content_of, largest, name_of, toy_documents
from made_contents import made_target
from small_corpora import ids_of
from tokenriver import magic, registry
from tokenriver.errors import FormatError, InputError, RiverError
from tokenriver.types import Ids

DTYPES = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}

every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
every_format = pytest.mark.parametrize("variant", USUAL, ids=name_of)


def test_the_names_are_the_files() -> None:
    names = registry.names("formats")
    assert {variant.name for variant in USUAL} == set(names)
    assert {"arrow", "hdf5", "litdata", "llmc", "mds", "megatron", "minimind"} <= set(names)
    assert {"nanogpt", "nanotron", "native", "olmo", "parquet", "safetensors"} <= set(names)


@every_format
def test_it_says_what_it_is(variant: Variant) -> None:
    module = variant.module
    assert module.SUFFIX.startswith(".")
    assert {"doc_ends", "dtype", "count"} >= module.STORES
    assert set(module.DTYPES) <= DTYPES
    assert module.MAX_SHARD_TOKENS >= (module.SHARD_TOKENS or 1) > 0
    assert isinstance(module.SPLIT_FOLDERS, bool)
    assert module.__doc__
    assert module.open_reader.__doc__


@every_variant
@settings(max_examples=12)
@given(data=st.data())
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, variant: Variant, data: st.DataObject
) -> None:
    dtype = data.draw(st.sampled_from(variant.dtypes))
    ids = st.integers(0, largest(dtype))
    least, most = data.draw(st.sampled_from([(0, 5), (3, 3)]))
    documents = st.lists(st.lists(ids, min_size=least, max_size=most), min_size=1, max_size=12).filter(any)
    shards = data.draw(st.lists(documents, min_size=1, max_size=3))
    assume(variant.refusal(shards, dtype) is None)
    folder = tmp_path_factory.mktemp("set")
    paths = variant.write(folder, shards, dtype)
    assert variant.read(folder, dtype) == variant.expected(shards)
    for shard, path, content in zip(variant.find(folder), paths, variant.expected(shards), strict=True):
        assert shard.path == path
        assert shard.dtype in (None, dtype)
        assert shard.num_tokens in (None, len(content[0]))
        assert shard.num_documents is None or shard.num_documents == len(content[1] or [])
        reader = variant.open(path, dtype)
        assert reader.dtype == np.dtype(dtype).newbyteorder("<")
        assert reader.num_tokens == len(content[0])
    assert variant.module.sniff(folder)
    assert variant.module.sniff(paths[0])
    for path in (folder, paths[0]):
        assert magic.likely([variant.name], path), "what is of a format must have one of its signs"


@every_variant
def test_documents_without_ids_are_kept_or_refused(variant: Variant, tmp_path: Path) -> None:
    dtype = variant.dtypes[0]
    for number, documents in enumerate(([[], [1], []], [[1], [], [], [2, 3]], [[], [], [7]])):
        refusal = variant.refusal([documents], dtype)
        if refusal is None:
            folder = tmp_path / str(number)
            folder.mkdir()
            variant.write(folder, [documents])
            assert variant.read(folder) == variant.expected([documents])
        else:
            assert "; " in refusal
            assert variant.name in ("mds",), refusal


@every_variant
def test_one_id_and_the_largest_one(variant: Variant, tmp_path: Path) -> None:
    for dtype in variant.dtypes:
        for number in (0, 1, largest(dtype)):
            folder = tmp_path / f"{dtype}-{number}"
            folder.mkdir()
            variant.write(folder, [[[number]]], dtype)
            assert variant.read(folder, dtype) == variant.expected([[[number]]])


@every_variant
def test_any_range_is_read(variant: Variant, tmp_path: Path) -> None:
    documents = toy_documents(60, 11)
    [path] = variant.write(tmp_path, [documents])
    ids = [i for document in documents for i in document]
    reader = variant.open(path)
    random = np.random.default_rng(7)
    for start, stop in [(0, 0), (0, 1), (659, 660), (660, 660), *random.integers(0, 661, (200, 2)).tolist()]:
        start, stop = min(start, stop), max(start, stop)
        assert reader.read(start, stop).tolist() == ids[start:stop]
        reader.read_ahead(start, stop)
    for n in (1, 2, 11, 12, 200, 660):
        starts = random.integers(0, 661 - n, 50)
        found = b"".join(reader.windows(starts, n))
        expected = [ids[at : at + n] for at in starts.tolist()]
        assert np.frombuffer(found, reader.dtype).reshape(50, n).tolist() == expected


@every_format
def test_several_shards_come_in_order(variant: Variant, tmp_path: Path) -> None:
    shards = [toy_documents(3, 5, first) for first in range(12)]
    refusal = variant.refusal(shards, variant.dtypes[0])
    if refusal is not None:
        assert variant.name in ("nanogpt", "minimind"), refusal
        assert "shard_tokens" in refusal
        return
    paths = variant.write(tmp_path, shards)
    assert len(set(paths)) == 12
    assert variant.read(tmp_path) == variant.expected(shards)


@every_variant
def test_the_same_ids_give_the_same_files(variant: Variant, tmp_path: Path) -> None:
    shards = [toy_documents(40, 5)]
    found = []
    for name in "ab":
        (tmp_path / name).mkdir()
        variant.write(tmp_path / name, shards)
        found.append({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()})
    assert found[0] == found[1]


@every_variant
def test_every_file_is_accounted_for(variant: Variant, tmp_path: Path) -> None:
    dtype = variant.dtypes[0]
    content, target = content_of(toy_documents(5, 4), dtype), made_target(dtype, layout=variant.layout)
    path = tmp_path / variant.module.file_name(target, 0)
    written = variant.module.write(path, content, target)
    assert written[0].path == path
    written += variant.module.finish(tmp_path, target, [(written[0], content)])
    assert sorted(file.path for file in written) == sorted(tmp_path.iterdir())
    for file in written:
        data = file.path.read_bytes()
        assert (file.num_bytes, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())


@every_format
def test_names_hold_the_split_or_a_folder_does(variant: Variant) -> None:
    module = variant.module
    names = {
        module.file_name(replace(made_target(variant.dtypes[0], shards=shards), split=split), shards - 1)
        for split in ("train", "val")
        for shards in (1, 2)
    }
    assert all(Path(name).name == name and name.endswith(module.SUFFIX) for name in names)
    if not module.SPLIT_FOLDERS:
        assert sum("train" in name for name in names) == sum("val" in name for name in names) == len(names) / 2


@every_variant
def test_a_reader_pickles_small_and_works_in_threads(variant: Variant, tmp_path: Path) -> None:
    documents = toy_documents(3000, 20)
    [path] = variant.write(tmp_path, [documents])
    reader = variant.open(path)
    ids = ids_of(reader)
    data = pickle.dumps(reader)
    assert len(data) < 1000
    found: list[bool] = []

    def look() -> None:
        again = pickle.loads(data)
        found.append(ids_of(again) == ids and ids_of(reader) == ids and again.dtype == reader.dtype)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 3


@every_variant
def test_opened_twice_and_read_after_close(variant: Variant, tmp_path: Path) -> None:
    [path] = variant.write(tmp_path, [toy_documents(50, 20)])
    first, second = variant.open(path), variant.open(path)
    ids, ends = first.read(900, 903), first.doc_ends
    expected = ids.tolist(), None if ends is None else ends.tolist()
    first.close()
    first.close()
    assert first.read(0, 3).tolist() == []
    assert first.windows(np.array([0]), 3) == []
    assert first.doc_ends is None
    assert second.read(900, 903).tolist() == expected[0]
    second.close()
    for file in tmp_path.iterdir():
        file.unlink()
    assert (ids.tolist(), None if ends is None else ends.tolist()) == expected


FORKED = """
import os, pickle, sys
for reader in pickle.load(sys.stdin.buffer):
    half = reader.num_tokens // 2
    before = reader.read(0, half).tolist()
    pipe = os.pipe()
    if os.fork() == 0:
        again = [reader.read(0, half).tolist() == before, reader.read(half, reader.num_tokens).sum() > 0]
        os.write(pipe[1], b"y" if all(again) else b"n")
        os._exit(0)
    assert reader.read(0, half).tolist() == before
    assert os.read(pipe[0], 1) == b"y", reader
    os.wait()
print("every one")
"""


def test_readers_work_on_both_sides_of_a_fork(tmp_path: Path) -> None:
    readers = []
    for variant in VARIANTS:
        (tmp_path / name_of(variant)).mkdir()
        [path] = variant.write(tmp_path / name_of(variant), [toy_documents(500, 20)])
        readers.append(variant.open(path))
    ran = subprocess.run([sys.executable, "-c", FORKED], input=pickle.dumps(readers), capture_output=True, timeout=100)
    assert (ran.stdout, ran.stderr) == (b"every one\n", b"")


@every_variant
def test_ids_are_read_only(variant: Variant, tmp_path: Path) -> None:
    reader = variant.open(variant.write(tmp_path, [toy_documents(2, 3)])[0])
    if reader.ids is not None:
        assert reader.ids.tolist() == ids_of(reader)
        with pytest.raises(ValueError, match="read-only"):
            reader.ids[0] = 9
    for window in reader.windows(np.array([1]), 3):
        assert window.readonly


@every_variant
def test_another_dtype_than_the_files_is_refused(variant: Variant, tmp_path: Path) -> None:
    [path] = variant.write(tmp_path, [toy_documents(3, 8)])
    own = variant.open(path).dtype.name
    for other in DTYPES - {own} if variant.typed else ():
        with pytest.raises(FormatError, match=f"{other}|{np.dtype(other).itemsize}"):
            variant.module.open_reader(path, dtype=other)
    assert variant.module.open_reader(path, dtype=own).num_tokens == 24
    with pytest.raises(InputError, match="float32"):
        variant.module.open_reader(path, dtype="float32")


@every_format
def test_what_is_no_file_is_refused_at_once(variant: Variant, tmp_path: Path) -> None:
    [path] = variant.write(tmp_path, [toy_documents(3, 8)])
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(FormatError, match="got a pipe, expected a regular file"):
        variant.open(path)
    assert not variant.module.sniff(path)
    path.unlink()
    with pytest.raises((FormatError, InputError), match=r"cannot open|not there|got no"):
        variant.open(path)
    assert not variant.module.sniff(path)
    path.mkdir()
    with pytest.raises(FormatError):
        variant.open(path)
    with pytest.raises(RiverError):
        variant.find(path)
    assert not variant.module.sniff(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RiverError):
        variant.find(tmp_path / "empty")


@every_variant
def test_a_writer_leaves_nothing_behind_when_it_fails(variant: Variant, tmp_path: Path) -> None:
    dtype = variant.dtypes[0]
    target = made_target(dtype, layout=variant.layout)
    path = tmp_path / variant.module.file_name(target, 0)
    path.write_bytes(b"what was there before")
    good = content_of(toy_documents(20, 100), dtype)

    def broken() -> Iterator[Ids]:
        yield next(good.ids())
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="the source is gone"):
        variant.module.write(path, replace(good, ids=broken), target)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {path.name: b"what was there before"}


def test_formats_tell_each_other_apart(tmp_path: Path) -> None:
    """A folder is claimed by its own format, and by no other but those that say less of the same files."""
    less = {"native": {"llmc"}, "minimind": {"nanogpt"}, "megatron": {"nanogpt"}, "litdata": {"nanogpt"}}
    for variant in VARIANTS:
        folder = tmp_path / name_of(variant)
        folder.mkdir()
        variant.write(folder, [toy_documents(3, 8)])
        claims = {other.name for other in USUAL if other.module.sniff(folder)}
        assert variant.name in claims
        assert claims - {variant.name} <= less.get(variant.name, set()), name_of(variant)
