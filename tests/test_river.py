"""Reading and gathering against the naive reference: one list of all ids, sliced."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_corpora import ids_of, shard_bytes
from tokenriver import mapped, river, shelf
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import llmc
from tokenriver.formats._reader import Blocks, Flat, Opened, Pieces, Reader
from tokenriver.river import River
from tokenriver.shelf import Shelf
from tokenriver.storage import ShardReader
from tokenriver.types import Ids


def make_river(folder: Path, shards: Sequence[Sequence[int]], dtype: str = "uint16", limit: int = 64) -> River:
    paths = [folder / f"{number}.bin" for number in range(len(shards))]
    for path, ids in zip(paths, shards, strict=True):
        path.write_bytes(shard_bytes(ids, dtype))

    def opener(number: int) -> ShardReader:
        return llmc.open_reader(paths[number])

    sizes = np.array([len(ids) for ids in shards], np.int64)
    return River(sizes, np.dtype(dtype), Shelf(opener, limit))


SHARDS = st.lists(st.lists(st.integers(0, 65535), min_size=1, max_size=12), min_size=1, max_size=6)
OUT_TYPES = st.sampled_from(["int64", "int32", "uint16", "uint32", "uint64"])


@settings(max_examples=100)
@given(
    shards=SHARDS,
    limit=st.integers(1, 4),
    block=st.sampled_from([2, 64, 1 << 20]),
    data=st.data(),
)
def test_any_windows_of_any_shards(
    tmp_path_factory: pytest.TempPathFactory,
    shards: list[list[int]],
    limit: int,
    block: int,
    data: st.DataObject,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(river, "BLOCK_BYTES", block)
        patch.setattr(river, "LIMIT", limit)
        found = make_river(tmp_path_factory.mktemp("r"), shards, limit=limit)
        every = [i for ids in shards for i in ids]
        for _ in range(4):
            n = data.draw(st.integers(1, len(every)))
            starts = data.draw(st.lists(st.integers(0, len(every) - n), max_size=8))
            out = np.full((len(starts), n), 7, data.draw(OUT_TYPES))
            if max((i for s in starts for i in every[s : s + n]), default=0) <= np.iinfo(out.dtype).max:
                found.gather(np.array(starts, np.int64), n, out)
                assert out.tolist() == [every[s : s + n] for s in starts]
            assert len(found.shelf) <= limit
            start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(every))] * 2)))
            ids = found.read(start, stop)
            assert (ids.tolist(), ids.dtype) == (every[start:stop], np.dtype("uint16"))
    for position in range(len(every)):
        shard, offset = found.locate(position)
        assert shards[shard][offset] == every[position]
        assert position == sum(map(len, shards[:shard])) + offset


@pytest.mark.parametrize("shards", [[range(100)], [range(40), range(40, 41), range(41, 100)]], ids=["one", "three"])
@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_what_cannot_be_is_refused_and_writes_nothing(tmp_path: Path, shards: list[range], dtype: str) -> None:
    found = make_river(tmp_path, shards, dtype)
    out = np.full((2, 10), -1, np.int64)
    found.gather(np.array([0, 90]), 10, out)
    assert out.tolist() == [list(range(10)), list(range(90, 100))]
    out[:] = -1
    for starts in ([0, 91], [91, 0], [-1, 0], [0, -10], [-90, 5], [-100, 5], [0, 2**62], [-(2**63), 0], [100, 0]):
        bad = next(s for s in starts if not 0 <= s <= 90)
        with pytest.raises(
            LimitError, match=rf"starts\[{starts.index(bad)}\]: got {bad}, expected 0 to 90 for windows"
        ):
            found.gather(np.array(starts), 10, out)
        assert (out == -1).all()
    for n in (0, -1, 101, 2**40):
        with pytest.raises(LimitError, match=f"window: got {n} ids, expected 1 to 100"):
            found.gather(np.array([0]), n, np.empty((1, max(0, min(n, 9))), np.int64))
    for shape in ((2, 9), (2, 11), (1, 10), (3, 10), (20,), (10, 2)):
        with pytest.raises(InputError, match="out: got shape"):
            found.gather(np.array([0, 1]), 10, np.empty(shape, np.int64))
    for start, stop in ((-1, 5), (0, 101), (5, 4), (101, 101), (2**63, 2**63)):
        with pytest.raises(LimitError, match="read: got"):
            found.read(start, stop)
    for position in (-1, 100, 2**63):
        with pytest.raises(LimitError, match=f"position: got {position}, expected 0 to 99"):
            found.locate(position)


@pytest.mark.parametrize("shards", [[[1, 2, 40000, 3]], [[1, 2], [40000, 3]]], ids=["one", "two"])
def test_an_id_that_does_not_fit_is_refused_not_wrapped(tmp_path: Path, shards: list[list[int]]) -> None:
    found = make_river(tmp_path, shards)
    narrow = np.zeros((1, 2), np.int16)
    found.gather(np.array([0]), 2, narrow)
    assert narrow.tolist() == [[1, 2]]
    with pytest.raises(LimitError, match="out: got id 40000, expected at most 32767, what int16 holds"):
        found.gather(np.array([1]), 2, narrow)
    assert narrow.tolist() == [[1, 2]]


def test_no_rows_is_no_error(tmp_path: Path) -> None:
    for shards in ([[1, 2, 3]], [[1], [2, 3]]):
        found = make_river(tmp_path, shards)
        for _ in range(2):
            found.gather(np.empty(0, np.int64), 2, np.empty((0, 2), np.int64))


def test_views_of_many_lengths_are_not_kept(tmp_path: Path) -> None:
    found = make_river(tmp_path, [range(1000)])
    for n in range(1, 200):
        out = np.empty((1, n), np.int64)
        found.gather(np.array([n]), n, out)
        assert out[0].tolist() == list(range(n, 2 * n))
    assert len(found._windows) == river.MAX_LENGTHS


def test_threads_that_share_a_few_places_on_the_shelf(tmp_path: Path) -> None:
    shards = [range(number * 100, number * 100 + 100) for number in range(20)]
    found = make_river(tmp_path, shards, limit=2)
    wrong: list[BaseException | bool] = []

    def look(seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            for _ in range(100):
                starts = random.integers(0, 1900, 16)
                out = np.empty((16, 100), np.int64)
                found.gather(starts, 100, out)
                wrong.extend([True] if (out != starts[:, None] + np.arange(100)).any() else [])
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=look, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(found.shelf) <= 2 + len(threads)


def test_the_shelf_keeps_the_last_used(tmp_path: Path) -> None:
    opened: list[int] = []
    path = tmp_path / "a.bin"
    path.write_bytes(shard_bytes([5]))

    def opener(number: int) -> ShardReader:
        opened.append(number)
        return llmc.open_reader(path)

    held = Shelf(opener, 3)
    for number in (0, 1, 2, 0, 3, 0, 2, 1):
        assert ids_of(held[number]) == [5]
    assert opened == [0, 1, 2, 3, 1]
    assert len(held) == 3
    assert shelf.LIMIT == 64


# ------------------------------------------------------------------ shards that do not lie in one run


class Body(Protocol):
    def __call__(self, path: Path, ids: Ids) -> Pieces | Blocks: ...


def in_pieces(path: Path, ids: Ids) -> Pieces:
    """Runs of one, two, three ... ids, the later ones first in the file, each at an odd byte."""
    stops = [min(len(ids), k * (k + 1) // 2) for k in range(len(ids) + 1)]
    counts = np.diff(stops)
    data, offsets = b"", np.zeros(len(counts), np.int64)
    for k in range(len(counts) - 1, -1, -1):
        data += b"\xff" if len(data) % 2 == 0 else b""
        offsets[k] = len(data)
        data += ids[stops[k] : stops[k + 1]].tobytes()
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        return Pieces(fd, len(data), ids.dtype, offsets, counts)
    finally:
        os.close(fd)


def in_blocks(path: Path, ids: Ids) -> Blocks:
    """Blocks of three ids, decoded when they are needed."""
    path.write_bytes(ids.tobytes())
    starts = np.arange(0, len(ids), 3)
    return Blocks(ids.dtype, np.minimum(starts + 3, len(ids)), lambda number: ids[3 * number : 3 * number + 3])


def never(path: Path, *, dtype: str | None = None) -> Reader:
    raise AssertionError("no reader here is reopened")


def body_river(folder: Path, bodies: Sequence[Body | None], shards: Sequence[Sequence[int]], dtype: str) -> River:
    """A river of shards with these bodies; None is a flat one, mapped."""

    def opener(number: int) -> ShardReader:
        path, ids, body = folder / f"{number}.x", np.array(shards[number], dtype), bodies[number % len(bodies)]
        if body is not None:
            return Reader(Opened(never, path, None), body(path, ids))
        path.write_bytes(ids.tobytes())
        fd = os.open(path, os.O_RDONLY)
        try:
            return Reader(Opened(never, path, None), Flat(fd, ids.dtype, 0, len(ids)))
        finally:
            os.close(fd)

    return River(np.array([len(ids) for ids in shards], np.int64), np.dtype(dtype), Shelf(opener))


@settings(max_examples=40)
@given(
    shards=st.lists(st.lists(st.integers(0, 127), min_size=1, max_size=12), min_size=1, max_size=5),
    bodies=st.lists(st.sampled_from([in_pieces, in_blocks, None]), min_size=1, max_size=3),
    dtype=st.sampled_from(["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]),
    block=st.sampled_from([2, 64, 1 << 20]),
    data=st.data(),
)
def test_any_windows_of_shards_in_pieces_and_blocks(
    tmp_path_factory: pytest.TempPathFactory,
    shards: list[list[int]],
    bodies: list[Body | None],
    dtype: str,
    block: int,
    data: st.DataObject,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(river, "BLOCK_BYTES", block)
        found = body_river(tmp_path_factory.mktemp("r"), bodies, shards, dtype)
    every = [i for ids in shards for i in ids]
    for _ in range(3):
        n = data.draw(st.integers(1, len(every)))
        starts = data.draw(st.lists(st.integers(0, len(every) - n), max_size=8))
        out = np.full((len(starts), n), 7, data.draw(OUT_TYPES))
        found.gather(np.array(starts, np.int64), n, out)
        assert out.tolist() == [every[s : s + n] for s in starts]
        taken = data.draw(st.lists(st.tuples(st.integers(-1, len(every)), st.integers(0, 20)), max_size=8))
        runs = [(start, size if start < 0 else min(size, len(every) - start)) for start, size in taken]
        expected = [i for start, size in runs for i in ([0] * size if start < 0 else every[start : start + size])]
        out = np.full((1, len(expected)), 7, np.int64)
        columns = np.array(runs, np.int64).reshape(-1, 2)
        found.take(columns[:, 0], columns[:, 1], out)
        assert out.tolist() == [expected]
        windows, cut = found.cut(np.array(starts, np.int64), n), found.cut(columns[:, 0], columns[:, 1])
        if windows is not None:
            for at, start in enumerate(starts):
                assert windows(at, at + 1)[:-1].tolist() == every[start : start + n]
        if cut is not None:
            first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(runs))] * 2)))
            before, size = (sum(size for _, size in part) for part in (runs[:first], runs[first:last]))
            some = cut(first, last)
            assert (some[:-1].tolist(), some.dtype) == (expected[before : before + size], np.dtype(dtype))
            some[:] = 0  # a copy, for the caller to write in
            assert cut(first, last)[:-1].tolist() == expected[before : before + size]
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(every))] * 2)))
        ids = found.read(start, stop)
        assert (ids.tolist(), ids.dtype) == (every[start:stop], np.dtype(dtype))
        assert [i for ids in found.blocks(start, stop) for i in ids.tolist()] == every[start:stop]


def test_what_is_looked_up_beforehand_and_what_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = [list(range(30)), list(range(30, 100))]
    found = body_river(tmp_path, [in_pieces], shards, "int16")
    starts, sizes = np.array([0, -1, 60, 20]), np.array([3, 4, 40, 0])
    cut = found.cut(starts, sizes)
    assert cut is not None
    assert found.cut(np.array([0, 90]), 10) is not None
    for wrong in ([91, 0], [-1, 0], [0, 2**40]):
        assert found.cut(np.array(wrong), 10) is None
    assert found.cut(np.array([0, 60]), np.array([3, 41])) is None
    assert found.cut(np.array([0, -2]), np.array([3, 4])) is None
    assert cut(2, 4)[:-1].tolist() == list(range(60, 100))
    # the only shard in one run has a shorter way for windows
    for body, shorter in ((None, True), (in_pieces, False), (in_blocks, True)):
        (tmp_path / str(body)).mkdir()
        single = body_river(tmp_path / str(body), [body], [list(range(100))], "int16")
        assert (single.cut(np.array([0, 90]), 10) is None) == shorter
    monkeypatch.setattr(mapped, "MAX_PIECES", 3)
    assert found.cut(np.array([0, 1]), 2) is not None
    assert found.cut(np.array([0, 1]), 20) is None


@pytest.mark.parametrize("body", [None, in_pieces, in_blocks], ids=["flat", "pieces", "blocks"])
@pytest.mark.parametrize("count", [3, 64, 65, 130])
def test_more_shards_than_are_held(tmp_path: Path, body: Body | None, count: int) -> None:
    sizes = [1 + number % 7 for number in range(count)]
    every = list(range(sum(sizes)))
    stops = np.cumsum(sizes).tolist()
    found = body_river(tmp_path, [body], [every[b - size : b] for b, size in zip(stops, sizes, strict=True)], "int32")
    random = np.random.default_rng(0)
    for n in (1, 5, len(every) // 2, len(every)):
        starts = random.integers(0, len(every) - n + 1, 6)
        out = np.empty((6, n), np.int64)
        found.gather(starts, n, out)
        assert (out == starts[:, None] + np.arange(n)).all()
    assert found.read(0, len(every)).tolist() == every
    assert len(found.shelf) <= (shelf.DECODED if body is in_blocks else shelf.LIMIT)


@pytest.mark.parametrize("body", [None, in_pieces, in_blocks], ids=["flat", "pieces", "blocks"])
@pytest.mark.parametrize("shards", [[[1, 2, -5, 3, 4]], [[1, 2], [-5, 3, 4]]], ids=["one", "two"])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_a_negative_id_is_refused_and_never_wrapped(
    tmp_path: Path, body: Body | None, shards: list[list[int]], dtype: str
) -> None:
    found = body_river(tmp_path, [body], shards, dtype)
    out = np.full((1, 2), 7, np.int64)
    for _ in range(2):  # the second call goes the short way
        for start in (1, 2):
            with pytest.raises(FormatError, match="id: got -5, expected at least 0"):
                found.gather(np.array([start]), 2, out)
            assert out.tolist() == [[7, 7]]
        found.gather(np.array([3]), 2, out)
        assert out.tolist() == [[3, 4]]
        out[:] = 7
    for narrow in (np.uint16, np.uint64, np.int32):
        with pytest.raises(FormatError, match="id: got -5"):
            found.gather(np.array([1]), 2, np.empty((1, 2), narrow))
    with pytest.raises(FormatError, match="id: got -5"):
        found.read(0, 5)
    cut = found.cut(np.array([1, 3]), np.array([2, 2]))
    assert (cut is None) == (body is in_blocks)
    if cut is not None:
        with pytest.raises(FormatError, match="id: got -5"):
            cut(0, 1)
        assert cut(1, 2)[:-1].tolist() == [3, 4]
    assert found.read(3, 5).tolist() == [3, 4]
