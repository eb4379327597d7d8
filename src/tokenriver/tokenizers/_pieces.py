"""Ids back to bytes: a table with the bytes of every id."""

from collections.abc import Mapping, Sequence

import numpy as np

from tokenriver.errors import LimitError
from tokenriver.types import Ids


def table(pieces: Mapping[int, bytes]) -> list[bytes | None]:
    """Bytes by id; None where a vocabulary has a hole."""
    rows: list[bytes | None] = [None] * (max(pieces, default=-1) + 1)
    for i, piece in pieces.items():
        rows[i] = piece
    return rows


def join(pieces: Sequence[bytes | None], ids: Sequence[int] | Ids) -> bytes:
    """The bytes of ids; LimitError names the first id that has none."""
    return b"".join(pick(pieces, ids))


def pick(pieces: Sequence[bytes | None], ids: Sequence[int] | Ids) -> list[bytes]:
    """The bytes of each id; LimitError names the first id that has none."""
    wanted = ids.tolist() if isinstance(ids, np.ndarray) else [int(i) for i in ids]
    out = []
    for place, i in enumerate(wanted):
        piece = pieces[i] if 0 <= i < len(pieces) else None
        if piece is None:
            raise LimitError(
                f"ids: got {i} at position {place}, expected an id of this vocabulary (below {len(pieces)}); "
                f"check that the tokenizer is the one that made the ids"
            )
        out.append(piece)
    return out
