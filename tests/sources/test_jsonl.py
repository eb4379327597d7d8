"""JSON lines: one rule for each kind of row, against a naive reader, at every cut."""

import json
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from source_cases import Collected, collect, parse, read_pieces
from tokenriver.sources import jsonl
from tokenriver.types import SourceOptions

OPTIONS = SourceOptions()


def naive(data: bytes, field: str = "text") -> Collected:
    """The rules once more, slowly, with the standard library's parser and no blocks."""
    out = Collected()
    offset = 0
    if data.startswith(b"\xef\xbb\xbf"):
        out.notes["byte-order-mark"] += 1
        data, offset = data[3:], 3
    lines = data.split(b"\n")
    for line in lines if lines[-1] else lines[:-1]:
        fate, text = naive_row(line, field)
        if fate in ("blank", "empty"):
            out.notes[fate] += 1
        elif fate in ("", "lone-surrogate"):
            out.docs.append((out.rows, text))
            out.notes.update([fate] if fate else [])
        else:
            out.bad.append((out.rows, offset, fate))
        out.rows += 1
        offset += len(line) + 1
    return out


def no_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def naive_row(line: bytes, field: str) -> tuple[str, bytes]:
    if not line.strip():
        return "blank", b""
    try:
        row = json.loads(line.decode(), parse_constant=no_constant)
    except UnicodeDecodeError:
        return "invalid-utf8", b""
    except ValueError:
        return "not-json", b""
    if not isinstance(row, dict):
        return "not-an-object", b""
    if field not in row:
        return "field-missing", b""
    if row[field] is None:
        return "null", b""
    if not isinstance(row[field], str):
        return "not-a-string", b""
    lone = any(0xD800 <= ord(c) < 0xE000 for c in row[field])
    text = "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in row[field]).encode()
    return ("lone-surrogate" if lone else "") if text else "empty", text


ROWS = [
    b'{"text":"a"}',
    b'  {"x": [1, {"text": 2}], "text" : "b \\u00e9 \\n"} ',
    '{"text":"\u00e9\U0001f600"}'.encode(),
    b'{"text":"a"}\r',
    b'{"text":"b\\r\\n"}\r',
    b"",
    b"   ",
    b"\t\r",
    b'{"text":""}',
    b'{"text":null}',
    b'{"text":123}',
    b'{"text":["a"]}',
    b'{"text":{"x":1}}',
    b'{"text":true}',
    b'{"content":"a"}',
    b"{}",
    b"[1]",
    b'"text"',
    b"null",
    b"7",
    b'{"text":"caf\xe9"}',
    b'{"text":"\xed\xa0\x80"}',
    b'{"text":"a"',
    b"nonsense",
    b'{"text":"a"} {"text":"b"}',
    b'{"text":"a\tb"}',
    b'{"text":"\\ud83d"}',
    b'{"text":"\\ud83d\\udc4d"}',
    b'{"text":"\\udc4d\\ud83d tail"}',
    b'{"text":"\\\\ud83d"}',
    b'{"text":"\\\\\\uD83D\\ud83d\\uDC4D"}',
    b'{"other":"\\ud83d","text":"fine"}',
    b'{"text":1,"other":"\\ud83d"}',
    b'{"text":"\xef\xbb\xbfmark \\ufeff inside"}',
    b'\xef\xbb\xbf{"text":"a"}',
    b'{"text":"first","text":"last"}',
]


@pytest.mark.parametrize("row", ROWS)
def test_each_kind_of_row_has_its_rule(row: bytes) -> None:
    for data in (row, row + b"\n", b'{"text":"before"}\n' + row + b'\n{"text":"after"}'):
        assert parse(jsonl, data, OPTIONS) == naive(data)


@pytest.mark.parametrize(
    ("row", "fate"),
    [
        (b'{"text":"\\ud83d"}', "\ufffd"),
        (b'{"text":"\\ud83d\\udc4d"}', "\U0001f44d"),
        (b'{"text":"b\\r\\n"}\r', "b\r\n"),
        (b'{"text":"\xef\xbb\xbfa"}', "\ufeffa"),
        (b'\xef\xbb\xbf{"text":"a"}', "a"),
    ],
)
def test_worked_by_hand(row: bytes, fate: str) -> None:
    assert parse(jsonl, row + b"\n", OPTIONS).texts == [fate.encode()]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(ROWS), max_size=12), st.booleans(), st.integers(1, 40), st.integers(1, 200))
def test_any_cut_and_any_block_give_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[bytes], final: bool, block: int, unit: int
) -> None:
    data = b"\n".join(rows) + (b"\n" if final else b"")
    expected = naive(data)
    assert parse(jsonl, data, OPTIONS, block) == expected
    path = tmp_path_factory.mktemp("cut") / "rows.jsonl"
    path.write_bytes(data)
    ranges = jsonl.plan(path, len(data), OPTIONS, unit)
    assert ranges is not None
    assert [*dict(ranges), len(data)] == [0, *dict(ranges).values()]
    assert read_pieces(jsonl, path, ranges, OPTIONS) == expected


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_are_rows_of_some_kind(noise: bytes) -> None:
    data = b'{"text":"before"}\n' + noise + b'\n{"text":"after"}'
    got = parse(jsonl, data, OPTIONS, 9)
    assert got.texts[0] == b"before"
    assert got.texts[-1] == b"after"
    assert got.rows == data.count(b"\n") + 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200)
@given(
    st.lists(st.dictionaries(st.sampled_from(["text", "x", ""]), json_values, max_size=3), max_size=6), st.booleans()
)
def test_json_of_any_shape_agrees_with_the_standard_library(rows: list[dict[str, object]], escaped: bool) -> None:
    data = "\n".join(json.dumps(row, ensure_ascii=escaped) for row in rows).encode("utf-8", "replace")
    assert parse(jsonl, data, OPTIONS) == naive(data)


def test_bad_rows_do_not_take_their_neighbours_along() -> None:
    lines = [b'{"text":"row %d"}' % i for i in range(1000)]
    broken = {3: b"{", 250: b"[]", 251: b'{"text":0}', 500: b"\xff", 700: b"{}", 998: b'{"text":null}', 999: b"x"}
    for number, line in broken.items():
        lines[number] = line
    data = b"\n".join(lines) + b"\n"
    got = parse(jsonl, data, OPTIONS)
    assert len(got.docs) == 993
    assert got.texts == [b"row %d" % i for i in range(1000) if i not in broken]
    assert [record for record, _, _ in got.bad] == sorted(broken)
    assert all(data[offset:].startswith(broken[record]) for record, offset, _ in got.bad)
    assert Counter(reason for _, _, reason in got.bad) == Counter(
        {"not-json": 2, "not-an-object": 1, "not-a-string": 1, "invalid-utf8": 1, "field-missing": 1, "null": 1}
    )


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
def test_a_row_over_the_limit_is_one_bad_row(block: int) -> None:
    options = SourceOptions(max_row_bytes=40)
    fits, over = b'{"text":"' + b"y" * 29 + b'"}', b'{"text":"' + b"z" * 30 + b'"}'
    assert (len(fits), len(over)) == (40, 41)
    data = b"\n".join([b'{"text":"a"}', over, fits, over * 50, b'{"text":"b"}', over])
    got = parse(jsonl, data, options, block)
    assert got.texts == [b"a", b"y" * 29, b"b"]
    assert [(record, reason) for record, _, reason in got.bad] == [(i, "row-too-long") for i in (1, 3, 5)]
    assert [offset for _, offset, _ in got.bad] == [13, 96, len(data) - 41]


def test_a_long_row_among_short_ones(tmp_path: Path) -> None:
    short = [b'{"text":"short %d"}\n' % i for i in range(1000)]
    text = b"word " * (8 << 20)
    data = b"".join([*short, b'{"text":"', text, b'"}\n', *short])
    path = tmp_path / "long.jsonl"
    path.write_bytes(data)
    ranges = jsonl.plan(path, len(data), OPTIONS, 16 << 20)
    assert ranges is not None
    assert len(ranges) == 3
    got = read_pieces(jsonl, path, ranges, OPTIONS)
    assert got.docs[1000] == (1000, text)
    assert got.rows == 2001
    assert not got.bad


def test_memory_does_not_grow_with_the_stream() -> None:
    block = b'{"text":"' + b"some words " * 90 + b'"}\n'
    block *= (1 << 20) // len(block)

    def peak(count: int) -> int:
        tracemalloc.start()
        for _ in jsonl.parse((block for _ in range(count)), OPTIONS, 0, first=True):
            pass
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    assert peak(40) < peak(10) * 1.2 < 24 << 20


def test_a_flood_of_bad_or_blank_rows_is_given_out_in_parts() -> None:
    for line in (b"x\n", b"\n", b'{"text":""}\n'):
        batches = list(jsonl.parse(iter([line * 40_000]), OPTIONS, 0, first=True))
        assert max(batch.rows_read for batch in batches) <= 20_000
        assert collect(batches).rows == 40_000


def test_another_field_and_the_names_that_were_seen(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf{"content":"a","id":1}\nbad\n[1]\n{"id":2,"body":"b"}\n{"cut'
    assert parse(jsonl, data, SourceOptions(text_field="content")).texts == [b"a"]
    assert jsonl.fields(tmp_path, data) == ["body", "content", "id"]


def test_deep_nesting_is_a_bad_row_and_no_crash() -> None:
    for depth in (2_000, 200_000):
        row = b'{"text":"a","x":' + b"[" * depth + b"]" * depth + b"}"
        got = parse(jsonl, row + b'\n{"text":"b"}\n', OPTIONS)
        assert got.texts == [b"b"]
        assert got.bad == [(0, 0, "not-json")]


@pytest.mark.parametrize(
    ("head", "sure"),
    [
        (b'{"text":"a"}\n{"text"', True),
        (b'\xef\xbb\xbf\n  {"text":"a"}\r\n', True),
        (b'{"text":"' + b"a" * 65000, True),
        (b"{}\n", True),
        (b"{\n", False),
        (b"{ braces of some language }\n", False),
        (b'["a"]\n', False),
        (b"", False),
        (b"Once upon a time\n", False),
    ],
)
def test_sniffing_is_sure_of_a_first_object_only(head: bytes, sure: bool) -> None:
    assert jsonl.sniff(head) is sure
