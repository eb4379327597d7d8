"""MDS sets: which columns are read, how documents become samples, what an index is held to."""

import hashlib
import json
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_mds
from made_contents import made_content, made_target, write_shards
from open_shards import all_ends, all_ids
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.formats import _mds_zstd, mds
from tokenriver.formats._reader import Flat, Pieces

TOKENS = naive_mds.columns(("tokens", "ndarray:uint16", None))


def _shard(folder: Path, table: dict[str, object], samples: list[list[bytes]]) -> Path:
    path = folder / "shard.00000.mds"
    path.write_bytes(naive_mds.shard(table, samples))
    return path


def _ids(path: Path, dtype: str | None = None) -> list[int]:
    return all_ids(mds.open_reader(path, dtype=dtype))


# ---------------------------------------------------------------------------------------------- writing


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.sampled_from([1, 2, 3, 254, 255, 256, 257, 700]), min_size=1, max_size=30),
    block=st.sampled_from([1, 7, 255, 1000, 10**6]),
    dtype=st.sampled_from(["uint16", "int64"]),
)
def test_a_shard_is_what_a_naive_writer_makes(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], block: int, dtype: str
) -> None:
    ids = (np.arange(sum(lengths)) * 7919 % 65536).tolist()
    ends = np.cumsum(lengths).tolist()
    folder = tmp_path_factory.mktemp("mds")
    (written,) = write_shards(mds, folder, [made_content(ids, ends, dtype, block=block)], dtype)
    docs = [ids[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    table = naive_mds.columns(("tokens", f"ndarray:{dtype}", None))
    expected = naive_mds.shard(table, [[naive_mds.array(doc, "H" if dtype == "uint16" else "q")] for doc in docs])
    assert written.path.read_bytes() == expected
    assert (written.num_bytes, written.sha256) == (len(expected), hashlib.sha256(expected).hexdigest())
    rows = [naive_mds.row("shard.00000.mds", table, len(docs), len(expected))]
    index = json.dumps({"shards": rows, "version": 2}, sort_keys=True)
    assert (folder / "index.json").read_text() == index
    reader = mds.open_reader(written.path)
    assert reader.read(0, reader.num_tokens).tolist() == ids
    assert all_ends(reader) == ends


def test_counts_of_a_long_document_take_four_bytes(tmp_path: Path) -> None:
    ids = np.arange(65536 + 5) % 65536
    (written,) = write_shards(mds, tmp_path, [made_content(ids, [65536, 65541])])
    docs = [ids[:65536].tolist(), ids[65536:].tolist()]
    assert written.path.read_bytes() == naive_mds.shard(TOKENS, [[naive_mds.array(doc)] for doc in docs])
    assert _ids(written.path) == ids.tolist()


def test_the_layout_of_bytes_holds_empty_documents(tmp_path: Path) -> None:
    ends = [0, 0, 2, 2, 5, 5, 5]
    (written,) = write_shards(mds, tmp_path, [made_content([7, 8, 9, 1, 2], ends, block=2)], layout="bytes")
    table = naive_mds.columns(("tokens", "bytes", None))
    docs = [[], [], [7, 8], [], [9, 1, 2], [], []]
    assert written.path.read_bytes() == naive_mds.shard(table, [[struct.pack(f"<{len(d)}H", *d)] for d in docs])
    reader = mds.open_reader(written.path, dtype="uint16")
    assert (reader.read(0, 5).tolist(), all_ends(reader)) == ([7, 8, 9, 1, 2], ends)
    with pytest.raises(FormatError, match="got encoding 'bytes', expected a dtype of its ids; say it with dtype"):
        mds.open_reader(written.path)


def test_the_fixed_layout_is_one_run(tmp_path: Path) -> None:
    (written,) = write_shards(mds, tmp_path, [made_content(list(range(12)), [4, 8, 12])], layout="fixed")
    table = naive_mds.columns(("tokens", "ndarray:uint16:4", 8))
    docs = [list(range(at, at + 4)) for at in (0, 4, 8)]
    assert written.path.read_bytes() == naive_mds.shard(table, [[struct.pack("<4H", *doc)] for doc in docs])
    reader = mds.open_reader(written.path)
    assert reader.ids is not None
    assert all_ids(reader) == list(range(12))
    (found,) = mds.find(tmp_path)
    assert (found.dtype, found.num_tokens, found.num_documents) == ("uint16", 12, 3)


def test_the_compressed_layout_decompresses_to_the_usual_one(tmp_path: Path) -> None:
    content = made_content(list(range(3000)), [3, 1000, 3000])
    (written,) = write_shards(mds, tmp_path, [content], layout="zstd")
    assert written.path.name == "shard.00000.mds.zstd"
    raw = zstandard.ZstdDecompressor().decompress(written.path.read_bytes())
    docs = [list(range(3)), list(range(3, 1000)), list(range(1000, 3000))]
    table = {**TOKENS, "compression": "zstd:3"}
    assert raw == naive_mds.shard(table, [[naive_mds.array(doc)] for doc in docs])
    row = json.loads((tmp_path / "index.json").read_text())["shards"][0]
    assert row["raw_data"]["bytes"] == len(raw)
    assert row["zip_data"]["bytes"] == written.num_bytes
    assert mds.sniff(tmp_path)
    assert mds.sniff(written.path)
    assert list(mds.audit(tmp_path)) == []


def test_a_compressed_shard_is_held_only_until_it_has_been_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (written,) = write_shards(mds, tmp_path, [made_content(list(range(3000)), [3, 3000])], layout="zstd")
    decoded = []
    decode = _mds_zstd.decode

    def counted(path: Path) -> np.ndarray:
        decoded.append(path)
        return decode(path)

    monkeypatch.setattr(_mds_zstd, "decode", counted)
    reader = mds.open_reader(written.path)
    for start in range(0, 3000, 500):
        assert reader.read(start, start + 500).tolist() == list(range(start, start + 500))
    assert len(decoded) == 2
    windows = reader.windows(np.array([2990, 0]), 10)
    assert [np.frombuffer(w, "<u2").tolist() for w in windows] == [list(range(2990, 3000)), list(range(10))]
    assert len(decoded) == 3


@pytest.mark.parametrize("layout", mds.LAYOUTS)
def test_the_same_content_gives_the_same_bytes(tmp_path: Path, layout: str) -> None:
    found = []
    for name, block in (("a", 3), ("b", 1000)):
        (tmp_path / name).mkdir()
        contents = [made_content(list(range(40)), [20, 40], block=block)] * 2
        write_shards(mds, tmp_path / name, contents, layout=layout)
        found.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_what_it_cannot_hold_is_refused_with_the_number_and_the_cure() -> None:
    good, empty = made_content([1, 2], [1, 2]), made_content([1, 2, 3], [1, 1, 1, 3])
    for layout in ("", "zstd", "fixed"):
        with pytest.raises(LimitError, match=r"got 2 empty ones in shard 1 of train.*write the layout 'bytes'"):
            mds.check(made_target(layout=layout), [good, empty])
    mds.check(made_target(layout="bytes"), [good, empty])
    longer, pair = made_content([1, 2], [2]), made_content([1, 2, 3, 4], [2, 4])
    for shards in ([good, longer], [good, pair], [pair, good], [longer, made_content([1], [1]), longer]):
        with pytest.raises(LimitError, match=r"got 1 to 2 ids, expected one length for all; give sample_tokens, or"):
            mds.check(made_target(layout="fixed"), shards)
    mds.check(made_target(layout="fixed"), [longer, pair, made_content([1], [1])])
    with pytest.raises(InputError, match="layout: got 'gz', expected one of '', 'fixed', 'bytes', 'zstd'"):
        mds.check(made_target(layout="gz"), [good])


def test_a_shard_above_the_offsets_is_refused() -> None:
    huge = made_content([1], [1])
    object.__setattr__(huge, "num_tokens", 2**31)
    with pytest.raises(LimitError, match=r"got 4294967\d+ bytes, expected at most 4294967295.*fewer than 2147483648"):
        mds.check(made_target(), [huge])


def test_a_shard_above_the_usual_limit_says_the_largest_one() -> None:
    content = made_content([1], [1])
    kind = mds._kind(made_target())
    assert kind.columns(content, 10**8)["size_limit"] == 2**32 - 1
    assert kind.columns(content, 10**7)["size_limit"] == naive_mds.SIZE_LIMIT


# ---------------------------------------------------------------------------------------------- reading


def test_the_ids_among_other_columns_are_found(tmp_path: Path) -> None:
    table = naive_mds.columns(
        ("a", "str", None), ("ids", "ndarray:int32", None), ("n", "int", 8), ("z", "jpeg", None), ("zz", "uint8", 1)
    )
    docs = [[5, 6, 70000], [1], list(range(300))]
    samples = [[b"x" * i, naive_mds.array(doc, "i"), bytes(8), b"picture"[: 3 * i], b"!"] for i, doc in enumerate(docs)]
    path = _shard(tmp_path, table, samples)
    reader = mds.open_reader(path)
    assert reader.dtype == np.dtype("int32")
    assert _ids(path) == [i for doc in docs for i in doc]
    assert all_ends(reader) == [3, 4, 304]
    again = pickle.loads(pickle.dumps(reader))
    assert again.read(2, 5).tolist() == [70000, 1, 0]
    windows = reader.windows(np.array([0, 3, 302]), 2)
    assert np.frombuffer(b"".join(windows), "<i4").tolist() == [5, 6, 1, 0, 298, 299]


def test_a_fixed_column_among_others_is_read(tmp_path: Path) -> None:
    table = naive_mds.columns(("input_ids", "ndarray:uint32:2", 8), ("text", "str", None))
    path = _shard(tmp_path, table, [[struct.pack("<2I", i, 70000 + i), b"t" * i] for i in range(5)])
    assert _ids(path) == [x for i in range(5) for x in (i, 70000 + i)]
    reader = mds.open_reader(path)
    assert reader.ids is None
    assert all_ends(reader) == [2, 4, 6, 8, 10]


def test_bytes_need_a_dtype_that_divides(tmp_path: Path) -> None:
    path = _shard(tmp_path, naive_mds.columns(("ids", "bytes", None)), [[b"\x01\0\x02\0"], [b""], [b"\x03\0"]])
    assert _ids(path, "uint16") == [1, 2, 3]
    assert _ids(path, "uint8") == [1, 0, 2, 0, 3, 0]
    with pytest.raises(FormatError, match=r"sample 2 at byte \d+: got 2, expected a multiple of 4 bytes"):
        mds.open_reader(path, dtype="uint32")


def test_arrays_that_say_their_dtype_must_agree(tmp_path: Path) -> None:
    table = naive_mds.columns(("tokens", "ndarray", None))
    good = [[bytes([16]) + naive_mds.array([1, 2])], [bytes([16]) + naive_mds.array([3])]]
    path = _shard(tmp_path, table, good)
    assert _ids(path) == [1, 2, 3]
    with pytest.raises(FormatError, match="got 16, expected the dtype code 33, one dtype for all"):
        mds.open_reader(path, dtype="int32")
    path = _shard(tmp_path, table, [*good, [bytes([65]) + naive_mds.array([3], "q")]])
    with pytest.raises(FormatError, match=r"sample 2 at byte \d+: got 65, expected the dtype code 16, one dtype"):
        mds.open_reader(path)
    path = _shard(tmp_path, table, [[bytes([34]) + naive_mds.array([3], "i")]])
    with pytest.raises(FormatError, match="got 34, expected the dtype code one of 8, 9, 16"):
        mds.open_reader(path)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (naive_mds.columns(("a", "ndarray:uint16", None), ("b", "bytes", None)), "got 'a', 'b', expected only one, or"),
        (naive_mds.columns(("ids", "bytes", None), ("tokens", "bytes", None)), "got 'ids', 'tokens', expected only"),
        (naive_mds.columns(("tokens", "ndarray:float32", None)), "got encoding 'ndarray:float32' of None bytes"),
        (naive_mds.columns(("tokens", "ndarray:uint16:2,4", 16)), "got encoding 'ndarray:uint16:2,4' of 16 bytes"),
        (naive_mds.columns(("tokens", "ndarray:uint16:8", 17)), "got encoding 'ndarray:uint16:8' of 17 bytes"),
        (naive_mds.columns(("tokens", "ndarray:uint16:0", 0)), "got encoding 'ndarray:uint16:0' of 0 bytes"),
        (naive_mds.columns(("tokens", "ndarray:uint16", 9)), "got encoding 'ndarray:uint16' of 9 bytes"),
        (naive_mds.columns(("tokens", "str", None)), "got encoding 'str'"),
        (naive_mds.columns(("tokens", "pkl", None)), "column 'tokens': got encoding 'pkl', expected one that is data"),
        (naive_mds.columns(("tokens", "bytes", None), ("x", "pkl", None)), "column 'x': got encoding 'pkl'"),
        (naive_mds.columns(("tokens", "bytes", -1)), "column_sizes: got"),
        (naive_mds.columns(("tokens", "bytes", True)), "column_sizes: got"),
        (naive_mds.columns(("t", "bytes", None), ("t", "bytes", None)), "expected names, encodings and sizes"),
        (naive_mds.columns(), "expected only one"),
        (naive_mds.columns(("tokens", "bytes", None), column_sizes=[]), "expected names, encodings and sizes"),
        (naive_mds.columns(("tokens", "bytes", None), column_names=[7]), "expected names, encodings and sizes"),
        (naive_mds.columns(("tokens", "bytes", None), version=3), "version: got 3, expected an integer from 2 to 2"),
        (naive_mds.columns(("tokens", "bytes", None), format="xsv"), "format: got 'xsv', expected 'mds'"),
        (naive_mds.columns(("tokens", "bytes", None), more=1), "expected the keys column_encodings, column_names"),
    ],
)
def test_columns_that_are_no_ids_are_refused(tmp_path: Path, table: dict[str, object], words: str) -> None:
    text = json.dumps(table, sort_keys=True).encode()
    path = tmp_path / "shard.00000.mds"
    path.write_bytes(struct.pack("<2I", 0, 8 + len(text)) + text)
    naive_mds.write_index(tmp_path, [naive_mds.row(path.name, table, 0, path.stat().st_size)])
    for opened in (lambda: mds.open_reader(path, dtype="uint16"), lambda: mds.find(tmp_path)):
        with pytest.raises(FormatError) as caught:
            opened()
        assert words in str(caught.value)


def test_another_dtype_than_the_files_is_refused(tmp_path: Path) -> None:
    path = _shard(tmp_path, TOKENS, [[naive_mds.array([1])]])
    with pytest.raises(FormatError, match="dtype: got 'ndarray:uint16', expected uint32; leave dtype out"):
        mds.open_reader(path, dtype="uint32")


def test_an_empty_shard_opens_and_is_not_in_the_list(tmp_path: Path) -> None:
    naive_mds.write_folder(tmp_path, TOKENS, [[], [[naive_mds.array([1, 2])]], []])
    assert [found.path.name for found in mds.find(tmp_path)] == ["shard.00001.mds"]
    reader = mds.open_reader(tmp_path / "shard.00000.mds")
    assert (reader.num_tokens, reader.read(0, 0).tolist()) == (0, [])
    assert all_ends(reader) == []
    naive_mds.write_folder(tmp_path, TOKENS, [[]])
    with pytest.raises(FormatError, match="got no samples"):
        mds.find(tmp_path)


def test_samples_without_ids_are_documents(tmp_path: Path) -> None:
    path = _shard(tmp_path, naive_mds.columns(("tokens", "bytes", None)), [[b""], [b""]])
    reader = mds.open_reader(path, dtype="uint16")
    assert reader.num_tokens == 0
    assert all_ends(reader) == [0, 0]


def test_one_run_is_mapped_and_others_are_pieces(tmp_path: Path) -> None:
    fixed = _shard(tmp_path, naive_mds.columns(("x", "ndarray:uint16:2", 4)), [[b"abcd"]] * 3)
    assert isinstance(mds.open_reader(fixed)._body, Flat)
    assert isinstance(mds.open_reader(_shard(tmp_path, TOKENS, [[naive_mds.array([1])]]))._body, Pieces)


# ------------------------------------------------------------------------------------------------ index


def test_shards_are_in_the_order_of_the_index(tmp_path: Path) -> None:
    naive_mds.write_folder(tmp_path, TOKENS, [[[naive_mds.array([i])]] for i in range(3)])
    index = json.loads((tmp_path / "index.json").read_text())
    naive_mds.write_index(tmp_path, index["shards"][::-1])
    assert [_ids(found.path) for found in mds.find(tmp_path)] == [[2], [1], [0]]


def test_shards_may_lie_in_folders_below(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    naive_mds.write_folder(tmp_path / "0", TOKENS, [[[naive_mds.array([5])]]])
    row = json.loads((tmp_path / "0" / "index.json").read_text())["shards"][0]
    row["raw_data"]["basename"] = "0/shard.00000.mds"
    naive_mds.write_index(tmp_path, [row])
    assert [_ids(found.path) for found in mds.find(tmp_path)] == [[5]]


def test_a_compressed_shard_that_was_decompressed_is_read_raw(tmp_path: Path) -> None:
    (written,) = write_shards(mds, tmp_path, [made_content([1, 2], [1, 2])], layout="zstd")
    raw = zstandard.ZstdDecompressor().decompress(written.path.read_bytes())
    (tmp_path / "shard.00000.mds").write_bytes(raw)
    assert [found.path.name for found in mds.find(tmp_path)] == ["shard.00000.mds"]
    (tmp_path / "shard.00000.mds").unlink()
    assert [found.path.name for found in mds.find(tmp_path)] == ["shard.00000.mds.zstd"]


def test_other_compressions_are_refused_with_the_cure(tmp_path: Path) -> None:
    table = {**TOKENS, "compression": "br:11"}
    (tmp_path / "shard.00000.mds.br").write_bytes(b"123")
    packed = {"basename": "shard.00000.mds.br", "bytes": 3, "hashes": {}}
    naive_mds.write_index(tmp_path, [naive_mds.row("shard.00000.mds", table, 1, 99, zip_data=packed)])
    with pytest.raises(FormatError, match=r"got 'br:11', expected zstd or none; decompress shard\.00000\.mds\.br to"):
        mds.find(tmp_path)


@pytest.mark.parametrize("name", ["../x.mds", "/etc/passwd", "a/../../b", "./x", "", "a//b", "x\0y"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    naive_mds.write_index(tmp_path, [naive_mds.row(name, TOKENS, 1, 9)])
    with pytest.raises(FormatError, match=r"basename: got .* expected a relative path"):
        mds.find(tmp_path)


def test_no_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    outside = _shard(tmp_path, TOKENS, [[naive_mds.array([1])]])
    os.symlink(outside, tmp_path / "in" / "link.mds")
    os.symlink(tmp_path, tmp_path / "in" / "up")
    size = outside.stat().st_size
    for name in ("link.mds", "up/shard.00000.mds"):
        naive_mds.write_index(tmp_path / "in", [naive_mds.row(name, TOKENS, 1, size)])
        with pytest.raises(FormatError, match="got a link out of the folder"):
            mds.find(tmp_path / "in")
    os.rename(outside, tmp_path / "in" / "sub" / "s.mds")
    os.symlink("sub/s.mds", tmp_path / "in" / "inside.mds")
    naive_mds.write_index(tmp_path / "in", [naive_mds.row("inside.mds", TOKENS, 1, size)])
    assert len(mds.find(tmp_path / "in")) == 1


def test_the_index_is_held_to_the_files(tmp_path: Path) -> None:
    naive_mds.write_folder(tmp_path, TOKENS, [[[naive_mds.array([1])]]])
    path = tmp_path / "shard.00000.mds"
    row = json.loads((tmp_path / "index.json").read_text())["shards"][0]
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(FormatError, match=rf"size: got {size + 1} bytes, expected {size} by index.json"):
        mds.find(tmp_path)
    path.unlink()
    with pytest.raises(FormatError, match=r"got no file 'shard\.00000\.mds' beside it"):
        mds.find(tmp_path)
    path.mkdir()
    with pytest.raises(FormatError, match="got no regular file"):
        mds.find(tmp_path)
    naive_mds.write_index(tmp_path, [row, row])
    path.rmdir()
    path.write_bytes(naive_mds.shard(TOKENS, [[naive_mds.array([1])]]))
    with pytest.raises(FormatError, match=r"got 'shard\.00000\.mds' twice"):
        mds.find(tmp_path)


def test_the_audit_compares_hashes_and_columns(tmp_path: Path) -> None:
    naive_mds.write_folder(tmp_path, TOKENS, [[[naive_mds.array([1])]]])
    path, index = tmp_path / "shard.00000.mds", tmp_path / "index.json"
    row = json.loads(index.read_text())["shards"][0]
    digest = hashlib.sha1(path.read_bytes()).hexdigest()
    row["raw_data"]["hashes"] = {"sha1": digest, "xxh64": "not ours to check"}
    naive_mds.write_index(tmp_path, [row])
    assert list(mds.audit(tmp_path)) == []
    row["raw_data"]["hashes"] = {"sha1": "0" * 40, "sha256": 7}
    naive_mds.write_index(tmp_path, [row])
    found = [str(error) for error in mds.audit(tmp_path)]
    assert f"sha1: got {digest}, expected '{'0' * 40}' by the index" in found[0]
    assert "expected 7 by the index" in found[1]
    row["raw_data"]["hashes"] = {}
    for changed in ({"samples": 2}, {"column_names": ["other"]}, {"size_limit": 5}):
        naive_mds.write_index(tmp_path, [{**row, **changed}])
        (error,) = mds.audit(tmp_path)
        assert "columns: got 1 samples of" in str(error)


def test_sniffing_never_fails(tmp_path: Path) -> None:
    assert not mds.sniff(tmp_path)
    assert not mds.sniff(tmp_path / "absent.mds")
    os.mkfifo(tmp_path / "pipe.mds")
    assert not mds.sniff(tmp_path / "pipe.mds")
    for data in (b"", b"\xff" * 8, b"\0" * 8, b"\xff" * 4096, struct.pack("<2I", 0, 20) + b"{}"):
        (tmp_path / "x.mds").write_bytes(data)
        assert not mds.sniff(tmp_path / "x.mds")
    (tmp_path / "index.json").write_text('{"chunks": []}')
    assert not mds.sniff(tmp_path)
    naive_mds.write_folder(tmp_path, TOKENS, [[[naive_mds.array([1])]]])
    assert mds.sniff(tmp_path)
    assert mds.sniff(tmp_path / "shard.00000.mds")
    assert not mds.sniff(tmp_path / "index.json")
