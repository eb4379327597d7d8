"""A tokenizer with two encoders: a fast one, and the reference whose ids are right by definition."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from tokenriver.errors import InputError
from tokenriver.steps import Steps
from tokenriver.tokenizers import _gate, _text
from tokenriver.types import Ids, Int64
from tokenriver.utf8 import as_bytes

ENCODERS = ("fast", "reference")
Reference = Callable[[Sequence[bytes]], list[list[int]]]
"""Ids of each of k UTF-8 texts, special tokens never parsed; what it needs is loaded at its first call."""


class Fast(Protocol):
    """What `_fast` offers."""

    def encode_framed(self, texts: list[bytes], before: int | None, after: int | None) -> tuple[Ids, Int64]: ...

    def letting_threads_run(self) -> "Fast":
        """The same, without the interpreter's lock while it encodes."""

    def in_steps(self, texts: list[bytes], foreign: list[int], after: int) -> Steps[tuple[Ids, Int64]]: ...


@dataclass(frozen=True, slots=True)
class BpeTokenizer:
    """types.Tokenizer over a reference encoder and, where it is exact, a fast one."""

    name: str
    vocab_size: int
    bos_id: int | None
    eos_id: int | None
    pad_id: int | None
    fingerprint: str
    reference: Reference
    to_bytes: Callable[[Sequence[int] | Ids], bytes]
    fast: Fast | None
    special_ids: Mapping[str, int] = field(default_factory=dict)
    """Special tokens by what they look like; a text that spells one is text."""
    follow: Callable[..., tuple[bytes, object]] | None = None
    """Where the bytes of an id depend on those before it: (ids, state, last) -> (bytes, state), the first state None,
    as tokenizer.StreamDecoder asks for them."""
    within: Callable[[Sequence[int] | Ids], bytes] | None = None
    """The bytes of ids none of which begins a text, where those are others than decode_bytes gives."""
    lead: int | None = 0
    """By so many bytes `within` gives more than decode_bytes of every text; None where that is not known."""

    @property
    def control_tokens(self) -> tuple[bytes, ...]:
        """What special tokens look like."""
        return tuple(name.encode() for name in self.special_ids)

    @property
    def encoder(self) -> str:
        """ "fast" or "reference": what encode_batch runs on."""
        return "reference" if self.fast is None else "fast"

    def letting_threads_run(self) -> "BpeTokenizer":
        """The same tokenizer, whose fast encoder does not keep the interpreter's lock while it works."""
        return self if self.fast is None else replace(self, fast=self.fast.letting_threads_run())

    def encode(self, text: str) -> Ids:
        """Ids of one text, uint32 (n,); lone surrogates become U+FFFD."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[bytes] | Sequence[str]) -> tuple[Ids, Int64]:
        """Flat uint32 ids of k texts (bytes: valid UTF-8) and their int64 lengths (k,), in one native call."""
        return self.encode_framed(texts, None, None)

    def encode_framed(
        self, texts: Sequence[bytes] | Sequence[str], before: int | None, after: int | None
    ) -> tuple[Ids, Int64]:
        """encode_batch with an id before and/or after every text; lengths count them."""
        rows = as_bytes(texts)
        if not rows:
            return np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.int64)
        if self.fast is not None:
            return self.fast.encode_framed(rows, before, after)
        return _text.frame(*_text.flatten(self.reference(rows)), before, after)

    def in_steps(self, texts: list[bytes], foreign: list[int], after: int) -> Steps[tuple[Ids, Int64]]:
        """What `encode_framed(texts, None, after)` does, with a fast encoder: its call, and the rest. `foreign` are the
        numbers of the texts that are not ASCII: a str knows that, and bytes have to be looked at."""
        assert self.fast is not None, "asked only of tokenizers that let threads run"
        return self.fast.in_steps(texts, foreign, after)

    def check(self, texts: Sequence[bytes], ids: Ids, lengths: Int64) -> None:
        """Compare unframed ids and lengths with the reference's; MismatchError shows the first difference."""
        if self.fast is not None:
            _gate.check(self.reference, texts, ids, lengths)

    def self_check(self) -> int:
        """Compare both encoders on the built-in hostile texts; number of texts compared, 0 without a fast encoder."""
        if self.fast is None:
            return 0
        texts = _gate.hostile_texts()
        _gate.check(self.reference, texts, *self.encode_batch(texts))
        return len(texts)

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """The text, invalid UTF-8 as U+FFFD; special ids by their content."""
        return self.to_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: Sequence[int] | Ids) -> bytes:
        """The bytes, special ids by their content; LimitError for an id outside the vocabulary."""
        return self.to_bytes(ids)


def known_encoder(encoder: str) -> str:
    """`encoder` if it is one of ENCODERS, else InputError."""
    if encoder not in ENCODERS:
        raise InputError(f"encoder: got {encoder!r}, expected fast or reference; choose one")
    return encoder
