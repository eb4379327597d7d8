"""Numbers in and out, tables that cut nothing, and text that no terminal obeys."""

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenriver.commands import _output


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("1_000", 1000), ("1,000", 1000), ("3k", 3000), ("2M", 2_000_000), ("1g", 10**9), ("16MiB", 1 << 24)],
)
def test_count(text: str, number: int) -> None:
    assert _output.count(text) == number


@pytest.mark.parametrize("text", ["", "k", "1.5M", "-3", "0x10", "1 M M", "²"])
def test_count_refuses(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="16MiB"):
        _output.count(text)


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_500, "1 MB"), (1_234_567, "1.23 MB"), (5 * 10**15, "5,000 TB")],
)
def test_size(num_bytes: int, text: str) -> None:
    assert _output.size(num_bytes) == text


@settings(max_examples=200)
@given(st.text())
def test_visible_text_moves_no_cursor(text: str) -> None:
    shown = _output.visible(text)
    assert not any((ord(character) < 32 and character != "\t") or 127 <= ord(character) < 160 for character in shown)


def test_columns_cut_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    _output.columns(["name", "count"], [["a" * 200, 1], ["b", 1_000_000], ["c", ""]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == f"  {'a' * 200}          1"
    assert lines[3] == f"  {'b':<200}  1,000,000"
    assert lines[4] == "  c"
