"""The native tokenizer is made anew before its memory of words grows without end; nobody sees it in the ids."""

import weakref
from typing import Any, cast

import pytest
from gigatoken.gigatoken_rs import BPETokenizer

from tokenriver.tokenizer import load_tokenizer
from tokenriver.tokenizers import _fast
from tokenriver.tokenizers._bpe import BpeTokenizer

TEXTS = [b"some words", b"and other ones", b"caf\xc3\xa9", b""]


class Made:
    """What stands for a native tokenizer."""


def test_made_at_first_use_and_anew_after_so_much_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fast, "RENEWED_BYTES", 10)
    made: list[weakref.ref[Made]] = []

    def make() -> Made:
        assert all(one() is None for one in made), "the old one is let go of first"
        new = Made()
        made.append(weakref.ref(new))
        return new

    renewed = _fast.Renewed(cast(Any, make))
    assert not made
    sizes = [4, 6, 1, 20, 1, 1]
    counts = []
    for size in sizes:
        renewed(size)
        counts.append(len(made))
    assert counts == [1, 1, 1, 2, 3, 3]


@pytest.mark.parametrize("threads", [False, True])
def test_ids_do_not_tell_of_it(monkeypatch: pytest.MonkeyPatch, threads: bool) -> None:
    expected = [column.tolist() for column in load_tokenizer("gpt2").encode_batch(TEXTS * 5)]
    monkeypatch.setattr(_fast, "RENEWED_BYTES", 20)
    made: list[int] = []
    from_ranks = _fast.from_ranks

    def counted(ranks: bytes, pattern: str, vocab_size: int) -> BPETokenizer:
        made.append(vocab_size)
        return from_ranks(ranks, pattern, vocab_size)

    monkeypatch.setattr(_fast, "from_ranks", counted)
    tokenizer = load_tokenizer("gpt2")
    assert isinstance(tokenizer, BpeTokenizer)
    if threads:
        tokenizer = tokenizer.letting_threads_run()
    ids: list[int] = []
    lengths: list[int] = []
    for _ in range(5):
        some = tokenizer.encode_batch(TEXTS)
        ids += some[0].tolist()
        lengths += some[1].tolist()
    assert [ids, lengths] == expected
    assert len(made) >= 3
