"""UTF-8 is checked strictly and in slices; a byte-order mark goes from the very start alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenriver.sources._rows import drop_mark, is_utf8


def decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@settings(max_examples=300)
@given(st.binary(max_size=40) | st.text(max_size=20).map(lambda s: s.encode("utf-8", "surrogatepass")))
def test_utf8_is_what_python_decodes(data: bytes) -> None:
    assert is_utf8(data) is decodes(data)


@pytest.mark.parametrize("shift", range(8))
@pytest.mark.parametrize("char", ["\u00e9", "\u20ac", "\U0001f600"])
def test_a_character_across_two_slices_is_valid(shift: int, char: str) -> None:
    data = b"x" * shift + char.encode() * ((2 << 20) // len(char.encode()))
    assert is_utf8(data)
    assert not is_utf8(data[:-1])


@given(st.lists(st.binary(max_size=4), max_size=6), st.booleans())
def test_a_mark_is_dropped_however_it_is_cut(blocks: list[bytes], marked: bool) -> None:
    data = (b"\xef\xbb\xbf" if marked else b"") + b"".join(blocks)
    for size in (1, 2, 3, 50):
        rest, dropped = drop_mark([data[i : i + size] for i in range(0, len(data), size)])
        assert b"".join(rest) == data.removeprefix(b"\xef\xbb\xbf")
        assert dropped is data.startswith(b"\xef\xbb\xbf")
