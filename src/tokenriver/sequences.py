"""The sequences of a batch: runs of one document inside a row, for attention masks and position ids.

A window shows whatever lies in it, so its sequences are looked up among the documents; a packed row is made of spans
that cross no document, so they are its sequences. Padding and filler rows are sequences of their own, of no document.
"""

from functools import lru_cache

import numpy as np

from tokenriver import compiled
from tokenriver.course import Runs
from tokenriver.types import Bools, Int64, River

NO_DOCUMENT = -1


def of_windows(river: River, starts: list[int], rows: int, width: int) -> tuple[Int64, Int64]:
    """(document of each position (rows, width), edges of the sequences in the flattened rows) of windows that start
    there; the rows behind them are filler."""
    documents = np.full((rows, width), NO_DOCUMENT, np.int64)
    edges: list[int] = []
    for line, start in enumerate(starts):
        if river.num_documents is None:
            edges.append(line * width)
            continue
        at, document = start, river.document_at(start)
        while at < start + width:
            stop = river.doc_bounds(document)[1]
            if stop > at:
                documents[line, at - start : stop - start] = document
                edges.append(line * width + at - start)
                at = stop
            document += 1
    edges.extend(range(len(starts) * width, (rows + 1) * width, width))
    return documents, np.array(edges, np.int64)


def edges_of_documents(documents: Int64) -> Int64:
    """Edges of the sequences in the flattened rows, where each is a stretch of one document, (rows, width)."""
    first = np.ones(documents.shape, np.bool_)
    np.not_equal(documents[:, 1:], documents[:, :-1], out=first[:, 1:])
    return np.append(np.flatnonzero(first), documents.size)


def edges_of_runs(sizes: Int64, filled: int, rows: int, width: int) -> Int64:
    """Edges of the sequences in the flattened rows, of which runs of these sizes fill the first; the rest is filler."""
    room = np.empty(len(sizes) + rows - filled + 1, np.int64)
    if compiled.COMPILED is not None:
        count: int = compiled.COMPILED.add_up(sizes, room)
    else:
        some = sizes[sizes.nonzero()]
        count = len(some)
        room[0] = 0
        np.add.accumulate(some, out=room[1 : count + 1])
    edges = room[: count + rows - filled + 1]
    if filled < rows:
        edges[count + 1 :] = np.arange(filled + 1, rows + 1) * width
    return edges


def positions(edges: Int64) -> Int64:
    """(edges[-1],) int64: 0, 1, 2, ... from each edge to the next."""
    if compiled.COMPILED is not None:
        counted = np.empty(edges[-1], np.int64)
        compiled.COMPILED.count_up(edges, counted)
        return counted
    begins: Int64 = np.repeat(edges[:-1], np.diff(edges))
    return np.subtract(_count(len(begins)), begins, out=begins)


@lru_cache(maxsize=4)
def _count(cells: int) -> Int64:
    """0, 1, 2, ... for the cells of a batch: kept, since fresh memory costs more than the numbers."""
    return np.arange(cells, dtype=np.int64)


def causal_blocks(edges: Int64, rows: int, width: int) -> Bools:
    """(rows, width, width) bool: are i and j of one sequence, and j not behind i?"""
    sequences = np.repeat(np.arange(len(edges) - 1), np.diff(edges)).reshape(rows, width)
    mask: Bools = sequences[:, :, None] == sequences[:, None, :]
    mask &= np.tri(width, dtype=np.bool_)
    return mask


def documents_of_runs(river: River, runs: Runs, rows: int, width: int) -> Int64:
    """(rows, width) document of each position; -1 for padding and filler."""
    length = width + runs.chained
    documents = np.full(rows * length, NO_DOCUMENT, np.int64)
    if river.num_documents is None:
        return documents.reshape(rows, length)[:, :width]
    known = [river.document_at(start) if start >= 0 else NO_DOCUMENT for start in runs.starts.tolist()]
    documents[: len(runs.ends) * length] = np.repeat(np.array(known, np.int64), runs.sizes)
    return documents.reshape(rows, length)[:, :width]
