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
from tokenriver.packing._lengths import check_overflow, check_rows, document_ends, length_blocks, lost_ids
from tokenriver.packing._plans import Planned, Wanted, planned
from tokenriver.packing._table import Table
from tokenriver.types import Int32, Int64, River

MOST_TOGETHER = (1 << 31) - 1
"""Documents that can be planned together."""
_SORTED = 1 << 20
"""Pieces that are sorted at a time."""
_NONE: Int64 = np.empty(0, np.int64)


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
    lost, documents = _lost(ends, seq_len, overflow)
    served = river.num_tokens - sum(lost.values())
    # one id of each document that is served is no target
    num_targets = served - documents
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


def _lost(ends: Int64, seq_len: int, overflow: str) -> tuple[dict[str, int], int]:
    """(ids that no row shows, by reason; documents that rows show)."""
    lost, documents = lost_ids(_NONE, seq_len, overflow), 0
    for _, lengths in length_blocks(ends):
        for reason, ids in lost_ids(lengths, seq_len, overflow).items():
            lost[reason] += ids
        documents += int(np.count_nonzero(lengths >= 2))
        if overflow == "drop":
            documents -= int(np.count_nonzero(lengths > seq_len + 1))
    return lost, documents


def count_rows(lengths: Int64, counts: Int64, seq_len: int) -> int:
    """How many rows hold so many documents of each length (2 to seq_len + 1 ids), planned together as one block."""
    many = np.zeros(seq_len + 1, np.int64)
    np.add.at(many, lengths - 1, counts)
    return count_bins(many, seq_len)


def _plan(ends: Int64, begin: int, seq_len: int, overflow: str) -> Table:
    """The rows of some documents that are planned together."""
    heads, starts, sizes, many = _pieces(ends, begin, seq_len, overflow)
    bins = best_fit(many, seq_len)
    # both are filled anew: fresh memory would cost more than what is put there
    bins.arrange(_longest_first(starts, sizes, many), starts, sizes)
    sizes += 1
    if not len(heads):
        return Table(bins.ends, starts, sizes)
    row_ends = np.concatenate([np.arange(1, len(heads) + 1), bins.ends + len(heads)])
    whole = np.full(len(heads), seq_len + 1, np.int32)
    return Table(row_ends, np.concatenate([heads, starts]), np.concatenate([whole, sizes]))


def _pieces(ends: Int64, begin: int, seq_len: int, overflow: str) -> tuple[Int64, Int64, Int32, Int64]:
    """(starts of whole rows, starts and positions of what shares rows, how many of those have how many positions): each
    whole row ends with the id that the next piece begins with."""
    heads, starts, sizes = [_NONE], np.empty(len(ends), np.int64), np.empty(len(ends), np.int32)
    many = np.zeros(seq_len + 1, np.int64)
    kept = 0
    for block, lengths in length_blocks(ends, begin):
        first = block - lengths
        long = np.flatnonzero(lengths > seq_len + 1)
        if overflow == "split":
            whole = (lengths[long] - 2) // seq_len
            number = np.arange(int(whole.sum())) - np.repeat(np.cumsum(whole) - whole, whole)
            heads.append(np.repeat(first[long], whole) + number * seq_len)
            first[long] += whole * seq_len
            lengths[long] -= whole * seq_len
        else:
            lengths[long] = seq_len + 1 if overflow == "truncate" else 0
        usable = lengths >= 2
        if not usable.all():
            first, lengths = first[usable], lengths[usable]
        here = slice(kept, kept + len(first))
        starts[here] = first
        lengths -= 1
        sizes[here] = lengths
        many += np.bincount(lengths, minlength=seq_len + 1)
        kept = here.stop
    return np.concatenate(heads), starts[:kept], sizes[:kept], many


def _longest_first(starts: Int64, sizes: Int32, many: Int64) -> Int64:
    """The starts, given in order, by falling sizes, in order where those are equal; many[s] have size s."""
    seq_len = len(many) - 1
    # numpy sorts stably by counting digits where keys have 16 bits, and a block stays small beside the result
    dtype = np.uint16 if seq_len < 1 << 16 else np.int32
    found = np.empty_like(starts)
    upto = np.cumsum(many[::-1]) - many[::-1]
    for at in range(0, len(starts), _SORTED):
        keys = (seq_len - sizes[at : at + _SORTED]).astype(dtype)
        counts = np.bincount(keys, minlength=seq_len + 1)
        places = np.repeat(upto - np.cumsum(counts) + counts, counts)
        places += np.arange(len(keys))
        found[places] = starts[at : at + _SORTED][np.argsort(keys, kind="stable")]
        upto += counts
    return found
