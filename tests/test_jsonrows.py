"""Whole objects of JSON lines, however they are packed; a bad row is named and takes nobody with it."""

import json
from pathlib import Path

import pytest

from source_cases import gz, zst
from tokenriver.errors import InputError
from tokenriver.jsonrows import find_json, read_json

HOSTILE = [
    b'{"a": 1}',
    b"",
    b"  \t\r",
    b'{"a": 2',
    b"[1]",
    b"null",
    b"\xff\xfe",
    b'{"a": "\\ud800x"}\r',
    b'{"a": "' + b"x" * 200 + b'"}',
    b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"a": 3, "a": 4}',
    b'{"a": NaN}',
    b'{"a": 5}',
]


@pytest.mark.parametrize("packed", ["", "gz", "zst"])
def test_every_row_is_an_object_blank_or_named(packed: str, tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + b"\n".join(HOSTILE)
    path = tmp_path / f"a.jsonl{'.' + packed if packed else ''}"
    path.write_bytes(gz(data) if packed == "gz" else zst(data) if packed == "zst" else data)
    found = list(read_json(find_json(path), 100))
    records = [(line, row) for rows in found for line, row in zip(rows.lines, rows.records, strict=True)]
    assert records == [(1, {"a": 1}), (8, {"a": "\ufffdx"}), (11, {"a": 4}), (13, {"a": 5})]
    assert [pair for rows in found for pair in rows.refused] == [
        (4, "not-json"),
        (5, "not-an-object"),
        (6, "not-an-object"),
        (7, "invalid-utf8"),
        (9, "row-too-long"),
        (10, "row-too-long"),
        (12, "not-json"),
    ]
    assert sum(rows.rows_read for rows in found) == len(HOSTILE)
    notes = {name: count for rows in found for name, count in rows.notes.items()}
    assert notes == {"blank": 2, "lone-surrogate": 1, "byte-order-mark": 1}


def test_nesting_without_end_is_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([HOSTILE[0], HOSTILE[9], HOSTILE[12]]))
    (rows,) = read_json(find_json(tmp_path))
    assert (rows.lines, rows.refused) == ([1, 3], [(2, "not-json")])


def test_several_files_in_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({name: i}) + "\n" for i in range(3)))
    found = list(read_json(find_json([tmp_path / "b.jsonl", tmp_path / "a.jsonl"])))
    assert [rows.file.name for rows in found] == ["b.jsonl", "a.jsonl"]
    assert [list(rows.lines) for rows in found] == [[1, 2, 3]] * 2


def test_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(InputError, match=r"a\.txt: kind: got text, expected JSON lines"):
        find_json(tmp_path / "a.txt")
