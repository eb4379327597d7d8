"""datatrove's .ds files: companions may be missing and may not disagree."""

import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from hand_made_sets import nanotron_file
from made_contents import made_content, made_target, write_shards
from tokenriver.corpus import open_corpus
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import _nanotron_metadata, nanotron
from tokenriver.storage import Target

DOCUMENTS = [[1, 2, 3], [], [4], [5, 65535], []]
IDS, ENDS = [1, 2, 3, 4, 5, 65535], [3, 3, 4, 6, 6]


def _opened(path: Path, dtype: str | None = None) -> tuple[list[int], list[int] | None]:
    reader = nanotron.open_reader(path, dtype=dtype)
    ends = reader.doc_ends
    return reader.read(0, reader.num_tokens).tolist(), None if ends is None else ends.tolist()


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


@pytest.mark.parametrize(("width", "dtype"), [(2, "uint16"), (4, "uint32")])
def test_written_by_hand_is_read(tmp_path: Path, width: int, dtype: str) -> None:
    path = nanotron_file(tmp_path, DOCUMENTS, width)
    for asked in (None, dtype):
        assert _opened(path, asked) == (IDS, ENDS)
    for given in (path, tmp_path):
        assert nanotron.sniff(given)
        (shard,) = nanotron.find(given)
        assert (shard.path, shard.dtype, shard.num_tokens, shard.num_documents) == (path, dtype, 6, 5)


@pytest.mark.parametrize("width", [2, 4])
def test_either_companion_tells_the_width(tmp_path: Path, width: int) -> None:
    path = nanotron_file(tmp_path, DOCUMENTS, width)
    data = _beside(path, ".metadata").read_bytes()
    _beside(path, ".metadata").unlink()
    assert _opened(path) == (IDS, ENDS)
    assert nanotron.find(path)[0].dtype == f"uint{8 * width}"
    _beside(path, ".index").unlink()
    _beside(path, ".metadata").write_bytes(data)
    assert _opened(path) == (IDS, None)
    assert (nanotron.find(path)[0].num_tokens, nanotron.find(path)[0].num_documents) == (6, None)


def test_without_companions_the_width_must_be_given(tmp_path: Path) -> None:
    path = tmp_path / "00000_unshuffled.ds"
    path.write_bytes(struct.pack("<4H", 1, 2, 3, 4))
    assert nanotron.sniff(path)
    assert (nanotron.find(path)[0].dtype, nanotron.find(path)[0].num_tokens) == (None, None)
    with pytest.raises(FormatError, match=r"width of an id: got neither .*\.metadata nor .*\.index.*give dtype"):
        nanotron.open_reader(path)
    assert _opened(path, "uint16") == ([1, 2, 3, 4], None)
    assert _opened(path, "uint32") == ([0x20001, 0x40003], None)
    path.write_bytes(bytes(6))
    with pytest.raises(FormatError, match="size: got 6 bytes, expected a multiple of 4"):
        nanotron.open_reader(path, dtype="uint32")


def test_metadata_of_old_has_no_width(tmp_path: Path) -> None:
    path = nanotron_file(tmp_path, DOCUMENTS, 4)
    _beside(path, ".metadata").write_bytes(b"gpt2\n6\n6.00 T")
    assert _opened(path) == (IDS, ENDS)
    assert nanotron.find(path)[0].dtype == "uint32"
    _beside(path, ".metadata").write_bytes(b"gpt2\n7\n7.00 T")
    with pytest.raises(FormatError, match="size: got 24 bytes, expected 28 by its metadata"):
        nanotron.open_reader(path)


def test_the_width_that_is_written_twice_is_read(tmp_path: Path) -> None:
    path = nanotron_file(tmp_path, DOCUMENTS, 2)
    _beside(path, ".metadata").write_bytes(b"Unknown Tokenizer|2|2\n6\n6.00 T")
    assert _opened(path) == (IDS, ENDS)


def test_empty_files_of_a_folder_are_left_out(tmp_path: Path) -> None:
    nanotron_file(tmp_path, [[7]], name="00000_00000_doc_shuffled.ds")
    empty = nanotron_file(tmp_path, [], name="00000_00001_doc_shuffled.ds")
    nanotron_file(tmp_path, [[8]], name="00001_00000_doc_shuffled.ds")
    (tmp_path / "00001_00001_doc_shuffled.ds").touch()
    found = [shard.path.name for shard in nanotron.find(tmp_path)]
    assert found == ["00000_00000_doc_shuffled.ds", "00001_00000_doc_shuffled.ds"]
    for call in (nanotron.find, nanotron.open_reader):
        with pytest.raises(FormatError, match=r"got .* without ids, expected shards|got 0 bytes, expected ids"):
            call(empty)
    _beside(empty, ".index").write_bytes(bytes(16))
    with pytest.raises(FormatError, match="documents: got 2 in a file without ids"):
        nanotron.find(tmp_path)


def test_a_folder_without_ids_is_refused(tmp_path: Path) -> None:
    assert not nanotron.sniff(tmp_path)
    with pytest.raises(FormatError, match=r"got 0 \.ds files without ids"):
        nanotron.find(tmp_path)
    with pytest.raises(InputError, match=r"none\.ds: cannot open"):
        nanotron.find(tmp_path / "none.ds")


def test_a_document_index_counts_instead(tmp_path: Path) -> None:
    path = nanotron_file(tmp_path, DOCUMENTS)
    path.with_suffix(".docs").write_bytes(b"x")
    assert nanotron.find(path)[0].num_documents is None
    assert nanotron.find(tmp_path)[0].num_documents is None


LIES = {
    "ids missing": ("", bytes(10), r"size: got 10 bytes, expected 12 by its metadata"),
    "ids more": ("", bytes(14), "size: got 14 bytes, expected 12"),
    "last end": (".index", struct.pack("<5Q", 3, 3, 4, 6, 5), "got 12 bytes, expected 10 by the last document"),
    "huge end": (".index", struct.pack("<5Q", 3, 3, 4, 6, 2**64 - 1), "expected 36893488147419103230"),
    "torn index": (".index", struct.pack("<5Q", 3, 3, 4, 6, 6)[:-1], r"\.index: size: got 39 bytes"),
    "no documents": (".index", b"", "got 12 bytes, expected 0 by the last document"),
    "width": (".metadata", b"toy|4\n6\n6", "got 12 bytes, expected 24 by its metadata"),
    "width unknown": (".metadata", b"toy|3\n6\n6", r"line 1: got b'toy\|3', expected a tokenizer"),
    "width and sign": (".metadata", b"toy|+2\n6\n6", "line 1"),
    "count": (".metadata", b"toy|2\n-6\n6", "line 2: got b'-6', expected the number of ids"),
    "huge count": (".metadata", b"toy|2\n" + b"9" * 5000 + b"\n6", "line 2"),
    "one line": (".metadata", b"toy|2", "got 1 lines in 5 bytes, expected 3"),
    "many lines": (".metadata", b"toy|2\n6\n6\n\n\n", "got 6 lines"),
    "endless": (".metadata", b"x" * (1 << 17), "got 1 lines in 131072 bytes, expected 3 in less than 65536"),
    "loss": (".loss", bytes(5), r"\.loss: size: got 5 bytes, expected 6, one an id"),
}


@pytest.mark.parametrize("name", LIES)
def test_what_disagrees_is_refused(tmp_path: Path, name: str) -> None:
    suffix, data, words = LIES[name]
    path = nanotron_file(tmp_path, DOCUMENTS)
    _beside(path, suffix).write_bytes(data)
    with pytest.raises(FormatError, match=words):
        nanotron.open_reader(path)


@pytest.mark.parametrize("ends", [(3, 2, 4, 6, 6), (3, 3, 7, 6, 6), (3, 3, 2**63, 2**64 - 1, 6)])
def test_ends_that_fall_are_refused_when_they_are_asked_for(tmp_path: Path, ends: tuple[int, ...]) -> None:
    path = nanotron_file(tmp_path, DOCUMENTS)
    _beside(path, ".index").write_bytes(struct.pack("<5Q", *ends))
    reader = nanotron.open_reader(path)
    with pytest.raises(FormatError, match=r"\.index: end of document \d"):
        _ = reader.doc_ends


def test_a_loss_mask_is_passed_over(tmp_path: Path) -> None:
    path = nanotron_file(tmp_path, DOCUMENTS)
    _beside(path, ".loss").write_bytes(bytes(6))
    assert f"passed over: the loss mask in {path.name}.loss" in open_corpus(path).assumptions
    assert _opened(path) == (IDS, ENDS)


def test_a_dtype_that_is_not_the_files_is_refused(tmp_path: Path) -> None:
    path = nanotron_file(tmp_path, DOCUMENTS)
    with pytest.raises(FormatError, match="dtype: got uint16 by its companions, expected uint32"):
        nanotron.open_reader(path, dtype="uint32")


@pytest.mark.parametrize("suffix", ["", ".index", ".metadata"])
def test_every_cut_is_refused_or_harmless(tmp_path: Path, suffix: str) -> None:
    path = nanotron_file(tmp_path, DOCUMENTS)
    data = _beside(path, suffix).read_bytes()
    for size in range(len(data)):
        _beside(path, suffix).write_bytes(data[:size])
        try:
            ids, ends = _opened(path)
        except FormatError:
            continue
        assert ids == IDS
        # only an empty document at the end, or a line for people, may go unseen
        assert (suffix, size, ends) == (".index", 32, [3, 3, 4, 6]) or (suffix == ".metadata" and size >= 7)


@pytest.mark.parametrize("dtype", nanotron.DTYPES)
def test_what_is_written_is_datatroves(tmp_path: Path, dtype: str) -> None:
    target, width = made_target(dtype), np.dtype(dtype).itemsize
    path = tmp_path / nanotron.file_name(target, 3)
    assert path.name == "tokens_00003_unshuffled.ds"
    written = nanotron.write(path, made_content(IDS, ENDS, dtype, block=2), target)
    assert [file.path for file in written] == [path, _beside(path, ".index"), _beside(path, ".metadata")]
    assert path.read_bytes() == np.array(IDS, dtype).tobytes()
    assert _beside(path, ".index").read_bytes() == struct.pack("<5Q", *ENDS)
    assert _beside(path, ".metadata").read_bytes() == f"gpt2|{width}\n6\n6.00 T".encode()
    assert _opened(path) == (IDS, ENDS)


def test_counts_for_people() -> None:
    shown = {0: "0.00 T", 47: "47.0 T", 999: "999 T", 1234: "1.23 kT", 9999: "10.0 kT", 999_499: "999 kT"}
    shown |= {999_999: "1.00 MT", 10**9: "1.00 GT", 15_600_000_000_000: "15.6 TT", 2**63 - 1: "9.22 ET"}
    for count, text in shown.items():
        assert _nanotron_metadata.for_people(count) == text


def test_a_name_is_needed_that_a_line_can_hold() -> None:
    def target(tokenizer: str | None, shards: int = 1) -> Target:
        return Target("a", "train", "uint16", shards, tokenizer, None, None, None, ())

    nanotron.check(target(None, 100_000), [])
    assert _nanotron_metadata.text(None, 4, 5) == b"Unknown Tokenizer|4\n5\n5.00 T"
    for name in ("a|b", "a\nb", "\u00e9" * 501):
        with pytest.raises(LimitError, match="tokenizer: got"):
            nanotron.check(target(name), [])
    with pytest.raises(LimitError, match="shards: got 100001 of train, expected at most 100000"):
        nanotron.check(target("gpt2", 100_001), [])


def test_shards_are_found_in_order_and_pickle(tmp_path: Path) -> None:
    write_shards(nanotron, tmp_path, [made_content([i, i]) for i in range(12)])
    found = nanotron.find(tmp_path)
    assert [nanotron.open_reader(shard.path).read(0, 1)[0] for shard in found] == list(range(12))
    assert [shard.num_documents for shard in found] == [1] * 12
    again = pickle.loads(pickle.dumps(nanotron.open_reader(found[5].path, dtype="uint16")))
    assert (again.read(0, 2).tolist(), again.doc_ends.tolist()) == ([5, 5], [2])
