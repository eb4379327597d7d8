from tokenriver.types import Int32, Int64

def spread(
    views: list[memoryview],
    which: Int32,
    shift: Int64,
    ends: Int64,
    kind: int,
    tail: bool,
    starts: Int64,
    sizes: Int64,
    first: int,
    last: int,
    inputs: Int64,
    targets: Int64,
    /,
) -> bool:
    """Fill rows of inputs and targets, each (rows, T + 1), with the runs from first to last.

    A run fills `sizes` positions with the ids from `starts` on (and one id more if `tail`, the last target), or, where
    that is below 0, with padding: inputs 0, targets -100. Id p of extent e, which ends before id ends[e], lies at byte
    shift[e] + p * abs(kind) of views[which[e]]; a negative kind is signed. False if an id is negative or beyond int64;
    ValueError, before a cell is written, for a run outside its extents or views, or rows that are not filled.
    """

def count_runs(row_ends: Int64, starts: Int64, sizes: Int64 | Int32, rows: Int64, out: Int64, /) -> None:
    """Fill out, (k,), with the running counts of the runs of k rows of a table (packing/_table.py): its spans, and one
    of padding a row. IndexError for a row that the table has not, ValueError for spans that it has not."""

def fill_runs(
    row_ends: Int64,
    starts: Int64,
    sizes: Int64 | Int32,
    rows: Int64,
    width: int,
    tail: bool,
    out_starts: Int64,
    out_sizes: Int64,
    /,
) -> None:
    """Fill two columns with these runs: where each starts, -1 for padding, and how many of the row's `width` cells it
    fills, one less than its ids if `tail`. ValueError for a row that does not hold its spans."""

def add_up(sizes: Int64, out: Int64, /) -> int:
    """Fill out with the running sums, from 0 on, of the sizes that are not 0; their number. ValueError for a negative
    size, or for room for fewer than all sizes and one more."""

def count_up(edges: Int64, out: Int64, /) -> None:
    """Fill out with 0, 1, 2, ... from each edge to the next; ValueError unless they go from 0 to its length."""
