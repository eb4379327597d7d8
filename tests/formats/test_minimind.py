"""TokenStream: no id is served unless the lengths add up to the file."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from hand_made_sets import token_stream
from made_contents import made_content, made_target
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import minimind

DOCUMENTS = [[1, 7, 2], [], [1, 2], [1, 65535, 9, 2]]
IDS, ENDS = [1, 7, 2, 1, 2, 1, 65535, 9, 2], [3, 3, 5, 9]
INTEGERS = ("i1", "u1", "<i2", ">u2", "<u4", ">i4", "<i8", ">i8", "<u8", ">u8")


def _opened(path: Path) -> tuple[list[int], list[int]]:
    reader = minimind.open_reader(path)
    assert reader.doc_ends is not None
    return reader.read(0, reader.num_tokens).tolist(), reader.doc_ends.tolist()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_lengths_of_any_integer_dtype(tmp_path: Path, dtype: str) -> None:
    path = token_stream(tmp_path, DOCUMENTS, dtype)
    for given in (path, tmp_path, tmp_path / "doc_lengths.npy"):
        assert minimind.sniff(given)
        (shard,) = minimind.find(given)
        assert _opened(shard.path) == (IDS, ENDS)
        assert (shard.path, shard.dtype, shard.num_tokens, shard.num_documents) == (path, "uint16", 9, 4)


def test_a_document_index_counts_instead(tmp_path: Path) -> None:
    token_stream(tmp_path, DOCUMENTS).with_suffix(".docs").write_bytes(b"x")
    assert minimind.find(tmp_path)[0].num_documents is None


def test_another_name_is_another_format(tmp_path: Path) -> None:
    path = token_stream(tmp_path, DOCUMENTS)
    path.rename(tmp_path / "train.bin")
    assert not minimind.sniff(tmp_path)
    assert not minimind.sniff(tmp_path / "train.bin")
    with pytest.raises(InputError, match=r"tokens\.bin: cannot open"):
        minimind.find(tmp_path)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    path = token_stream(tmp_path, DOCUMENTS)
    (tmp_path / "doc_lengths.npy").unlink()
    assert not minimind.sniff(path)
    for call in (minimind.find, minimind.open_reader):
        with pytest.raises(FormatError, match=r"lengths: got no doc_lengths\.npy beside it"):
            call(path)


# (dtype, lengths, words): each in place of 3, 0, 2, 4
SUMS = {
    "short": ("int64", [3, 0, 2, 3], "lengths of 4 documents: got a sum of 8, expected 9, the ids of tokens.bin"),
    "long": ("int64", [3, 0, 3, 4], "got a sum of 10, expected 9"),
    "none": ("int64", [], "lengths of 0 documents: got a sum of 0, expected 9"),
    "negative": ("int64", [3, -1, 3, 4], "length of document 1 at byte 136: got -1, expected 0 to 9"),
    "negative byte": ("int8", [3, -1, 3, 4], "length of document 1 at byte 129: got -1"),
    "too long": ("int64", [3, 0, 2, 10], "length of document 3 at byte 152: got 10, expected 0 to 9"),
    "wrapping": ("int64", [2**63 - 1, 2**63 - 1, 2, 9], "length of document 0 at byte 128: got 9223372036854775807"),
    "wrapping unsigned": ("uint64", [2**64 - 1, 10, 0, 0], "got 18446744073709551615"),
}


@pytest.mark.parametrize("name", SUMS)
def test_lengths_that_do_not_add_up_are_refused(tmp_path: Path, name: str) -> None:
    dtype, lengths, words = SUMS[name]
    path = token_stream(tmp_path, DOCUMENTS)
    np.save(tmp_path / "doc_lengths.npy", np.array(lengths, dtype), allow_pickle=False)
    with pytest.raises(FormatError, match=words):
        minimind.open_reader(path)


def test_a_torn_file_is_refused(tmp_path: Path) -> None:
    path = token_stream(tmp_path, DOCUMENTS)
    data = path.read_bytes()
    for size in (*range(len(data)), len(data) + 1, len(data) + 2):
        path.write_bytes((data + bytes(2))[:size])
        with pytest.raises(FormatError, match=r"a positive multiple of 2|sum of 9|length of document"):
            minimind.open_reader(path)


def test_every_cut_and_flip_of_the_lengths_is_refused_or_harmless(tmp_path: Path) -> None:
    path = token_stream(tmp_path, DOCUMENTS)
    lengths = tmp_path / "doc_lengths.npy"
    data = lengths.read_bytes()
    for size in range(len(data)):
        lengths.write_bytes(data[:size])
        with pytest.raises(FormatError):
            minimind.open_reader(path)
    for at in range(len(data)):
        for flip in (1, 0x80, 0xFF):
            lengths.write_bytes(data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :])
            try:
                ids, ends = _opened(path)
            except FormatError:
                continue
            assert (ids, ends) == (IDS, ENDS)


HEADERS = {
    "floats": "{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (4,), }",
    "two columns": "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }",
    "no shape": "{'descr': '<i8', 'fortran_order': False, }",
    "a key twice": "{'descr': '<i8', 'descr': '<i8', 'shape': (4,), }",
    "a structure": "{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (4,), }",
    "a call": "{'descr': '<i8', 'fortran_order': exit(), 'shape': (4,), }",
    "huge": "{'descr': '<i8', 'fortran_order': False, 'shape': (999999999999999999,), }",
    "negative": "{'descr': '<i8', 'fortran_order': False, 'shape': (-4,), }",
    "spaces": "{" + " " * 16000 + "x}",
    "nothing": "",
}


def _with_header(text: str, version: int = 1) -> bytes:
    size = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + text.encode() + np.array([3, 0, 2, 4], "<i8").tobytes()


@pytest.mark.parametrize("name", HEADERS)
def test_headers_of_anything_else_are_refused(tmp_path: Path, name: str) -> None:
    path = token_stream(tmp_path, DOCUMENTS)
    (tmp_path / "doc_lengths.npy").write_bytes(_with_header(HEADERS[name]))
    with pytest.raises(FormatError, match=r"doc_lengths\.npy: (header at byte 10|size)"):
        minimind.open_reader(path)


def test_headers_of_other_writers_are_read(tmp_path: Path) -> None:
    path = token_stream(tmp_path, DOCUMENTS)
    for version in (1, 2, 3):
        for text in (
            "{'shape': (4,), 'fortran_order': True, 'descr': '<i8'}",
            "{ 'descr':'<i8','fortran_order':False,'shape':(4) }\n",
        ):
            (tmp_path / "doc_lengths.npy").write_bytes(_with_header(text, version))
            assert _opened(path) == (IDS, ENDS)
    (tmp_path / "doc_lengths.npy").write_bytes(_with_header(HEADERS["floats"], 4))
    with pytest.raises(FormatError, match="version at byte 6: got 4, expected 1, 2 or 3"):
        minimind.open_reader(path)


@pytest.mark.parametrize("count", [1, 9, 10, 99_999, 300_000])
def test_what_is_written_is_what_numpy_saves(tmp_path: Path, count: int) -> None:
    """For more documents than a block holds, too, some of them empty."""
    lengths = np.arange(count) % 3
    lengths[-1] = 2
    ids = np.arange(int(lengths.sum())) % 65536
    target = made_target()
    path = tmp_path / minimind.file_name(target, 0)
    content = made_content(ids, np.cumsum(lengths).tolist(), block=100_000)
    written = minimind.write(path, content, target)
    assert [file.path.name for file in written] == ["tokens.bin", "doc_lengths.npy"]
    assert path.read_bytes() == ids.astype("<u2").tobytes()
    np.save(tmp_path / "expected.npy", lengths.astype("<i8"), allow_pickle=False)
    assert (tmp_path / "doc_lengths.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()
    reader = minimind.open_reader(path)
    assert reader.doc_ends is not None
    assert (reader.doc_ends == np.cumsum(lengths)).all()


def test_one_file_a_folder() -> None:
    minimind.check(made_target(), [])
    with pytest.raises(LimitError, match="shards: got 2 of train, expected 1"):
        minimind.check(made_target(shards=2), [])


def test_a_folder_is_for_find_and_the_lengths_lead_to_the_ids(tmp_path: Path) -> None:
    token_stream(tmp_path, DOCUMENTS)
    assert _opened(tmp_path / "doc_lengths.npy") == (IDS, ENDS)
    with pytest.raises(FormatError, match="got a folder, expected a regular file"):
        minimind.open_reader(tmp_path)


def test_ids_are_of_16_bits(tmp_path: Path) -> None:
    path = token_stream(tmp_path, DOCUMENTS)
    assert minimind.open_reader(path, dtype="uint16").num_tokens == 9
    with pytest.raises(FormatError, match="dtype: got uint16 by the layout, expected uint32"):
        minimind.open_reader(path, dtype="uint32")


def test_a_reader_pickles_and_sees_that_its_lengths_have_changed(tmp_path: Path) -> None:
    reader = minimind.open_reader(token_stream(tmp_path, DOCUMENTS))
    again = pickle.loads(pickle.dumps(reader))
    assert (again.read(0, 9).tolist(), again.doc_ends.tolist()) == (IDS, ENDS)
    np.save(tmp_path / "doc_lengths.npy", np.array([3, 0, 2, 3]), allow_pickle=False)
    with pytest.raises(FormatError, match="got a sum of 8"):
        _ = reader.doc_ends
