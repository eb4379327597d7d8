"""Bodies of a shard against a plain array: flat, in pieces at any byte, decoded in blocks."""

import multiprocessing
import os
import pickle
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_corpora import index_bytes
from tokenriver.formats._mapping import DTYPES
from tokenriver.formats._reader import Blocks, Body, Flat, Opened, Pieces, Reader
from tokenriver.types import Ids

KINDS = ("flat", "pieces", "blocks")


@dataclass
class Loads:
    """Decodes a block, and remembers which."""

    parts: list[Ids]
    loaded: list[int]

    def __call__(self, number: int) -> Ids:
        self.loaded.append(number)
        return self.parts[number]


def make_body(path: Path, kind: str, parts: Sequence[Ids], gaps: Sequence[int]) -> Body:
    """A file with a gap of so many bytes before each part, and its ids as a body of the kind; a flat one has one."""
    data, offsets = b"", []
    if kind == "flat":
        parts = [np.concatenate(parts)]
    for part, gap in zip(parts, gaps, strict=False):
        data += b"\xa5" * gap
        offsets.append(len(data))
        data += part.tobytes()
    path.write_bytes(data + b"\xa5")
    counts, dtype = np.array([len(part) for part in parts], np.int64), parts[0].dtype
    if kind == "blocks":
        return Blocks(dtype, np.cumsum(counts), Loads(list(parts), []))
    fd = os.open(path, os.O_RDONLY)
    try:
        if kind == "flat":
            return Flat(fd, dtype, offsets[0], int(counts[0]))
        return Pieces(fd, len(data) + 1, dtype, np.array(offsets, np.int64), counts)
    finally:
        os.close(fd)


def joined(body: Body | Reader, starts: Sequence[int], n: int) -> list[list[int]]:
    """The windows of a body as lists."""
    data = b"".join(body.windows(np.array(starts, np.int64), n))
    found: list[list[int]] = np.frombuffer(data, body.dtype).reshape(len(starts), n).tolist()
    return found


@settings(max_examples=150)
@given(
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(sorted(DTYPES)),
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(sum),
    gaps=st.lists(st.integers(0, 5), min_size=8, max_size=8),
    data=st.data(),
)
def test_any_windows_and_ranges(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    dtype: str,
    counts: list[int],
    gaps: list[int],
    data: st.DataObject,
) -> None:
    info = np.iinfo(dtype)
    parts = [
        np.random.default_rng(number).integers(info.min, info.max, count, dtype, endpoint=True).astype(DTYPES[dtype])
        for number, count in enumerate(counts)
    ]
    body = make_body(tmp_path_factory.mktemp("b") / "a", kind, parts, gaps)
    every: list[int] = np.concatenate(parts).tolist()
    assert (body.num_tokens, body.dtype) == (len(every), DTYPES[dtype])
    assert (body.ids is None) == (kind != "flat")
    for _ in range(3):
        n = data.draw(st.integers(0, len(every)))
        starts = data.draw(st.lists(st.integers(0, len(every) - n), max_size=6))
        assert joined(body, starts, n) == [every[start : start + n] for start in starts]
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(every))] * 2)))
        body.read_ahead(start, stop)
        ids = body.read(start, stop)
        assert (ids.tolist(), ids.dtype) == (every[start:stop], DTYPES[dtype])


def test_blocks_are_decoded_once_for_a_batch_and_the_last_ones_kept() -> None:
    parts = [np.arange(10 * number, 10 * number + 10, dtype="<u2") for number in range(6)]
    loads = Loads(parts, [])
    body = Blocks(np.dtype("<u2"), np.arange(10, 70, 10), loads, keep=2)
    starts = [55, 3, 31, 51, 0, 33, 8]
    assert joined(body, starts, 5) == [list(range(start, start + 5)) for start in starts]
    assert loads.loaded == [0, 1, 3, 5], "in the order of the file, each once"
    loads.loaded.clear()
    assert body.read(30, 34).tolist() == [30, 31, 32, 33]
    assert body.read(50, 51).tolist() == [50]
    assert loads.loaded == []
    assert body.read(0, 60).tolist() == list(range(60))
    assert body.read(45, 45).tolist() == []


# --------------------------------------------------------------------------------------- the reader


def open_kind(path: Path, *, dtype: str | None = None) -> Reader:
    """A reader of 3 + 0 + 5 ids 100, 101, ... of the kind that the name says, the second run at an odd byte."""
    parts = [np.arange(100, 103, dtype=dtype), np.empty(0, dtype), np.arange(103, 108, dtype=dtype)]
    body = make_body(path, path.stem, parts, [3, 0, 4])
    return Reader(Opened(open_kind, path, dtype), body, lambda: (np.array([2, 8]), None))


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_is_pickled_as_its_opening(tmp_path: Path, kind: str) -> None:
    reader = open_kind(tmp_path / f"{kind}.x", dtype="<i4")
    data = pickle.dumps(reader)
    assert len(data) < 500
    again = pickle.loads(data)
    assert again.read(1, 7).tolist() == reader.read(1, 7).tolist() == list(range(101, 107))
    assert again.dtype == np.dtype("<i4")
    assert again.doc_ends.tolist() == [2, 8]


def _tell(reader: Reader, path: Path) -> None:
    path.write_text(str([reader.read(0, 8).tolist(), joined(reader, [1, 2], 6)]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_works_after_a_fork(tmp_path: Path, kind: str) -> None:
    reader = open_kind(tmp_path / f"{kind}.x", dtype="<u2")
    assert reader.read(2, 4).tolist() == [102, 103]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside a thread
        child = multiprocessing.get_context("fork").Process(target=_tell, args=(reader, tmp_path / "answer"))
        child.start()
    child.join(60)
    assert child.exitcode == 0
    expected = [list(range(100, 108)), [list(range(101, 107)), list(range(102, 108))]]
    assert (tmp_path / "answer").read_text() == str(expected)
    assert reader.read(0, 8).tolist() == expected[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_reader_serves_nothing_and_takes_nothing_away(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"{kind}.x"
    reader = open_kind(path, dtype="<u2")
    ids, windows = reader.read(2, 6), reader.windows(np.array([3]), 4)
    for _ in range(2):
        reader.close()
        assert (reader.read(0, 5).tolist(), reader.windows(np.array([0]), 5)) == ([], [])
        assert (reader.doc_ends, reader.origins) == (None, None)
        reader.read_ahead(0, 8)
    path.unlink()
    assert ids.tolist() == [102, 103, 104, 105]
    assert np.frombuffer(b"".join(windows), "<u2").tolist() == [103, 104, 105, 106]
    assert not ids.flags.writeable or kind == "blocks"


def test_documents_are_asked_for_once_and_an_index_comes_first(tmp_path: Path) -> None:
    asked: list[int] = []

    def documents() -> tuple[Any, None]:
        asked.append(1)
        return np.array([8]), None

    path = tmp_path / "flat.x"
    body = make_body(path, "flat", [np.arange(8, dtype="<u2")], [0])
    reader = Reader(Opened(open_kind, path, None), body, documents)
    assert asked == []
    for _ in range(2):
        assert reader.doc_ends is not None
        assert (reader.doc_ends.tolist(), reader.origins) == ([8], None)
    assert asked == [1]
    (tmp_path / "flat.docs").write_bytes(index_bytes([1, 0, 7], 4, 1))
    reader = Reader(Opened(open_kind, path, None), body, documents)
    assert reader.doc_ends is not None
    assert reader.doc_ends.tolist() == [1, 1, 8]
    assert reader.origins is not None
    assert reader.origins[0].tolist() == [4, 5, 6]
    assert asked == [1]
