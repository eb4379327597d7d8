"""Megatron sets: what is written is what Megatron's builder writes, and an index that lies is refused by field."""

import itertools
import pickle
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hand_made_sets import Documents, ends_of, ids_of, megatron_index, megatron_set
from made_contents import made_content, made_target, write_shards
from tokenriver.corpus import open_corpus
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import _megatron_index, megatron
from tokenriver.storage import Content
from tokenriver.types import Int64

# a set that Megatron's own module wrote: documents of sequences, and the whole index
GPT2: Documents = [
    [[40783, 4304, 9018, 11901, 9114], [40269, 43685, 29257]],
    [[1980, 4730, 16695, 21767, 31221, 24075, 13307]],
    [],
    [[8027], [34748], [36917]],
    [[1642, 5712, 22722, 19661, 44619, 25969, 21113, 21642, 33487, 29490, 8686, 37081]],
]
GPT2_INDEX = bytes.fromhex(
    "4d4d49444944580000010000000000000008070000000000000006000000000000000500000003000000070000000100000001000000"
    "010000000c00000000000000000000000a0000000000000010000000000000001e000000000000002000000000000000220000000000"
    "00002400000000000000000000000000000002000000000000000300000000000000030000000000000006000000000000000700000000"
    "000000"
)
# and one with modes
MODES_INDEX = bytes.fromhex(
    "4d4d494449445800000100000000000000080300000000000000030000000000000005000000030000000700000000000000000000000a"
    "000000000000001000000000000000000000000000000002000000000000000300000000000000020201"
)
SMALL: Documents = [[[1, 2, 3]], [], [[4], [], [5, 6]], []]


def _opened(path: Path) -> tuple[list[int], list[int] | None]:
    reader = megatron.open_reader(path)
    ends = reader.doc_ends
    return reader.read(0, reader.num_tokens).tolist(), None if ends is None else ends.tolist()


def test_the_index_written_by_hand_is_megatrons() -> None:
    assert megatron_index(GPT2) == GPT2_INDEX
    assert megatron_index([[[0] * 5, [0] * 3], [[0] * 7]], modes=[2, 2, 1]) == MODES_INDEX


@pytest.mark.parametrize("dtype", megatron.DTYPES)
def test_every_code_is_read(tmp_path: Path, dtype: str) -> None:
    top, low = int(np.iinfo(dtype).max), int(np.iinfo(dtype).min)
    path = megatron_set(tmp_path, [[[0, top], [low]], [[1]]], dtype)
    assert _opened(path) == ([0, top, low, 1], [3, 4])
    assert megatron.open_reader(path, dtype=dtype).dtype == np.dtype(dtype)
    assert megatron.find(path)[0].dtype == dtype


def test_documents_are_runs_of_sequences_and_may_be_empty(tmp_path: Path) -> None:
    cases: list[Documents] = [GPT2, SMALL, [[], [[7]]], [[[]], [[7], []], [[]]]]
    for number, documents in enumerate(cases):
        path = megatron_set(tmp_path, documents, name=f"set{number}")
        assert _opened(path) == (ids_of(documents), ends_of(documents))
        (shard,) = megatron.find(path)
        assert (shard.num_tokens, shard.num_documents) == (len(ids_of(documents)), len(documents))


def test_modes_are_known_by_the_size(tmp_path: Path) -> None:
    path = megatron_set(tmp_path, SMALL, modes=[0, 1, -1, 127])
    assert "passed over: the modes of a multimodal set" in open_corpus(path).assumptions
    assert _opened(path) == (ids_of(SMALL), ends_of(SMALL))
    for modes in ([0], [0] * 3, [0] * 5):
        with pytest.raises(FormatError, match=r"size: got \d+ bytes, expected 122 for 4 sequences and 4 documents"):
            megatron.open_reader(megatron_set(tmp_path, SMALL, modes=modes))


def test_a_set_without_ended_documents_has_ids_alone(tmp_path: Path) -> None:
    path = megatron_set(tmp_path, [[[1, 2], [3]]])
    index = path.with_suffix(".idx")
    data = bytearray(index.read_bytes()[:-8])
    data[26] = 1
    index.write_bytes(data)
    assert _opened(path) == ([1, 2, 3], None)
    assert megatron.find(path)[0].num_documents is None


def test_what_is_no_file_of_a_set_is_named_as_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("x")
    with pytest.raises(FormatError, match=r"notes: index: got no notes\.idx beside it"):
        megatron.open_reader(tmp_path / "notes")
    with pytest.raises(FormatError, match="/dev/zero: got a device"):
        megatron.open_reader(Path("/dev/zero"))
    assert not megatron.sniff(Path("/dev/zero"))
    megatron_set(tmp_path, SMALL, name="notes")
    assert _opened(tmp_path / "notes")[0] == ids_of(SMALL)


@pytest.mark.parametrize("name", ["set", "a.b_text_document", "x.bin.y"])
def test_a_set_is_opened_by_either_file_and_by_its_prefix(tmp_path: Path, name: str) -> None:
    path = megatron_set(tmp_path, SMALL, name=name)
    for given_path in (path, path.with_suffix(".idx"), tmp_path / name):
        assert megatron.sniff(given_path)
        assert _opened(given_path)[0] == ids_of(SMALL)
        (shard,) = megatron.find(given_path)
        assert (shard.path, shard.dtype, shard.num_tokens, shard.num_documents) == (path, "uint16", 6, 4)


def test_a_folder_of_sets(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        megatron_set(tmp_path, [[[ord(name)]]], name=name)
    assert megatron.sniff(tmp_path)
    assert [shard.path.name for shard in megatron.find(tmp_path)] == ["a.bin", "b.bin", "c.bin"]
    (tmp_path / "b.docs").write_bytes(b"x")
    assert [shard.num_documents for shard in megatron.find(tmp_path)] == [1, None, 1]
    (tmp_path / "bb.bin").write_bytes(b"xx")
    with pytest.raises(FormatError, match=r"got bb\.bin without bb\.idx, expected both"):
        megatron.find(tmp_path)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    path = megatron_set(tmp_path, SMALL)
    path.with_suffix(".idx").rename(tmp_path / "kept")
    assert not megatron.sniff(path)
    for call in (megatron.open_reader, megatron.find):
        with pytest.raises(FormatError, match=r"set\.bin: index: got no set\.idx beside it"):
            call(path)
    with pytest.raises(InputError, match=r"other\.bin: cannot open"):
        megatron.open_reader(tmp_path / "other")
    (tmp_path / "empty").mkdir()
    assert not megatron.sniff(tmp_path / "empty")
    with pytest.raises(FormatError, match=r"got no \.bin file"):
        megatron.find(tmp_path / "empty")


def _at(offset: int, kind: str, value: int) -> Callable[[bytearray], None]:
    return lambda data: struct.pack_into(f"<{kind}", data, offset, value)


# of SMALL: 4 sequences of 3, 1, 0 and 2 ids; lengths at 34, offsets at 50, the document array at 82
LIES = {
    "magic": (_at(0, "B", 0), "magic at byte 0"),
    "version": (_at(9, "Q", 2), "version at byte 9: got 2, expected 1"),
    "code": (_at(17, "B", 9), "dtype code at byte 17: got 9, expected one of 1, 2, 3, 4, 5, 8"),
    "code of floats": (_at(17, "B", 6), r"dtype code at byte 17: got 6 \(float64\), expected one of integers"),
    "other code of floats": (_at(17, "B", 7), r"got 7 \(float32\)"),
    "wider ids": (_at(17, "B", 4), r"offset of sequence 1 at byte 58: got 6, expected 12"),
    "too wide": (_at(17, "B", 5), r"set\.bin: size: got 12 bytes, expected a positive multiple of 8 for int64"),
    "no document array": (_at(26, "Q", 0), "document array at byte 26: got 0, expected at least 1"),
    "sequences": (_at(18, "Q", 5), "size: got 122 bytes, expected 134 for 5 sequences"),
    "huge count": (_at(18, "Q", 2**64 - 1), "size: got 122 bytes, expected 221360928884514619454"),
    "huge array": (_at(26, "Q", 2**61), "size: got 122 bytes"),
    "negative length": (_at(38, "i", -1), "length of sequence 1 at byte 38: got -1"),
    "shorter": (_at(34, "i", 2), "offset of sequence 1 at byte 58: got 6, expected 4"),
    "longest": (_at(46, "i", 2**31 - 1), r"set\.bin: size: got 12 bytes, expected 4294967302"),
    "offset": (_at(66, "q", 6), "offset of sequence 2 at byte 66: got 6, expected 8"),
    "first offset": (_at(50, "q", 2), "offset of sequence 0 at byte 50: got 2, expected 0"),
    "negative offset": (_at(58, "q", -6), "got -6, expected 6"),
    "first entry": (_at(82, "q", 1), "entry 0 of the document array at byte 82: got 1, expected 0"),
    "last entry": (_at(114, "q", 5), "entry 4 of the document array at byte 114: got 5, expected 4"),
}


@pytest.mark.parametrize("name", LIES)
def test_an_index_that_lies_is_refused_with_the_field(tmp_path: Path, name: str) -> None:
    path = megatron_set(tmp_path, SMALL)
    index = path.with_suffix(".idx")
    data = bytearray(index.read_bytes())
    lie, words = LIES[name]
    lie(data)
    index.write_bytes(data)
    with pytest.raises(FormatError, match=words):
        megatron.open_reader(path)


@pytest.mark.parametrize(("entry", "value"), [(1, -1), (2, 0), (2, 5), (3, 2**63 - 1)])
def test_a_document_array_that_falls_or_leaves_is_refused(tmp_path: Path, entry: int, value: int) -> None:
    path = megatron_set(tmp_path, [[[1]], [[2]], [[3]], [[4]]])
    index = path.with_suffix(".idx")
    data = bytearray(index.read_bytes())
    struct.pack_into("<q", data, len(data) - 40 + 8 * entry, value)
    index.write_bytes(data)
    reader = megatron.open_reader(path)
    with pytest.raises(FormatError, match=r"entry \d of the document array at byte \d+: got"):
        _ = reader.doc_ends


def test_a_torn_bin_is_refused(tmp_path: Path) -> None:
    path = megatron_set(tmp_path, SMALL)
    data = path.read_bytes()
    for size in (*range(len(data)), len(data) + 1, len(data) + 2):
        path.write_bytes((data + bytes(2))[:size])
        with pytest.raises(FormatError, match=rf"set\.bin: size: got {size} bytes, expected"):
            megatron.open_reader(path)


def test_every_cut_and_every_flip_of_the_index_is_refused_or_harmless(tmp_path: Path) -> None:
    path = megatron_set(tmp_path, SMALL)
    index = path.with_suffix(".idx")
    data = index.read_bytes()
    for size in range(len(data)):
        index.write_bytes(data[:size])
        with pytest.raises(FormatError):
            megatron.open_reader(path)
    for at, flip in itertools.product(range(len(data)), (1, 4, 0x80, 0xFF)):
        index.write_bytes(data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :])
        try:
            ids, ends = _opened(path)
        except FormatError:
            continue
        assert ids == ids_of(SMALL)
        assert ends is not None
        assert sorted(ends) == ends
        assert at >= 82


def test_a_dtype_that_is_not_the_sets_is_refused(tmp_path: Path) -> None:
    path = megatron_set(tmp_path, SMALL)
    with pytest.raises(FormatError, match="dtype: got uint16 by its code at byte 17, expected int32"):
        megatron.open_reader(path, dtype="int32")


@settings(max_examples=60, derandomize=True)
@given(
    st.lists(st.lists(st.lists(st.integers(0, 65535), max_size=4), max_size=3), min_size=1, max_size=12).filter(ids_of)
)
def test_any_documents_are_read(tmp_path_factory: pytest.TempPathFactory, documents: list[list[list[int]]]) -> None:
    path = megatron_set(tmp_path_factory.mktemp("m"), documents)
    assert _opened(path) == (ids_of(documents), ends_of(documents))


def _long_set(folder: Path, lengths: Int64, entries: Int64) -> Path:
    """A set of uint8 ids with these sequences and this document array, by NumPy."""
    path = folder / "long.bin"
    path.write_bytes(bytes(int(lengths.sum())))
    offsets = np.cumsum(lengths) - lengths
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 1, len(lengths), len(entries))
    index = [head, lengths.astype("<i4").tobytes(), offsets.astype("<i8").tobytes(), entries.astype("<i8").tobytes()]
    path.with_suffix(".idx").write_bytes(b"".join(index))
    return path


def test_columns_longer_than_a_block(tmp_path: Path) -> None:
    """More sequences than a block holds, documents that end in each of them and many that end at one."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 4, 700_000)
    inner = np.sort(rng.integers(0, len(lengths) + 1, 300_000))
    entries = np.concatenate([[0], inner[:5], np.full(600_000, inner[5]), inner[6:], [len(lengths)]])
    path = _long_set(tmp_path, lengths, entries)
    reader = megatron.open_reader(path)
    expected = np.concatenate([[0], np.cumsum(lengths)])[entries[1:]]
    assert reader.doc_ends is not None
    assert (reader.doc_ends == expected).all()
    for at in (0, 262_143, 262_144, 699_999):
        index = path.with_suffix(".idx")
        data = bytearray(index.read_bytes())
        where = 34 + 4 * len(lengths) + 8 * at
        struct.pack_into("<q", data, where, 10**9)
        (tmp_path / "bad.idx").write_bytes(data)
        (tmp_path / "bad.bin").write_bytes(path.read_bytes())
        with pytest.raises(FormatError, match=f"offset of sequence {at} at byte {where}: got 1000000000"):
            megatron.open_reader(tmp_path / "bad.bin")


@pytest.mark.parametrize("dtype", megatron.DTYPES)
def test_what_is_written_is_megatrons_set_of_one_sequence_a_document(tmp_path: Path, dtype: str) -> None:
    ids, ends = [5, 6, 7, 8, 9, 10, 11], [0, 3, 3, 4, 7, 7]
    (tmp_path / "hand").mkdir()
    hand = megatron_set(tmp_path / "hand", [[], [ids[0:3]], [], [ids[3:4]], [ids[4:7]], []], dtype)
    for block in (1, 2, 1000):
        content = made_content(ids, ends, dtype, block=block)
        files = megatron.write(tmp_path / "tokens_train.bin", content, made_target(dtype))
        assert [file.path.name for file in files] == ["tokens_train.bin", "tokens_train.idx"]
        assert files[0].path.read_bytes() == hand.read_bytes()
        assert files[1].path.read_bytes() == hand.with_suffix(".idx").read_bytes()
    assert _opened(tmp_path / "tokens_train") == (ids, ends)


def test_shards_are_named_and_found_in_order(tmp_path: Path) -> None:
    write_shards(megatron, tmp_path, [made_content([i, i]) for i in range(12)])
    found = megatron.find(tmp_path)
    assert [shard.path.name for shard in found] == [f"tokens_train_{i:06d}.bin" for i in range(12)]
    assert [megatron.open_reader(shard.path).read(0, 1)[0] for shard in found] == list(range(12))
    assert megatron.file_name(made_target(), 0) == "tokens_train.bin"


def test_a_document_longer_than_a_sequence_can_be_is_refused_before_anything_is_written() -> None:
    def ends(*stops: int) -> Callable[[], Iterator[Int64]]:
        return lambda: iter([np.array(stops, np.int64)])

    longest = 2**31 - 1
    fits = Content(2 * longest, 2, lambda: iter([]), ends(longest, 2 * longest), None)
    megatron.check(made_target(), [fits])
    over = Content(2 * longest, 2, lambda: iter([]), ends(longest + 1, 2 * longest), None)
    with pytest.raises(LimitError, match=r"train shard 1: got 2147483648 ids, expected at most 2147483647"):
        megatron.check(made_target(), [fits, over])


def test_a_reader_pickles_as_the_path_of_its_ids(tmp_path: Path) -> None:
    path = megatron_set(tmp_path, SMALL)
    data = pickle.dumps(megatron.open_reader(tmp_path / "set"))
    assert len(data) < 500
    again = pickle.loads(data)
    assert again.doc_ends.tolist() == ends_of(SMALL)
    assert again.read(0, 6).tolist() == ids_of(SMALL)
    path.with_suffix(".idx").unlink()
    with pytest.raises(FormatError, match="got no"):
        pickle.loads(data)


def test_an_index_that_changes_between_ids_and_documents_is_refused(tmp_path: Path) -> None:
    path = megatron_set(tmp_path, [[[1, 2]], [[3]]])
    for documents in ([[[1]], [[3]]], [[[1, 2]], [[3]], [[4]]]):
        megatron_set(tmp_path, [[[1, 2]], [[3]]])
        reader = megatron.open_reader(path)
        path.with_suffix(".idx").write_bytes(megatron_index(documents))
        with pytest.raises(FormatError, match="the file has changed"):
            _ = reader.doc_ends


def test_index_pieces_are_bounded() -> None:
    count = 600_000
    content = made_content(np.arange(count) % 100, list(range(1, count + 1)), block=1 << 18)
    pieces = list(map(bytes, _megatron_index.index_pieces(_megatron_index.layout_of("uint16", content))))
    assert max(map(len, pieces)) == 8 << 18
    assert sum(map(len, pieces)) == 34 + 12 * count + 8 * (count + 1)
