"""Damaged and hostile MDS, litdata and OLMo files: a FormatError or the same ids, in bounded memory, never anything
else."""

import gzip
import json
import os
import pickle
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import zstandard

import naive_mds
from made_contents import made_content, write_shards
from open_shards import all_ends, all_ids
from tokenriver.errors import FormatError, InputError
from tokenriver.formats import litdata, mds, olmo

IDS = list(range(1000, 1040))
ENDS = [5, 6, 17, 40]
CASES = [(mds, ""), (mds, "fixed"), (mds, "bytes"), (mds, "zstd"), (litdata, ""), (litdata, "tensor"), (olmo, "npy")]


def _written(module: ModuleType, layout: str, folder: Path, ids: list[int] = IDS) -> Path:
    ends = [10, 20, 30, 40] if layout == "fixed" else ENDS
    return write_shards(module, folder, [made_content(ids, ends)], layout=layout)[0].path


def _open(module: ModuleType, path: Path) -> tuple[list[int], list[int]]:
    reader = module.open_reader(path, dtype="uint16")
    return all_ids(reader), all_ends(reader)


@pytest.mark.parametrize(("module", "layout"), CASES)
def test_every_cut_is_refused(tmp_path: Path, module: ModuleType, layout: str) -> None:
    path = _written(module, layout, tmp_path)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError):
            _open(module, path)
    path.write_bytes(data + data[-2:])
    with pytest.raises(FormatError):
        _open(module, path)


@pytest.mark.parametrize(("module", "layout"), CASES)
def test_every_flipped_byte_beside_the_ids_is_refused_or_changes_nothing(
    tmp_path: Path, module: ModuleType, layout: str
) -> None:
    path = _written(module, layout, tmp_path, [65535 - i for i in IDS])
    inverse = path.read_bytes()
    _written(module, layout, tmp_path, IDS)
    data, expected, texts = path.read_bytes(), _open(module, path), []
    for at in range(len(data)):
        if layout != "zstd" and data[at] ^ inverse[at] == 0xFF:
            continue  # of an id
        for flip in (0x01, 0x80, 0xFF):
            path.write_bytes(data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :])
            try:
                found = _open(module, path)
            except FormatError as error:
                texts.append(str(error))
            else:
                assert found == expected, f"byte {at} ^ {flip}"
    assert len(texts) > 30
    assert all(str(tmp_path) in text and "expected" in text for text in texts if layout != "zstd")


@pytest.mark.parametrize("module", [mds, litdata])
def test_every_cut_of_an_index_is_refused(tmp_path: Path, module: ModuleType) -> None:
    _written(module, "", tmp_path)
    index = tmp_path / "index.json"
    data = index.read_bytes()
    for length in range(len(data)):
        index.write_bytes(data[:length])
        with pytest.raises(FormatError):
            module.find(tmp_path)
    for at in range(len(data)):
        index.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        try:
            found = [_open(module, shard.path) for shard in module.find(tmp_path)]
        except FormatError:
            continue
        assert found == [(IDS, ENDS)], f"byte {at}"


def _hostile_mds() -> Iterator[tuple[str, bytes]]:
    tokens = naive_mds.columns(("tokens", "ndarray:uint16", None))
    good = naive_mds.shard(tokens, [[naive_mds.array([1, 2])], [naive_mds.array([3])]])
    first = int.from_bytes(good[4:8], "little")
    yield "a count of samples beyond the file", struct.pack("<I", 2**32 - 1) + good[4:]
    yield "a first offset beyond the file", good[:4] + struct.pack("<I", 2**32 - 1) + good[8:]
    yield "a first offset inside the table", good[:4] + struct.pack("<I", 8) + good[8:]
    yield "offsets that fall", good[:8] + struct.pack("<I", first - 1) + good[12:]
    yield "a size of a value beyond the sample", good[:first] + struct.pack("<I", 2**32 - 1) + good[first + 4 :]
    yield "two dimensions", good[: first + 4] + b"\x08" + good[first + 5 :]
    yield "a count of eight bytes", good[: first + 4] + b"\x07" + good[first + 5 :]
    yield "a wrong count", good[: first + 5] + b"\x03" + good[first + 6 :]
    wide = naive_mds.shard(tokens, [[b"\x07" + b"\xff" * 8 + b"\1\0"]])
    yield "a count of 2^64 - 1", wide
    yield "an array without its count", naive_mds.shard(tokens, [[b"\x07\0\0"]])
    yield "an array without anything", naive_mds.shard(tokens, [[b""]])
    dynamic = naive_mds.columns(("tokens", "ndarray", None))
    yield "an array without its dtype", naive_mds.shard(dynamic, [[b""]])
    deep = b"[" * 50000
    yield "columns of endless nesting", struct.pack("<2I", 0, 8 + len(deep)) + deep
    two = naive_mds.columns(("a", "bytes", None), ("ids", "bytes", None))
    short = naive_mds.shard(two, [[b"", b"\1\0"]])
    yield "sizes whose sum wraps round", short[:-10] + struct.pack("<2I", 2**32 - 2, 4) + short[-2:]


@pytest.mark.parametrize(("name", "data"), [pytest.param(*case, id=case[0]) for case in _hostile_mds()])
@pytest.mark.parametrize("packed", [False, True])
def test_hostile_shards_are_refused(tmp_path: Path, name: str, data: bytes, packed: bool) -> None:
    path = tmp_path / ("shard.00000.mds" + ".zstd" * packed)
    path.write_bytes(zstandard.ZstdCompressor().compress(data) if packed else data)
    mds.sniff(path)
    with pytest.raises(FormatError, match="shard"):
        mds.open_reader(path, dtype="uint16")


def _peak(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_claim_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.mds"
    path.write_bytes(struct.pack("<3I", 2**32 - 1, 2**32 - 1, 2**32 - 1) + b"\xff" * 100)
    assert _peak(lambda: mds.open_reader(path)) < 1 << 20
    path.write_bytes(struct.pack("<3I", 2**30, 12, 112) + b"\xff" * 100)
    assert _peak(lambda: litdata.open_reader(path, dtype="uint16")) < 1 << 20


def test_a_bomb_of_zstd_ends_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.mds.zstd"
    path.write_bytes(zstandard.ZstdCompressor().compress(bytes(1 << 28)))
    monkeypatch.setattr("tokenriver.formats._mds_zstd.decode.__defaults__", (1 << 24,))
    assert _peak(lambda: mds.open_reader(path)) < 1 << 26


def test_a_bomb_of_rows_ends_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"\1\0" * 100)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"0,0\n" * (1 << 23), 1))
    assert _peak(lambda: all_ends(olmo.open_reader(path))) < 1 << 26


def test_an_index_of_other_types_is_refused(tmp_path: Path) -> None:
    index = tmp_path / "index.json"
    tops: list[object] = [
        [],
        5,
        None,
        "x",
        {"shards": {}, "version": 2},
        {"shards": [[]], "version": 2},
        {"shards": []},
    ]
    for content in tops:
        index.write_text(json.dumps(content))
        with pytest.raises(FormatError, match=r"index\.json"):
            mds.find(tmp_path)
        with pytest.raises(FormatError, match=r"index\.json"):
            litdata.find(tmp_path)
    row = {"chunk_bytes": 1, "chunk_size": 1, "dim": 1, "filename": "x"}
    for chunks, config in (([5], {}), ([row], []), ([row], {"compression": None}), ({}, {}), ([[]], {})):
        index.write_text(json.dumps({"chunks": chunks, "config": config}))
        with pytest.raises(FormatError, match=r"index\.json"):
            litdata.find(tmp_path)


@pytest.mark.parametrize("module", [mds, litdata, olmo])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, module: ModuleType) -> None:
    for name, make, words in (("pipe", os.mkfifo, "a pipe"), ("folder", os.mkdir, "a folder")):
        path = tmp_path / f"{name}{module.SUFFIX}"
        make(path)
        assert not module.sniff(path)
        with pytest.raises(FormatError, match=f"got {words}, expected a regular file"):
            module.open_reader(path)
    with pytest.raises(InputError, match="none: cannot open"):
        module.open_reader(tmp_path / "none")


@pytest.mark.parametrize(("module", "layout"), CASES)
def test_a_reader_is_as_it_was_in_another_process_and_after_its_end(
    tmp_path: Path, module: ModuleType, layout: str
) -> None:
    path = _written(module, layout, tmp_path)
    reader = module.open_reader(path, dtype="uint16")
    again = pickle.loads(pickle.dumps(reader))
    assert len(pickle.dumps(reader)) < 1000
    taken = reader.read(3, 30)
    with pytest.raises(ValueError, match="read-only"):
        taken[0] = 9
    reader.close()
    path.unlink()
    assert (taken.tolist(), all_ids(again) if layout != "zstd" else IDS) == (IDS[3:30], IDS)
    assert reader.read(0, 5).tolist() == []
