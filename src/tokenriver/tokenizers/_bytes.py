"""Bytes as ids, which every machine has: for tests, for byte-level models, and for any language without a table."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenriver.tokenizers import _pieces, _text
from tokenriver.types import Ids, Int64
from tokenriver.utf8 import as_bytes, clean


@dataclass(frozen=True, slots=True)
class ByteTokenizer:
    """types.Tokenizer over the 256 bytes (byte b is id b + shift) and one boundary id; it is its own reference."""

    name: str
    fingerprint: str
    shift: int
    bos_id: int | None
    eos_id: int | None
    pieces: tuple[bytes | None, ...]
    vocab_size: int = 257
    pad_id: int | None = None
    encoder: str = "reference"

    def encode(self, text: str) -> Ids:
        """The UTF-8 bytes of one text as uint32 (n,); lone surrogates become U+FFFD."""
        return self._ids(clean(text))

    def encode_batch(self, texts: Sequence[bytes] | Sequence[str]) -> tuple[Ids, Int64]:
        """Flat uint32 ids of k texts and their lengths in bytes, int64 (k,)."""
        rows = as_bytes(texts)
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        return self._ids(b"".join(rows)), lengths

    def _ids(self, data: bytes) -> Ids:
        ids = np.frombuffer(data, dtype=np.uint8).astype(np.uint32)
        return ids + np.uint32(self.shift) if self.shift else ids

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
        return _pieces.join(self.pieces, ids)


def make(name: str, shift: int, boundary: int, determined_by: str) -> ByteTokenizer:
    """A tokenizer of bytes; `determined_by` is what its fingerprint is the sha256 of."""
    pieces = _pieces.table({i + shift: bytes([i]) for i in range(256)} | {boundary: b"<|endoftext|>"})
    return ByteTokenizer(
        name, hashlib.sha256(determined_by.encode()).hexdigest(), shift, boundary, boundary, tuple(pieces)
    )
