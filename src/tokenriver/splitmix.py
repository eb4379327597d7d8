"""The finaliser of splitmix64, of many words at once: from it come the order of rows, the sums of ledgers and hashes
of documents. Integers only, so that another language or another numpy gives the same words.
"""

import numpy as np

from tokenriver.types import UInt64

STEP = np.uint64(0x9E3779B97F4A7C15)
"""By which splitmix64 goes on from word to word."""
MASK = (1 << 64) - 1
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MIX_1, _MIX_2 = np.uint64(_FIRST), np.uint64(_SECOND)
_S27, _S30, _S31 = (np.uint64(bits) for bits in (27, 30, 31))


def finish(words: UInt64, scratch: UInt64) -> None:
    """Mix words in place, modulo 2^64; `scratch` has their shape."""
    np.right_shift(words, _S30, out=scratch)
    words ^= scratch
    words *= _MIX_1
    np.right_shift(words, _S27, out=scratch)
    words ^= scratch
    words *= _MIX_2
    np.right_shift(words, _S31, out=scratch)
    words ^= scratch


def finished(word: int) -> int:
    """One word of 64 bits mixed."""
    word = ((word ^ (word >> 30)) * _FIRST) & MASK
    word = ((word ^ (word >> 27)) * _SECOND) & MASK
    return word ^ (word >> 31)


def mixed(words: UInt64) -> UInt64:
    """The words mixed, as a new array."""
    out = words.copy()
    finish(out, np.empty_like(out))
    return out
