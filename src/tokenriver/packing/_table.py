"""Rows of several spans each, as columns: what a planned packing looks its rows up in."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenriver import compiled
from tokenriver.ranges import expand
from tokenriver.types import Int64

_NONE: Int64 = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Table:
    """The spans of row i are those from row_ends[i - 1] to row_ends[i]."""

    row_ends: Int64
    starts: Int64
    """River position of each span's first id."""
    sizes: NDArray[np.signedinteger[Any]]
    """Ids of each span."""

    def __len__(self) -> int:
        return len(self.row_ends)

    def firsts(self, rows: Int64) -> Int64:
        """Number of the first span of each row, (k,) int64."""
        return np.where(rows > 0, self.row_ends[rows - 1], 0)

    def runs(self, rows: Int64, width: int, *, chained: bool) -> tuple[Int64, Int64, Int64] | None:
        """(ends, starts, sizes) of what fills k rows of `width` cells, as course.Runs has them; None where no compiled
        code looks it up."""
        columns = self.row_ends, self.starts, self.sizes
        if compiled.COMPILED is None or not all(column.dtype.isnative for column in columns):
            return None
        ends = np.empty(len(rows), np.int64)
        compiled.COMPILED.count_runs(*columns, rows, ends)
        starts, sizes = (np.empty(ends[-1] if len(ends) else 0, np.int64) for _ in range(2))
        compiled.COMPILED.fill_runs(*columns, rows, width, not chained, starts, sizes)
        return ends, starts, sizes

    def spans(self, rows: Int64) -> tuple[Int64, Int64, Int64]:
        """(row, start, stop) of the spans of k rows, each (m,) int64; `row` indexes into `rows`."""
        begins = self.firsts(rows)
        which, at = expand(begins, self.row_ends[rows] - begins)
        starts = self.starts[at]
        return which, starts, starts + self.sizes[at]


def join(tables: Iterable[Table]) -> Table:
    """Tables end to end, as one."""
    parts = list(tables)
    if len(parts) == 1:
        return parts[0]
    row_ends, starts = [_NONE], [_NONE]
    sizes: list[NDArray[np.signedinteger[Any]]] = [np.empty(0, np.int32)]
    spans = 0
    for table in parts:
        row_ends.append(table.row_ends + spans)
        starts.append(table.starts)
        sizes.append(table.sizes)
        spans += len(table.starts)
    return Table(np.concatenate(row_ends), np.concatenate(starts), np.concatenate(sizes))
