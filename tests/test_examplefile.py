"""Records of any form and packing, one by one: a row that is none is named and takes nobody with it."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from source_cases import gz, zst
from tokenriver.errors import InputError
from tokenriver.examplefile import Tally, each_record, find_records
from tokenriver.limits import BadRows

HOSTILE = [
    b'{"a": 1}',
    b"",
    b"  \t\r",
    b'{"a": 2',
    b"[1]",
    b"null",
    b"\xff\xfe",
    b'{"a": "\\ud800x"}\r',
    b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"a": 3, "a": 4}',
    b'{"a": NaN}',
    b'{"a": 5}',
]


@pytest.mark.parametrize("packed", ["", "gz", "zst"])
def test_every_row_is_a_record_blank_or_named(packed: str, tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + b"\n".join(HOSTILE)
    path = tmp_path / f"a.jsonl{'.' + packed if packed else ''}"
    path.write_bytes(gz(data) if packed == "gz" else zst(data) if packed == "zst" else data)
    tally, seen = Tally(BadRows()), list[tuple[int, int]]()
    files = find_records(path)
    records = [(line, row) for _, line, row in each_record(files, tally, lambda *at: seen.append(at))]
    assert records == [(1, {"a": 1}), (8, {"a": "\ufffdx"}), (10, {"a": 4}), (12, {"a": 5})]
    assert [(line, reason) for _, line, reason in tally.side] == [
        (4, "not-json"),
        (5, "not-an-object"),
        (6, "not-an-object"),
        (7, "invalid-utf8"),
        (9, "not-json"),
        (11, "not-json"),
    ]
    assert tally.rows == tally.by_file[files[0].name] == len(HOSTILE)
    assert tally.notes["blank"] == 2
    assert seen[-1] == (path.stat().st_size,) * 2


def test_arrays_parquet_and_several_files_in_order(tmp_path: Path) -> None:
    rows = [{"a": i} for i in range(3)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "b.json").write_text(json.dumps(rows))
    pa.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    files = find_records([tmp_path / name for name in ("c.jsonl", "b.json", "a.parquet")])
    found = [(file.name, line, row) for file, line, row in each_record(files, Tally(BadRows()))]
    assert found == [(name, i + 1, {"a": i}) for name in ("c.jsonl", "b.json", "a.parquet") for i in range(3)]


def test_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(InputError, match=r"a\.txt: kind: got text, expected records"):
        find_records(tmp_path / "a.txt")
