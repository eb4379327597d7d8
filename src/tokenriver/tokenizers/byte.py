"""Bytes as ids: 0-255 are the bytes of the UTF-8 text, 256 ends (and begins) a document.

A vocabulary that every machine has: for tests, for byte-level models, and for reading any language without a table.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tokenriver.tokenizers import _pieces, _text
from tokenriver.types import Ids, Int64

SUFFIXES: tuple[str, ...] = ()
BOUNDARY = 256


@dataclass(frozen=True, slots=True)
class ByteTokenizer:
    """types.Tokenizer over the 256 bytes and one boundary id; it is its own reference."""

    name: str = "byte"
    vocab_size: int = BOUNDARY + 1
    bos_id: int | None = BOUNDARY
    eos_id: int | None = BOUNDARY
    pad_id: int | None = None
    fingerprint: str = hashlib.sha256(b"byte 0-255, 256 = bos = eos").hexdigest()
    encoder: str = "reference"

    def encode(self, text: str) -> Ids:
        """The UTF-8 bytes of one text as uint32 (n,); lone surrogates become U+FFFD."""
        return np.frombuffer(_text.clean(text), dtype=np.uint8).astype(np.uint32)

    def encode_batch(self, texts: Sequence[bytes] | Sequence[str]) -> tuple[Ids, Int64]:
        """Flat uint32 ids of k texts and their lengths in bytes, int64 (k,)."""
        rows = _text.as_bytes(texts)
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        return np.frombuffer(b"".join(rows), dtype=np.uint8).astype(np.uint32), lengths

    def encode_framed(
        self, texts: Sequence[bytes] | Sequence[str], before: int | None, after: int | None
    ) -> tuple[Ids, Int64]:
        """encode_batch with an id before and/or after every text; lengths count them."""
        return _text.frame(*self.encode_batch(texts), before, after)

    def check(self, texts: Sequence[bytes], ids: Ids, lengths: Int64) -> None:
        """Nothing to compare: there is no second encoder."""

    def self_check(self) -> int:
        """No texts compared: there is no second encoder."""
        return 0

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """The text, invalid UTF-8 as U+FFFD; the boundary shows as <|endoftext|>."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: Sequence[int] | Ids) -> bytes:
        """The exact bytes, the boundary as <|endoftext|>; LimitError for an id above 256."""
        return _pieces.join(PIECES, ids)


PIECES = _pieces.table({i: bytes([i]) for i in range(256)} | {BOUNDARY: b"<|endoftext|>"})


def load(name: str, *, search: Sequence[Path] = (), encoder: str = "fast") -> ByteTokenizer:
    """The byte tokenizer; there is nothing to look for and one encoder only."""
    return ByteTokenizer()
