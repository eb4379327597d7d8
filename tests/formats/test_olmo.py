"""OLMo arrays: raw ones and NumPy files told apart, rows of bounds read and written by columns."""

import csv
import gzip
import io
import os
import pickle
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_contents import made_content, made_target, write_shards
from open_shards import all_ends, all_ids
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import _olmo_bounds, _olmo_rows, olmo
from tokenriver.storage import Content


def _array(folder: Path, ids: list[int], rows: bytes | None = None, dtype: str = "<u2") -> Path:
    path = folder / "part-0-00000.npy"
    np.array(ids, dtype).tofile(path)
    if rows is not None:
        _olmo_bounds.bounds_path(path).write_bytes(gzip.compress(rows))
    return path


def _rows(path: Path) -> list[list[str]]:
    text = gzip.decompress(_olmo_bounds.bounds_path(path).read_bytes()).decode()
    return list(csv.reader(io.StringIO(text, newline="")))


# ---------------------------------------------------------------------------------------------- writing


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.sampled_from([0, 1, 9, 10, 11, 99, 1000]), min_size=1, max_size=40).filter(any),
    block=st.sampled_from([1, 3, 10**6]),
)
def test_what_is_written_is_dolmas(tmp_path_factory: pytest.TempPathFactory, lengths: list[int], block: int) -> None:
    folder = tmp_path_factory.mktemp("olmo")
    ends = np.cumsum(lengths).tolist()
    ids = [i % 60000 for i in range(ends[-1])]
    (written,) = write_shards(olmo, folder, [made_content(ids, ends, block=block)])
    assert written.path.read_bytes() == np.array(ids, "<u2").tobytes()
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    for i, end in enumerate(ends):
        writer.writerow([end - lengths[i], end, "", ("a.jsonl", "b/c.jsonl")[i % 2], 10 * i + 1])
    bounds = written.path.with_suffix(".csv.gz")
    assert gzip.decompress(bounds.read_bytes()).decode() == out.getvalue()
    reader = olmo.open_reader(written.path)
    assert (all_ids(reader), all_ends(reader)) == (ids, ends)


def test_without_origins_the_rows_are_olmo_cores(tmp_path: Path) -> None:
    made = made_content([1, 2, 3], [1, 3])
    content = Content(made.num_tokens, made.num_documents, made.ids, made.ends, None)
    (written,) = write_shards(olmo, tmp_path, [content])
    bounds = written.path.with_suffix(".csv.gz")
    assert gzip.decompress(bounds.read_bytes()) == b"0,1\n1,3\n"
    assert [found.path.name for found in olmo.find(tmp_path)] == ["tokens_train_000000.npy"]


def test_bounds_have_no_clock_and_the_files_name(tmp_path: Path) -> None:
    (written,) = write_shards(olmo, tmp_path, [made_content([1])])
    data = written.path.with_suffix(".csv.gz").read_bytes()
    assert data.startswith(b"\x1f\x8b\x08\x08\0\0\0\0\0\xfftokens_train_000000.csv\0")
    files = olmo.write(tmp_path / "x.npy", made_content([1]), made_target())
    assert [file.path.name for file in files] == ["x.npy", "x.csv.gz"]


def test_sources_are_quoted_as_csv_needs(tmp_path: Path) -> None:
    sources = ['a,"b".jsonl', "line\nfeed", "plain", "ünï"]
    ends = np.arange(1, 9)

    def origins() -> list[tuple[np.ndarray, np.ndarray]]:
        return [
            (np.arange(at, at + 2, dtype=np.int64) * 10**8, np.arange(at, at + 2, dtype=np.int32) % 4)
            for at in range(0, 8, 2)
        ]

    made = made_content(list(range(8)), ends.tolist(), block=3)
    content = Content(8, 8, made.ids, made.ends, lambda: iter(origins()))
    text = b"".join(_olmo_rows.rows(content, sources)).decode()
    found = list(csv.reader(io.StringIO(text, newline="")))
    assert found == [[str(i), str(i + 1), "", sources[i % 4], str(i * 10**8 + 1)] for i in range(8)]
    assert text.count("\r\n") == 8
    path = _array(tmp_path, list(range(8)), text.encode())
    assert all_ends(olmo.open_reader(path)) == ends.tolist()


def test_the_layout_npy_is_numpys(tmp_path: Path) -> None:
    (written,) = write_shards(olmo, tmp_path, [made_content([1, 70000], None, "uint32")], "uint32", layout="npy")
    np.save(tmp_path / "expected.npy", np.array([1, 70000], "<u4"))
    assert written.path.read_bytes() == (tmp_path / "expected.npy").read_bytes()
    reader = olmo.open_reader(written.path)
    assert (all_ids(reader), reader.dtype, all_ends(reader)) == ([1, 70000], np.dtype("uint32"), [2])


def test_what_it_cannot_hold_is_refused_with_the_number_and_the_cure() -> None:
    with pytest.raises(InputError, match="layout: got 'x', expected one of '', 'npy'"):
        olmo.check(made_target(layout="x"), [])
    content = made_content([1])
    object.__setattr__(content, "num_documents", 2**20 + 2)
    with pytest.raises(LimitError, match="documents: got 1048578 in shard 0 of train, expected at most 1048577"):
        olmo.check(made_target(), [content])


# ---------------------------------------------------------------------------------------------- reading


def test_the_bounds_tell_the_dtype(tmp_path: Path) -> None:
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        path = _array(tmp_path, [1, 2, 3], b"0,2\n2,3\n", dtype)
        assert [found.dtype for found in olmo.find(path)] == [dtype]
        reader = olmo.open_reader(path, dtype=dtype)
        assert (all_ids(reader), all_ends(reader)) == ([1, 2, 3], [2, 3])
    for rows in (b"", b"0,2\n", b"nonsense", b"0,3\n"):
        path = _array(tmp_path, [1, 2, 3], rows, "uint16")
        assert [found.dtype for found in olmo.find(path)] == ["uint16" if rows == b"0,3\n" else None]


def test_an_array_without_bounds_has_no_documents(tmp_path: Path) -> None:
    path = _array(tmp_path, [1, 2, 3])
    assert olmo.open_reader(path).doc_ends is None
    assert olmo.open_reader(path, dtype="uint8").num_tokens == 6
    assert not olmo.sniff(path)
    assert [found.path for found in olmo.find(tmp_path)] == [path]
    reader = pickle.loads(pickle.dumps(olmo.open_reader(path, dtype="uint8")))
    assert all_ids(reader) == [1, 0, 2, 0, 3, 0]


def test_the_wrong_dtype_is_named_as_the_cause(tmp_path: Path) -> None:
    path = _array(tmp_path, [1, 2, 3], b"0,3\n", "uint32")
    reader = olmo.open_reader(path, dtype="uint16")
    with pytest.raises(FormatError, match="got 3, expected 6, by the array's size; if its ids are wider or narrower"):
        all_ends(reader)


@pytest.mark.parametrize(("size", "dtype"), [(0, None), (3, None), (6, "uint32"), (4, "int64")])
def test_sizes_that_do_not_divide_are_refused(tmp_path: Path, size: int, dtype: str | None) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(bytes(size))
    with pytest.raises(FormatError, match=f"size: got {size} bytes, expected a positive multiple of"):
        olmo.open_reader(path, dtype=dtype)


def test_numpy_files_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    for dtype in ("<u1", "<u2", "<i4", "<i8"):
        np.save(path, np.array([1, 2, 3], dtype))
        assert olmo.sniff(path)
        reader = olmo.open_reader(path)
        assert (all_ids(reader), reader.dtype) == ([1, 2, 3], np.dtype(dtype))
        assert olmo.open_reader(path, dtype=np.dtype(dtype).name).num_tokens == 3
    with pytest.raises(FormatError, match="dtype: got <i8 in its header, expected uint16; leave dtype out"):
        olmo.open_reader(path, dtype="uint16")
    for array in (np.zeros((2, 2), "<u2"), np.zeros(3, "<f4"), np.array("x"), np.zeros(3, ">u2")):
        np.save(path, array)
        with pytest.raises(FormatError):
            olmo.open_reader(path)
    np.save(path, np.array([{}], object), allow_pickle=True)
    with pytest.raises(FormatError, match="expected one column of integers"):
        olmo.open_reader(path)


def test_sniffing_never_fails(tmp_path: Path) -> None:
    assert not olmo.sniff(tmp_path)
    assert not olmo.sniff(tmp_path / "absent.npy")
    os.mkfifo(tmp_path / "pipe.npy")
    assert not olmo.sniff(tmp_path / "pipe.npy")
    (tmp_path / "pipe.npy").unlink()
    path = _array(tmp_path, [1], b"")
    assert olmo.sniff(path)
    assert olmo.sniff(tmp_path)
    (tmp_path / "tokens.bin").write_bytes(b"ids of another format")
    assert not olmo.sniff(tmp_path)
    path.write_bytes(b"")
    assert not olmo.sniff(path)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (b"0,2\n", "end of the last document: got 2, expected 3"),
        (b"", "end of the last document: got 0, expected 3"),
        (b"0,2\n3,3\n", "row 1: got a document from 3 to 3, expected one that begins at 2"),
        (b"0,2\n1,3\n", "row 1: got a document from 1 to 3"),
        (b"1,3\n", "row 0: got a document from 1 to 3, expected one that begins at 0"),
        (b"0,2\n2,1\n1,3\n", "row 1: got a document from 2 to 1"),
        (b"0;3\n", "row 0: got b'0;3', expected `start,end` in decimal digits"),
        (b"0,3x\n", "row 0: got b'0,3x'"),
        (b"0,\n", "row 0: got b'0,'"),
        (b",3\n", "row 0: got b',3'"),
        (b"0\n", "row 0: got b'0'"),
        (b"0,2\n\n2,3\n", "row 1: got b''"),
        (b"\n", "row 0: got b''"),
        (b"\r\n", "row 0: got"),
        (b"0,-3\n", "row 0: got b'0,-3'"),
        (b"0, 3\n", "row 0: got b'0, 3'"),
        (b"0,+3\n", "row 0: got b'0,+3'"),
        (b"start,end\n0,3\n", "row 0: got b'start,end'"),
        (b"0,9999999999999999999\n", "row 0: got b'0,9999999999999999999'"),
        (b"0,999999999999999999\n", "end of the last document: got 999999999999999999"),
        (b'0,3,"id\n', "last row: got a text in quotes that does not end"),
        (b'"0",3\n', "row 0: got b'\"0\",3'"),
    ],
)
def test_rows_that_are_no_bounds_are_refused(tmp_path: Path, rows: bytes, words: str) -> None:
    reader = olmo.open_reader(_array(tmp_path, [1, 2, 3], rows))
    assert all_ids(reader) == [1, 2, 3]
    with pytest.raises(FormatError) as caught:
        all_ends(reader)
    assert words in str(caught.value)
    assert "part-0-00000.csv.gz" in str(caught.value)


@pytest.mark.parametrize(
    "rows",
    [
        b"0,2\n2,3\n",
        b"0,2\r\n2,3",
        b"0,2,id,src,1\r\n2,3,id,src,2\r\n",
        b'0,2,"i\r\nd ""x"", 7,8\n9",src,1\r\n2,3,",",,\n',
        b"000,00002\n2,3\r\n",
    ],
)
def test_rows_of_any_dialect_are_read(tmp_path: Path, rows: bytes) -> None:
    assert all_ends(olmo.open_reader(_array(tmp_path, [1, 2, 3], rows))) == [2, 3]


def test_rows_may_lie_across_blocks_and_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_olmo_bounds, "_BLOCK", 7)
    count = 300
    text = "".join(f'{i},{i + 1},"id\n{i}",x,{i}\r\n' for i in range(count)).encode()
    path = _array(tmp_path, list(range(count)))
    members = b"".join(gzip.compress(text[at : at + 11]) for at in range(0, len(text), 11))
    _olmo_bounds.bounds_path(path).write_bytes(members)
    assert all_ends(olmo.open_reader(path)) == list(range(1, count + 1))


def test_a_cut_or_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = _array(tmp_path, [1, 2, 3], b"0,2\n2,3\n")
    bounds = _olmo_bounds.bounds_path(path)
    data = bounds.read_bytes()
    for length in range(len(data)):
        bounds.write_bytes(data[:length])
        with pytest.raises(FormatError, match=r"part-0-00000\.csv\.gz"):
            all_ends(olmo.open_reader(path))
    bounds.write_bytes(data[:-8] + bytes([data[-8] ^ 1]) + data[-7:])
    with pytest.raises(FormatError, match="damaged gzip data"):
        all_ends(olmo.open_reader(path))


def test_more_rows_than_ids_can_have_end_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_olmo_bounds, "MAX_EMPTY", 10)
    path = _array(tmp_path, [1, 2, 3], b"0,0\n" * 14)
    with pytest.raises(FormatError, match="rows: got more than 13, expected at most so many for the array's ids"):
        all_ends(olmo.open_reader(path))


def test_an_endless_row_ends_the_reading(tmp_path: Path) -> None:
    path = _array(tmp_path, [1, 2, 3])
    bounds = _olmo_bounds.bounds_path(path)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(1 << 20)
    data = packer.compress(b'0,3,"') + b"".join(packer.compress(block) for _ in range(64)) + packer.flush()
    bounds.write_bytes(data)
    with pytest.raises(FormatError, match="row: got one of over 1048576 bytes"):
        all_ends(olmo.open_reader(path))
