"""Parquet files of ids: counted by their footers, decoded by row groups, and refused where they lie."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from id_tables import ids_table, to_parquet
from made_contents import made_content, made_target
from tokenriver.errors import FormatError, RiverError
from tokenriver.formats import _id_columns, _parquet_footer, _thrift, parquet
from tokenriver.formats._parquet_footer import Group, Leaf
from tokenriver.storage import ShardReader

ENDS = [0, 10, 10, 100, 250, 600]
LIST = pa.list_(pa.uint16())
ROWS = [list(range(at, at + at % 13)) for at in range(200)]
FLAT = [i for row in ROWS for i in row]


def written(folder: Path) -> Path:
    parquet.write(folder / "a.parquet", made_content(range(600), ENDS, block=7), made_target())
    return folder / "a.parquet"


def outcome(path: Path) -> tuple[list[int], list[int]] | None:
    """(ids, ends) of a file, or None if it is refused."""
    try:
        reader = parquet.open_reader(path)
        ends, ids = reader.doc_ends, reader.read(0, reader.num_tokens)
    except FormatError:
        return None
    assert ends is not None
    return ids.tolist(), ends.tolist()


def test_a_row_is_a_document(tmp_path: Path) -> None:
    table = pq.read_table(written(tmp_path))
    assert table.schema.field("input_ids").type == pa.list_(pa.field("element", pa.uint16()))
    assert table.to_pydict() == {
        "input_ids": [list(range(a, b)) for a, b in zip([0, *ENDS], ENDS, strict=False)],
        "source": ["a.jsonl", "b/c.jsonl"] * 3,
        "record": [0, 10, 20, 30, 40, 50],
    }


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    first = written(tmp_path).read_bytes()
    assert written(tmp_path).read_bytes() == first


def test_row_groups_have_a_bounded_number_of_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_IDS", 50)
    file = pq.ParquetFile(written(tmp_path))
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [3, 1, 1, 1]
    assert outcome(tmp_path / "a.parquet") == (list(range(600)), ENDS)


def tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Footers as others than pyarrow write them."""
    told = _parquet_footer.groups
    monkeypatch.setattr(
        _parquet_footer, "groups", lambda *given: [replace(group, num_ids=None) for group in told(*given)]
    )


def test_opening_decodes_nothing_where_the_footer_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to_parquet(tmp_path / "a", ids_table(ROWS, LIST), 30)

    def refuse(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(_id_columns, "span", refuse)
    assert parquet.open_reader(tmp_path / "a").num_tokens == len(FLAT)
    tell_nothing(monkeypatch)
    with pytest.raises(AssertionError, match="decoded"):
        parquet.open_reader(tmp_path / "a")


@pytest.mark.parametrize("told", [True, False])
def test_a_large_row_group_is_decoded_in_blocks(told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not told:
        tell_nothing(monkeypatch)
    for name, value in (("WHOLE_GROUP_IDS", 100), ("BLOCK_IDS", 37), ("_BATCH_IDS", 10), ("_KEEP_IDS", 1)):
        monkeypatch.setattr(parquet, name, value)
    to_parquet(tmp_path / "a", ids_table(ROWS, LIST), 70)
    reader = parquet.open_reader(tmp_path / "a")
    assert reader.num_tokens == len(FLAT)
    check_reads(reader, [*range(0, len(FLAT) - 20, 20), 500, 36, 37, 38, 1000, 0, 999, len(FLAT) - 20])
    ends = reader.doc_ends
    assert ends is not None
    assert ends.tolist() == np.cumsum(list(map(len, ROWS))).tolist()


def check_reads(reader: ShardReader, starts: list[int]) -> None:
    for start in starts:
        assert reader.read(start, start + 20).tolist() == FLAT[start : start + 20]
    found = b"".join(reader.windows(np.array(starts, np.int64), 20))
    expected = np.concatenate([FLAT[start : start + 20] for start in starts])
    assert np.frombuffer(found, reader.dtype).tolist() == expected.tolist()


def test_a_row_group_of_hostile_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to_parquet(tmp_path / "a", ids_table([[7] * 100_000], LIST), 1)
    assert parquet.open_reader(tmp_path / "a").num_tokens == 100_000
    monkeypatch.setattr(parquet, "WHOLE_GROUP_IDS", 1000)
    monkeypatch.setattr(parquet, "MAX_IDS_PER_BYTE", 10)
    with pytest.raises(FormatError, match=r"row group 0: got 100000 values in \d+ bytes, expected at most 10 a byte"):
        parquet.open_reader(tmp_path / "a")


def test_a_footer_that_counts_wrongly_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to_parquet(tmp_path / "a", ids_table([[1, 2], [3]], LIST), 2)
    for wrong in (2, 4):
        groups = [Group(2, 3, wrong, 100)]
        monkeypatch.setattr(_parquet_footer, "groups", lambda *_, found=groups: found)
        reader = parquet.open_reader(tmp_path / "a")
        with pytest.raises(FormatError, match=f"a: ids of row group 0: got (more|3), expected {wrong} by the footer"):
            reader.read(0, wrong)
        with pytest.raises(FormatError, match=f"a: ids of row group 0: got 3, expected {wrong} by the footer"):
            _ = reader.doc_ends


def test_a_flipped_byte_is_refused_or_harmless(tmp_path: Path) -> None:
    path = written(tmp_path)
    data, expected = path.read_bytes(), outcome(path)
    assert expected is not None
    for at in range(0, len(data), 3):
        damaged = bytearray(data)
        damaged[at] ^= (1, 0xFF)[at % 2]
        path.write_bytes(damaged)
        assert outcome(path) in (None, expected), at


def test_what_is_no_parquet_file_is_not_sniffed(tmp_path: Path) -> None:
    data = written(tmp_path).read_bytes()
    (tmp_path / "a.parquet").unlink()
    wrong = {
        "empty": (b"", "magic at byte 0 of 0: got b''"),
        "magic": (b"PAR1PAR1", "magic at byte 0 of 8"),
        "encrypted": (b"PARE" + data[4:], "magic at byte 0 of .*: got b'PARE'"),
        "no end": (data[:-1], "magic at byte .*; truncated?"),
        "no footer": (data[:-8] + bytes(4) + b"PAR1", "footer length at byte .*: got 0, expected 1 to"),
        "long footer": (data[:-8] + b"\xff\xff\xff\x7f" + b"PAR1", "footer length at byte .*: got 2147483647"),
        "zeros": (b"PAR1" + bytes(20) + b"\x14\0\0\0PAR1", "schema: field 2: got None, expected a list"),
        "noise": (b"PAR1" + b"\xff" * 20 + b"\x14\0\0\0PAR1", "footer at byte 4: got .*, expected Thrift"),
    }
    for name, (content, words) in wrong.items():
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(content)
        assert not parquet.sniff(path)
        with pytest.raises(FormatError, match=f"{name}.parquet: {words}"):
            parquet.open_reader(path)
    assert not parquet.sniff(tmp_path / "absent")
    with pytest.raises(RiverError):
        parquet.open_reader(tmp_path / "absent")


LEAF = Leaf(0, (b"ids", b"list", b"element"), 3, repeated=True)
CHUNK: _thrift.Struct = {3: list(LEAF.path), 5: 10, 7: 50, 9: 4}


def footer(rows: int = 3, writer: bytes = b"parquet-mr", **changes: object) -> _thrift.Struct:
    """A footer of one row group and one column; changes are given as f12={3: 1}."""
    chunk = {**CHUNK, **{int(name[1:]): value for name, value in changes.items()}}
    return {6: writer, 4: [{1: [{3: chunk}], 3: rows}]}


def test_ids_are_counted_by_what_can_be_trusted(tmp_path: Path) -> None:
    def count(given: _thrift.Struct, leaf: Leaf = LEAF) -> int | None:
        return _parquet_footer.groups(tmp_path, given, leaf, 1, 100)[0].num_ids

    assert count(footer()) is None
    assert count(footer(f12={3: 4})) is None  # empty lists may not be among its nulls
    assert count(footer(writer=b"parquet-cpp-arrow version 15.0.0", f12={3: 4})) == 6
    assert count(footer(writer=b"parquet-cpp-arrow version 15.0.0", f12={3: 11})) is None
    assert count(footer(f16={3: [1, 2, 0, 7]})) == 7
    assert count(footer(f16={3: [1, 2, 0, 8]})) is None
    assert count(footer(f16={3: [-1, 4, 0, 7]})) is None
    assert count(footer(f16={3: [3, 7]})) is None
    assert count(footer(10, f3=[b"ids"]), Leaf(0, (b"ids",), 0, repeated=False)) == 10


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "footer: field 4: got None, expected a list"),
        ({4: [{1: [], 3: 3}]}, "row group 0: got 0 columns, expected 1 by the schema"),
        ({4: [{1: [{}], 3: 3}]}, "row group 0: field 3: got None, expected a struct"),
        ({4: [{1: [{3: CHUNK}], 3: b"3"}]}, "row group 0: field 3: got b'3', expected an integer"),
        ({4: [{1: [{1: b"other", 3: CHUNK}], 3: 3}]}, "got a column that is encrypted or lies in another file"),
        ({4: [{1: [{8: {}, 3: CHUNK}], 3: 3}]}, "got a column that is encrypted or lies in another file"),
        (footer(f3=[b"text"]), "row group 0: got the column"),
        (footer(f9=0), "got the bytes 0 to 50, expected them in 100 bytes"),
        (footer(f7=90), "got the bytes 4 to 94, expected them in 100 bytes"),
        (footer(f11=2**62), "got the bytes 4611686018427387904 to"),
        (footer(f7=-1), "got the bytes 4 to 3"),
        (footer(11), "got 10 values in 11 rows, expected at least one a row"),
        (footer(-1), "got 10 values in -1 rows"),
        (footer(f12=3), "field 12: got 3, expected a struct"),
    ],
)
def test_row_groups_that_lie_are_refused(given: _thrift.Struct, words: str) -> None:
    with pytest.raises(FormatError, match=f"a: {words}|a: row group 0: {words}"):
        _parquet_footer.groups(Path("a"), {**given, 6: b"parquet-cpp"}, LEAF, 1, 100)


@pytest.mark.parametrize(
    ("elements", "words"),
    [
        ([], "schema: field 5: got None"),
        ([{4: b"root", 5: 2}, {4: b"a"}], "got 1 elements, expected more by their children"),
        ([{4: b"root", 5: 1}, {4: b"a"}, {4: b"b"}], "got 2 elements, expected fewer by their children"),
        ([{4: b"root", 5: 1}, {4: b"a", 5: 2**31}], "expected more by their children"),
        ([{4: b"root", 5: 1}, {4: 7}], "field 4: got 7, expected a text"),
        ([{4: b"root", 5: 1}, 7], "field 4: got None, expected a text"),
    ],
)
def test_schemas_that_lie_are_refused(elements: list[object], words: str) -> None:
    with pytest.raises(FormatError, match=words):
        _parquet_footer.leaves(Path("a"), {2: elements})


def test_levels_follow_from_the_schema() -> None:
    elements: list[object] = [
        {4: b"root", 5: 3},
        {4: b"a", 3: 0},
        {4: b"ids", 3: 1, 5: 1},
        {4: b"list", 3: 2, 5: 1},
        {4: b"element", 3: 1},
        {4: b"b", 3: 1},
    ]
    assert _parquet_footer.leaves(Path("a"), {2: elements}) == [
        Leaf(0, (b"a",), 0, repeated=False),
        Leaf(1, (b"ids", b"list", b"element"), 3, repeated=True),
        Leaf(2, (b"b",), 1, repeated=False),
    ]


def test_thrift_is_read() -> None:
    fields: list[tuple[bytes, _thrift.Struct]] = [
        (b"\x15\x03", {1: -2}),
        (b"\x18\x02hi", {2: b"hi"}),
        (b"\x19\x25\x02\x04", {3: [1, 2]}),
        (b"\x1c\x11\0", {4: {1: True}}),
        (b"\x12", {5: False}),
        (b"\x1b\x01\x55\x02\x04", {6: None}),
        (b"\x06\xc8\x01\x0d", {100: -7}),
        (b"\x17" + bytes(range(8)), {101: bytes(range(8))}),
        (b"\x13\x09", {102: b"\x09"}),
    ]
    expected: _thrift.Struct = {}
    for _, field in fields:
        expected.update(field)
    assert _thrift.read_struct(b"".join(data for data, _ in fields) + b"\0") == expected


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.binary(max_size=60))
def test_noise_is_a_value_error_or_a_struct(data: bytes) -> None:
    try:
        assert isinstance(_thrift.read_struct(data), dict)
    except (ValueError, IndexError):
        return


@pytest.mark.parametrize(
    "data", [b"\x1c" * 100_000, b"\x19\xfc" * 1000, b"\x1b\xff\xff\xff\xff\x0f\xcc", b"\x19\xf5\xff\x7f"]
)
def test_depth_and_counts_of_thrift_are_bounded(data: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        _thrift.read_struct(data)
