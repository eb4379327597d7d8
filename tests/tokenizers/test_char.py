"""Characters as ids: nanoGPT's rule as two dicts, unknown characters, the file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hostile_texts
from golden_data import golden
from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.tokenizer import load_tokenizer
from tokenriver.tokenizers import char

ABC = char.make("\nab\u00e9\u4e2d\U0001f600")


@given(hostile_texts.batches)
def test_ids_are_places_in_the_sorted_characters(texts: list[str]) -> None:
    clean = ["".join(texts), *texts]
    letters = sorted(set("".join(clean)))
    stoi = {letter: i for i, letter in enumerate(letters)}
    tokenizer = char.make("".join(letters))
    wanted = [[stoi[letter] for letter in text] for text in clean]
    for given_texts in (clean, [text.encode() for text in clean]):
        ids, lengths = tokenizer.encode_batch(given_texts)
        assert (ids.dtype.name, lengths.dtype.name) == ("uint32", "int64")
        assert ids.tolist() == [i for row in wanted for i in row]
        assert lengths.tolist() == [len(row) for row in wanted]
        assert tokenizer.decode_bytes(ids) == "".join(clean).encode()


@given(st.text(st.sampled_from("\nab\u00e9\u4e2d\U0001f600"), max_size=8), st.characters(exclude_categories=["Cs"]))
def test_a_character_outside_is_named_with_its_place(text: str, letter: str) -> None:
    texts = ["ab", "", text + letter + "a\u00e9", "b"]
    if letter in ABC.letters:
        assert ABC.encode_batch(texts)[1].tolist() == [2, 0, len(text) + 3, 1]
        return
    with pytest.raises(InputError) as error:
        ABC.encode_batch(texts)
    said = str(error.value)
    assert said.startswith(f"text 2: character {len(text)}: got {letter!r} (U+{ord(letter):04X}) in ")
    assert "expected one of the 6 characters" in said


def test_no_text_and_no_character() -> None:
    for texts in ([], [b""], [b"", b""]):
        ids, lengths = ABC.encode_batch(texts)
        assert (ids.tolist(), lengths.tolist()) == ([], [0] * len(texts))
    empty = char.make("")
    assert empty.vocab_size == 0
    with pytest.raises(InputError, match=r"got 'a' \(U\+0061\)"):
        empty.encode("a")
    with pytest.raises(LimitError):
        empty.decode_bytes([0])


def test_text_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(InputError, match="0xff at offset 1, expected UTF-8"):
        ABC.encode_batch([b"a\xff"])


def test_the_file_by_its_path_and_by_its_folder(tmp_path: Path) -> None:
    written = ABC.write_beside(tmp_path)
    assert written.path == tmp_path / "meta.pkl"
    for loaded in (
        load_tokenizer(written.path),
        load_tokenizer(tmp_path),
        load_tokenizer("char", search=[tmp_path / "none", tmp_path]),
    ):
        assert (loaded.name, loaded.vocab_size, loaded.fingerprint) == ("char", 6, ABC.fingerprint)
        assert loaded.encode("\u00e9\na").tolist() == [3, 0, 1]
        assert [loaded.bos_id, loaded.eos_id, loaded.pad_id] == [None, None, None]
    assert char.make("ba").fingerprint != char.make("ab").fingerprint
    (tmp_path / "meta.pkl").write_bytes(b"\x80\x04N.")
    with pytest.raises(FormatError, match="NONE"):
        load_tokenizer("char", search=[tmp_path])
    with pytest.raises(InputError, match=r"got 'char' without its vocabulary, looked for .*none.meta\.pkl; give"):
        load_tokenizer("char", search=[tmp_path / "none"])


def test_the_characters_of_nanogpt() -> None:
    tokenizer = load_tokenizer(golden("nanogpt/meta.pkl"))
    assert tokenizer.vocab_size == 65
    assert tokenizer.encode("First Citizen:\n").tolist() == [18, 47, 56, 57, 58, 1, 15, 47, 58, 47, 64, 43, 52, 10, 0]
