"""Hashes of texts: what is decided by a text alone is the same in any order and among any other texts."""

import hashlib
from collections.abc import Iterable

import numpy as np

from tokenriver.types import Bools, UInt64

HOLD_OUT_SALT = b"tokenriver val 1"


def text_hashes(texts: Iterable[bytes], salt: bytes, words: int) -> UInt64:
    """(k, words) uint64: the keyed blake2b of each text, `words` little-endian words of 64 bits long."""
    size = 8 * words
    joined = b"".join(hashlib.blake2b(text, digest_size=size, key=salt).digest() for text in texts)
    return np.frombuffer(joined, "<u8").reshape(-1, words)


def held_out(texts: list[bytes], fraction: float) -> Bools:
    """Which documents belong to the validation split: a salted hash of the text alone decides, so duplicates stay on
    one side and more inputs change nothing for the documents that were there."""
    held: Bools = text_hashes(texts, HOLD_OUT_SALT, 1)[:, 0] < np.uint64(int(fraction * 2.0**64))
    return held
