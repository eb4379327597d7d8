"""Rows that begin with a document and are always full: those of nanochat's loader, to the id.

A row is seq_len + 1 ids, filled from a buffer of documents (`_buffer.py`), end to end: the last id of a document has
the first of the next one as its target. What does not fit is cropped, and counted. Documents have to begin with the id
that begins documents (framing "eos-before" or "bos-eos").

With the defaults all ranks share one buffer. `row_groups`, `passes`, `readers` and `reader_rows` give the rows of
nanochat's ranks over Parquet files: reader r has every readers-th row group, and rows come reader_rows at a time from
one reader after another. So with order "sequential" and a global batch of readers * reader_rows, rank r of as many
ranks sees what nanochat's rank r sees, and any other number of ranks the same global batches.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from tokenriver.errors import InputError, LimitError
from tokenriver.packing._buffer import MAX_ARRIVALS, Fetching, Filled, fill
from tokenriver.packing._lengths import document_ends
from tokenriver.packing._plans import Planned, Wanted, planned
from tokenriver.packing._table import Table
from tokenriver.types import River


def pack(
    river: River,
    *,
    seq_len: int,
    overflow: str = "split",
    phase_shift: bool = False,
    seed: int = 0,
    buffer_documents: int = 1000,
    fetch_documents: int = 128,
    row_groups: Sequence[Sequence[int]] | None = None,
    passes: int = 1,
    readers: int = 1,
    reader_rows: int = 1,
    plan_dir: str | Path | None = None,
) -> Planned:
    """Plan the rows of `passes` over the river: a buffer of at least buffer_documents, fetched fetch_documents at a
    time; row_groups are the documents of each row group of each file (None: all are one). Or map a plan of plan_dir
    (None: of the corpus). FormatError for a river without document bounds, LimitError if there is no row."""
    if overflow != "split" or phase_shift:
        raise InputError("overflow, phase_shift: got one with packing 'bos_aligned', which has neither; leave them out")
    ends = document_ends(river, "bos_aligned")
    numbers = {"buffer_documents": buffer_documents, "fetch_documents": fetch_documents}
    numbers |= {"passes": passes, "readers": readers, "reader_rows": reader_rows}
    groups = [[len(ends)]] if row_groups is None else row_groups
    _check(numbers, groups, len(ends))
    made_by = hashlib.sha256(repr((numbers, row_groups and [list(file) for file in groups])).encode()).hexdigest()
    tag = f"bos_aligned T={seq_len} buffer={buffer_documents} {made_by[:8]}"
    lengths = np.diff(ends, prepend=0)

    def blocks() -> Iterator[Table]:
        fetching = Fetching(groups, fetch_documents, passes, readers)
        parts = [fill(lengths, fetching.of_reader(r), seq_len + 1, buffer_documents) for r in range(readers)]
        rows = _in_turns(parts, reader_rows, seq_len)
        yield Table(rows.row_ends, (ends - lengths)[rows.documents], rows.sizes)

    folder = getattr(river, "plan_folder", None) if plan_dir is None else Path(plan_dir)
    wanted = Wanted(f"{tag} {made_by}", seq_len, ends, None)
    table, path = planned(wanted, folder, blocks, insist=plan_dir is not None)
    cut = int((ends[ends.searchsorted(table.starts, "right")] - table.starts - table.sizes).sum())
    read, served = passes * river.num_tokens, len(table) * (seq_len + 1)
    balance = {"river": read, "served": served, "cut": cut, "unused": read - served - cut}
    return Planned(seq_len, tag, table, balance, len(table) * seq_len, path, chained=True)


def _check(numbers: Mapping[str, int], groups: Sequence[Sequence[int]], documents: int) -> None:
    for name, number in numbers.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise InputError(f"{name}: got {number!r}, expected a whole number from 1")
    try:
        total = sum(map(sum, groups))
        counted = all(isinstance(count, int) and count >= 0 for file in groups for count in file)
    except TypeError:
        counted = False
    if not counted:
        raise InputError(f"row_groups: got {groups!r:.80}, expected counts of documents, a list of them for each file")
    if total != documents:
        raise InputError(f"row_groups: got {total} documents in all, expected {documents}, those of the corpus")
    if documents * numbers["passes"] >= MAX_ARRIVALS:
        raise LimitError(f"passes: got {documents * numbers['passes']} documents in all, expected fewer than 2^40")


def _in_turns(parts: Sequence[Filled], rows: int, seq_len: int) -> Filled:
    """As many turns as there can be, in each of which every part gives its next `rows` rows; LimitError for none."""
    turns = min(len(part.row_ends) for part in parts) // rows
    if not turns:
        raise LimitError(
            f"seq_len: got {seq_len}, which needs at least {seq_len + 1} ids for a row, and each reader has fewer than "
            f"{rows} rows; take a smaller seq_len or more text"
        )
    if len(parts) == 1:
        last = int(parts[0].row_ends[turns * rows - 1])
        return Filled(parts[0].row_ends[: turns * rows], parts[0].documents[:last], parts[0].sizes[:last])
    documents, sizes, counts = [], [], []
    for turn in range(turns):
        for part in parts:
            here = part.row_ends[turn * rows : (turn + 1) * rows]
            first = int(part.row_ends[turn * rows - 1]) if turn else 0
            documents.append(part.documents[first : int(here[-1])])
            sizes.append(part.sizes[first : int(here[-1])])
            counts.append(np.diff(here, prepend=first))
    return Filled(np.cumsum(np.concatenate(counts)), np.concatenate(documents), np.concatenate(sizes))
