"""How others plan rows, one document after another in Python: what a plan by runs of equal lengths is measured against.

Both take the positions that each document fills, at most `capacity`, and give the number of rows.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence


def best_fit_decreasing(sizes: Sequence[int], capacity: int) -> int:
    """Exact best-fit decreasing with a segment tree over the room that is left, as TRL and OLMo-core do it: each
    document goes into the open row with the least room that holds it."""
    leaves = 1 << capacity.bit_length()
    tree = [0] * (2 * leaves)
    """Per room: is there a row with it; inner nodes: the largest room below."""
    rows_with = [0] * (capacity + 1)
    rows_with[capacity] = len(sizes)
    _set(tree, leaves, capacity, True)
    for size in sorted(sizes, reverse=True):
        room = _least(tree, leaves, size)
        rows_with[room] -= 1
        if not rows_with[room]:
            _set(tree, leaves, room, False)
        left = room - size
        rows_with[left] += 1
        if rows_with[left] == 1:
            _set(tree, leaves, left, True)
    return len(sizes) - rows_with[capacity]


def _set(tree: list[int], leaves: int, room: int, there: bool) -> None:
    node = leaves + room
    tree[node] = room if there else 0
    while node > 1:
        node //= 2
        tree[node] = max(tree[2 * node], tree[2 * node + 1])


def _least(tree: list[int], leaves: int, size: int) -> int:
    """The least room from `size` up that some row has."""
    node = leaves + size
    if tree[node] >= size:
        return size
    while node & 1 or tree[node + 1] < size:
        node //= 2
    node += 1
    while node < leaves:
        node = 2 * node if tree[2 * node] >= size else 2 * node + 1
    return node - leaves


def buffered_best_fit(sizes: Sequence[int], capacity: int, buffer: int = 1000) -> int:
    """Rows from a buffer of documents in the order of arrival, as nanochat fills them: the largest that fits goes in
    until none does, then the shortest is cropped, so that no position is padding."""
    waiting, arriving, rows = list[int](), deque(sizes), 0
    while arriving or waiting:
        room = capacity
        rows += 1
        while room:
            while arriving and len(waiting) < buffer:
                insort(waiting, arriving.popleft())
            if not waiting:
                break
            fits = bisect_left(waiting, room + 1)
            room -= waiting.pop(fits - 1) if fits else min(room, waiting.pop(0))
    return rows
