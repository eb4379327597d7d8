"""The gate between the fast encoder and its reference: hostile texts, and the first difference as an error."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from tokenriver.errors import MismatchError
from tokenriver.types import Ids, Int64

_SPACES = (
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    " \n",
    "\n ",
    "\t",
    "\t ",
    "\r\n",
    "\r",
    "\v",
    "\f",
    "\x85",
    "\xa0",
    "\u3000",
)
_WORDS = (
    "a",
    "Z",
    "word",
    "\u00e9",
    "e\u0301",
    "\u4e2d\u6587",
    "7",
    "123456",
    "\u0663",
    "\u00bd",
    "_",
    "...",
    "\u2014",
)
_MARKS = ("\u0301", "\u0300\u0301\u0302", "\u200d", "\ufe0f", "\u20e3", "\u0903", "\u094d", "\u0e33")
_TAILS = ("s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "VE", "M", "LL", "D", "x", "\u017f", " s", "''s", "s's")
_WHOLE = (
    "",
    "\x00",
    "a\x00b\x00",
    "\ufeffstart",
    "mid\ufeffdle",
    "\ufffd\ufffe\uffff",
    "\U0010ffff\U0010fffe",
    "x\U0010fffe y \U0010ffff",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea\U0001f3fd",
    "\u0cdc's \u088fx \u0c5c1",
    "\u1100\u1161\u11a8 \uac00\u11a8",
    "\u05d0\u05b8\u202e\u0627\u0651\u202c",
    "I'm you're HE'LL don't it\u2019s 'tis o'clock '' '",
    'https://x.y/z?q=1&r=%20#f <b>&amp;</b> {"k": [1, 2.5e-3]}',
    "def f(x):\n\treturn x  # done\n\n\n    if y:\n        z = '''s'''\n",
    "<|endoftext|>",
    "a<|endoftext|>b<|endoftext|>",
    "<|im_start|>user\nhi<|im_end|>\n<s>x</s>[INST]<pad><unk><think>y</think>",
    "a" * 400,
    " " * 300 + "x",
    "\n" * 200,
    "ab" * 200,
    "=-" * 150 + "1234567890" * 30,
    "\u0301" * 120,
    "\U0001f600" * 60,
)


@cache
def hostile_texts() -> tuple[bytes, ...]:
    """A few hundred short texts that tell split patterns, Unicode tables and special-token habits apart."""
    texts = list(_WHOLE)
    texts += [f"{word}{space}{word}{space}" for word in _WORDS for space in _SPACES]
    texts += [f"{word}'{tail}" for word in ("it", "\u00e9", "9", " ", "\u4e2d", "!") for tail in _TAILS]
    texts += [f"{word}{mark}{word} {mark}" for word in _WORDS for mark in _MARKS]
    # one character of every stretch of the code space, between neighbours that show its class
    points = [p for p in (*range(0x80, 0x3400, 0x20), *range(0x3400, 0x32000, 0x200)) if not 0xD800 <= p < 0xE000]
    texts += ["".join(f"{chr(p)}'s {chr(p)}1" for p in points[i : i + 16]) for i in range(0, len(points), 16)]
    return tuple(text.encode() for text in texts)


def check(
    reference: Callable[[Sequence[bytes]], list[list[int]]], texts: Sequence[bytes], ids: Ids, lengths: Int64
) -> None:
    """Compare unframed (ids, lengths) of texts with the reference's ids; MismatchError at the first difference."""
    if len(lengths) != len(texts) or int(lengths.sum()) != len(ids):
        raise MismatchError(
            f"encoder check: got {len(lengths)} lengths with sum {lengths.sum()}, "
            f"expected {len(texts)} with sum {len(ids)}; use the reference encoder"
        )
    stop = 0
    for text, length in zip(texts, lengths.tolist(), strict=True):
        start, stop = stop, stop + length
        wanted = np.asarray(reference([text])[0], dtype=np.uint32)
        if not np.array_equal(ids[start:stop], wanted):
            raise MismatchError(_difference(text, ids[start:stop].tolist(), wanted.tolist()))


def _difference(text: bytes, got: list[int], wanted: list[int]) -> str:
    same = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), min(len(got), len(wanted)))
    around = slice(max(same - 3, 0), same + 5)
    share = len(text) * same // max(len(got), len(wanted), 1)
    excerpt = text[max(share - 40, 0) : share + 80].decode("utf-8", "replace")
    return (
        f"encoder check: ids differ from the reference encoder's at id {same} of a text of {len(text)} bytes, "
        f"near {excerpt!r}: got {got[around]}, expected {wanted[around]}; "
        f"build with the reference encoder (--encoder reference) and report the text"
    )
