"""Texts in, framed ids out: the small array work that every tokenizer shares."""

from collections.abc import Iterable, Sequence

import numpy as np

from tokenriver.errors import InputError
from tokenriver.types import Ids, Int64


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
