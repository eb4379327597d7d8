"""Texts as UTF-8."""

from collections.abc import Sequence
from typing import Any


def clean(text: str) -> bytes:
    """UTF-8 of a text; a surrogate pair becomes its character and a lone surrogate U+FFFD, as tiktoken does it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def as_bytes(texts: Sequence[bytes] | Sequence[str]) -> list[bytes]:
    """Texts as UTF-8; bytes pass as they are."""
    given: Sequence[Any] = texts
    try:
        return [*map(str.encode, given)]
    except (TypeError, UnicodeEncodeError):  # bytes, or lone surrogates
        return [text if isinstance(text, bytes) else clean(text) for text in given]
