"""Whole documents packed into rows by best-fit decreasing: nearly no padding, no attention across documents.

A document of n ids fills n - 1 positions of a row of seq_len. Of a longer one than a row holds, "split" fills whole
rows with the documents' heads and packs what is left; "truncate" keeps seq_len + 1 ids; "drop" leaves it out. A
document of one id has nothing to predict and is left out. The rows are planned once from lengths alone, some seconds
for 10^8 documents; the plans of large corpora are kept on disk (`_plans.py`).
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tokenriver.errors import InputError, LimitError
from tokenriver.packing._fit import best_fit, count_bins
from tokenriver.packing._lengths import check_overflow, check_rows, document_ends, lost_ids
from tokenriver.packing._plans import Planned, Wanted, planned
from tokenriver.packing._table import Table
from tokenriver.types import Int64, River

MOST_TOGETHER = (1 << 31) - 1
"""Documents that can be planned together."""


def pack(
    river: River,
    *,
    seq_len: int,
    overflow: str = "split",
    phase_shift: bool = False,
    seed: int = 0,
    block_documents: int | None = None,
    plan_dir: str | Path | None = None,
) -> Planned:
    """Plan the rows, block_documents at a time (None: all together), or map a plan of plan_dir (None: of the corpus);
    FormatError for a river without document bounds, LimitError if no document makes a row."""
    if phase_shift:
        raise InputError("phase_shift: got it with packing 'best_fit', whose rows begin at documents; leave it out")
    check_overflow(overflow)
    ends = document_ends(river, "best_fit")
    block = _block_size(block_documents, len(ends))
    lengths = np.diff(ends, prepend=0)
    lost = lost_ids(lengths, seq_len, overflow)
    served = river.num_tokens - sum(lost.values())
    # one id of each document that is served is no target
    whole = lengths if overflow != "drop" else lengths[lengths <= seq_len + 1]
    num_targets = served - int((whole >= 2).sum())
    check_rows(num_targets, "best_fit")
    name = f"best_fit T={seq_len} {overflow}" + (f" block={block_documents}" if block_documents is not None else "")

    def blocks() -> Iterator[Table]:
        for at in range(0, len(ends), block):
            yield _plan(ends[at : at + block], int(ends[at - 1]) if at else 0, seq_len, overflow)

    folder = getattr(river, "plan_folder", None) if plan_dir is None else Path(plan_dir)
    wanted = Wanted(name, seq_len, ends, num_targets)
    table, path = planned(wanted, folder, blocks, insist=plan_dir is not None)
    balance = {"river": river.num_tokens, "served": served, **lost}
    return Planned(seq_len, name, table, balance, num_targets, path)


def _block_size(asked: int | None, documents: int) -> int:
    """Documents that are planned together."""
    if asked is not None and not (isinstance(asked, int) and asked >= 1):
        raise InputError(f"block_documents: got {asked!r}, expected a whole number from 1, or None for all together")
    block = max(1, documents) if asked is None else asked
    if min(block, documents) > MOST_TOGETHER:
        raise LimitError(f"block_documents: got {asked} for {documents} documents, expected at most {MOST_TOGETHER}")
    return block


def count_rows(lengths: Int64, counts: Int64, seq_len: int) -> int:
    """How many rows hold so many documents of each length (2 to seq_len + 1 ids), planned together as one block."""
    many = np.zeros(seq_len + 1, np.int64)
    np.add.at(many, lengths - 1, counts)
    return count_bins(many, seq_len)


def _plan(ends: Int64, begin: int, seq_len: int, overflow: str) -> Table:
    """The rows of some documents that are planned together."""
    lengths = np.diff(ends, prepend=begin)
    starts = ends - lengths
    heads = np.empty(0, np.int64)
    if overflow == "split":
        heads, starts, lengths = _cut_heads(starts, lengths, seq_len)
    elif overflow == "truncate":
        lengths = np.minimum(lengths, seq_len + 1)
    else:
        kept = lengths <= seq_len + 1
        starts, lengths = starts[kept], lengths[kept]
    usable = lengths >= 2
    starts, lengths = starts[usable], lengths[usable]
    order, counts = best_fit(lengths - 1, seq_len) if len(lengths) else (np.empty(0, np.int64), np.empty(0, np.int64))
    row_ends = np.concatenate([np.arange(1, len(heads) + 1), np.cumsum(counts) + len(heads)])
    sizes = np.concatenate([np.full(len(heads), seq_len + 1, np.int64), lengths[order]])
    return Table(row_ends, np.concatenate([heads, starts[order]]), sizes)


def _cut_heads(starts: Int64, lengths: Int64, seq_len: int) -> tuple[Int64, Int64, Int64]:
    """(starts of whole rows, starts, lengths of what is left): each head of seq_len + 1 ids ends with the id that the
    next piece begins with."""
    whole = np.maximum(0, (lengths - 2) // seq_len)
    which = np.repeat(np.arange(len(starts)), whole)
    number = np.arange(len(which)) - np.repeat(np.cumsum(whole) - whole, whole)
    return starts[which] + number * seq_len, starts + whole * seq_len, lengths - whole * seq_len
