"""Columns of ids that others wrote into Arrow and Parquet files: lists and integers of every type, nulls, none."""

import os
import pickle
import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

from id_tables import LAYOUTS, ids_table
from tokenriver.errors import FormatError
from tokenriver.formats import parquet
from tokenriver.storage import ShardReader

layouts = pytest.mark.parametrize("layout", LAYOUTS)
ROWS = [[1, 2, 3], [], [4], [], [], [5, 6, 7, 8, 9], [10]]
ENDS = [3, 3, 4, 4, 4, 9, 10]
INTEGERS = [pa.uint8(), pa.int8(), pa.uint16(), pa.int16(), pa.uint32(), pa.int32(), pa.uint64(), pa.int64()]


@layouts
@pytest.mark.parametrize("kind", INTEGERS, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_lists_of_every_integer(layout: str, kind: pa.DataType, rows: int, tmp_path: Path) -> None:
    module, write = LAYOUTS[layout]
    texts = pa.array(["a", "bc"] * 4)[:7].dictionary_encode()
    for number, lists in enumerate((pa.list_(kind), pa.large_list(kind))):
        path = tmp_path / f"{number}{module.SUFFIX}"
        write(path, ids_table(ROWS, lists, text=texts), rows)
        assert module.sniff(path)
        reader = module.open_reader(path)
        assert (reader.num_tokens, reader.dtype) == (10, np.dtype(str(kind)))
        assert reader.read(0, 10).tolist() == list(range(1, 11))
        assert reader.read(2, 5).tolist() == [3, 4, 5]
        assert reader.doc_ends.tolist() == ENDS
        assert windows(reader, [8, 0, 3], 2) == [[9, 10], [1, 2], [4, 5]]


def windows(reader: ShardReader, starts: list[int], n: int) -> list[list[int]]:
    data = b"".join(reader.windows(np.array(starts, np.int64), n))
    found: list[list[int]] = np.frombuffer(data, reader.dtype).reshape(-1, n).tolist()
    return found


@layouts
def test_rows_of_one_length(layout: str, tmp_path: Path) -> None:
    module, write = LAYOUTS[layout]
    rows = [[i, i + 1, i + 2] for i in range(20)]
    write(tmp_path / "a", ids_table(rows, pa.list_(pa.int32(), 3), name="tokens"), 7)
    reader = module.open_reader(tmp_path / "a")
    assert reader.read(0, 60).tolist() == [i for row in rows for i in row]
    assert reader.doc_ends.tolist() == list(range(3, 61, 3))


@layouts
def test_one_id_a_row_has_no_documents(layout: str, tmp_path: Path) -> None:
    module, write = LAYOUTS[layout]
    write(tmp_path / "a", pa.table({"ids": pa.array(range(20), pa.uint16())}), 7)
    reader = module.open_reader(tmp_path / "a")
    assert reader.read(0, 20).tolist() == list(range(20))
    assert reader.doc_ends is None


@layouts
@pytest.mark.parametrize("rows", [2, 100])
def test_a_slice_starts_where_it_starts(layout: str, rows: int, tmp_path: Path) -> None:
    module, write = LAYOUTS[layout]
    for number, kind in enumerate((pa.list_(pa.uint16()), pa.large_list(pa.int64()))):
        write(tmp_path / str(number), ids_table([[99, 98], *ROWS, [97]], kind).slice(1, 7), rows)
        reader = module.open_reader(tmp_path / str(number))
        assert reader.read(0, 10).tolist() == list(range(1, 11))
        assert reader.doc_ends.tolist() == ENDS


def _read_all(module: ModuleType, path: Path) -> list[int]:
    reader = module.open_reader(path)
    found: list[int] = reader.read(0, reader.num_tokens).tolist()
    return found


@layouts
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_a_null_is_refused_with_its_row(layout: str, rows: int, tmp_path: Path) -> None:
    module, write = LAYOUTS[layout]
    write(tmp_path / "a", ids_table([*ROWS, None, [1]], pa.list_(pa.uint16())), rows)
    write(tmp_path / "b", ids_table([*ROWS, [1, None]], pa.list_(pa.uint16())), rows)
    for name, words in (("a", "row 7: got null"), ("b", "row 7: got a null among its ids")):
        with pytest.raises(FormatError, match=f"{name}: {words}, expected"):
            _read_all(module, tmp_path / name)
        if module is parquet:  # which decodes late
            with pytest.raises(FormatError, match=f"{name}: {words}, expected"):
                _ = module.open_reader(tmp_path / name).doc_ends


@layouts
def test_names_are_tried_in_their_order(layout: str, tmp_path: Path) -> None:
    module, write = LAYOUTS[layout]
    text = pa.array(["text"] * 7)
    both = ids_table(ROWS, pa.list_(pa.uint16()), tokens=pa.array([[0]] * 7), text=text)
    write(tmp_path / "both", both, 3)
    assert module.open_reader(tmp_path / "both").read(0, 3).tolist() == [1, 2, 3]
    write(tmp_path / "words", ids_table(ROWS, pa.list_(pa.uint16()), name="ids", tokens=pa.array([["a"]] * 7)), 3)
    assert module.open_reader(tmp_path / "words").read(0, 3).tolist() == [1, 2, 3]


NO_IDS = {
    "texts": {"text": ["a", "b"], "id": [1, 2]},
    "counts beside texts": {"text": ["a", "b"], "tokens": [10, 20], "ids": [1, 2]},
    "lists of floats": {"input_ids": [[1.0], [2.0]]},
    "lists of lists": {"input_ids": [[[1]], [[2]]]},
    "structs": {"input_ids": [{"a": 1}]},
    "truths": {"input_ids": [True, False]},
    "dates": {"input_ids": pa.array([1, 2], pa.date32())},
    "another name": {"labels": [[1], [2]]},
}


@layouts
@pytest.mark.parametrize("name", NO_IDS)
def test_other_tables_are_not_of_ids(layout: str, name: str, tmp_path: Path) -> None:
    module, write = LAYOUTS[layout]
    write(tmp_path / f"a{module.SUFFIX}", pa.table(NO_IDS[name]), 100)
    assert not module.sniff(tmp_path / f"a{module.SUFFIX}")
    assert not module.sniff(tmp_path)
    with pytest.raises(FormatError, match=r"columns: got .*, expected one of input_ids, tokens, ids with lists of int"):
        module.open_reader(tmp_path / f"a{module.SUFFIX}")


@layouts
def test_two_columns_of_one_name_are_no_column(layout: str, tmp_path: Path) -> None:
    module, write = LAYOUTS[layout]
    column = pa.array([[1]], pa.list_(pa.uint16()))
    write(tmp_path / "a", pa.Table.from_arrays([column, column], names=["input_ids", "input_ids"]), 100)
    with pytest.raises(FormatError, match="columns: got input_ids"):
        module.open_reader(tmp_path / "a")


@layouts
@pytest.mark.parametrize("rows", [[], [[]], [[], []]])
def test_a_table_without_ids_is_refused(layout: str, rows: list[list[int]], tmp_path: Path) -> None:
    module, write = LAYOUTS[layout]
    write(tmp_path / "a", ids_table(rows, pa.list_(pa.uint16())), 1)
    with pytest.raises(FormatError, match="ids of input_ids: got 0, expected at least 1"):
        module.open_reader(tmp_path / "a")


@layouts
def test_a_dtype_that_is_not_the_columns_is_refused(layout: str, tmp_path: Path) -> None:
    module, write = LAYOUTS[layout]
    write(tmp_path / "a", ids_table(ROWS, pa.list_(pa.int32())), 3)
    assert module.open_reader(tmp_path / "a", dtype="int32").num_tokens == 10
    with pytest.raises(FormatError, match="dtype of input_ids: got int32, expected uint16; leave dtype out"):
        module.open_reader(tmp_path / "a", dtype="uint16")


@layouts
def test_readers_survive_pickling_forking_and_closing(layout: str, tmp_path: Path) -> None:
    module, write = LAYOUTS[layout]
    rows = [[i] * 5 for i in range(1000)]
    write(tmp_path / "a", ids_table(rows, pa.list_(pa.uint16())), 30)
    reader = module.open_reader(tmp_path / "a")
    kept = reader.read(10, 20)
    assert pickle.loads(pickle.dumps(reader)).read(4990, 5000).tolist() == [998] * 5 + [999] * 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside a thread
        child = os.fork()
    if child == 0:
        good = reader.read(0, 5000).tolist() == [i for row in rows for i in row] and len(reader.doc_ends) == 1000
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    reader.close()
    assert kept.tolist() == [2] * 5 + [3] * 5
    assert (len(reader.read(0, 10)), reader.doc_ends) == (0, None)


@layouts
def test_truncated_anywhere_is_a_format_error(layout: str, tmp_path: Path) -> None:
    module, write = LAYOUTS[layout]
    write(tmp_path / "whole", ids_table(ROWS, pa.list_(pa.uint16())), 3)
    data = (tmp_path / "whole").read_bytes()
    for size in [*range(0, len(data), 7), len(data) - 1]:
        (tmp_path / "a").write_bytes(data[:size])
        with pytest.raises(FormatError, match="a: "):
            module.open_reader(tmp_path / "a")
