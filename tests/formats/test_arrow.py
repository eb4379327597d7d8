"""Arrow files and folders of ids: mapped where they lie, ordered as state.json says, and refused where they lie."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from id_tables import ids_table, to_file, to_stream, to_zstd_stream
from made_contents import made_content, made_target, write_shards
from tokenriver.errors import FormatError, LimitError, RiverError
from tokenriver.formats import _arrow_messages, _id_batches, arrow

ENDS = [0, 10, 10, 100, 250, 600]
LIST = pa.list_(pa.uint16())


def written(folder: Path, ends: list[int] | None = None) -> Path:
    arrow.write(folder / "a.arrow", made_content(range(600), ends or ENDS, block=7), made_target())
    return folder / "a.arrow"


def outcome(path: Path) -> tuple[list[int], list[int]] | None:
    """(ids, ends) of a file, or None if it is refused."""
    try:
        reader = arrow.open_reader(path)
        ends = reader.doc_ends
    except FormatError:
        return None
    assert ends is not None
    return reader.read(0, reader.num_tokens).tolist(), ends.tolist()


def test_a_folder_is_one_of_datasets(tmp_path: Path) -> None:
    contents = [made_content([1, 2, 3], [0, 2, 3]), made_content([4])]
    shards = write_shards(arrow, tmp_path, contents)
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    assert [shard.path.name for shard in shards] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == [*names, "dataset_info.json", "state.json"]
    state = json.loads((tmp_path / "state.json").read_bytes())
    assert state["_data_files"] == [{"filename": name} for name in names]
    assert state["_fingerprint"] == hashlib.sha256("".join(s.sha256 for s in shards).encode()).hexdigest()[:16]
    with pa.memory_map(str(shards[0].path)) as source:
        table = pa.ipc.open_stream(source).read_all()
    assert table.to_pydict() == {
        "input_ids": [[], [1, 2], [3]],
        "source": ["a.jsonl", "b/c.jsonl", "a.jsonl"],
        "record": [0, 10, 20],
    }
    assert table.schema.field("input_ids").type == LIST


def test_what_is_not_known_is_no_column(tmp_path: Path) -> None:
    content = made_content([1, 2, 3])
    bare = type(content)(3, 1, content.ids, content.ends, None)
    arrow.write(tmp_path / "a.arrow", bare, made_target())
    with pa.memory_map(str(tmp_path / "a.arrow")) as source:
        assert pa.ipc.open_stream(source).read_all().to_pydict() == {"input_ids": [[1, 2, 3]]}


@pytest.mark.parametrize("num_ids", [1, 7, 100, 1000])
def test_batches_hold_whole_documents(num_ids: int) -> None:
    ends = [0, 0, 5, 6, 7, 107, 107, 110, 600, 600]
    content = made_content(range(600), ends, block=3)
    found = list(_id_batches.batches(content, made_target(), num_ids))
    table = pa.Table.from_batches(found).to_pydict()
    assert [list(range(a, b)) for a, b in zip([0, *ends], ends, strict=False)] == table["input_ids"]
    assert table["record"] == list(range(0, 100, 10))
    assert all(batch.num_rows == 1 or len(batch.column(0).flatten()) <= num_ids for batch in found)


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    first = written(tmp_path).read_bytes()
    assert written(tmp_path).read_bytes() == first


def test_a_document_too_long_for_a_row_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_id_batches, "MAX_ROW_IDS", 350)
    arrow.check(made_target(), [made_content(range(600), ENDS, block=2)])
    with pytest.raises(LimitError, match="train shard 1: got a document of 351 ids, expected at most 350 in one row"):
        arrow.check(made_target(), [made_content([1]), made_content(range(600), [249, 600])])


@pytest.mark.parametrize("write", [to_stream, to_file])
def test_ids_are_read_where_they_lie(write: Callable[[Path, pa.Table, int], None], tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, ids_table([[i] * 50 for i in range(100)], pa.list_(pa.int32()), text=["x"] * 100), 10)
    reader = arrow.open_reader(path)
    ahead = reader.read(100, 500)
    with path.open("r+b") as file:  # a map shows what is in the file now
        at = path.read_bytes().index(np.full(50, 3, np.int32).tobytes())
        file.seek(at)
        file.write(np.full(50, 77, np.int32).tobytes())
    assert ahead[50:100].tolist() == [77] * 50
    write(path, ids_table([list(range(50))], pa.list_(pa.int32())), 10)
    assert arrow.open_reader(path).ids is not None


STATES: dict[str, tuple[object, str]] = {
    "no object": ([], "state: got list"),
    "no files": ({}, "expected the keys _data_files"),
    "files that are no list": ({"_data_files": "data.arrow"}, "_data_files: got 'data.arrow', expected a list"),
    "an empty list": ({"_data_files": []}, "got no files"),
    "no name": ({"_data_files": [{"file": "a.arrow"}]}, "expected the keys filename"),
    "a number": ({"_data_files": [{"filename": 7}]}, "filename: got 7"),
    "an absolute path": ({"_data_files": [{"filename": "/etc/passwd"}]}, "filename: got '/etc/passwd'"),
    "a path upwards": ({"_data_files": [{"filename": "../a.arrow"}]}, "filename: got '../a.arrow'"),
    "a link out": ({"_data_files": [{"filename": "link.arrow"}]}, "got a link out of the folder"),
    "a folder": ({"_data_files": [{"filename": "folder"}]}, "got no regular file"),
    "a missing file": ({"_data_files": [{"filename": "b.arrow"}]}, "got 'b.arrow', which is not there"),
    "a file twice": ({"_data_files": [{"filename": "a.arrow"}] * 2}, "'a.arrow' twice"),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_that_lies_is_refused(name: str, tmp_path: Path) -> None:
    content, words = STATES[name]
    folder = tmp_path / "set"
    (folder / "folder").mkdir(parents=True)
    written(folder)
    written(tmp_path)
    (folder / "link.arrow").symlink_to(tmp_path / "a.arrow")
    (folder / "state.json").write_text(json.dumps(content))
    assert not arrow.sniff(folder)
    with pytest.raises(FormatError) as caught:
        arrow.find(folder)
    assert words in str(caught.value)


def test_a_state_gives_the_order(tmp_path: Path) -> None:
    for name in ("b.arrow", "stray.arrow", "a.arrow"):
        written(tmp_path).rename(tmp_path / name)
    files = [{"filename": "b.arrow"}, {"filename": "a.arrow"}]
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": files, "_fingerprint": "0"}))
    assert [shard.path.name for shard in arrow.find(tmp_path)] == ["b.arrow", "a.arrow"]
    assert arrow.sniff(tmp_path)
    (tmp_path / "state.json").write_bytes(b"{")
    with pytest.raises(FormatError, match="got what is no JSON"):
        arrow.find(tmp_path)
    (tmp_path / "state.json").unlink()
    assert [shard.path.name for shard in arrow.find(tmp_path)] == ["a.arrow", "b.arrow", "stray.arrow"]


@pytest.mark.parametrize("extra", [b"\0", b"\xff\xff\xff\xff\0\0\0\0", bytes(1000)])
def test_bytes_behind_a_stream_are_refused(extra: bytes, tmp_path: Path) -> None:
    path = written(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data + extra)
    with pytest.raises(FormatError, match=f"{len(data) + len(extra)} bytes of a stream that ends at byte {len(data)}"):
        arrow.open_reader(path)


def test_a_stream_cut_between_two_messages_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:-8])
    with pytest.raises(FormatError, match=f"no end mark at byte {len(data) - 8} of a stream: truncated"):
        arrow.open_reader(path)


@pytest.mark.parametrize("write", [to_stream, to_file])
def test_a_flipped_byte_of_metadata_is_refused_or_harmless(
    write: Callable[[Path, pa.Table, int], None], tmp_path: Path
) -> None:
    rows = [list(range(at, at + 40)) for at in range(1000, 1600, 40)]
    write(tmp_path / "whole", ids_table(rows, LIST), 5)
    data, expected = (tmp_path / "whole").read_bytes(), outcome(tmp_path / "whole")
    bodies = [(data.index(np.array(rows[i], "u2").tobytes()) - 24, 5 * 80 + 24) for i in (0, 5, 10)]
    covered = {at + i for at, size in bodies for i in range(size)}
    places = [at for at in range(8, len(data)) if at not in covered]
    assert len(places) > 500
    for at in places:
        damaged = bytearray(data)
        damaged[at] ^= (1, 0xFF)[at % 2]
        (tmp_path / "a").write_bytes(damaged)
        assert outcome(tmp_path / "a") in (None, expected), at


def test_offsets_that_fall_or_leave_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    data = path.read_bytes()
    at = data.index(np.array([0, *ENDS], "<i4").tobytes())
    for number, value, words in (
        (2, 11, "row 2 of a batch from id 11 to 10"),
        (0, -1, "got .*, expected a sound file"),
        (6, 601, "got .*, expected a sound file"),
        (3, 2**31 - 1, "row 3 of a batch from id 2147483647 to 100"),
    ):
        damaged = bytearray(data)
        damaged[at + 4 * number : at + 4 * number + 4] = value.to_bytes(4, "little", signed=True)
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=words):
            _ = arrow.open_reader(path).doc_ends


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("new", [pa.ipc.new_stream, pa.ipc.new_file])
def test_a_bomb_is_not_decompressed(
    compression: str, new: Callable[..., pa.RecordBatchStreamWriter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"input_ids": pa.array(np.zeros(1 << 20, np.uint16))})
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with new(str(tmp_path / "a"), table.schema, options=options) as writer:
        writer.write_table(table)
    assert arrow.open_reader(tmp_path / "a").num_tokens == 1 << 20
    monkeypatch.setattr(_arrow_messages, "SMALL_BATCH", 1 << 20)
    monkeypatch.setattr(_arrow_messages, "MAX_GROWTH", 100)
    with pytest.raises(FormatError, match=r"a: got 2097152 bytes compressed to \d+, more than 100 to 1"):
        arrow.open_reader(tmp_path / "a")


def test_a_compressed_stream_is_decoded_by_batches(tmp_path: Path) -> None:
    rows = [[i] * 30 for i in range(300)]
    words = pa.array([f"word {i % 7}" for i in range(300)]).dictionary_encode()
    to_zstd_stream(tmp_path / "a", ids_table(rows, LIST, word=words), 11)
    reader = arrow.open_reader(tmp_path / "a")
    flat = [i for row in rows for i in row]
    assert reader.ids is None
    for start in (8970, 0, 4000, 3999, 8000):
        assert reader.read(start, start + 30).tolist() == flat[start : start + 30]


def test_what_is_no_arrow_file_is_not_sniffed(tmp_path: Path) -> None:
    for name, data in (("a", b""), ("b", b"ARROW1"), ("c", b"\xff\xff\xff\xff\x10\0\0\0"), ("d", b"{}")):
        (tmp_path / name).write_bytes(data)
        assert not arrow.sniff(tmp_path / name)
        with pytest.raises(FormatError):
            arrow.open_reader(tmp_path / name)
    assert not arrow.sniff(tmp_path)
    assert not arrow.sniff(tmp_path / "absent")
    with pytest.raises(RiverError):
        arrow.open_reader(tmp_path / "absent")
