"""Texts that spell control tokens are counted, each once, and stay text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenriver as tr
from small_builds import write_rows
from tokenriver.engines import _encoding
from toy_tokenizers import added, byte_level, write

_tokens = st.lists(st.text("<|ab>", min_size=1, max_size=4), max_size=14, unique=True)


@given(st.lists(st.text("<|ab> \u00e9", max_size=20), max_size=8), _tokens)
def test_count_is_the_naive_one(texts: list[str], tokens: list[str]) -> None:
    wanted = sum(any(token in text for token in tokens) for text in texts)
    spelled = tuple(token.encode() for token in tokens)
    assert _encoding.count_spelled([text.encode() for text in texts], spelled) == wanted
    long = [text.encode() + b"." * _encoding.LONG for text in texts]
    assert _encoding.count_spelled(long, spelled) == wanted


@given(st.binary(max_size=40), st.binary(min_size=1, max_size=2), st.sampled_from([0, 255, 256 * 5, 256 * 40]))
def test_a_rare_byte_finds_the_head_of_a_token(text: bytes, head: bytes, filling: int) -> None:
    """With filling the search by the rare byte is begun, and goes on to the other search where that byte is common."""
    for whole in (text + b"." * filling, b"." * filling + text, head[-1:] * filling + text, text + head[:1] * filling):
        assert _encoding._holds(whole, head) == (head in whole)


@pytest.mark.usefixtures("quick_disk")
@pytest.mark.parametrize("workers", [None, 1])
def test_a_build_counts_them(tmp_path: Path, workers: int | None) -> None:
    texts = ["a<|endoftext|>b<|endoftext|>", "plain <|endof", "text|>", "<|endoftext|>", "<|im_start|>"]
    rows = write_rows(tmp_path / "rows.jsonl", texts * 30)
    report = tr.build(rows, tmp_path / "gpt2", workers=workers, unit_bytes=1024)
    assert report.balance["notes"] == {"spells-control-token": 60}
    tokens = [added(267, "<|endoftext|>", special=True), added(268, "<|im_start|>", special=True), added(269, "text")]
    path = write(tmp_path, byte_level(added_tokens=tokens))
    report = tr.build(rows, tmp_path / "json", tokenizer=path, workers=workers)
    assert report.balance["notes"] == {"spells-control-token": 90}
    corpus = tr.open_corpus(tmp_path / "gpt2")
    assert [corpus.decode(corpus.document(i)[:-1]) for i in range(5)] == texts
    assert tr.verify(tmp_path / "gpt2", against_inputs=True, inputs_root=tmp_path) == []
