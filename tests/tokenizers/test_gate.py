"""The gate stops at the first difference and shows it."""

from dataclasses import replace

import numpy as np
import pytest

from tokenriver.errors import MismatchError
from tokenriver.tokenizers import _encodings, _gate, tiktoken
from toy_tokenizers import pair_ranks, rank_file

GPT2 = tiktoken.load("gpt2")
TEXTS = [b"first", b"the quick brown fox", b"last"]


def test_hostile_texts_are_many_and_short() -> None:
    hostile = _gate.hostile_texts()
    assert 300 <= len(hostile) <= 1000
    assert max(map(len, hostile)) < 2000
    whole = b"".join(hostile)
    for part in (
        b"\x00",
        b"\r\n",
        b"<|endoftext|>",
        "\u200d".encode(),
        "\u0cdc's".encode(),
        "\U0010ffff\U0010fffe".encode(),
    ):
        assert part in whole


def test_self_check_compares_them_all() -> None:
    assert GPT2.self_check() == len(_gate.hostile_texts())


def test_a_wrong_id_is_shown_with_its_text() -> None:
    ids, lengths = GPT2.encode_batch(TEXTS)
    GPT2.check(TEXTS, ids, lengths)
    wrong = ids.copy()
    wrong[3] += 1
    with pytest.raises(MismatchError) as error:
        GPT2.check(TEXTS, wrong, lengths)
    text = str(error.value)
    assert "\n" not in text
    assert "quick brown" in text
    assert str(wrong[1:5].tolist()) in text
    assert str(ids[1:5].tolist()) in text


def test_lengths_that_do_not_fit_are_refused() -> None:
    ids, lengths = GPT2.encode_batch(TEXTS)
    for bad in (lengths[:-1], lengths + 1):
        with pytest.raises(MismatchError, match="lengths with sum"):
            GPT2.check(TEXTS, ids, bad)
    moved = lengths + np.array([1, -1, 0])
    with pytest.raises(MismatchError, match="at id 1 of a text of 5 bytes"):
        GPT2.check(TEXTS, ids, moved)


def test_self_check_finds_a_fast_encoder_with_the_wrong_split() -> None:
    data = rank_file(pair_ranks(1))
    end = {"<|endoftext|>": 256 + 65536}
    gpt2, other = (_encodings.ENCODINGS[name]._replace(specials=end) for name in ("gpt2", "cl100k_base"))
    right = tiktoken._assemble("toy", gpt2, data, "fast")
    assert right.self_check() == len(_gate.hostile_texts())
    wrong = tiktoken._assemble("toy", other, data, "fast")
    with pytest.raises(MismatchError, match="ids differ from the reference encoder's"):
        replace(right, fast=wrong.fast).self_check()
