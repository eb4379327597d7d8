"""Bytes as ids: 0-255 are the bytes of the UTF-8 text, 256 ends (and begins) a document."""

from collections.abc import Sequence
from pathlib import Path

from tokenriver.tokenizers._bytes import ByteTokenizer, make

SUFFIXES: tuple[str, ...] = ()
BYTE = make("byte", 0, 256, "byte 0-255, 256 = bos = eos")


def load(name: str, *, search: Sequence[Path] = (), encoder: str = "fast") -> ByteTokenizer:
    """The byte tokenizer; there is nothing to look for and one encoder only."""
    return BYTE
