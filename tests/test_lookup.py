"""Documents by their record and by a text, over shards, stretches and documents that are cut anywhere."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenriver as tr
from commands.conftest import write_rows
from tokenriver import lookup
from tokenriver.errors import FormatError, InputError


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("lookup")
    texts = [f"{'ab' * (n % 5)}{n} é<|endoftext|>" for n in range(60)] + ["abc" * 400, "x"]
    write_rows(folder / "one.jsonl", texts[:30])
    (folder / "sub").mkdir()
    write_rows(folder / "sub" / "one.jsonl", texts[30:])
    tr.build([folder / "one.jsonl", folder / "sub"], folder / "corpus", tokenizer="byte", shard_tokens=200)
    return folder / "corpus", texts


@settings(max_examples=25)
@given(
    text=st.sampled_from(["a", "ab1", "7 é", "<|endoftext|>", "\x00", "cabc", "bb", "x", "zz"]),
    stretch=st.sampled_from([1, 7, 64, 1 << 20]),
)
def test_a_text_is_found_wherever_it_lies(built: tuple[Path, list[str]], text: str, stretch: int) -> None:
    corpus = tr.open_corpus(built[0])
    assert len(corpus.shards) > 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "STRETCH_IDS", stretch)
        found = list(lookup.with_text(corpus, text))
    assert found == [i for i, whole in enumerate(built[1]) if text in whole]


@pytest.mark.parametrize("stretch", [1, 1 << 16])
def test_a_record_is_found(built: tuple[Path, list[str]], stretch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "STRETCH_DOCUMENTS", stretch)
    corpus = tr.open_corpus(built[0])
    for number in range(len(built[1])):
        assert lookup.of_record(corpus, *corpus.source(number)) == [number]
    assert lookup.of_record(corpus, "sub/one.jsonl", 5) == [35]
    assert lookup.of_record(corpus, "sub/one.jsonl", 999) == []


def test_what_cannot_be_found(built: tuple[Path, list[str]], tmp_path: Path) -> None:
    corpus = tr.open_corpus(built[0])
    with pytest.raises(InputError, match=r"source 'two\.jsonl': got none of the 2 inputs"):
        lookup.of_record(corpus, "two.jsonl", 0)
    with pytest.raises(InputError, match="text: got an empty one"):
        list(lookup.with_text(corpus, ""))
    tr.convert(built[0], tmp_path / "bare", format="nanogpt")
    (bare,) = [path for path in (tmp_path / "bare").iterdir() if path.suffix == ".bin"]
    moved = bare.rename(tmp_path / bare.name)
    with pytest.raises(FormatError, match="no document bounds"):
        list(lookup.with_text(tr.open_corpus(moved, tokenizer="byte"), "a"))
