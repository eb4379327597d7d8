"""Texts -> framed ids, and what a build says of the texts on the way: which one a tokenizer refuses, and how many spell
a control token (and so would have become one in a tokenizer that parses them).
"""

import re
from collections.abc import Sequence
from functools import cache

from tokenriver.engines._sieve import Group
from tokenriver.errors import InputError
from tokenriver.types import Ids, Int64, Piece, Tokenizer

SPELLED = "spells-control-token"
"""The note of a document whose text spells a control token of its tokenizer; it is text all the same."""
FEW = 8
"""So many tokens are looked for one by one; more of them by one expression."""
LONG = 1 << 12
"""Bytes of a text that is looked at by itself."""
RARE = 256
"""A byte is rare where there is at most one in so many."""


def encode(
    tokenizer: Tokenizer,
    group: Group,
    edges: tuple[int | None, int | None],
    place: tuple[Sequence[Piece], int],
    notes: dict[str, int],
) -> tuple[Ids, Int64]:
    """Framed ids and lengths of a group of texts; an InputError names the file and the record of the first text that
    has none. `place` is the unit's pieces, and where the text of a stream's unit begins. Counts notes."""
    texts, (pieces, offset) = group.texts, place
    if spelled := count_spelled(texts, getattr(tokenizer, "control_tokens", ())):
        notes[SPELLED] = notes.get(SPELLED, 0) + spelled
    try:
        return tokenizer.encode_framed(texts, *edges)
    except InputError as error:
        for text, record, owner in zip(texts, group.records.tolist(), group.pieces.tolist(), strict=True):
            try:
                tokenizer.encode_batch([text])
            except InputError as first:
                start = offset or pieces[owner].start
                after = f" of those after {start} of it" if start else ""
                raise InputError(f"{pieces[owner].path}: record {record}{after}: {first}") from error
        raise


def count_spelled(texts: Sequence[bytes], tokens: tuple[bytes, ...]) -> int:
    """How many of the texts hold at least one of the tokens. Most text holds not even how one begins, which one look at
    all of it shows."""
    if not tokens:
        return 0
    if len(tokens) == 1:
        return sum(tokens[0] in text for text in texts)
    # looking at each costs as much as joining them if they are short
    parts = texts if sum(map(len, texts)) >= LONG * len(texts) else [b"".join(texts)]
    begun = {head for head in {token[:2] for token in tokens} if any(_holds(part, head) for part in parts)}
    likely = [token for token in tokens if token[:2] in begun]
    if len(likely) > FEW:
        search = _expression(tokens).search
        return sum(search(text) is not None for text in texts)
    held = [token for token in likely if any(token in part for part in parts)]
    return sum(any(token in text for token in held) for text in texts) if held else 0


def _holds(text: bytes, head: bytes) -> bool:
    """Are these one or two bytes in the text? To look for one byte is many times faster than to look for two, so of two
    the one that is no letter is looked for, as long as it is rare."""
    place = next((i for i in reversed(range(len(head))) if not head[i : i + 1].isalnum()), 0)
    at = 0
    for _ in range(len(text) // RARE):
        at = text.find(head[place], at)
        if at < 0:
            return False
        if at >= place and text.startswith(head, at - place):
            return True
        at += 1
    return text.find(head, max(0, at - place)) >= 0


@cache
def _expression(tokens: tuple[bytes, ...]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(map(re.escape, tokens)))
