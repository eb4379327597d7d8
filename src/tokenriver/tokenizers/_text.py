"""Texts in, framed ids out: the small array work that every tokenizer shares."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tokenriver.errors import InputError
from tokenriver.types import Ids, Int64


def clean(text: str) -> bytes:
    """UTF-8 of a text; a surrogate pair becomes its character and a lone surrogate U+FFFD, as tiktoken does it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def as_bytes(texts: Sequence[bytes] | Sequence[str]) -> list[bytes]:
    """Texts as UTF-8; bytes pass as they are."""
    given: Sequence[Any] = texts
    if given and isinstance(given[0], str):
        try:
            return [str.encode(text) for text in given]
        except (TypeError, UnicodeEncodeError):
            pass  # of both kinds, or with lone surrogates
    return [text if isinstance(text, bytes) else clean(text) for text in texts]


def as_text(text: bytes) -> str:
    """The str of a UTF-8 text; InputError names the first byte that is none."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"text: got byte 0x{text[error.start]:02x} at offset {error.start}, expected UTF-8; decode the text first"
        ) from error


def flatten(rows: Iterable[Sequence[int]]) -> tuple[Ids, Int64]:
    """One list of ids a text -> flat uint32 ids and int64 lengths."""
    parts = [np.asarray(row, dtype=np.uint32) for row in rows]
    lengths = np.fromiter((len(part) for part in parts), dtype=np.int64, count=len(parts))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint32), lengths


def frame(ids: Ids, lengths: Int64, before: int | None, after: int | None) -> tuple[Ids, Int64]:
    """Put an id before and/or after the ids of every text; lengths grow with them."""
    ends = np.cumsum(lengths)
    if before is not None:
        ids = np.insert(ids, ends - lengths, before)
        lengths = lengths + 1
        ends = np.cumsum(lengths)
    if after is not None:
        ids = np.insert(ids, ends, after)
        lengths = lengths + 1
    return ids, lengths
