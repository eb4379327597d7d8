"""Which document an error of a tokenizer is about."""

from collections.abc import Sequence

from tokenriver.errors import InputError
from tokenriver.types import Ids, Int64, Piece, Tokenizer

Group = tuple[list[bytes], Int64, Int64]
"""Texts, the record of each in its piece, and the number of its piece."""


def encode(
    tokenizer: Tokenizer, group: Group, edges: tuple[int | None, int | None], pieces: Sequence[Piece], offset: int
) -> tuple[Ids, Int64]:
    """Framed ids and lengths of a group of texts; an InputError names the file and the record of the first text that
    has none. `offset` is where the text of a stream's unit begins."""
    texts, records, owners = group
    try:
        return tokenizer.encode_framed(texts, *edges)
    except InputError as error:
        for text, record, owner in zip(texts, records.tolist(), owners.tolist(), strict=True):
            try:
                tokenizer.encode_batch([text])
            except InputError as first:
                start = offset or pieces[owner].start
                after = f" of those after {start} of it" if start else ""
                raise InputError(f"{pieces[owner].path}: record {record}{after}: {first}") from error
        raise
