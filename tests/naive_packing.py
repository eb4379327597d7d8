"""The packings, written again from their descriptions alone: Python lists, one document at a time."""

import hashlib
from collections.abc import Collection, Sequence

Span = tuple[int, int]
"""[start, stop) of river positions."""


def rows_of(
    name: str, lengths: Sequence[int], seq_len: int, overflow: str = "split", stride: int | None = None
) -> list[list[Span]]:
    """The spans of every row."""
    if name in ("concat", "sliding"):
        step, total = (seq_len if name == "concat" else stride or max(1, seq_len // 2)), sum(lengths)
        return [[(at, at + seq_len + 1)] for at in range(0, total - seq_len, step)]
    pieces = _pieces(lengths, seq_len, overflow)
    if name == "document":
        return [[piece] for document in pieces for piece in document]
    heads = [piece for document in pieces for piece in document[:-1]]
    return [[head] for head in heads] + _best_fit([document[-1] for document in pieces if document], seq_len)


def in_blocks(lengths: Sequence[int], seq_len: int, overflow: str, block: int) -> list[list[Span]]:
    """The rows of best_fit where so many documents are planned together."""
    rows: list[list[Span]] = []
    for first in range(0, len(lengths), block):
        before = sum(lengths[:first])
        planned = rows_of("best_fit", lengths[first : first + block], seq_len, overflow)
        rows += [[(start + before, stop + before) for start, stop in spans] for spans in planned]
    return rows


def shift(num_tokens: int, seq_len: int, seed: int, epoch: int) -> int:
    """By how much phase_shift moves the windows of an epoch."""
    digest = hashlib.sha512(f"tokenriver phase 1\0{seed}\0{epoch}".encode()).digest()
    return int.from_bytes(digest[:16], "little") % ((num_tokens - 1) % seq_len + 1)


def minimind(lengths: Sequence[int], seq_len: int) -> list[list[int]]:
    """The river positions of the ids of every row: input i, target i + 1."""
    documents = _documents(lengths)
    cut = [ids if len(ids) <= seq_len else [*ids[: seq_len - 1], ids[-1]] for ids in documents]
    return [ids for ids in cut if len(ids) > 1]


def bos_aligned(lengths: Sequence[int], seq_len: int, buffer: int, fetches: Sequence[Sequence[int]]) -> list[list[int]]:
    """The river positions of the ids of every row, documents being fetched in these lots of their numbers."""
    documents, lots = _documents(lengths), [list(lot) for lot in fetches]
    rows: list[list[int]] = []
    waiting: list[list[int]] = []
    row: list[int] = []
    while True:
        while len(waiting) < buffer and lots:
            waiting += [list(documents[number]) for number in lots.pop(0) if documents[number]]
        if not waiting:
            return rows
        room = seq_len + 1 - len(row)
        fitting = [ids for ids in waiting if len(ids) <= room]
        taken = max(fitting, key=len) if fitting else min(waiting, key=len)  # both give the first of equals
        waiting = [ids for ids in waiting if ids is not taken]
        row += taken[:room]
        if len(row) == seq_len + 1:
            rows.append(row)
            row = []


def _documents(lengths: Sequence[int]) -> list[list[int]]:
    documents, start = [], 0
    for length in lengths:
        documents.append(list(range(start, start + length)))
        start += length
    return documents


def _pieces(lengths: Sequence[int], seq_len: int, overflow: str) -> list[list[Span]]:
    """Each document's spans: all but the last of seq_len + 1 ids."""
    out: list[list[Span]] = []
    start = 0
    for length in lengths:
        stop = start + length
        if length < 2 or (overflow == "drop" and length > seq_len + 1):
            out.append([])
        elif overflow == "truncate":
            out.append([(start, min(stop, start + seq_len + 1))])
        else:
            out.append([(at, min(stop, at + seq_len + 1)) for at in range(start, stop - 1, seq_len)])
        start = stop
    return out


def _best_fit(spans: list[Span], seq_len: int) -> list[list[Span]]:
    """The longest first (of equals the earlier), each into the fullest row that holds it (of equals the oldest)."""
    rows: list[list[Span]] = []
    room: list[int] = []
    for span in sorted(spans, key=lambda span: span[0] - span[1]):
        size = span[1] - span[0] - 1
        fitting = [(left, row) for row, left in enumerate(room) if left >= size]
        if fitting:
            row = min(fitting)[1]
        else:
            row = len(rows)
            rows.append([])
            room.append(seq_len)
        rows[row].append(span)
        room[row] -= size
    return rows


def cells(spans: Sequence[Span], seq_len: int, edges: Collection[int]) -> list[tuple[int, int]]:
    """(river position of the input, position in its sequence) of each cell of a packed row; (-1, -1) is padding.
    `edges` are where documents begin: inside a window a sequence ends there."""
    out = []
    for start, stop in spans:
        begin = start
        for at in range(start, stop - 1):
            if at in edges:
                begin = at
            out.append((at, at - begin))
    return out + [(-1, -1)] * (seq_len - len(out))
