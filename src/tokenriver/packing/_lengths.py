"""What the packings by document share: lengths of documents, and how long ones are met."""

from collections.abc import Iterator

import numpy as np

from tokenriver.errors import FormatError, InputError, LimitError
from tokenriver.types import Int64, River

OVERFLOWS = ("split", "truncate", "drop")
_BLOCK = 1 << 16
"""Documents that are looked at together: so many lengths stay in the cache."""


def document_ends(river: River, packing: str) -> Int64:
    """(num_documents,) river position where each document ends; FormatError for a river without bounds."""
    if river.num_documents is None:
        raise FormatError(
            f"packing: got {packing!r} for a corpus without document bounds, expected one with them; give eos_id when "
            "opening it, or take packing 'concat'"
        )
    return river.doc_ends()


def length_blocks(ends: Int64, begin: int = 0) -> Iterator[tuple[Int64, Int64]]:
    """(ends, lengths) of the documents behind `begin`, each (k,) int64, some thousands at a time."""
    for at in range(0, len(ends), _BLOCK):
        block = ends[at : at + _BLOCK]
        yield block, np.diff(block, prepend=ends[at - 1] if at else begin)


def check_overflow(overflow: str) -> None:
    """InputError unless it is one of the three ways to treat documents of more than seq_len + 1 ids."""
    if overflow not in OVERFLOWS:
        raise InputError(f"overflow: got {overflow!r}, expected one of {', '.join(OVERFLOWS)}")


def check_rows(rows: int, packing: str) -> None:
    """LimitError for a packing without a row."""
    if rows < 1:
        raise LimitError(
            f"packing {packing!r}: got no row, expected some; no document has the 2 ids that a target needs"
        )


def lost_ids(lengths: Int64, seq_len: int, overflow: str) -> dict[str, int]:
    """Ids of documents of these lengths that no row shows, by reason: documents of one id are too short to predict
    anything, long ones may be cut or dropped."""
    long = lengths[lengths > seq_len + 1]
    return {
        "too_short": int((lengths == 1).sum()),
        "cut": int((long - seq_len - 1).sum()) if overflow == "truncate" else 0,
        "dropped": int(long.sum()) if overflow == "drop" else 0,
    }
