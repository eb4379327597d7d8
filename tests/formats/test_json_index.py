"""An index file is strict JSON of bounded size."""

from pathlib import Path

import pytest

from tokenriver import rules
from tokenriver.errors import FormatError
from tokenriver.formats import _json_index


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "got what is no JSON"),
        (b"{", "got what is no JSON"),
        (b'{"a": 1, "b": 2, "a": 3}', "the key 'a' appears twice"),
        (b"[NaN]", "NaN is no JSON"),
        (b"[-Infinity]", "-Infinity is no JSON"),
        (b"[" * 100_000, "recursion"),
        (b"1" * 5000, "got what is no JSON"),
        (b'"\xff"', "got what is no JSON"),
        (b"\xef\xbb\xbf{}", "got what is no JSON"),
    ],
)
def test_what_is_no_strict_json_is_refused(tmp_path: Path, text: bytes, words: str) -> None:
    path = tmp_path / "index.json"
    path.write_bytes(text)
    with pytest.raises(FormatError) as caught:
        _json_index.read_index(path)
    assert words in str(caught.value)


def test_a_huge_index_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "index.json"
    with path.open("wb") as file:
        file.truncate(_json_index.MAX_BYTES + 1)
    with pytest.raises(FormatError, match="size: got 268435457 bytes, expected at most 268435456 of an index"):
        _json_index.read_index(path)


def test_more_keys_than_the_known_ones_are_passed_over() -> None:
    table = {"a": rules.COUNT}
    assert _json_index.known_keys(Path("x"), "row", {"a": 1, "b": 2}, table) == {"a": 1}
    with pytest.raises(FormatError, match=r"row: got \[\], expected the keys a"):
        _json_index.known_keys(Path("x"), "row", {"b": 2}, table)
    with pytest.raises(FormatError, match="row: got list, expected the keys a"):
        _json_index.known_keys(Path("x"), "row", [], table)
