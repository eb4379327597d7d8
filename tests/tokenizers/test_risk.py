"""Risky characters: the set is what it says, and every difference between the encoders lies in it."""

import unicodedata

import numpy as np
import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenriver.tokenizers import _encodings, _fast, _risk
from toy_tokenizers import pair_ranks, rank_file

POINTS = [p for p in range(0x80, 0x110000) if not 0xD800 <= p < 0xE000]
RISKY = _risk.tables().points
SAFE = [p for p in (*range(0x80), *POINTS) if not RISKY[p]]
# every split pattern reads one of these otherwise if it takes the character for another class
CONTEXTS = (
    "{0}'s 1{0}2 a{0}B!{0}\n",
    " {0}{0}\n\n{0}  {0} x",
    "\u0301{0}\u0301.{0}/\n'{0} it'{0}t",
    "\n{0}\n A{0}b{0}C 123{0}4",
    "\u00e9{0}\u4e2d{0}  {0}  x{0} ",
)


AFTER_A_LETTER = bytes(byte for byte in range(128) if not chr(byte).isalpha() and byte != ord("'"))


def test_the_set_is_what_unicode_14_leaves_unassigned() -> None:
    unassigned = np.array([unicodedata.category(chr(p)) == "Cn" for p in range(0x110000)])
    assert not (unassigned & ~RISKY).any()
    if unicodedata.unidata_version == "14.0.0":
        assert (unassigned == RISKY).all()
    assert RISKY[[0xFFFE, 0x10FFFE, 0x10FFFF, 0x1FAE8, 0x0CDC]].all()
    assert not RISKY[:0x80].any()


def test_find_finds_each_of_them_and_nothing_else() -> None:
    sizes = np.array([2 if p < 0x800 else 3 if p < 0x10000 else 4 for p in POINTS])
    offsets = np.cumsum(sizes) - sizes
    wanted = offsets[RISKY[POINTS]]
    blob = "".join(map(chr, POINTS)).encode()
    assert np.array_equal(_risk.find(blob), wanted)
    assert np.array_equal(_risk.find(b"a" + blob), wanted + 1)
    assert _risk.find(b"").tolist() == []


def test_find_at_the_end_and_across_stretches() -> None:
    young = "\u0cdc".encode()
    for lead in range(_risk._STRETCH - 4, _risk._STRETCH + 2):
        assert _risk.find(b"a" * lead + young).tolist() == [lead]
        assert _risk.find(b"a" * lead + "\u0c9c".encode()).tolist() == []


@given(
    st.lists(
        st.sampled_from(
            ["a", "b ", " ", "  ", "1", ".", "\n", "'", "\u00e9", "\u00e9 ", "\u0cdc", "\u0cdc " * 3, "word " * 40]
        )
    )
)
@settings(max_examples=300)
def test_windows_hold_every_risky_character_and_end_at_cuts(parts: list[str]) -> None:
    text = "".join(parts).encode()
    spots = _risk.find(text).tolist()
    windows = _risk.windows(text, spots)
    inside = [any(start <= spot < stop for start, stop in windows) for spot in spots]
    assert all(inside)
    edges = [edge for window in windows for edge in window]
    assert edges == sorted(set(edges))
    for edge in edges:
        assert edge in (0, len(text)) or (text[edge - 1 : edge].isalpha() and text[edge : edge + 1] in AFTER_A_LETTER)


def test_windows_are_small_in_ordinary_text_and_linear_in_hostile_text() -> None:
    text = b"plain words here " * 1000 + "\u0cdc's".encode() + b" and more" * 1000
    (window,) = _risk.windows(text, _risk.find(text).tolist())
    assert window[1] - window[0] < 40
    rows = f"xn--4db;{' ;' * 30}c.0.\u0cdc; # \u0cdc\n".encode() * 1000 + b"a\n"
    sizes = [stop - start for start, stop in _risk.windows(rows, _risk.find(rows).tolist())]
    assert len(sizes) == 1000
    assert max(sizes) < 40
    hostile = "\u0cdc 1 ".encode() * 50_000
    assert _risk.windows(hostile, _risk.find(hostile).tolist()) == [(0, len(hostile))]


@pytest.mark.parametrize("pattern", [_encodings.GPT2, _encodings.CL100K, _encodings.O200K], ids=lambda p: p.fast)
def test_every_pattern_has_a_boundary_at_every_cut(pattern: _encodings.Pattern) -> None:
    ranks = pair_ranks(3)
    encode = tiktoken.Encoding(
        "pairs", pat_str=pattern.expression, mergeable_ranks=ranks, special_tokens={}
    ).encode_ordinary
    before = ("a", " A", "it's", "IT'D", "1b", "\u00e9z", "\n\na", "_a", "''ll", "\u0301x")
    after = ("", "a", "1", " ", "  x", "\n\n a", "'s", "\u0301", "\u0cdc", "/\n")
    for mark in AFTER_A_LETTER.decode():
        for left in before:
            for right in (mark + rest for rest in after):
                assert encode(left + right) == encode(left) + encode(right)
    assert not any(match for byte in b"aZ'\x80\xff" if (match := _risk._CUT.match(bytes([0x61, byte]))))


def _differences(pattern: _encodings.Pattern, context: str, seed: int) -> list[str]:
    """Safe characters that the two encoders read differently in a context, by blocks of 32."""
    ranks = pair_ranks(seed)
    fast = _fast.from_ranks(rank_file(ranks), pattern.fast, len(ranks))
    reference = tiktoken.Encoding("pairs", pat_str=pattern.expression, mergeable_ranks=ranks, special_tokens={})
    found = []
    for i in range(0, len(SAFE), 32):
        block = "".join(context.format(chr(p)) for p in SAFE[i : i + 32])
        if fast.encode(block.encode()).tolist() != reference.encode_ordinary(block):
            found.append(f"U+{SAFE[i]:04X}")
    return found


def test_no_safe_character_is_read_differently() -> None:
    assert _differences(_encodings.GPT2, CONTEXTS[0], seed=1) == []


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [_encodings.GPT2, _encodings.CL100K, _encodings.O200K], ids=lambda p: p.fast)
@pytest.mark.parametrize("context", CONTEXTS)
def test_no_safe_character_is_read_differently_in_any_context(pattern: _encodings.Pattern, context: str) -> None:
    assert _differences(pattern, context, seed=2) == []


def test_there_is_something_to_guard_against() -> None:
    ranks = pair_ranks(1)
    fast = _fast.from_ranks(rank_file(ranks), "gpt2", len(ranks))
    reference = tiktoken.Encoding("p", pat_str=_encodings.GPT2.expression, mergeable_ranks=ranks, special_tokens={})
    young = [chr(p) for p in np.flatnonzero(RISKY) if not 0xD800 <= p < 0xE000][:5000]
    assert any(fast.encode(f"{c}'s".encode()).tolist() != reference.encode_ordinary(f"{c}'s") for c in young)
