"""How many rows a packing makes, counted from lengths alone: no plan, no array as long as the documents."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tokenriver import registry
from tokenriver.buckets import choose_widths
from tokenriver.lengths import Runs
from tokenriver.types import Int64, River

BY_LENGTH: Mapping[str, tuple[str, ...]] = {
    "document": ("split", "truncate", "drop"),
    "best_fit": ("split", "truncate", "drop"),
    "minimind": ("truncate",),
}
"""Packings whose rows follow from the lengths of the documents, and what they do with long ones."""


@dataclass(frozen=True, slots=True)
class RowStats:
    """One epoch of rows of one packing."""

    seq_len: int
    packing: str
    overflow: str
    """What is done with documents longer than a row; "" where the packing has no such choice."""
    rows: int
    num_targets: int
    """Positions with loss."""
    padding: int
    """Positions that no id fills."""
    balance: Mapping[str, int]
    """Ids by fate, as the packing has it: river = served + the others."""
    documents_split: int | None
    """Documents that lie in more than one row, or partly behind the last window; None where it is not known."""
    documents_cut: int | None
    """Documents of which a part, or all, is in no row since they are long."""
    widths: tuple[int, ...] = ()
    """Widths of the buckets that rows are padded to; none where all are padded to seq_len."""
    saved: int = 0
    """Positions that the buckets leave out of rows * seq_len."""

    @property
    def positions(self) -> int:
        """Of all rows."""
        return self.rows * self.seq_len - self.saved

    @property
    def padding_share(self) -> float:
        """Of all positions, 0 to 1; 0 if there is no row."""
        return self.padding / self.positions if self.rows else 0.0

    @property
    def lost(self) -> int:
        """Ids that no row shows, for whatever reason."""
        return self.balance["river"] - self.balance["served"]

    @property
    def lost_share(self) -> float:
        """Of all ids, 0 to 1."""
        return self.lost / self.balance["river"]

    def as_dict(self) -> dict[str, Any]:
        derived = {"padding_share": self.padding_share, "lost": self.lost, "lost_share": self.lost_share}
        return {**asdict(self), **derived}


class Windows:
    """Counts documents that plain windows of some lengths part, while the index is read."""

    def __init__(self, seq_lens: Sequence[int]) -> None:
        self.split = dict.fromkeys(seq_lens, 0)

    def see(self, starts: Int64, ends: Int64) -> None:
        """Some documents. Row i predicts the ids behind the positions [i * T, (i + 1) * T), so a document lies in one
        row if the positions of its first id and of its last but one do."""
        usable = ends - starts >= 2
        firsts, lasts = starts[usable], ends[usable] - 2
        for seq_len in self.split:
            self.split[seq_len] += int(np.count_nonzero((firsts // seq_len + 1) * seq_len <= lasts))


def count_windows(river: River, seq_len: int, split: int | None) -> RowStats:
    """The rows of packing `concat`; `split` documents are parted by them."""
    rows = max(0, (river.num_tokens - 1) // seq_len)
    served = rows * seq_len + 1 if rows else 0
    balance = {"river": river.num_tokens, "served": served, "unused": river.num_tokens - served}
    cut = 0 if split is not None else None
    return RowStats(seq_len, "concat", "", rows, rows * seq_len, 0, balance, split if rows else cut, cut)


def rows_by_length(runs: Runs, num_tokens: int, asked: tuple[str, str, int]) -> RowStats:
    """The rows of (packing, overflow, seq_len), one of BY_LENGTH, for documents that are planned together."""
    name, overflow, seq_len = asked
    if name == "minimind":
        return _minimind(runs, num_tokens, seq_len)
    long = runs.longer(seq_len + 1)
    lost = {
        "too_short": int(runs.counts[runs.lengths == 1].sum()),
        "cut": long.ids - long.documents * (seq_len + 1) if overflow == "truncate" else 0,
        "dropped": long.ids if overflow == "drop" else 0,
    }
    whole, rest = _pieces(runs, seq_len, overflow)
    rows = whole + (rest.documents if name == "document" else _best_fit(rest, seq_len))
    served = num_tokens - sum(lost.values())
    # every document that makes rows has one id that is no target
    targets = served - rest.documents
    documents = (long.documents, 0) if overflow == "split" else (0, long.documents)
    balance = {"river": num_tokens, "served": served, **lost}
    return RowStats(seq_len, name, overflow, rows, targets, rows * seq_len - targets, balance, *documents)


def in_buckets(runs: Runs, row: RowStats, most: int) -> RowStats:
    """Rows of packing `document`, padded to at most so many widths; the rows that a last step lacks are not counted."""
    if not row.rows:
        return row
    whole, rest = _pieces(runs, row.seq_len, row.overflow)
    sizes, place = np.unique(np.append(rest.lengths - 1, row.seq_len), return_inverse=True)
    counts = np.zeros(len(sizes), np.int64)
    np.add.at(counts, place, np.append(rest.counts, whole))
    sizes, counts = sizes[counts > 0], counts[counts > 0]
    widths = choose_widths(sizes, counts, row.seq_len, most)
    wide = np.array(widths, np.int64)[np.searchsorted(np.array(widths, np.int64), sizes)]
    saved = int(((row.seq_len - wide) * counts).sum())
    return replace(row, padding=row.padding - saved, widths=widths, saved=saved)


def _minimind(runs: Runs, num_tokens: int, seq_len: int) -> RowStats:
    """minimind's rows: a document's n ids fill n cells, where elsewhere they fill n - 1 positions; the last has no
    target."""
    usable, long = runs.longer(1), runs.longer(seq_len)
    shown = int((np.minimum(usable.lengths, seq_len) * usable.counts).sum())
    lost = {"too_short": int(runs.counts[runs.lengths == 1].sum()), "cut": long.ids - long.documents * seq_len}
    rows = usable.documents
    balance = {"river": num_tokens, "served": num_tokens - sum(lost.values()), **lost}
    padding = rows * seq_len - shown
    return RowStats(seq_len, "minimind", "truncate", rows, shown - rows, padding, balance, 0, long.documents)


def _pieces(runs: Runs, seq_len: int, overflow: str) -> tuple[int, Runs]:
    """(rows that heads of long documents fill, what is left to place: at most seq_len + 1 ids each)."""
    whole, lengths, counts = 0, runs.lengths, runs.counts
    if overflow == "split":
        heads = np.maximum(0, (lengths - 2) // seq_len)
        whole, lengths = int((heads * counts).sum()), lengths - heads * seq_len
    elif overflow == "truncate":
        lengths = np.minimum(lengths, seq_len + 1)
    kept = (lengths >= 2) & (lengths <= seq_len + 1)
    return whole, Runs(lengths[kept], counts[kept])


def _best_fit(rest: Runs, seq_len: int) -> int:
    rows: int = registry.load("packing", "best_fit").count_rows(rest.lengths, rest.counts, seq_len)
    return rows
