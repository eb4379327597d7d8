"""Bytes as ids, shifted: 0 ends (and begins) a document, byte b is b + 1 (formats.md, section 10)."""

from collections.abc import Sequence
from pathlib import Path

from tokenriver.tokenizers._bytes import ByteTokenizer, make

SUFFIXES: tuple[str, ...] = ()
SHIFTED = make("byte-shifted", 1, 0, "byte 1-256, 0 = bos = eos")


def load(name: str, *, search: Sequence[Path] = (), encoder: str = "fast") -> ByteTokenizer:
    """The shifted byte tokenizer; there is nothing to look for and one encoder only."""
    return SHIFTED
