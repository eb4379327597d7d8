"""Raw records of every kind of file: each row in its place, faults among them."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tokenriver import records
from tokenriver.errors import InputError
from tokenriver.inputs import find_inputs
from tokenriver.records import Fault, Records, joined_records, read_records
from tokenriver.types import SourceOptions

ROWS: list[dict[str, Any]] = [{"a": "x", "n": 1}, {"a": "é", "n": 2}, {"a": "", "n": 3}]


def _read(path: Path, options: SourceOptions | None = None) -> list[tuple[int, int | None, object]]:
    """(number, offset, row or fault) of every row."""
    (file,) = find_inputs([path], arrays=True)
    out: list[tuple[int, int | None, object]] = []
    for some in read_records(file, options or SourceOptions()):
        out += [(some.first + i, some.offset_of(i), row) for i, row in enumerate(some.rows)]
    return out


def test_lines(tmp_path: Path) -> None:
    lines = [b'{"a": 1}', b"", b"{", b"[1]", b'{"a": "\\ud800"}', b'{"a": "\xff"}', b'{"b": 2}']
    data = b"\xef\xbb\xbf" + b"\n".join(lines)
    (tmp_path / "a.jsonl").write_bytes(data)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(data))
    expected = [
        {"a": 1},
        Fault("blank"),
        Fault("not-json"),
        Fault("not-an-object", "list"),
        {"a": "\ufffd"},
        Fault("invalid-utf8"),
        {"b": 2},
    ]
    for name in ("a.jsonl", "b.jsonl.gz"):
        found = _read(tmp_path / name)
        assert [row for _, _, row in found] == expected
        assert [number for number, _, _ in found] == list(range(7))
        assert [data[offset:].split(b"\n")[0] for _, offset, _ in found if offset is not None] == lines


def test_a_line_that_is_too_long(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n{"a": "' + b"x" * 3_000_000 + b'"}\n{"b": 2}\n')
    found = _read(tmp_path / "a.jsonl", SourceOptions(max_row_bytes=1_000_000))
    assert [row for _, _, row in found] == [{"a": 1}, Fault("row-too-long"), {"b": 2}]
    assert [number for number, _, _ in found] == [0, 1, 2]


def test_an_array(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([*ROWS, 7], indent=2))
    assert [row for _, _, row in _read(tmp_path / "a.json")] == [*ROWS, Fault("not-an-object", "int")]
    assert _read(tmp_path / "a.json")[2][:2] == (2, None)
    (tmp_path / "b.json").write_text("[1, 2")
    with pytest.raises(InputError, match="got no JSON array"):
        _read(tmp_path / "b.json")
    with pytest.raises(InputError, match="got a JSON array, expected one object a line"):
        find_inputs([tmp_path / "a.json"])


def test_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet", row_group_size=2)
    assert [(number, row) for number, _, row in _read(tmp_path / "a.parquet")] == list(enumerate(ROWS))


def test_plain_text_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(InputError, match="kind: got text, expected records"):
        _read(tmp_path / "a.txt")


@pytest.mark.parametrize("size", [1, 40, 10**6])
def test_rows_joined_are_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Lines of a file alone, and never across one that was too long to be kept."""
    monkeypatch.setattr(records, "LINES", 2)
    lines = [json.dumps({"a": i}) for i in range(9)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, '{"a": "' + "x" * 3_000_000 + '"}', *lines, "{", *lines]))
    (tmp_path / "b.json").write_text(json.dumps(ROWS * 2))
    for path, options in ((tmp_path / "a.jsonl", SourceOptions(max_row_bytes=1000)), (tmp_path / "b.json", None)):
        (file,) = find_inputs([path], arrays=True)
        apart = list(read_records(file, options or SourceOptions()))
        together = list(joined_records(apart, size))
        found = [(some.first + i, some.offset_of(i), row) for some in together for i, row in enumerate(some.rows)]
        assert found == _read(path, options)
        assert all(sum(some.sizes) < size + 100 for some in together)
        if path.suffix == ".json":
            assert together == apart


def test_rows_before_an_error_come_before_it() -> None:
    def some() -> Iterator[Records]:
        yield from (Records(i, [{"a": i}], 9 * i, [9]) for i in range(5))
        raise InputError("cut")

    joined, seen = joined_records(some(), 18), list[object]()
    for _ in range(3):
        seen += next(joined).rows
    assert seen == [{"a": i} for i in range(5)]
    with pytest.raises(InputError, match="cut"):
        next(joined)
