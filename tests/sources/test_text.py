"""Plain text: bytes are kept, separators are counted from the left, whatever the blocks."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from source_cases import blocks_of, collect, parse, read_pieces
from tokenriver.errors import InputError
from tokenriver.sources import text
from tokenriver.types import SourceOptions

WHOLE = SourceOptions()


def lines(separator: bytes, keep: bool = False) -> SourceOptions:
    return SourceOptions(separator=separator, keep_separator=keep)


def test_a_file_is_one_document_with_all_its_bytes() -> None:
    data = "one\r\n\r\n\ttwo \ufeff\x0b\u2028three\n\n".encode()
    assert parse(text, data, WHOLE).docs == [(0, data)]


@pytest.mark.parametrize("block", [1, 2, 3, 65_536, 1 << 20])
def test_a_character_across_blocks_stays_whole(block: int) -> None:
    data = ("x" * 65_535 + "\U0001f600" + "y" + "\n\n" + "\u00e9").encode()[: None if block > 3 else 40_000]
    data = data if block > 3 else data[:30] + "\U0001f600\u00e9".encode()
    assert parse(text, data, WHOLE, block).texts == [data]


def test_a_leading_mark_is_dropped_and_one_inside_is_kept() -> None:
    mark = b"\xef\xbb\xbf"
    for block in (1, 2, 3, 4, 100):
        got = parse(text, mark + b"a" + mark + b"|" + mark + b"b", lines(b"|"), block)
        assert got.texts == [b"a" + mark, mark + b"b"]
        assert got.notes == {"byte-order-mark": 1}
    assert parse(text, mark, WHOLE).texts == []
    assert parse(text, mark + mark, WHOLE).texts == [mark]


def test_tiny_shakespeare_rule_worked_by_hand() -> None:
    data = b"First:\nline\n\nSecond:\n\n\n\nThird\n"
    kept = parse(text, data, lines(b"\n\n", keep=True))
    assert kept.texts == [b"First:\nline\n\n", b"Second:\n\n", b"\n\n", b"Third\n"]
    assert b"".join(kept.texts) == data
    dropped = parse(text, data, lines(b"\n\n"))
    assert dropped.docs == [(0, b"First:\nline"), (1, b"Second:"), (3, b"Third\n")]
    assert dropped.notes == {"empty": 1}


def test_windows_line_ends_are_text() -> None:
    assert parse(text, b"a\r\nb\r\n", lines(b"\n")).texts == [b"a\r", b"b\r"]
    assert parse(text, b"a\r\nb\r\n", lines(b"\r\n")).texts == [b"a", b"b"]


def naive(data: bytes, separator: bytes, keep: bool) -> list[bytes]:
    pieces = data.split(separator)
    last = pieces.pop()
    return [piece + (separator if keep else b"") for piece in pieces] + ([last] if last else [])


@settings(max_examples=300)
@given(
    st.text("ab\n", max_size=40),
    st.sampled_from([b"\n", b"\n\n", b"\n\n\n", b"ab", b"aba", b"b\nb"]),
    st.booleans(),
    st.integers(1, 12),
    st.integers(1, 30),
)
def test_any_block_and_any_cut_give_the_same_pieces(
    string: str, separator: bytes, keep: bool, block: int, unit: int
) -> None:
    data, options = string.encode(), lines(separator, keep)
    expected = parse(text, data, options)
    assert expected.texts == [piece for piece in naive(data, separator, keep) if piece]
    assert parse(text, data, options, block) == expected
    # units cut from the left, each parsed by itself
    offset, got = 0, collect(iter(()))
    while offset < len(data):
        size = unit
        while size < len(data) - offset and text.cut(data[offset : offset + size], options) == 0:
            size *= 2
        window = data[offset : offset + size]
        cut = text.cut(window, options) if offset + size < len(data) else len(window)
        got.add_piece(text.parse(blocks_of(window[:cut], block), options, offset, first=offset == 0))
        offset += cut
    assert got.docs == expected.docs
    assert got.rows == expected.rows


def test_offsets_of_bad_rows_are_those_of_the_input() -> None:
    data = b"good||caf\xe9||fine||\xff||" + "caf\u00e9".encode()
    for block in (1, 3, 5, 100):
        got = parse(text, data, lines(b"||"), block)
        assert got.texts == [b"good", b"fine", "caf\u00e9".encode()]
        assert got.bad == [(1, 6, "invalid-utf8"), (3, 18, "invalid-utf8")]
    shifted = collect(text.parse(iter([data]), lines(b"||"), 1000, first=False))
    assert shifted.bad == [(1, 1006, "invalid-utf8"), (3, 1018, "invalid-utf8")]


@pytest.mark.parametrize("block", [1, 4, 100])
def test_a_text_over_the_limit_is_one_bad_row(block: int) -> None:
    options = SourceOptions(separator=b"\n\n", max_row_bytes=5)
    got = parse(text, b"12345\n\n123456\n\nab\n\n" + b"z" * 50 + b"\n\nend\n\n1234567", options, block)
    assert got.texts == [b"12345", b"ab", b"end"]
    assert got.bad == [(1, 7, "row-too-long"), (3, 19, "row-too-long"), (5, 76, "row-too-long")]
    whole = parse(text, b"z" * 50, SourceOptions(max_row_bytes=49), block)
    assert whole.bad == [(0, 0, "row-too-long")]


def test_invalid_utf8_deep_in_a_large_text_is_found() -> None:
    good = "\u00e9\U0001f600x".encode() * 400_000
    assert parse(text, good, WHOLE).texts == [good]
    for place in (1 << 20, (1 << 20) + 1, len(good) - 1):
        assert parse(text, good[:place] + b"\xff" + good[place + 1 :], WHOLE).bad == [(0, 0, "invalid-utf8")]
    assert parse(text, b"\x80" * (3 << 20), WHOLE).bad == [(0, 0, "invalid-utf8")]


def test_an_empty_separator_is_refused() -> None:
    with pytest.raises(InputError, match="separator: got an empty one"):
        parse(text, b"abc", lines(b""))


def test_only_a_reader_from_the_start_cuts_a_large_file_with_separators(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"abc\n" * 100)
    assert text.plan(path, 400, lines(b"\n"), 399) is None
    assert text.plan(path, 400, lines(b"\n"), 400) == [(0, 400)]
    assert text.plan(path, 400, WHOLE, 10) == [(0, 400)]
    assert text.cut(path.read_bytes(), WHOLE) == 0
    assert read_pieces(text, path, [(0, 400)], WHOLE).texts == [b"abc\n" * 100]


def test_an_empty_file_is_an_empty_document(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.write_bytes(b"")
    got = read_pieces(text, path, [(0, 0)], WHOLE)
    assert (got.texts, got.rows, got.notes) == ([], 1, {"empty": 1})


def test_text_is_never_guessed(tmp_path: Path) -> None:
    assert not text.sniff(b"Once upon a time")
    assert text.fields(tmp_path, b"Once upon a time") == []
