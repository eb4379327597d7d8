"""A native shard: an llm.c file and its document index, each checked against the other."""

import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_contents import made_content, write_shards
from small_corpora import ids_of, index_bytes, shard_bytes
from tokenriver.errors import FormatError
from tokenriver.formats import _docindex, llmc, native


def _shard(folder: Path, lengths: list[int]) -> Path:
    path = folder / "a.bin"
    path.write_bytes(shard_bytes(range(sum(lengths))))
    (folder / "a.docs").write_bytes(index_bytes(lengths, 5, 2))
    return path


def test_documents_and_where_they_came_from(tmp_path: Path) -> None:
    path = _shard(tmp_path, [3, 1, 6])
    reader = native.open_reader(path)
    assert reader.doc_ends is not None
    assert reader.origins is not None
    records, sources = reader.origins
    assert (ids_of(reader), reader.doc_ends.tolist()) == (list(range(10)), [3, 4, 10])
    assert (records.tolist(), sources.tolist()) == ([5, 6, 7], [2, 2, 2])
    assert [column.dtype.str for column in (reader.doc_ends, records, sources)] == ["<i8", "<i8", "<i4"]
    assert native.sniff(path)
    assert ids_of(llmc.open_reader(path)) == list(range(10)), "an llm.c reader sees an llm.c file"
    again = pickle.loads(pickle.dumps(reader)).doc_ends
    assert again.tolist() == [3, 4, 10]


def test_without_its_index_it_is_an_llmc_file(tmp_path: Path) -> None:
    path = _shard(tmp_path, [3])
    (tmp_path / "a.docs").unlink()
    assert not native.sniff(path)
    reader = native.open_reader(path)
    assert reader.num_tokens == 3, "the index is opened when documents are asked for"


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)), min_size=1
    ),
    st.integers(0, 2**40),
)
def test_packed_is_the_bytes_written_by_hand(rows: list[tuple[int, int, int]], carried: int) -> None:
    lengths, records, sources = zip(*rows, strict=True)
    ends = np.cumsum(lengths)
    count = len(rows)
    blocks = [(ends, np.array(records), np.array(sources, np.int32))]
    packed = _docindex.pack_index(count, carried, lambda: iter(blocks))
    columns = (*ends.tolist(), *records, *sources)
    expected = b"TRDOCS01" + struct.pack(f"<2q{count}q{count}q{count}i", count, carried, *columns)
    assert b"".join(packed) == expected
    assert _docindex.index_header(count, carried) == expected[:24]


BAD_ENDS = {
    "negative": ([-1, 5, 10], "end of document 0: got -1, expected at least 0"),
    "falling": ([5, 3, 10], "end of document 1: got 3, expected at least 5"),
    "falling to nothing": ([5, 0, 10], "end of document 1: got 0, expected at least 5"),
    "short": ([3, 5, 9], "end of the last document: got 9, expected 10"),
    "long": ([3, 5, 11], "end of the last document: got 11, expected 10"),
    "huge": ([3, 5, 2**63 - 1], "end of the last document: got 9223372036854775807"),
    "wrapping": ([3, 2**62, -(2**63)], "end of document 2: got -9223372036854775808"),
    "wrapping to the right end": ([2**62 + 5, -(2**62), 10], "end of document 1: got -4611686018427387904"),
}


@pytest.mark.parametrize("name", BAD_ENDS)
def test_ends_that_cannot_be_are_refused(tmp_path: Path, name: str) -> None:
    ends, words = BAD_ENDS[name]
    path = _shard(tmp_path, [3, 1, 6])
    (tmp_path / "a.docs").write_bytes(b"TRDOCS01" + struct.pack("<2q3q3q3i", 3, 0, *ends, 0, 1, 2, 0, 0, 0))
    with pytest.raises(FormatError) as caught:
        _ = native.open_reader(path).doc_ends
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("lengths", "carried"),
    [([0, 10], 0), ([10, 0], 0), ([0, 0, 10, 0, 0], 0), ([3, 0, 7], 0), ([4], 6), ([0], 10), ([], 10), ([0, 4, 0], 6)],
)
def test_empty_documents_and_carried_ids_are_read(tmp_path: Path, lengths: list[int], carried: int) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(shard_bytes(range(10)))
    (tmp_path / "a.docs").write_bytes(index_bytes(lengths, carried=carried))
    reader = native.open_reader(path)
    assert reader.doc_ends is not None
    assert reader.origins is not None
    assert reader.doc_ends.tolist() == np.cumsum(lengths, dtype=int).tolist()
    assert [len(column) for column in reader.origins] == [len(lengths)] * 2


@pytest.mark.parametrize("carried", [1, 9, 10, -1, 11, 2**62, 2**63 - 1, -(2**63)])
def test_carried_ids_that_cannot_be_are_refused(tmp_path: Path, carried: int) -> None:
    path = _shard(tmp_path, [3, 1, 6])
    data = (tmp_path / "a.docs").read_bytes()
    (tmp_path / "a.docs").write_bytes(data[:16] + struct.pack("<q", carried) + data[24:])
    words = (
        f"got 10, expected {10 - carried}, by" if 0 <= carried <= 10 else f"byte 16: got {carried}, expected 0 to 10"
    )
    with pytest.raises(FormatError, match=words):
        _ = native.open_reader(path).doc_ends


def test_an_index_is_cut_anywhere_and_refused(tmp_path: Path) -> None:
    path = _shard(tmp_path, [3, 7])
    data = (tmp_path / "a.docs").read_bytes()
    for length in range(len(data)):
        (tmp_path / "a.docs").write_bytes(data[:length])
        with pytest.raises(FormatError, match=r"a\.docs: "):
            _ = native.open_reader(path).doc_ends


def test_what_is_written_is_the_llmc_file_alone(tmp_path: Path) -> None:
    (written,) = write_shards(native, tmp_path, [made_content([1, 2, 3], [2, 3])])
    assert written.path.read_bytes() == shard_bytes([1, 2, 3])
    assert [p.name for p in tmp_path.iterdir()] == ["tokens_train_000000.bin"]
    assert not native.sniff(written.path), "its index is written by the corpus"


@pytest.mark.parametrize("count", [0, -1, 2, 4, 11, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63)])
def test_a_count_that_cannot_be_is_refused(tmp_path: Path, count: int) -> None:
    path = _shard(tmp_path, [3, 1, 6])
    data = (tmp_path / "a.docs").read_bytes()
    (tmp_path / "a.docs").write_bytes(data[:8] + struct.pack("<q", count) + data[16:])
    with pytest.raises(FormatError, match=rf"a\.docs: (number of documents at byte 8: got {count}|size: )"):
        _ = native.open_reader(path).doc_ends


def test_a_long_index_is_checked_across_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_docindex, "_CHECK", 4)
    _shard(tmp_path, [1] * 13)
    assert len(_docindex.open_index(tmp_path / "a.docs", 13).ends) == 13
    for at in range(1, 13):
        data = bytearray((tmp_path / "a.docs").read_bytes())
        data[24 + 8 * at] = at - 1  # one before the end of the document before it
        (tmp_path / "b.docs").write_bytes(data)
        with pytest.raises(FormatError, match=f"end of document {at}: got {at - 1}, expected at least {at}"):
            _docindex.open_index(tmp_path / "b.docs", 13)
