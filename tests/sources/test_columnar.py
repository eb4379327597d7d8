"""Parquet and Arrow: every type that can hold text, nulls, bad bytes, and columns that are no text."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from source_cases import read_pieces
from tokenriver.errors import InputError
from tokenriver.sources import arrow, parquet
from tokenriver.types import Piece, SourceOptions

OPTIONS = SourceOptions()
TEXTS = ["a", "caf\u00e9 \U0001f600", "", None, "\ufeffmark", "x" * 5000, "end\r\n"]
Write = Callable[[Path, pa.Table, int], None]


def to_parquet(path: Path, table: pa.Table, rows: int) -> None:
    pq.write_table(table, path, row_group_size=rows)


def to_stream(path: Path, table: pa.Table, rows: int) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


def to_file(path: Path, table: pa.Table, rows: int) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


LAYOUTS = [(parquet, to_parquet), (arrow, to_stream), (arrow, to_file)]
layouts = pytest.mark.parametrize(("source", "write"), LAYOUTS, ids=["parquet", "arrow-stream", "arrow-file"])
TYPES = [
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.string_view(),
    pa.binary_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string()),
]


def column(texts: list[str | None], kind: pa.DataType) -> pa.Array:
    plain = pa.array([None if text is None else text.encode() for text in texts], pa.binary())
    return plain.cast(pa.string()).cast(kind) if "binary" not in str(kind) else plain.cast(kind)


@layouts
@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_every_type_that_holds_text(
    source: ModuleType, write: Write, kind: pa.DataType, rows: int, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    write(path, pa.table({"id": list(range(14)), "text": column(TEXTS * 2, kind), "z": [None] * 14}), rows)
    for unit in (1, 6000, 1 << 30):
        got = read_pieces(source, path, source.plan(path, path.stat().st_size, OPTIONS, unit), OPTIONS)
        assert got.docs == [(i, text.encode()) for i, text in enumerate(TEXTS * 2) if text]
        assert got.bad == [(3, -1, "null"), (10, -1, "null")]
        assert got.notes == {"empty": 2}
        assert got.rows == 14


@layouts
def test_a_sliced_column_starts_where_it_starts(source: ModuleType, write: Write, tmp_path: Path) -> None:
    table = pa.table({"text": ["out", *TEXTS, "out"]}).slice(1, len(TEXTS))
    write(tmp_path / "a", table, 2)
    assert read_pieces(source, tmp_path / "a", [(0, 4)], OPTIONS).texts == [t.encode() for t in TEXTS if t]


@layouts
def test_bytes_that_are_no_utf8_are_bad_rows(source: ModuleType, write: Write, tmp_path: Path) -> None:
    # the third and fourth are valid only end to end
    rows = [b"good", b"caf\xe9", b"caf\xc3", b"\xa9 au lait", "caf\u00e9".encode(), b"\xed\xa0\x80"]
    write(tmp_path / "a", pa.table({"text": pa.array(rows, pa.binary())}), 100)
    got = read_pieces(source, tmp_path / "a", [(0, 1)], OPTIONS)
    assert got.texts == [b"good", "caf\u00e9".encode()]
    assert got.bad == [(i, -1, "invalid-utf8") for i in (1, 2, 3, 5)]


@layouts
def test_a_text_over_the_limit_is_a_bad_row(source: ModuleType, write: Write, tmp_path: Path) -> None:
    write(tmp_path / "a", pa.table({"text": ["12345", "123456", "1"]}), 100)
    got = read_pieces(source, tmp_path / "a", [(0, 1)], SourceOptions(max_row_bytes=5))
    assert got.docs == [(0, b"12345"), (2, b"1")]
    assert got.bad == [(1, -1, "row-too-long")]


@layouts
def test_a_column_of_nothing_is_all_bad_rows(source: ModuleType, write: Write, tmp_path: Path) -> None:
    write(tmp_path / "a", pa.table({"text": pa.nulls(4)}), 2)
    assert read_pieces(source, tmp_path / "a", [(0, 2)], OPTIONS).bad == [(i, -1, "null") for i in range(4)]


@layouts
@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"content": ["a"], "id": [1]}, "no such column; the columns are content, id; .* --text-field"),
        ({"text": [1, 2]}, "got the type int64, expected text"),
        ({"text": [["a"]]}, "got the type list<.*>, expected text"),
        ({"text": [{"x": "a"}]}, "got the type struct<.*>, expected text"),
    ],
)
def test_a_column_that_is_no_text_is_refused(
    source: ModuleType, write: Write, table: dict[str, list[object]], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    write(path, pa.table(table), 100)
    with pytest.raises(InputError, match=f"a: column 'text': .*{message}"):
        source.plan(path, path.stat().st_size, OPTIONS, 1)
    with pytest.raises(InputError, match=message):
        list(source.read(Piece(0, path, 0, 1), OPTIONS))
    assert source.fields(path, b"") == sorted(table)


@layouts
def test_two_columns_of_one_name_are_refused(source: ModuleType, write: Write, tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), 100)
    with pytest.raises(InputError, match="2 columns of that name"):
        source.plan(path, path.stat().st_size, OPTIONS, 1)


@layouts
def test_a_table_without_rows_has_no_documents(source: ModuleType, write: Write, tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, pa.table({"text": pa.array([], pa.string())}), 100)
    got = read_pieces(source, path, source.plan(path, path.stat().st_size, OPTIONS, 1), OPTIONS)
    assert (got.docs, got.rows) == ([], 0)


@layouts
def test_large_texts_come_in_bounded_batches(source: ModuleType, write: Write, tmp_path: Path) -> None:
    texts = [f"{i:04}" * 25_000 for i in range(120)]  # 100 kB each, one row group
    write(tmp_path / "a", pa.table({"text": texts}), 1000)
    batches = list(source.read(Piece(0, tmp_path / "a", 0, 1), OPTIONS))
    assert [text.decode() for batch in batches for text in batch.texts] == texts
    assert max(sum(map(len, batch.texts)) for batch in batches) <= 5 << 20


@layouts
def test_a_cut_anywhere_is_an_input_error(source: ModuleType, write: Write, tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, pa.table({"text": ["one", "two", "three"]}), 1)
    whole = path.read_bytes()
    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=str(path)):
            read_pieces(source, path, source.plan(path, length, OPTIONS, 1), OPTIONS)


@pytest.mark.parametrize("write", [to_stream, to_file])
@pytest.mark.parametrize("offsets", [[0, 9, 3], [0, 3, 7], [5, 6, 7_000_000], [-4, 1, 2], [0, -1, 3], [6, 3, 0]])
def test_offsets_that_leave_the_data_are_refused(write: Write, offsets: list[int], tmp_path: Path) -> None:
    path = tmp_path / "hostile.arrow"
    write(path, pa.table({"text": ["aaa", "bbb"]}), 10)
    good, bad = (np.array(values, "<i4").tobytes() for values in ([0, 3, 6], offsets))
    raw = path.read_bytes()
    assert raw.count(good) == 1
    path.write_bytes(raw.replace(good, bad))
    with pytest.raises(InputError, match=r"hostile\.arrow"):
        read_pieces(arrow, path, [(0, 1)], OPTIONS)


def test_dictionary_indices_that_leave_the_dictionary_are_refused(tmp_path: Path) -> None:
    indices = pa.array([0, 7, 1], pa.int8())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
    path = tmp_path / "hostile.arrow"
    to_stream(path, pa.table({"text": column}), 10)
    with pytest.raises(InputError, match=r"hostile\.arrow"):
        list(arrow.read(Piece(0, path, 0, 1), OPTIONS))


def test_a_null_in_a_dictionary_is_a_null(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), pa.array(["a", None]))
    to_stream(tmp_path / "a", pa.table({"text": column}), 10)
    got = read_pieces(arrow, tmp_path / "a", [(0, 1)], OPTIONS)
    assert got.docs == [(0, b"a"), (3, b"a")]
    assert got.bad == [(1, -1, "null"), (2, -1, "null")]


def test_compressed_arrow_buffers_are_read(tmp_path: Path) -> None:
    table = pa.table({"text": ["words " * 1000] * 20})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(tmp_path / "a", table.schema, options=options) as writer:
        writer.write_table(table)
    assert read_pieces(arrow, tmp_path / "a", [(0, 1)], OPTIONS).texts == [b"words " * 1000] * 20


def test_a_stream_cut_between_two_messages_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "a"
    to_stream(path, pa.table({"text": ["a", "b"]}), 1)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match="no end mark: truncated"):
        arrow.plan(path, path.stat().st_size, OPTIONS, 1)


def test_a_damaged_page_is_found_by_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "a"
    table = pa.table({"text": ["some words to keep " + str(i) for i in range(100)]})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    raw = bytearray(path.read_bytes())
    place = raw.index(b"words to keep 50")
    raw[place] ^= 1
    path.write_bytes(bytes(raw))
    with pytest.raises(InputError, match=str(path)):
        read_pieces(parquet, path, [(0, 1)], OPTIONS)


@pytest.mark.slow
def test_a_column_over_two_gib_streams(tmp_path: Path) -> None:
    schema = pa.schema({"text": pa.string()})
    with pq.ParquetWriter(tmp_path / "a", schema, compression="zstd", use_dictionary=False) as writer:
        texts = pa.array([f"{i:06} " + "words " * 16_000 for i in range(230)])
        column = pa.chunked_array([texts] * 100)
        writer.write_table(pa.table({"text": column}), row_group_size=len(column))
    rows = total = 0
    for batch in parquet.read(Piece(0, tmp_path / "a", 0, 1), OPTIONS):
        rows += len(batch.texts)
        total += sum(map(len, batch.texts))
        assert sum(map(len, batch.texts)) <= 5 << 20
    assert rows == 23_000
    assert total > 1 << 31
